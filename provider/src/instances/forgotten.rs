//! Memory of recently deleted Nodes. A question may still be running when its Node is deleted. The
//! answer to that question must not create the backend's record of the node again, because nothing
//! would ever drop that record.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// Minimum time for which a UID is kept: longer than any question about a node takes.
const REMEMBERED: Duration = Duration::from_secs(600);

/// UIDs of recently deleted nodes, with the time of deletion.
#[derive(Debug, Default)]
pub(super) struct Forgotten(BTreeMap<String, Instant>);

impl Forgotten {
    /// Adds the UID of a deleted node, and drops the UIDs that are older than [`REMEMBERED`].
    pub(super) fn note(&mut self, uid: String, now: Instant) {
        self.0.retain(|_, at| now.duration_since(*at) < REMEMBERED);
        self.0.insert(uid, now);
    }

    /// Removes the UID because the cluster shows that node, still or again.
    pub(super) fn recall(&mut self, uid: &str) {
        self.0.remove(uid);
    }

    /// True if the node with this UID was deleted recently, and the cluster has not shown it since.
    pub(super) fn contains(&self, uid: &str) -> bool {
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
            forgotten.note(uid.to_owned(), Instant::now());
        }
        forgotten.recall("a");
        assert!(!forgotten.contains("a") && forgotten.contains("b"));
        tokio::time::advance(REMEMBERED).await;
        forgotten.note("c".to_owned(), Instant::now());
        assert!(!forgotten.contains("b") && forgotten.contains("c"));
        tokio::time::advance(REMEMBERED / 2).await;
        forgotten.note("d".to_owned(), Instant::now());
        assert!(forgotten.contains("c"), "it is remembered for longer");
    }
}
