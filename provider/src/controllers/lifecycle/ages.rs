//! Time for which this process has seen each node.
//!
//! A node that was never matched to a machine is not deleted before this process has seen it for a while. The wall clock
//! does not show the age of a node: it steps, and the API server may have another one. So the age is the time since this
//! process first saw the node, on the steady clock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::model::Node;

/// First sight of each node, by UID.
#[derive(Debug, Default)]
pub(super) struct Ages(BTreeMap<String, Instant>);

impl Ages {
    /// Notes the nodes that exist, and forgets all others.
    pub(super) fn see(&mut self, nodes: &[Arc<Node>], now: Instant) {
        let seen =
            |node: &Arc<Node>| (node.uid.clone(), self.0.get(&node.uid).copied().unwrap_or(now));
        self.0 = nodes.iter().map(seen).collect();
    }

    /// Time for which a node has been seen; zero if it was not.
    pub(super) fn of(&self, node: &Node, now: Instant) -> Duration {
        self.0.get(&node.uid).map_or(Duration::ZERO, |seen| now.duration_since(*seen))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_age_of_a_node_counts_from_the_first_sight_of_its_uid() {
        let node = |uid: &str| {
            let metadata =
                json!({"name": "n", "uid": uid, "creationTimestamp": "1970-01-01T00:00:00Z"});
            Arc::new(Node::from_json(&json!({ "metadata": metadata })).unwrap())
        };
        let (first, second) = (node("first"), node("second"));
        let mut ages = Ages::default();
        ages.see(&[Arc::clone(&first)], Instant::now());
        tokio::time::advance(Duration::from_secs(7)).await;
        let now = Instant::now();
        ages.see(&[Arc::clone(&first)], now);
        assert_eq!(ages.of(&first, now), Duration::from_secs(7));
        // Another node under the same name begins anew, and so does the first one when it comes back.
        ages.see(&[Arc::clone(&second)], now);
        assert_eq!(ages.of(&second, now), Duration::ZERO);
        assert_eq!(ages.of(&first, now), Duration::ZERO);
    }
}
