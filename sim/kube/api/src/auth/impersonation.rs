//! Impersonation: its headers, and the permissions that it needs.
//!
//! After `apiserver: pkg/endpoints/filters/impersonation`. This server does not implement
//! constrained impersonation. The modes of constrained impersonation only change the message of a
//! refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use http::HeaderMap;
use kube_sim_store::{NameRule, Status};
use serde_json::{Value, json};

use crate::auth::access::{self, Attributes, Object, Verdict};
use crate::auth::tokens::Identity;
use crate::query;

/// Identity as which the client of a request asks to act.
#[derive(Clone, Debug, Default)]
pub(crate) struct Impersonated {
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

impl Impersonated {
    /// User and groups: the groups that the request names. If the request names none, a service
    /// account is in `system:serviceaccounts` and `system:serviceaccounts:<namespace>`, and any
    /// other user in none.
    fn identity(&self) -> Identity {
        let Self { user, groups, uid: _, extra: _ } = self;
        let groups = match self.account() {
            Some((namespace, _)) if groups.is_empty() => vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ],
            _ => groups.clone(),
        };
        Identity { user: user.clone(), groups }
    }

    /// Namespace and name, if the user is a service account.
    fn account(&self) -> Option<(&str, &str)> {
        let (namespace, name) =
            self.user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        let is_one = NameRule::Label.allows(namespace) && NameRule::Subdomain.allows(name);
        is_one.then_some((namespace, name))
    }

    /// Objects for which the client needs the verb `impersonate`: the user first, then UID, groups
    /// and extra fields. The groups that a service account implies need no permission.
    fn objects(&self) -> Vec<Object> {
        let object = |group: &str, resource: &str, name: &str| Object {
            group: group.into(),
            resource: resource.into(),
            name: name.into(),
            ..Object::default()
        };
        let authentication = "authentication.k8s.io";
        let mut objects = vec![match self.account() {
            Some((namespace, name)) => {
                Object { namespace: namespace.into(), ..object("", "serviceaccounts", name) }
            }
            None => object("", "users", &self.user),
        }];
        if !self.uid.is_empty() {
            objects.push(object(authentication, "uids", &self.uid));
        }
        objects.extend(self.groups.iter().map(|group| object("", "groups", group)));
        for (key, values) in &self.extra {
            objects.extend(values.iter().map(|value| Object {
                subresource: key.clone(),
                ..object(authentication, "userextras", value)
            }));
        }
        objects
    }

    /// Adds the UID and extra fields of the identity to `info`, if the request names them.
    pub(crate) fn tell_more(&self, info: &mut Value) {
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
    }

    /// The first mode of constrained impersonation that the real server tries for this identity;
    /// `None` if it tries none.
    fn mode(&self) -> Option<&'static str> {
        let Self { user, groups, uid, extra } = self;
        let is_bare = groups.is_empty() && uid.is_empty() && extra.is_empty();
        match self.account() {
            Some(_) => is_bare.then_some("serviceaccount"),
            None if user.starts_with("system:node:") => is_bare.then_some("arbitrary-node"),
            None => Some("user-info"),
        }
    }

    /// The identity as Go prints it.
    fn printed(&self) -> String {
        let Self { user, groups, uid, extra } = self;
        let list = |all: &[String]| {
            let all: Vec<String> = all.iter().map(|it| format!("{it:?}")).collect();
            if all.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", all.join(", ")) }
        };
        let extra: Vec<String> =
            extra.iter().map(|(key, values)| format!("{key:?}:[]string{}", list(values))).collect();
        let extra =
            if extra.is_empty() { "(nil)".into() } else { format!("{{{}}}", extra.join(", ")) };
        let groups = list(groups);
        format!(
            "&user.DefaultInfo{{Name:{user:?}, UID:{uid:?}, Groups:[]string{groups}, Extra:map[string][]string{extra}}}"
        )
    }
}

/// Reads the identity in the `Impersonate-*` headers; `None` if they name no group and no extra
/// field, and user and UID are absent or empty.
pub(crate) fn impersonated(headers: &HeaderMap) -> Option<Impersonated> {
    const EXTRA: &str = "impersonate-extra-";
    let all = |name: &str| {
        let values = headers.get_all(name).iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect::<Vec<_>>()
    };
    let first = |name: &str| all(name).into_iter().next().unwrap_or_default();
    let mut other = Impersonated {
        user: first("impersonate-user"),
        groups: all("impersonate-group"),
        uid: first("impersonate-uid"),
        extra: BTreeMap::new(),
    };
    for name in headers.keys() {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let key = if query::is_well_formed(&format!("/{key}")) {
                query::decode(key, false)
            } else {
                key.to_owned()
            };
            other.extra.entry(key).or_default().extend(all(name.as_str()));
        }
    }
    let is_asked = !other.user.is_empty()
        || !other.groups.is_empty()
        || !other.uid.is_empty()
        || !other.extra.is_empty();
    is_asked.then_some(other)
}

/// Users that have impersonated before. Clones share the set.
///
/// For such a user the real server first tries the mode of impersonation that worked before, so a
/// refusal has the message of that mode.
#[derive(Clone, Debug, Default)]
pub(crate) struct Impersonators(Arc<Mutex<BTreeSet<String>>>);

impl Impersonators {
    /// Maximum number of users that the set holds, as in the real server.
    const MAX: usize = 10_000;

    /// Returns the identity of `other` if `identity` may act as `other`, and adds the user of
    /// `identity` to the set. `what` has the attributes of the client's request, for the message of
    /// a refusal. `decide` returns the verdict of the authorizer about `identity`.
    ///
    /// # Errors
    /// 400 if `other` names no user, 403 if a permission is missing.
    pub(crate) fn permit(
        &self,
        identity: &Identity,
        other: &Impersonated,
        what: Attributes,
        decide: impl Fn(&Attributes) -> Verdict,
    ) -> Result<Identity, Status> {
        if other.user.is_empty() {
            let message =
                format!("requested {} without impersonating a user name", other.printed());
            return Err(Status::bad_request(message));
        }
        for object in other.objects() {
            let asked = Attributes {
                verb: "impersonate".into(),
                object: Some(object),
                ..Attributes::default()
            };
            let verdict = decide(&asked);
            if verdict.is_allowed {
                continue;
            }
            let mode = other.mode().filter(|_| !self.know(&identity.user));
            return Err(match mode {
                // The real server then looks for a permission to make just this kind of request as
                // `other`.
                Some(mode) => {
                    let verb = format!("impersonate-on:{mode}:{}", what.verb);
                    access::forbidden(identity, &Attributes { verb, ..what }, "")
                }
                None => access::forbidden(identity, &asked, &verdict.reason),
            });
        }
        self.add(&identity.user);
        Ok(other.identity().authenticated())
    }

    fn know(&self, user: &str) -> bool {
        self.lock().contains(user)
    }

    fn add(&self, user: &str) {
        let mut known = self.lock();
        if known.len() < Self::MAX && !known.contains(user) {
            known.insert(user.to_owned());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().expect("no task panics while it holds the lock of the impersonators")
    }
}
