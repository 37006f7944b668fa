//! Ages of the nodes: the time since this process first saw each node.
//!
//! A node that the provider never matched to a machine must reach a certain age before the provider
//! deletes it. The wall clock cannot tell the age, because it steps, and the clock of the API
//! server may differ. So the age counts on tokio's steady clock.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::model::{Node, NodeUid};

/// The instant at which this process first saw each node, by UID.
#[derive(Debug, Default)]
pub(super) struct Ages(BTreeMap<NodeUid, Instant>);

impl Ages {
    /// Notes that exactly these nodes exist now, and forgets all others.
    pub(super) fn see(&mut self, nodes: &[Arc<Node>], now: Instant) {
        let seen =
            |node: &Arc<Node>| (node.uid.clone(), self.0.get(&node.uid).copied().unwrap_or(now));
        self.0 = nodes.iter().map(seen).collect();
    }

    /// Age of a node; zero for a node that the last [`Ages::see`] did not get.
    pub(super) fn age(&self, node: &Node, now: Instant) -> Duration {
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
        assert_eq!(ages.age(&first, now), Duration::from_secs(7));
        // The age of another node with the same name starts at zero, and so does that of the first
        // one if it returns.
        ages.see(&[Arc::clone(&second)], now);
        assert_eq!(ages.age(&second, now), Duration::ZERO);
        assert_eq!(ages.age(&first, now), Duration::ZERO);
    }
}
