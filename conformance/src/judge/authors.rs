//! The author of a change of a Node: the provider, if one of its requests was under way at that moment, else the scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::ledger::Record;
use sim::world::Time;

use crate::lab::{ByHand, Run};

/// Maximum time from the answer of a real API server until the world has the change.
const MIRRORED: Duration = Duration::from_secs(30);

/// Returns the maximum time from the answer to a write until the world has the change.
pub(super) fn lag(run: &Run) -> Duration {
    if run.mirrored { MIRRORED } else { Duration::ZERO }
}

/// Returns every deletion of a Node that the provider requested.
pub(super) fn deletions(run: &Run) -> impl Iterator<Item = &Record> {
    run.calls().filter(|call| call.is_cluster_call() && call.op == "delete nodes")
}

/// Returns every other write of a Node that the provider requested.
pub(super) fn writes(run: &Run) -> impl Iterator<Item = &Record> {
    run.calls().filter(|call| is_write(call))
}

/// True for a write of a Node other than a deletion.
pub(super) fn is_write(call: &Record) -> bool {
    call.is_cluster_call()
        && matches!(
            call.op.as_str(),
            "patch nodes" | "patch nodes/status" | "update nodes" | "update nodes/status"
        )
}

/// True if this call may have made a change of this Node at this moment.
pub(super) fn is_author(run: &Run, call: &Record, node: &str, at: Time) -> bool {
    call.t <= at
        && call.target.name.as_deref() == Some(node)
        && call.ended.as_ref().is_none_or(|ended| ended.at + lag(run) >= at)
}

/// Times at which the provider was writing each Node.
#[derive(Debug, Default)]
pub(super) struct Written {
    spans: BTreeMap<String, Vec<(Time, Option<Time>)>>,
    /// Changes of Nodes by the scenario itself; a reaction of the provider may come at the same moment.
    by_hand: Vec<ByHand>,
}

impl Written {
    /// Collects the writes of the provider in a run.
    pub(super) fn by(run: &Run) -> Self {
        let mut written = Self { by_hand: run.by_hand.clone(), ..Self::default() };
        for call in writes(run) {
            let Some(name) = &call.target.name else { continue };
            let until = call.ended.as_ref().map(|ended| ended.at + lag(run));
            written.spans.entry(name.clone()).or_default().push((call.t, until));
        }
        written
    }

    /// True if the provider may have made a change of this Node at this moment.
    pub(super) fn covers(&self, node: &str, at: Time) -> bool {
        let spans = self.spans.get(node).map_or(&[][..], Vec::as_slice);
        !self.by_hand.iter().any(|it| it.covers(at))
            && spans
                .iter()
                .any(|(from, until)| *from <= at && until.is_none_or(|until| at <= until))
    }
}
