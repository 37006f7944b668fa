//! The two taints of a cloud provider.

use serde_json::json;

use crate::model::{Node, Taint};

/// On nodes that no cloud provider has seen yet, with any value and effect.
pub(crate) const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// On nodes whose machine is shut down, with effect `NoSchedule`.
pub(crate) const SHUTDOWN_TAINT: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// The shutdown taint as the framework writes it.
pub(crate) fn shutdown_taint() -> Taint {
    Taint(json!({"key": SHUTDOWN_TAINT, "effect": "NoSchedule"}))
}

impl Node {
    /// Whether the node still waits for a cloud provider.
    pub(crate) fn is_uninitialized(&self) -> bool {
        self.taints.iter().any(|taint| taint.key() == UNINITIALIZED_TAINT)
    }

    /// Whether the node is marked as shut down.
    pub(crate) fn has_shutdown_taint(&self) -> bool {
        self.taints.iter().any(is_shutdown)
    }

    /// All taints but those given, in order.
    pub(crate) fn taints_without(&self, dropped: impl Fn(&Taint) -> bool) -> Vec<Taint> {
        self.taints.iter().filter(|taint| !dropped(taint)).cloned().collect()
    }
}

pub(crate) fn is_shutdown(taint: &Taint) -> bool {
    taint.key() == SHUTDOWN_TAINT && taint.effect() == "NoSchedule"
}

/// A list of taints for a patch: an empty one is `null`, as the framework sends.
pub(crate) fn taints_json(taints: &[Taint]) -> serde_json::Value {
    if taints.is_empty() {
        return serde_json::Value::Null;
    }
    taints.iter().map(|taint| taint.0.clone()).collect()
}
