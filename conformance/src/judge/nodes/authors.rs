//! Finds out whether the provider may have made a change of a Node: one of its requests for the
//! Node was under way at that moment, or had been answered at most [`lag`] before.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::ledger::Record;
use sim::world::Time;

use crate::lab::{ByHand, Run};

/// Maximum time from an answer of a real API server until the world has the change.
const MIRRORED: Duration = Duration::from_secs(30);

/// Returns the maximum time from the answer to a write until the world has the change: zero, except
/// with a real API server.
pub(in crate::judge) fn lag(run: &Run) -> Duration {
    if run.mirrored { MIRRORED } else { Duration::ZERO }
}

/// Returns every call that requests the deletion of one Node by name.
pub(in crate::judge) fn deletions(run: &Run) -> impl Iterator<Item = &Record> {
    run.calls().filter(|call| call.is_cluster_call() && call.op == "delete nodes")
}

/// Returns every call that patches or updates a Node or its status.
pub(in crate::judge) fn writes(run: &Run) -> impl Iterator<Item = &Record> {
    run.calls().filter(|call| is_write(call))
}

/// True for a patch or an update of a Node or its status.
pub(in crate::judge) fn is_write(call: &Record) -> bool {
    call.is_cluster_call()
        && matches!(
            call.op.as_str(),
            "patch nodes" | "patch nodes/status" | "update nodes" | "update nodes/status"
        )
}

/// True if this call may have made a change of this Node at this moment.
pub(in crate::judge) fn is_author(run: &Run, call: &Record, node: &str, at: Time) -> bool {
    call.t <= at
        && call.target.name.as_deref() == Some(node)
        && call.ended.as_ref().is_none_or(|ended| ended.at + lag(run) >= at)
}

/// Times at which the provider was writing each Node.
#[derive(Debug, Default)]
pub(in crate::judge) struct WriteTimes {
    spans: BTreeMap<String, Vec<(Time, Option<Time>)>>,
    /// Changes of Nodes by the scenario itself; in a recorded run, deletions of Nodes by other
    /// clients. No change at their times counts as the provider's,
    /// although the provider may write at the same time.
    by_hand: Vec<ByHand>,
}

impl WriteTimes {
    /// Collects the writes of the provider in a run.
    pub(in crate::judge) fn in_run(run: &Run) -> Self {
        let mut written = Self { by_hand: run.by_hand.clone(), ..Self::default() };
        for call in writes(run) {
            let Some(name) = &call.target.name else { continue };
            let until = call.ended.as_ref().map(|ended| ended.at + lag(run));
            written.spans.entry(name.clone()).or_default().push((call.t, until));
        }
        written
    }

    /// True if the provider may have made a change of this Node at this moment.
    pub(in crate::judge) fn covers(&self, node: &str, at: Time) -> bool {
        let spans = self.spans.get(node).map_or(&[][..], Vec::as_slice);
        !self.by_hand.iter().any(|it| it.covers(at))
            && spans
                .iter()
                .any(|(from, until)| *from <= at && until.is_none_or(|until| at <= until))
    }
}
