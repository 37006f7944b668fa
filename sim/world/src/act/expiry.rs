//! Events of the cluster go an hour after they were last written, as `--event-ttl` of kube-apiserver has it.
//!
//! The real server ties them to leases of etcd, and hands out one lease for a minute before it asks for the next, which
//! is why they live for up to a minute longer and go together. Follows `apiserver:
//! pkg/storage/etcd3/lease_manager.go`, but for the bound of 1,000 objects a lease.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::Act;
use crate::objects::{self, GroupResource, Key, Op};
use crate::reactions::Reaction;
use crate::world::Event;

/// `--event-ttl`.
const TTL: Duration = Duration::from_secs(3600);

/// How much longer than asked for a lease lasts, so that later objects can have it too.
const REUSE: Duration = Duration::from_secs(60);

/// What ends an object that was written, if its kind expires.
pub(super) fn of(written: &objects::Event) -> Option<Reaction> {
    let objects::Event { key, op, revision, .. } = written;
    let GroupResource { group, resource } = &key.resource;
    let expires = group.is_empty() && resource == "events" && *op != Op::Deleted;
    expires.then(|| Reaction::EventExpires { key: key.clone(), revision: *revision })
}

impl Act<'_> {
    /// Lets `expiry` happen at the end of the lease for what is written now.
    pub(super) fn lease(&mut self, expiry: Reaction) {
        let least = self.now + TTL;
        let current = self.state.event_lease;
        let ends = if current > least { current } else { least + REUSE };
        self.at(ends, expiry);
    }

    /// The lease ends under which an object was written, unless it was written again meanwhile. Nothing holds it.
    pub(super) fn expire(&mut self, key: &Key, revision: u64) {
        if let Some(gone) = self.state.cluster.expire(key, revision) {
            self.emit(Event::Cluster(gone));
        }
    }
}
