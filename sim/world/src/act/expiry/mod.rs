//! Removal of Kubernetes Events when their time to live (TTL) since the last write has passed, as
//! with `--event-ttl` of kube-apiserver.
//!
//! The real server attaches Events to leases of etcd. It reuses a lease for 5 % of the TTL, at most
//! a minute, before it requests the next one. Events therefore live up to that much longer, and all
//! Events of a lease expire together. Follows `apiserver: pkg/storage/etcd3/lease_manager.go`,
//! without its bound of 1,000 objects per lease.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::Execution;
use crate::control_plane::ControlPlane;
use crate::event::Event;
use crate::objects::{self, GroupResource, Key, Op};
use crate::reactions::Reaction;

/// Maximum extra duration of a lease, during which later Events can share it.
const MAX_REUSE: Duration = Duration::from_secs(60);

/// The extra duration of a lease for this TTL: 5 % in whole seconds, at most [`MAX_REUSE`].
fn reuse(ttl: Duration) -> Duration {
    Duration::from_secs(ttl.as_secs() / 20).min(MAX_REUSE)
}

/// True if objects of this resource expire: for Events of the core group.
pub(super) fn expires(resource: &GroupResource) -> bool {
    resource.group.is_empty() && resource.resource == "events"
}

impl Execution<'_> {
    /// Schedules the expiry of an Event that was written now, for the end of the current lease, or
    /// of a new lease if the current one ends within the TTL. Cancels the expiry that an earlier
    /// write of the Event scheduled. After a deletion only cancels.
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
        self.schedule_at(
            ends,
            Reaction::EventExpires { plane, key: key.clone(), revision: *revision },
        );
    }

    /// Removes an Event whose lease has ended, unless a later write changed its revision.
    /// Finalizers do not delay the removal.
    pub(super) fn expire(&mut self, plane: ControlPlane, key: &Key, revision: u64) {
        if let Some(gone) = self.state.objects(plane).expire(key, revision) {
            self.emit_object(plane, gone);
        }
    }
}
