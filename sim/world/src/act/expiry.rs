//! Events of the cluster go an hour after they were last written, as `--event-ttl` of kube-apiserver has it.
//!
//! The real server ties them to leases of etcd, and hands out one lease for a minute before it asks for the next, which
//! is why they live for up to a minute longer and go together. Follows `apiserver:
//! pkg/storage/etcd3/lease_manager.go`, but for the bound of 1,000 objects a lease.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::Act;
use crate::event::{ControlPlane, Event};
use crate::objects::{self, GroupResource, Key, Op};
use crate::reactions::Reaction;

/// `--event-ttl`.
const TTL: Duration = Duration::from_secs(3600);

/// How much longer than asked for a lease lasts, so that later objects can have it too.
const REUSE: Duration = Duration::from_secs(60);

/// Whether objects of this kind go by themselves.
pub(super) fn expires(resource: &GroupResource) -> bool {
    resource.group.is_empty() && resource.resource == "events"
}

impl Act<'_> {
    /// Lets what was written now go at the end of the lease, and no sooner if it has had another one.
    pub(super) fn lease(&mut self, plane: ControlPlane, written: &objects::Event) {
        let objects::Event { key, op, revision, .. } = written;
        let timers = self.state.event_timers.get(&plane);
        if let Some((at, id)) = timers.and_then(|timers| timers.get(&key.path())).copied() {
            self.emit(Event::Unscheduled { id, at: Some(at) });
        }
        if *op == Op::Deleted {
            return;
        }
        let least = self.now + TTL;
        let current = self.state.event_lease;
        let ends = if current > least { current } else { least + REUSE };
        self.at(ends, Reaction::EventExpires { plane, key: key.clone(), revision: *revision });
    }

    /// The lease ends under which an object was written, unless it was written again meanwhile. Nothing holds it.
    pub(super) fn expire(&mut self, plane: ControlPlane, key: &Key, revision: u64) {
        if let Some(gone) = self.state.objects(plane).expire(key, revision) {
            self.emit_object(plane, gone);
        }
    }
}
