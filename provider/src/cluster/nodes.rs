//! The store of the workload cluster's nodes, as the provider last saw them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::model::{Node, NodeName, NodeUid};

/// A shared copy of all nodes, in order of name; the Go framework calls it "the cache".
#[derive(Debug)]
pub(crate) struct NodeStore {
    nodes: Mutex<BTreeMap<NodeName, Arc<Node>>>,
    /// Cancelled once the first list is complete. A token replaces tokio's `watch`, because a token
    /// wakes waiters in the order in which they began to wait.
    synced: CancellationToken,
}

impl NodeStore {
    pub(crate) fn new() -> Self {
        Self { nodes: Mutex::new(BTreeMap::new()), synced: CancellationToken::new() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<NodeName, Arc<Node>>> {
        self.nodes.lock().expect("nothing panics under this lock")
    }

    pub(crate) fn get(&self, name: &NodeName) -> Option<Arc<Node>> {
        self.lock().get(name).cloned()
    }

    /// All nodes in order of name.
    pub(crate) fn all(&self) -> Vec<Arc<Node>> {
        self.lock().values().cloned().collect()
    }

    pub(crate) fn names(&self) -> Vec<NodeName> {
        self.lock().keys().cloned().collect()
    }

    /// Stores a node, unless the store already has a newer version of the same node. Returns true
    /// if it stored the node.
    pub(crate) fn upsert(&self, node: Node) -> bool {
        let mut nodes = self.lock();
        if let Some(known) = nodes.get(&node.name)
            && known.uid == node.uid
            && let (Ok(known), Ok(new)) =
                (known.resource_version.parse::<u64>(), node.resource_version.parse::<u64>())
            && new < known
        {
            return false;
        }
        nodes.insert(node.name.clone(), Arc::new(node));
        true
    }

    /// Stores a node from a full list, even over a newer version: after a restore of the cluster
    /// from a backup, versions are lower than before. If the newer version came from the answer to
    /// a write, the watch delivers that version again.
    pub(crate) fn replace(&self, node: Node) {
        self.lock().insert(node.name.clone(), Arc::new(node));
    }

    /// Returns the Node in the answer to a read or write, or `None` if the answer is not a Node.
    /// Stores it only if the store has a node of this name and UID, so that a node that was deleted
    /// meanwhile does not come back, and if the store has no newer version.
    pub(crate) fn take_over(&self, written: &Value) -> Option<Arc<Node>> {
        let node = Node::from_json(written).ok()?;
        if self.get(&node.name).is_some_and(|known| known.uid == node.uid) {
            self.upsert(node.clone());
        }
        Some(Arc::new(node))
    }

    /// Removes the node of this name and UID. Returns true if the store had that node.
    pub(crate) fn remove(&self, name: &NodeName, uid: &NodeUid) -> bool {
        let mut nodes = self.lock();
        let is_it = nodes.get(name).is_some_and(|node| node.uid == *uid);
        if is_it {
            nodes.remove(name);
        }
        is_it
    }

    pub(crate) fn mark_synced(&self) {
        self.synced.cancel();
    }

    /// Waits for the first complete list.
    pub(crate) async fn synced(&self) {
        self.synced.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(uid: &str, version: &str) -> Node {
        let metadata = json!({"name": "a", "uid": uid, "resourceVersion": version});
        Node::from_json(&json!({"metadata": metadata})).expect("a node")
    }

    #[test]
    fn the_node_store_refuses_a_node_if_it_has_a_newer_version() {
        let store = NodeStore::new();
        let version = || store.get(&"a".into()).map(|node| node.resource_version.clone());
        assert!(store.upsert(node("1", "10")));
        assert!(!store.upsert(node("1", "9")), "older");
        assert_eq!(version().as_deref(), Some("10"));
        assert!(store.upsert(node("1", "10")) && store.upsert(node("1", "11")));
        assert!(store.upsert(node("2", "5")), "another node of the same name");
        assert_eq!(version().as_deref(), Some("5"));
        store.replace(node("2", "3"));
        assert_eq!(version().as_deref(), Some("3"), "a full list overrides newer versions");
    }
}
