//! Operations that return a task, and requests to the VMware Tools of a guest. The module converts
//! the arguments of these operations to the world's [`Work`].

use sim_world::vcenter::{GuestRequest, MoRef, SessionService, VCenter, Work};
use sim_world::{Outcome, VcRequest};

use super::operations::{Answer, Caller, Failure, Vim};
use crate::call::operations::soap::Operation as Op;
use crate::shared_world::Locked;
use crate::vcenter::vim::content::BROWSER;
use crate::vcenter::vim::data::{Node, Reference, Value, VimFault};
use crate::vcenter::vim::spec::{self, Purpose, inventory_ref, machine_spec};

impl Vim {
    pub(super) fn start_task(
        &self,
        world: &mut Locked<'_>,
        caller: &Caller<'_>,
        operation: Op,
        (claimed, id): (&str, &str),
        arguments: &Node,
    ) -> Result<Answer, Failure> {
        let Some(work) = work(self.vc(world), operation, id, arguments)? else {
            return Err(VimFault::not_supported(claimed, operation.name()).into());
        };
        let entity = MoRef::parse(id.trim_start_matches(BROWSER))
            .ok_or_else(|| VimFault::not_found(claimed, id))?;
        let session = self.vc(world).logins.session(SessionService::Soap, caller.token);
        let user = session
            .and_then(|session| session.user.clone())
            .ok_or_else(VimFault::not_authenticated)?;
        match self.request(world, VcRequest::StartTask { user, entity, work })? {
            Outcome::Reference(task) => Ok(Some(Value::from(Reference::from(task))).into()),
            _ => Ok(Answer::default()),
        }
    }

    /// Answers `ShutdownGuest`, `RebootGuest` and `StandbyGuest`. The answer does not wait for the
    /// guest to carry out the request. Fails for any other operation, for a machine that does not
    /// exist, and for a machine that is not connected, is not powered on, or does not run VMware
    /// Tools.
    pub(super) fn guest_request(
        &self,
        world: &mut Locked<'_>,
        operation: Op,
        (claimed, id): (&str, &str),
    ) -> Result<Answer, Failure> {
        let request = match operation {
            Op::ShutdownGuest => GuestRequest::Shutdown,
            Op::RebootGuest => GuestRequest::Reboot,
            Op::StandbyGuest => GuestRequest::Standby,
            other => return Err(VimFault::not_supported(claimed, other.name()).into()),
        };
        let machine = MoRef::parse(id).ok_or_else(|| VimFault::not_found(claimed, id))?;
        self.request(world, VcRequest::Guest { machine, request })?;
        Ok(Answer::default())
    }
}

/// Returns the work of an operation on the object `this`; `None` if the operation starts no task.
///
/// # Errors
/// `InvalidArgument` if an argument is missing or invalid, and the faults of specs.
fn work(
    vc: &VCenter,
    operation: Op,
    this: &str,
    arguments: &Node,
) -> Result<Option<Work>, VimFault> {
    let spec =
        |name: &'static str| arguments.child(name).ok_or_else(|| VimFault::invalid_argument(name));
    Ok(Some(match operation {
        Op::PowerOn => match inventory_ref(arguments, "host", "HostSystem")? {
            Some(host) => Work::PowerOnHost(host),
            None => Work::PowerOn,
        },
        Op::PowerOff => Work::PowerOff,
        Op::Suspend => Work::Suspend,
        Op::Reset => Work::Reset,
        Op::Destroy => Work::Destroy,
        Op::Rename => Work::Rename(arguments.required("newName")?.to_owned()),
        Op::Reconfigure => {
            let spec = machine_spec(vc, spec("spec")?, "spec", Purpose::Reconfigure)?;
            Work::Reconfigure(Box::new(spec))
        }
        Op::Create => Work::Create {
            spec: Box::new(machine_spec(vc, spec("config")?, "config", Purpose::Create)?),
            pool: inventory_ref(arguments, "pool", "ResourcePool")?
                .ok_or_else(|| VimFault::invalid_argument("pool"))?,
            host: inventory_ref(arguments, "host", "HostSystem")?,
        },
        Op::Clone => spec::clone(vc, arguments)?,
        Op::Relocate => spec::relocation(vc, this, spec("spec")?)?,
        Op::SearchDatastore => {
            let path = arguments.required("datastorePath")?;
            let directory = path.split_once(']').map_or(path, |(_, directory)| directory);
            Work::SearchDatastore(directory.trim().trim_end_matches('/').to_owned())
        }
        _ => return Ok(None),
    }))
}
