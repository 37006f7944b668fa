//! The operations: who may call them, what they answer.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use sim_world::vcenter::{EndReason, Family, MoRef, Password, VCenter, VcFault};
use sim_world::{Command, Outcome, VcRequest, World};

use super::fault::VimFault;
use super::node::Node;
use super::properties::{self, Reader};
use super::search::{self, Search};
use super::select::{self, Obj};
use super::sessions::Owned;
use super::value::{Reference, Value};
use super::{content, tasks, types};
use crate::WorldHandle;
use crate::faults::Effects;
use crate::signal::Signal;

/// The SOAP side of one vCenter, without the SOAP.
#[derive(Debug)]
pub(crate) struct Vim {
    pub(super) world: WorldHandle,
    pub(super) vcenter: String,
    owned: Mutex<BTreeMap<String, Owned>>,
    /// Grows when a session's own objects change: blocked waits look again.
    pub(super) own_changes: Signal,
    /// Clone tickets and the session that each is for.
    tickets: Mutex<Tickets>,
}

/// A request whose session is known.
pub(crate) struct Caller<'a> {
    /// The session's token; it may be anonymous.
    pub(crate) token: &'a str,
    pub(crate) user_agent: &'a str,
}

/// What an operation answers.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) result: Option<Value>,
    /// Whether the cookie should be sent again.
    pub(crate) logged_in: bool,
}

