//! Who holds which bearer token.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use sha2::{Digest as _, Sha256};
use sim_world::Time;

/// Who asks without saying so.
const ANONYMOUS: &str = "system:anonymous";

/// Everybody who is known.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// A user as authentication knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User name, `system:serviceaccount:kube-system:cloud-controller-manager`.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
}

impl Identity {
    /// Somebody who may do everything.
    pub fn admin() -> Self {
        Self {
            user: "kubernetes-admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
        }
    }

    /// The same with the group of everybody who is known, or of those who are not; who says to be one of
    /// the others is believed.
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

/// The table of bearer tokens, shared by everybody who has a copy.
///
/// Holds digests: what it prints gives no token away.
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
    /// Lets `token` stand for `identity`, until it expires if it does.
    pub fn issue(&self, token: &str, identity: Identity, expires: Option<Time>) {
        self.lock().insert(digest(token), Entry { identity, expires });
    }

    /// Makes `token` worthless.
    pub fn revoke(&self, token: &str) {
        self.lock().remove(&digest(token));
    }

    /// Whose token this is, if it is good at `now`.
    pub fn identify(&self, token: &str, now: Time) -> Option<Identity> {
        let table = self.lock();
        let entry = table.get(&digest(token))?;
        entry.expires.is_none_or(|expires| now < expires).then(|| entry.identity.clone())
    }

    /// Whose token this is, expired or not.
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
