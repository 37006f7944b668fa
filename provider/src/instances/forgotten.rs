//! Memory of recently deleted Nodes. A question may still be running when its Node is deleted. The
//! answer to that question must not create the backend's record of the node again, because nothing
//! would ever drop that record.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::model::NodeUid;

/// Minimum time for which a UID is kept: longer than any question about a node takes.
const REMEMBERED: Duration = Duration::from_secs(600);

/// UIDs of recently deleted nodes, with the time of deletion.
#[derive(Debug, Default)]
pub(super) struct Forgotten(BTreeMap<NodeUid, Instant>);

impl Forgotten {
    /// Adds the UID of a deleted node, and drops the UIDs that are older than [`REMEMBERED`].
    pub(super) fn note(&mut self, uid: NodeUid, now: Instant) {
        self.0.retain(|_, at| now.duration_since(*at) < REMEMBERED);
        self.0.insert(uid, now);
    }

    /// Removes the UID because the cluster shows that node, still or again.
    pub(super) fn recall(&mut self, uid: &NodeUid) {
        self.0.remove(uid);
    }

    /// True if the node with this UID was deleted recently, and the cluster has not shown it since.
    pub(super) fn contains(&self, uid: &NodeUid) -> bool {
        self.0.contains_key(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_is_remembered_as_gone_until_it_is_shown_again_or_for_ten_minutes() {
        let mut forgotten = Forgotten::default();
        for uid in ["a", "b"] {
            forgotten.note(uid.into(), Instant::now());
        }
        forgotten.recall(&"a".into());
        assert!(!forgotten.contains(&"a".into()) && forgotten.contains(&"b".into()));
        tokio::time::advance(REMEMBERED).await;
        forgotten.note("c".into(), Instant::now());
        assert!(!forgotten.contains(&"b".into()) && forgotten.contains(&"c".into()));
        tokio::time::advance(REMEMBERED / 2).await;
        forgotten.note("d".into(), Instant::now());
        assert!(forgotten.contains(&"c".into()), "it is remembered for longer");
    }
}
