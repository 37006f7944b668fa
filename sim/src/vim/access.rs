//! Who may do what, and how everything here gets at the world and at a session's own objects.

use std::collections::BTreeMap;
use std::sync::MutexGuard;

use sim_world::vcenter::{EndReason, Family, MoRef, VCenter, VcFault};
use sim_world::{Command, Outcome, VcRequest, World};

use super::fault::VimFault;
use super::node::Node;
use super::operations::{Caller, Failure, Vim};
use super::properties::Reader;
use super::sessions::Owned;

impl Vim {
    /// Who may call: anonymous callers a few operations only, and nobody on what they may not see.
    pub(super) fn authorize(
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

    pub(super) fn request(&self, request: VcRequest) -> Result<Outcome, VcFault> {
        let command = Command::Request { vcenter: self.vcenter.clone(), request };
        match self.world.apply(command) {
            Ok(applied) => Ok(applied.outcome),
            Err(sim_world::Fault::VCenter(fault)) => Err(fault),
            Err(_) => Err(VcFault::InvalidState),
        }
    }

    pub(super) fn end(&self, token: &str, reason: EndReason) -> Result<(), VcFault> {
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
