//! Bearer tokens and their holders.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use sha2::{Digest as _, Sha256};
use sim_world::Time;

/// User of requests without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// Group of all authenticated users.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// A user as authentication knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User name, such as `system:serviceaccount:kube-system:cloud-controller-manager`.
    pub user: String,
    /// Groups.
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

    /// Adds the group of authenticated users, or that of unauthenticated users for the anonymous one.
    /// An identity that already claims to be unauthenticated stays unchanged.
    pub(super) fn authenticated(mut self) -> Self {
        let is_nobody = self.user == ANONYMOUS;
        let is_said =
            |group: &String| group == UNAUTHENTICATED || !is_nobody && group == AUTHENTICATED;
        if !self.groups.iter().any(is_said) {
            let group = if is_nobody { UNAUTHENTICATED } else { AUTHENTICATED };
            self.groups.push(group.to_owned());
        }
        self
    }

    pub(super) fn anonymous() -> Self {
        Self { user: ANONYMOUS.into(), groups: vec![UNAUTHENTICATED.into()] }
    }
}

/// The table of bearer tokens. Clones share it.
///
/// Holds digests, so that its debug output reveals no token.
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
    /// Makes `token` valid for `identity`, until `expires` if set.
    pub fn issue(&self, token: &str, identity: Identity, expires: Option<Time>) {
        self.lock().insert(digest(token), Entry { identity, expires });
    }

    /// Makes `token` invalid.
    pub fn revoke(&self, token: &str) {
        self.lock().remove(&digest(token));
    }

    /// Identity of the token's holder, if the token is valid at `now`.
    pub fn identify(&self, token: &str, now: Time) -> Option<Identity> {
        let table = self.lock();
        let entry = table.get(&digest(token))?;
        entry.expires.is_none_or(|expires| now < expires).then(|| entry.identity.clone())
    }

    /// User name of the token's holder, even if the token has expired.
    pub(super) fn user_of(&self, token: &str) -> Option<String> {
        self.lock().get(&digest(token)).map(|entry| entry.identity.user.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Entry>> {
        self.table.lock().expect("no holder of the token table's lock panics")
    }
}

/// A one-way digest of a token, short enough for a ledger.
pub(super) fn fingerprint(token: &str) -> String {
    digest(token).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
