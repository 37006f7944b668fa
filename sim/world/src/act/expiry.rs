//! Removal of cluster events some time after their last write, as with `--event-ttl` of kube-apiserver.
//!
//! The real server ties events to leases of etcd. It reuses a lease for 5 % of the TTL, at most a minute, before it requests
//! the next one. Events therefore live that much longer, and all events of a lease go together. Follows `apiserver:
//! pkg/storage/etcd3/lease_manager.go`, without its bound of 1,000 objects per lease.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::Act;
use crate::event::{ControlPlane, Event};
use crate::objects::{self, GroupResource, Key, Op};
use crate::reactions::Reaction;

/// Longest extra duration of a lease, during which later events can share it.
const MAX_REUSE: Duration = Duration::from_secs(60);

/// The extra duration of a lease in whole seconds.
fn reuse(ttl: Duration) -> Duration {
    Duration::from_secs(ttl.as_secs() / 20).min(MAX_REUSE)
}

/// True if objects of this resource expire.
pub(super) fn expires(resource: &GroupResource) -> bool {
    resource.group.is_empty() && resource.resource == "events"
}

impl Act<'_> {
    /// Schedules the expiry of an event that was written now for the end of the current lease. Cancels the timer of an
    /// earlier write; a deletion only does that.
    pub(super) fn lease(&mut self, plane: ControlPlane, written: &objects::Event) {
        let objects::Event { key, op, revision, .. } = written;
        let timers = self.state.event_timers.get(&plane);
        if let Some((at, id)) = timers.and_then(|timers| timers.get(&key.path())).copied() {
            self.emit(Event::Unscheduled { id, at: Some(at) });
        }
        if *op == Op::Deleted {
            return;
        }
        let ttl = self.state.event_ttl;
        let least = self.now + ttl;
        let current = self.state.event_lease;
        let ends = if current > least { current } else { least + reuse(ttl) };
        self.at(ends, Reaction::EventExpires { plane, key: key.clone(), revision: *revision });
    }

    /// Removes an event whose lease ends, unless a later write changed its revision. Finalizers do not hold it.
    pub(super) fn expire(&mut self, plane: ControlPlane, key: &Key, revision: u64) {
        if let Some(gone) = self.state.objects(plane).expire(key, revision) {
            self.emit_object(plane, gone);
        }
    }
}
