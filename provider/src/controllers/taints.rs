//! The two taints that a cloud provider manages: "uninitialized" and "shutdown".

use serde_json::json;

use crate::model::{Node, Taint};

/// Key of the taint of nodes that no cloud provider has initialized yet; its value and effect do
/// not matter.
pub(crate) const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Key of the taint of nodes whose machine is shut down; its effect is `NoSchedule`.
pub(crate) const SHUTDOWN_TAINT: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// The shutdown taint as the Go framework writes it.
pub(crate) fn shutdown_taint() -> Taint {
    Taint(json!({"key": SHUTDOWN_TAINT, "effect": "NoSchedule"}))
}

impl Node {
    /// True if the node has the uninitialized taint: it waits for a cloud provider.
    pub(crate) fn is_uninitialized(&self) -> bool {
        self.taints.iter().any(|taint| taint.key() == UNINITIALIZED_TAINT)
    }

    /// True if the node has the shutdown taint with effect `NoSchedule`.
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

/// JSON of a list of taints for a patch; `null` for an empty list, as the Go framework sends it.
pub(crate) fn taints_json(taints: &[Taint]) -> serde_json::Value {
    if taints.is_empty() {
        return serde_json::Value::Null;
    }
    taints.iter().map(|taint| taint.0.clone()).collect()
}