/// Why an operation has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A fault.
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

    /// Carries out an operation.
    pub(crate) async fn call(
        &self,
        caller: &Caller<'_>,
        operation: &str,
        this: (&str, &str),
        arguments: &Node,
        effects: &Effects,
    ) -> Result<Answer, Failure> {
        self.prune();
        self.authorize(caller, operation, this, arguments)?;
        match operation {
            "WaitForUpdatesEx" | "WaitForUpdates" | "CheckForUpdates" => {
                Ok(self.wait(caller, operation, this.1, arguments, effects).await?.into())
            }
            _ => self.answer(caller, operation, this, arguments, effects),
        }
    }

    fn answer(
        &self,
        caller: &Caller<'_>,
        operation: &str,
        this: (&str, &str),
        arguments: &Node,
        effects: &Effects,
    ) -> Result<Answer, Failure> {
        let found = |found: Result<Vec<MoRef>, VimFault>, all: bool| {
            let found = found?;
            Ok(if all { search::all(found) } else { search::first(found) }.into())
        };
        match operation {
            "RetrieveServiceContent" => {
                Ok(self.read(|_, vc| Some(content::service_content(vc).into())).into())
            }
            "CurrentTime" => {
                let now = self.world.now().timestamp(self.world.clock().epoch());
                Ok(Some(Value::from(now)).into())
            }
            "Login" => self.login(caller, arguments),
            "Logout" => {
                self.end(caller.token, EndReason::Logout)?;
                Ok(Answer::default())
            }
            "AcquireCloneTicket" => Ok(Some(self.clone_ticket(caller)).into()),
            "CloneSession" => self.clone_session(caller, arguments),
            "SessionIsActive" => self.session_is_active(arguments),
            "TerminateSession" => self.terminate(caller, arguments),
            "Fetch" => self.fetch(caller, this, arguments, effects),
            "RetrievePropertiesEx" => Ok(self.retrieve(caller, arguments, effects, true)?.into()),
            "RetrieveProperties" => Ok(self.retrieve(caller, arguments, effects, false)?.into()),
            "ContinueRetrievePropertiesEx" => {
                Ok(self.continue_retrieve(caller, arguments, effects)?.into())
            }
            "CancelRetrievePropertiesEx" => {
                self.cancel_retrieve(caller, arguments)?;
                Ok(Answer::default())
            }
            "CreatePropertyCollector"
            | "DestroyPropertyCollector"
            | "CreateFilter"
            | "DestroyPropertyFilter"
            | "CancelWaitForUpdates" => {
                Ok(self.collectors(caller, operation, this.1, arguments)?.into())
            }
            "CreateContainerView"
            | "CreateListView"
            | "ModifyListView"
            | "ResetListView"
            | "DestroyView" => {
                Ok(self.view_operation(caller, operation, this.1, arguments)?.into())
            }
            "FindByUuid" | "FindAllByUuid" => {
                let all = operation == "FindAllByUuid";
                self.search(caller, arguments, effects, |it| found(it.by_uuid(), all))
            }
            "FindByDnsName" | "FindAllByDnsName" => {
                let all = operation == "FindAllByDnsName";
                self.search(caller, arguments, effects, |it| found(it.by_dns_name(), all))
            }
            "FindByIp" | "FindAllByIp" => {
                let all = operation == "FindAllByIp";
                self.search(caller, arguments, effects, |it| found(it.by_ip(), all))
            }
            "FindByInventoryPath" => self.search(caller, arguments, effects, |it| {
                Ok(search::first(it.by_inventory_path()?).into())
            }),
            "FindChild" => {
                self.search(caller, arguments, effects, |it| Ok(search::first(it.child()?).into()))
            }
            _ => self.start_task(caller, operation, this, arguments),
        }
    }

    /// Who may call: anonymous callers a few operations only, and nobody on what they may not see.
    fn authorize(
        &self,
        caller: &Caller<'_>,
        operation: &str,
        (claimed, id): (&str, &str),
        arguments: &Node,
    ) -> Result<(), Failure> {
        let anonymous =
            matches!(operation, "RetrieveServiceContent" | "Login" | "Logout" | "CloneSession")
                || (operation == "Fetch"
                    && id == "ServiceInstance"
                    && matches!(arguments.text_of("prop"), Some("content" | "capability")))
                || is_anonymous_read(operation, arguments);
        let user = self.read(|_, vc| {
            vc.logins.session(Family::Soap, caller.token).and_then(|session| session.user.clone())
        });
        let Some(user) = user else {
            return if anonymous { Ok(()) } else { Err(VimFault::not_authenticated().into()) };
        };
        if let Some(id) = MoRef::parse(id) {
            let (exists, visible) = self.read(|_, vc| {
                let task = vc.tasks.contains_key(&id);
                (vc.inventory.get(id).is_some() || task, task || vc.may_see(&user, id))
            });
            if !exists {
                return Err(VimFault::not_found(claimed, &id.to_string()).into());
            }
            if !visible {
                return Err(VimFault::no_permission(id.into(), "System.View").into());
            }
        }
        Ok(())
    }

    fn login(&self, caller: &Caller<'_>, arguments: &Node) -> Result<Answer, Failure> {
        let request = VcRequest::Login {
            family: Family::Soap,
            token: Some(caller.token.to_owned()),
            user: arguments.required("userName")?.to_owned(),
            password: Password::new(arguments.required("password")?),
            user_agent: caller.user_agent.to_owned(),
        };
        self.request(request)?;
        Ok(Answer { result: self.current_session(caller), logged_in: true })
    }

    fn current_session(&self, caller: &Caller<'_>) -> Option<Value> {
        self.with_reader(caller, |reader| {
            let (_, session) = reader.session?;
            properties::user_session(reader, session).map(Value::from)
        })
    }

    fn clone_ticket(&self, caller: &Caller<'_>) -> Value {
        let mut tickets = self.tickets.lock().expect("no holder of the tickets panics");
        tickets.issued += 1;
        let serial = tickets.issued;
        let path = format!("{}/{}/{serial}", self.vcenter, caller.token);
        let ticket = self.world.read(|world| world.ids().token("clone-ticket", &path));
        let ticket = format!("cst-VCT-{ticket}--tp-{serial}");
        tickets.open.insert(ticket.clone(), caller.token.to_owned());
        Value::text(ticket)
    }

    /// A session of the ticket's user. A ticket works once, while its session lives.
    fn clone_session(&self, caller: &Caller<'_>, arguments: &Node) -> Result<Answer, Failure> {
        let ticket = arguments.required("cloneTicket")?;
        let owner = self
            .tickets
            .lock()
            .expect("no holder of the tickets panics")
            .open
            .remove(ticket)
            .ok_or(VcFault::InvalidLogin)?;
        let user = self
            .read(|_, vc| vc.logins.session(Family::Soap, &owner)?.user.clone())
            .ok_or(VcFault::InvalidLogin)?;
        self.request(VcRequest::CloneSession { token: caller.token.to_owned(), user })?;
        Ok(Answer { result: self.current_session(caller), logged_in: true })
    }

    fn session_is_active(&self, arguments: &Node) -> Result<Answer, Failure> {
        let key = arguments.required("sessionID")?;
        arguments.required("userName")?;
        let active = self.read(|_, vc| {
            vc.logins
                .sessions
                .values()
                .any(|it| it.family == Family::Soap && it.key == key && it.user.is_some())
        });
        Ok(Some(Value::from(active)).into())
    }

    fn terminate(&self, caller: &Caller<'_>, arguments: &Node) -> Result<Answer, Failure> {
        for id in arguments.all("sessionId") {
            let token = self.read(|_, vc| {
                let mut sessions = vc.logins.sessions.iter();
                sessions
                    .find(|(_, it)| it.family == Family::Soap && it.key == id.text)
                    .map(|(token, _)| token.clone())
            });
            match token {
                None => {
                    return Err(VimFault::new("NotFound", "The session was not found.").into());
                }
                Some(token) if token == caller.token => {
                    return Err(VimFault::invalid_argument("sessionId").into());
                }
                Some(token) => self.end(&token, EndReason::Terminated)?,
            }
        }
        Ok(Answer::default())
    }

    /// One property of one object, as pyVmomi asks for every attribute.
    fn fetch(
        &self,
        caller: &Caller<'_>,
        (claimed, id): (&str, &str),
        arguments: &Node,
        effects: &Effects,
    ) -> Result<Answer, Failure> {
        let path = arguments.required("prop")?;
        let obj = Obj::of(id);
        let value = self.with_owned(caller, |owned, reader| {
            let subject = select::subject(reader, &owned.views, &obj)
                .ok_or_else(|| VimFault::not_found(claimed, id))?;
            if !properties::is_valid(subject.kind(), path) {
                return Err(VimFault::invalid_property(path));
            }
            match select::unreadable(effects, path) {
                Some(fault) => Err(VimFault::named(fault, None)),
                None => Ok(properties::read(reader, subject, path)),
            }
        })?;
        // The slot is declared as anyType.
        Ok(value.map(super::value::any).into())
    }

    fn search(
        &self,
        caller: &Caller<'_>,
        arguments: &Node,
        effects: &Effects,
        look: impl FnOnce(&Search<'_>) -> Result<Answer, VimFault>,
    ) -> Result<Answer, Failure> {
        self.with_reader(caller, |reader| {
            look(&Search { reader: *reader, effects, arguments }).map_err(Failure::from)
        })
    }

    fn start_task(
        &self,
        caller: &Caller<'_>,
        operation: &str,
        (claimed, id): (&str, &str),
        arguments: &Node,
    ) -> Result<Answer, Failure> {
        let Some(work) = tasks::work(operation, arguments)? else {
            tracing::debug!(operation, "operation is not supported");
            return Err(VimFault::not_supported(claimed, operation).into());
        };
        let entity = MoRef::parse(id.trim_start_matches("datastoreBrowser-"))
            .ok_or_else(|| VimFault::not_found(claimed, id))?;
        let actual = if id.starts_with("datastoreBrowser-") {
            "HostDatastoreBrowser"
        } else {
            entity.kind.type_name()
        };
        if !types::is_a(actual, tasks::target(operation)) {
            return Err(VimFault::not_supported(actual, operation).into());
        }
        let user = self
            .read(|_, vc| vc.logins.session(Family::Soap, caller.token)?.user.clone())
            .ok_or_else(VimFault::not_authenticated)?;
        match self.request(VcRequest::StartTask { user, entity, work })? {
            Outcome::Reference(task) => Ok(Some(Value::from(Reference::from(task))).into()),
            _ => Ok(Answer::default()),
        }
    }

    // What everything above is made of.

    pub(super) fn request(&self, request: VcRequest) -> Result<Outcome, VcFault> {
        let command = Command::Request { vcenter: self.vcenter.clone(), request };
        match self.world.apply(command) {
            Ok(applied) => Ok(applied.outcome),
            Err(sim_world::Fault::VCenter(fault)) => Err(fault),
            Err(_) => Err(VcFault::InvalidState),
        }
    }

    fn end(&self, token: &str, reason: EndReason) -> Result<(), VcFault> {
        self.request(VcRequest::EndSession { token: token.to_owned(), reason })?;
        self.prune();
        Ok(())
    }

    /// Drops what belongs to sessions that have ended.
    pub(super) fn prune(&self) {
        let mut owned = self.lock();
        if owned.is_empty() {
            return;
        }
        let ended: Vec<String> = self.read(|_, vc| {
            let lives = |token: &String| vc.logins.session(Family::Soap, token).is_some();
            owned.keys().filter(|token| !lives(token)).cloned().collect()
        });
        for token in &ended {
            owned.remove(token);
        }
        drop(owned);
        if !ended.is_empty() {
            self.own_changes.send();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Owned>> {
        self.owned.lock().expect("no holder of the sessions' objects panics")
    }

    pub(super) fn read<R>(&self, look: impl FnOnce(&World, &VCenter) -> R) -> R {
        self.world.read(|world| {
            let vc = world.vcenter(&self.vcenter).expect("a face serves a vCenter of its world");
            look(world, vc)
        })
    }

    pub(super) fn with_reader<R>(
        &self,
        caller: &Caller<'_>,
        look: impl FnOnce(&Reader<'_>) -> R,
    ) -> R {
        self.read(|world, vc| {
            let session = vc.logins.session(Family::Soap, caller.token);
            look(&Reader {
                state: world.state(),
                vc,
                session: session.map(|session| (caller.token, session)),
                user: session.and_then(|session| session.user.as_deref()),
            })
        })
    }

    /// Works on the caller's own objects. Always locks them before the world.
    pub(super) fn with_owned<R>(
        &self,
        caller: &Caller<'_>,
        work: impl FnOnce(&mut Owned, &Reader<'_>) -> Result<R, VimFault>,
    ) -> Result<R, VimFault> {
        let mut all = self.lock();
        self.with_reader(caller, |reader| {
            let (_, session) = reader.session.ok_or_else(VimFault::not_authenticated)?;
            let owned = all
                .entry(caller.token.to_owned())
                .or_insert_with(|| Owned::new(session.key.clone()));
            work(owned, reader)
        })
    }
}

/// Clone tickets that have not been used, each with the session that it is for.
#[derive(Debug, Default)]
struct Tickets {
    /// How many there have been: no two are the same.
    issued: u64,
    open: BTreeMap<String, String>,
}

/// A read of nothing but what everybody may read: `SessionManager.currentSession` and the like.
fn is_anonymous_read(operation: &str, arguments: &Node) -> bool {
    let reads = matches!(operation, "RetrievePropertiesEx" | "RetrieveProperties");
    let open = |kind: &str, path: &str| match kind {
        "ServiceInstance" => matches!(path, "content" | "capability"),
        "SessionManager" => {
            matches!(path, "currentSession" | "supportedLocaleList" | "messageLocaleList")
        }
        _ => false,
    };
    reads
        && arguments.child("specSet").is_some()
        && arguments.all("specSet").all(|spec| {
            spec.all("propSet").all(|set| {
                let kind = set.text_of("type").unwrap_or_default();
                set.text_of("all") != Some("true")
                    && set.all("pathSet").all(|path| open(kind, &path.text))
            })
        })
}
