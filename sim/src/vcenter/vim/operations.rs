//! Dispatches the operations of `/sdk` to their handlers.
//!
//! The handlers are in the modules of their subjects: logins in `session/`, reads, filters and
//! views in `collector/`, searches in `search.rs`, tasks and guest requests in `tasks.rs`.

use std::collections::BTreeMap;
use std::sync::Mutex;

use sim_world::vcenter::VcFault;

use super::content;
use crate::WorldHandle;
use crate::call::operations::soap::{NamedOperation, Operation as Op};
use crate::faults::Effects;
use crate::shared_world::Locked;
use crate::vcenter::vim::collector::waiting::{Wait, WaitStart};
use crate::vcenter::vim::data::{Node, Value, VimFault};
use crate::vcenter::vim::session::logins::Tickets;
use crate::vcenter::vim::session::objects::SessionObjects;
use kube_sim_api::Signal;

/// The vim25 service of one vCenter, independent of SOAP.
#[derive(Debug)]
pub(crate) struct Vim {
    pub(super) world: WorldHandle,
    pub(super) vcenter: String,
    /// Objects of each session, by the token of the session.
    pub(super) owned: Mutex<BTreeMap<String, SessionObjects>>,
    /// Signal for changes of objects that sessions own; wakes blocked waits.
    pub(super) own_changes: Signal,
    /// Clone tickets that no client has used yet.
    pub(super) tickets: Mutex<Tickets>,
}

/// Client of a request: its session and its user agent.
pub(crate) struct Caller<'a> {
    /// Token of the session, which may be anonymous.
    pub(crate) token: &'a str,
    pub(crate) user_agent: &'a str,
}

/// Answer of an operation: its result, if any, and whether the call logged in.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) result: Option<Value>,
    /// True if the call logged in. The answer then sets the session's cookie again.
    pub(crate) logged_in: bool,
}

/// Progress of an operation after its call: done, or blocked.
pub(crate) enum Progress {
    /// The operation has ended with an answer.
    Done(Answer),
    /// The operation blocks. [`Vim::wait`] continues it.
    Waits(Wait),
}

/// Reason why an operation has no result.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The operation ended with a fault.
    Fault(VimFault),
    /// The session table is full.
    TooManySessions,
}

impl From<VimFault> for Failure {
    fn from(fault: VimFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<VcFault> for Failure {
    fn from(fault: VcFault) -> Self {
        match fault {
            VcFault::TooManySessions => Self::TooManySessions,
            fault => Self::Fault(fault.into()),
        }
    }
}

impl From<Option<Value>> for Answer {
    fn from(result: Option<Value>) -> Self {
        Self { result, logged_in: false }
    }
}

impl Vim {
    pub(crate) fn new(world: WorldHandle, vcenter: &str) -> Self {
        Self {
            world,
            vcenter: vcenter.to_owned(),
            owned: Mutex::default(),
            own_changes: Signal::default(),
            tickets: Mutex::default(),
        }
    }

    /// Drops the objects of ended sessions, checks the caller's permission, and checks method and
    /// arguments by the schema. Then carries out the operation, or begins a wait, which
    /// [`Vim::wait`] continues.
    ///
    /// # Errors
    /// [`Failure::Fault`] if the vCenter refuses the operation, [`Failure::TooManySessions`] if the
    /// session table is full.
    pub(crate) fn call(
        &self,
        world: &mut Locked<'_>,
        caller: &Caller<'_>,
        operation: &NamedOperation,
        this: (&str, &str),
        arguments: &Node,
        effects: &Effects,
    ) -> Result<Progress, Failure> {
        self.prune(world);
        self.authorize(world, caller, operation.supported(), this, arguments)?;
        self.check_method(world, caller, operation, this, arguments)?;
        match operation.supported() {
            Some(wait @ (Op::WaitForUpdatesEx | Op::WaitForUpdates | Op::CheckForUpdates)) => {
                let begun = self.begin_wait(world, caller, wait, this.1, arguments, effects)?;
                Ok(match begun {
                    WaitStart::Over(reply) => Progress::Done(reply.into()),
                    WaitStart::Goes(wait) => Progress::Waits(wait),
                })
            }
            Some(operation) => {
                let answer = self.answer(world, caller, operation, this, arguments, effects);
                answer.map(Progress::Done)
            }
            None => {
                let operation = operation.name();
                tracing::debug!(
                    operation,
                    "a client called an operation that the sim does not simulate; answering with NotSupported"
                );
                Err(VimFault::not_supported(this.0, operation).into())
            }
        }
    }

    fn answer(
        &self,
        world: &mut Locked<'_>,
        caller: &Caller<'_>,
        operation: Op,
        this: (&str, &str),
        arguments: &Node,
        effects: &Effects,
    ) -> Result<Answer, Failure> {
        let name = operation.name();
        match operation {
            Op::RetrieveServiceContent => {
                Ok(Some(content::service_content(self.vc(world)).into()).into())
            }
            Op::CurrentTime => {
                let now = world.now().timestamp(world.epoch());
                Ok(Some(Value::from(now)).into())
            }
            Op::Login => self.login(world, caller, arguments),
            Op::Logout => self.logout(world, caller),
            Op::AcquireCloneTicket => Ok(Some(self.clone_ticket(world, caller)).into()),
            Op::CloneSession => self.clone_session(world, caller, arguments),
            Op::SessionIsActive => self.session_is_active(world, arguments),
            Op::TerminateSession => self.terminate(world, caller, arguments),
            Op::Fetch => self.fetch(world, caller, this, arguments, effects),
            Op::RetrievePropertiesEx => {
                Ok(self.retrieve(world, caller, arguments, effects, true)?.into())
            }
            Op::RetrieveProperties => {
                Ok(self.retrieve(world, caller, arguments, effects, false)?.into())
            }
            Op::ContinueRetrieve => {
                Ok(self.continue_retrieve(world, caller, arguments, effects)?.into())
            }
            Op::CancelRetrieve => {
                self.cancel_retrieve(world, caller, arguments)?;
                Ok(Answer::default())
            }
            Op::CreateCollector
            | Op::DestroyCollector
            | Op::CreateFilter
            | Op::DestroyFilter
            | Op::CancelWait => {
                Ok(self.collectors(world, caller, operation, this.1, arguments)?.into())
            }
            // `call` answers these, because they may block.
            Op::WaitForUpdatesEx | Op::WaitForUpdates | Op::CheckForUpdates => {
                Err(VimFault::not_supported(this.0, name).into())
            }
            Op::CreateContainerView
            | Op::CreateListView
            | Op::ModifyListView
            | Op::ResetListView
            | Op::DestroyView => {
                Ok(self.view_operation(world, caller, operation, this.1, arguments)?.into())
            }
            Op::FindByUuid
            | Op::FindAllByUuid
            | Op::FindByDnsName
            | Op::FindAllByDnsName
            | Op::FindByIp
            | Op::FindAllByIp
            | Op::FindByInventoryPath
            | Op::FindChild => self.search(world, caller, operation, arguments, effects),
            Op::PowerOn
            | Op::PowerOff
            | Op::Suspend
            | Op::Reset
            | Op::Create
            | Op::Clone
            | Op::Reconfigure
            | Op::Relocate
            | Op::Rename
            | Op::Destroy
            | Op::SearchDatastore => self.start_task(world, caller, operation, this, arguments),
            Op::ShutdownGuest | Op::RebootGuest | Op::StandbyGuest => {
                self.guest_request(world, operation, this)
            }
        }
    }
}
