//! Authorization: the attributes of a request, and the decision about them.
//!
//! By default every authenticated user may do everything. [`Access::require_rbac`] makes roles and
//! bindings decide, even while the sim runs.

mod attributes;
mod rbac;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube_sim_store::{GroupResource, Status, Store};
use serde_json::Value;

pub(crate) use attributes::{Attributes, Object};

use crate::auth::tokens::Identity;

/// Group whose members may do everything, regardless of roles.
const MASTERS: &str = "system:masters";

/// The switch between RBAC and full access for every authenticated user. Clones share the switch.
#[derive(Clone, Debug, Default)]
pub struct Access {
    rbac: Arc<AtomicBool>,
}

/// Decision of the authorizer about a request, and the reason for it, which may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) is_allowed: bool,
    pub(crate) reason: String,
}

impl Access {
    /// Makes roles and bindings decide about all later requests, except those of members of
    /// `system:masters`. Requests without credentials then come from the user `system:anonymous`,
    /// except those of a [`Client`](crate::Client) with `is_trusted`, which may still do
    /// everything.
    pub fn require_rbac(&self) {
        self.rbac.store(true, Ordering::Relaxed);
    }

    /// Allows all later requests of every authenticated user.
    pub fn allow_all(&self) {
        self.rbac.store(false, Ordering::Relaxed);
    }

    /// True if roles and bindings decide.
    pub fn is_rbac(&self) -> bool {
        self.rbac.load(Ordering::Relaxed)
    }

    /// Decides whether `who` may make the request `what`. A member of `system:masters` always may.
    /// Without RBAC, so may every user with a name other than `system:anonymous`. With RBAC, roles
    /// and bindings decide about all other users.
    pub(crate) fn decide(&self, who: &Identity, what: &Attributes, store: &Store) -> Verdict {
        let is_known = !who.user.is_empty() && who.user != "system:anonymous";
        if who.groups.iter().any(|group| group == MASTERS) || (!self.is_rbac() && is_known) {
            return Verdict { is_allowed: true, reason: String::new() };
        }
        if !self.is_rbac() {
            return Verdict::default();
        }
        rbac::decide(who, what, store)
    }

    /// The rules that hold for `who` in `namespace`, as the status of a `SelfSubjectRulesReview`.
    /// Without RBAC, they include rules that allow all requests.
    pub(crate) fn rules(&self, who: &Identity, namespace: &str, store: &Store) -> Value {
        // The roles of `system:masters` already contain the rules that allow all requests.
        let is_master = who.groups.iter().any(|group| group == MASTERS);
        rbac::rules(who, namespace, store, !self.is_rbac() && !is_master)
    }
}

/// Failure 403 for a request that the authorizer refuses, in the words of the real server. `reason`
/// may be empty.
///
/// After `apiserver: pkg/endpoints/handlers/responsewriters/errors.go`, `Forbidden`.
pub(crate) fn forbidden(who: &Identity, what: &Attributes, reason: &str) -> Status {
    let user = &who.user;
    let verb = &what.verb;
    let (message, resource, name) = match &what.object {
        None => {
            let message = format!("User {user:?} cannot {verb} path {:?}", what.path);
            (message, GroupResource::core(""), "")
        }
        Some(object) => {
            let Object { group, resource, namespace, name, .. } = object;
            let scope = match namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            let message = format!(
                "User {user:?} cannot {verb} resource {:?} in API group {group:?} {scope}",
                object.with_subresource()
            );
            let resource =
                GroupResource { group: group.clone().into(), resource: resource.clone().into() };
            (message, resource, name.as_str())
        }
    };
    let message = if reason.is_empty() { message } else { format!("{message}: {reason}") };
    if what.object.is_some() {
        return Status::forbidden(&resource, name, &message);
    }
    let mut status = Status::new(403, "Forbidden", format!("forbidden: {message}"));
    status.details = Some(Box::default());
    status
}
