//! Bearer tokens and the identities that they authenticate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use kube_sim_store::Time;
use sha2::{Digest as _, Sha256};

/// User of requests without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// Group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";
/// Group of the anonymous user.
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// User name and groups of a client, as authentication determines them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User name, such as `system:serviceaccount:kube-system:cloud-controller-manager`.
    pub user: String,
    /// Groups of the user, such as `system:masters`.
    pub groups: Vec<String>,
}

impl Identity {
    /// An identity that may do everything.
    pub fn admin() -> Self {
        Self {
            user: "kubernetes-admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
        }
    }

    /// Adds the group `system:authenticated`, or `system:unauthenticated` for the anonymous user.
    /// Adds nothing if the identity already is in the group to add or in `system:unauthenticated`.
    pub(crate) fn authenticated(mut self) -> Self {
        let is_nobody = self.user == ANONYMOUS;
        let is_said =
            |group: &String| group == UNAUTHENTICATED || !is_nobody && group == AUTHENTICATED;
        if !self.groups.iter().any(is_said) {
            let group = if is_nobody { UNAUTHENTICATED } else { AUTHENTICATED };
            self.groups.push(group.to_owned());
        }
        self
    }

    pub(crate) fn anonymous() -> Self {
        Self { user: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()] }
    }
}

/// The bearer tokens that an API server accepts. Clones share the tokens.
///
/// Holds digests of the tokens, so that the debug output reveals no token.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    table: Arc<Mutex<BTreeMap<[u8; 32], Entry>>>,
}

#[derive(Clone, Debug)]
struct Entry {
    identity: Identity,
    expires: Option<Time>,
}

impl Tokens {
    /// Makes `token` valid for `identity`, until `expires` if set. Replaces the earlier identity
    /// and expiry of the token.
    pub fn issue(&self, token: &str, identity: Identity, expires: Option<Time>) {
        self.lock().insert(digest(token), Entry { identity, expires });
    }

    /// Makes `token` invalid.
    pub fn revoke(&self, token: &str) {
        self.lock().remove(&digest(token));
    }

    /// Identity that a token authenticates; `None` if the token is unknown or has expired at `now`.
    pub fn identify(&self, token: &str, now: Time) -> Option<Identity> {
        let table = self.lock();
        let entry = table.get(&digest(token))?;
        entry.expires.is_none_or(|expires| now < expires).then(|| entry.identity.clone())
    }

    /// User name that a token stands for, even if the token has expired; `None` for an unknown
    /// token.
    pub(crate) fn user_of(&self, token: &str) -> Option<String> {
        self.lock().get(&digest(token)).map(|entry| entry.identity.user.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Entry>> {
        self.table.lock().expect("no task panics while it holds the lock of the token table")
    }
}

/// A one-way digest of a token for the ledger: 12 hexadecimal digits.
pub(crate) fn fingerprint(token: &str) -> String {
    digest(token).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
