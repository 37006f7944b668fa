//! Permissions of callers, and access to the world and to the objects that a session owns.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use sim_world::vcenter::{EndReason, MoRef, SessionService, VCenter, VcFault};
use sim_world::{Outcome, VcRequest, World};

use crate::call::operations::soap::Operation as Op;
use crate::call::vim25::Version;
use crate::shared_world::Locked;
use crate::vcenter::vim::content::{self, BROWSER};
use crate::vcenter::vim::data::{Node, VimFault};
use crate::vcenter::vim::operations::{Caller, Failure, Vim};
use crate::vcenter::vim::properties::Reader;
use crate::vcenter::vim::session::objects::SessionObjects;

impl Vim {
    /// Checks that the caller may call the operation; `None` is an unsupported operation.
    ///
    /// # Errors
    /// `NotAuthenticated` for an anonymous caller, except for the few operations that need no
    /// login. `ManagedObjectNotFound` for an inventory object or task that does not exist.
    /// `NoPermission` for an inventory object that the user may not see.
    pub(in crate::vcenter::vim) fn authorize(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        operation: Option<Op>,
        (claimed, id): (&str, &str),
        arguments: &Node,
    ) -> Result<(), Failure> {
        let anonymous = matches!(
            operation,
            Some(Op::RetrieveServiceContent | Op::Login | Op::Logout | Op::CloneSession)
        ) || (operation == Some(Op::Fetch)
            && id == "ServiceInstance"
            && matches!(arguments.text_of("prop"), Some("content" | "capability")))
            || is_anonymous_read(operation, arguments);
        let vc = self.vc(world);
        let session = vc.logins.session(SessionService::Soap, caller.token);
        let Some(user) = session.and_then(|session| session.user.as_deref()) else {
            return if anonymous { Ok(()) } else { Err(VimFault::not_authenticated().into()) };
        };
        if let Some(id) = MoRef::parse(id) {
            let is_task = vc.tasks.contains_key(&id);
            if !is_task && vc.inventory.get(id).is_none() {
                return Err(VimFault::not_found(claimed, &id.to_string()).into());
            }
            if !is_task && !vc.may_see(user, id) {
                return Err(VimFault::no_permission(id.into(), "System.View").into());
            }
        }
        Ok(())
    }

    pub(in crate::vcenter::vim) fn request(
        &self,
        world: &mut Locked<'_>,
        request: VcRequest,
    ) -> Result<Outcome, VcFault> {
        match world.request(&self.vcenter, request) {
            Ok(outcome) => Ok(outcome),
            Err(sim_world::Fault::VCenter(fault)) => Err(fault),
            Err(_) => Err(VcFault::InvalidState),
        }
    }

    pub(in crate::vcenter::vim) fn end(
        &self,
        world: &mut Locked<'_>,
        token: &str,
        reason: EndReason,
    ) -> Result<(), VcFault> {
        self.request(world, VcRequest::EndSession { token: token.to_owned(), reason })?;
        self.prune(world);
        Ok(())
    }

    /// Drops the objects of sessions that have ended. If it drops any, wakes all waits, so that the
    /// waits of these sessions end.
    pub(in crate::vcenter::vim) fn prune(&self, world: &Locked<'_>) {
        let vc = self.vc(world);
        let mut owned = self.lock();
        let before = owned.len();
        owned.retain(|token, _| vc.logins.session(SessionService::Soap, token).is_some());
        if owned.len() < before {
            self.own_changes.send();
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, SessionObjects>> {
        self.owned.lock().expect("the lock of the sessions' objects is not poisoned")
    }

    /// Returns the state of this vCenter.
    pub(in crate::vcenter::vim) fn vc<'w>(&self, world: &'w World) -> &'w VCenter {
        world.vcenter(&self.vcenter).expect("the world has the vCenter of this face")
    }

    /// Returns the release of the vSphere API that this vCenter serves.
    pub(in crate::vcenter::vim) fn release(&self, world: &World) -> Version {
        Version::parse(&self.vc(world).release.api_version())
    }

    /// Returns the managed object type of an object; `None` for one that does not exist or belongs to
    /// another session.
    pub(in crate::vcenter::vim) fn type_of(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        id: &str,
    ) -> Option<&'static str> {
        if id.starts_with(BROWSER) {
            return Some("HostDatastoreBrowser");
        }
        match MoRef::parse(id) {
            Some(id) => Some(id.kind.type_name()),
            None => content::manager(id).or_else(|| {
                let of_session = self.with_owned(world, caller, |owned, _| Ok(owned.type_of(id)));
                of_session.ok().flatten()
            }),
        }
    }

    /// Returns a reader of the world as `caller` sees it.
    pub(in crate::vcenter::vim) fn reader<'w>(
        &self,
        world: &'w World,
        caller: &Caller<'w>,
    ) -> Reader<'w> {
        let vc = self.vc(world);
        let session = vc.logins.session(SessionService::Soap, caller.token);
        Reader {
            state: world.state(),
            vc,
            session: session.map(|session| (caller.token, session)),
            user: session.and_then(|session| session.user.as_deref()),
        }
    }

    /// Calls `work` with the objects that the caller's session owns. Locks the objects of all
    /// sessions while the world is locked. To avoid a deadlock, no code may lock the world while it
    /// holds the lock of the objects.
    ///
    /// # Errors
    /// `NotAuthenticated` if the session has ended, else the error of `work`.
    pub(in crate::vcenter::vim) fn with_owned<R>(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        work: impl FnOnce(&mut SessionObjects, &Reader<'_>) -> Result<R, VimFault>,
    ) -> Result<R, VimFault> {
        let reader = self.reader(world, caller);
        let (_, session) = reader.session.ok_or_else(VimFault::not_authenticated)?;
        let mut all = self.lock();
        let owned = all
            .entry(caller.token.to_owned())
            .or_insert_with(|| SessionObjects::new(session.key.clone()));
        work(owned, &reader)
    }
}

/// True if the operation reads only properties that anonymous callers may read, such as
/// `SessionManager.currentSession`.
fn is_anonymous_read(operation: Option<Op>, arguments: &Node) -> bool {
    let reads = matches!(operation, Some(Op::RetrievePropertiesEx | Op::RetrieveProperties));
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
