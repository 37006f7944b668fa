//! Completes or undoes what a crash, or a change that failed, has left behind.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use provider_vcenter::Chain;
use tokio_util::sync::CancellationToken;

use super::super::{
    super::{group::GroupId, replacements::is_over},
    AT_A_TIME, Shared,
    view::{GroupState, Member},
};

/// Interval at which the server looks for something to sweep. Without it a sweep costs no request.
const EVERY: Duration = Duration::from_secs(10);

/// Sweeps again and again, until the stop.
pub(crate) async fn sweep(shared: &Shared, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        let ids: Vec<GroupId> = shared.snapshot().states.keys().cloned().collect();
        for id in ids {
            shared.sweep_group(&id).await;
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = shared.wake.notified() => {}
            () = stop.cancelled() => {}
        }
    }
}

impl Shared {
    /// Takes the marks of changes that did not end back, and deletes the Machines for which the size
    /// was lowered, and those that Cluster API is to replace by now.
    async fn sweep_group(&self, id: &GroupId) {
        let has_work = |it: &GroupState| !it.open().is_empty() || !self.due(it).is_empty();
        let snapshot = self.snapshot();
        if self.view().age().is_none() || !snapshot.states.get(id).is_some_and(has_work) {
            return;
        }
        let due = snapshot.states.get(id).map(|it| self.due(it)).unwrap_or_default();
        let deletions = due.iter().map(|it| self.delete_machine(&it.machine).boxed());
        let deletions: Vec<_> = deletions.collect();
        futures::stream::iter(deletions).buffer_unordered(AT_A_TIME).collect::<()>().await;
        // A change of the group may be writing marks.
        let turn = self.groups.turn(id);
        let _turn = turn.lock().await;
        let snapshot = self.snapshot();
        let Some(state) = snapshot.states.get(id) else { return };
        if let Err(err) = self.release(state, &state.open()).await {
            tracing::warn!(group = %id, error = %Chain(&err), "taking marks of Machines back failed; retrying");
        }
    }

    /// Returns the Machines to delete now. A Machine for which the size was lowered waits until the
    /// MachineSets have followed: they would replace it before, and then become smaller by a Machine
    /// without mark.
    pub(crate) fn due(&self, state: &GroupState) -> Vec<Arc<Member>> {
        if state.unreadable_ledger.is_some() {
            return Vec::new();
        }
        let now = self.clock.now();
        let have_sets_followed = state.is_observed && state.replicas_of_sets <= state.replicas;
        let is_due = |it: &&Arc<Member>| {
            let machine = &it.machine;
            let is_counted = state.ledger.has(machine) && have_sets_followed;
            let is_replaced = machine.replace_at.is_some_and(|at| is_over(at, now));
            !machine.is_deleting && (is_counted || is_replaced)
        };
        state.members.iter().filter(is_due).cloned().collect()
    }
}
