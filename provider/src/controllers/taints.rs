//! The two taints of a cloud provider.

use serde_json::json;

use crate::model::{Node, Taint};

/// Taint of nodes that no cloud provider has initialized yet, with any value and effect.
pub(crate) const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Taint of nodes whose machine is shut down, with effect `NoSchedule`.
pub(crate) const SHUTDOWN_TAINT: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// The shutdown taint as the framework writes it.
pub(crate) fn shutdown_taint() -> Taint {
    Taint(json!({"key": SHUTDOWN_TAINT, "effect": "NoSchedule"}))
}

impl Node {
    /// True if the node still waits for a cloud provider.
    pub(crate) fn is_uninitialized(&self) -> bool {
        self.taints.iter().any(|taint| taint.key() == UNINITIALIZED_TAINT)
    }

    /// True if the node is marked as shut down.
    pub(crate) fn has_shutdown_taint(&self) -> bool {
        self.taints.iter().any(is_shutdown)
    }

    /// Returns all taints for which `dropped` is false, in order.
    pub(crate) fn taints_without(&self, dropped: impl Fn(&Taint) -> bool) -> Vec<Taint> {
        self.taints.iter().filter(|taint| !dropped(taint)).cloned().collect()
    }
}

pub(crate) fn is_shutdown(taint: &Taint) -> bool {
    taint.key() == SHUTDOWN_TAINT && taint.effect() == "NoSchedule"
}

/// JSON of a list of taints for a patch; an empty list is `null`, as the framework sends it.
pub(crate) fn taints_json(taints: &[Taint]) -> serde_json::Value {
    if taints.is_empty() {
        return serde_json::Value::Null;
    }
    taints.iter().map(|taint| taint.0.clone()).collect()
}
