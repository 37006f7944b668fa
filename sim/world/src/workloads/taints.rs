//! Taints of Nodes and tolerations of pods.

use serde_json::Value;

use super::{list, text};

/// True if one of the tolerations tolerates the taint.
fn is_tolerated(tolerations: &[Value], taint: &Value) -> bool {
    tolerations.iter().any(|toleration| {
        let (key, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
        (effect.is_empty() || effect == text(taint, "/effect"))
            && (key.is_empty() || key == text(taint, "/key"))
            && match text(toleration, "/operator") {
                "Exists" => true,
                "" | "Equal" => text(toleration, "/value") == text(taint, "/value"),
                _ => false,
            }
    })
}

/// True if the tolerations tolerate every taint of the Node with one of these effects.
pub(super) fn tolerates(tolerations: &[Value], node: &Value, effects: &[&str]) -> bool {
    let taints = list(node, "/spec/taints").iter();
    let mut counted = taints.filter(|taint| effects.contains(&text(taint, "/effect")));
    counted.all(|taint| is_tolerated(tolerations, taint))
}

/// True if the Node takes new pods, or the tolerations tolerate that it does not.
pub(super) fn is_open(tolerations: &[Value], node: &Value) -> bool {
    let cordon = serde_json::json!({
        "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule",
    });
    node["spec"]["unschedulable"] != true || is_tolerated(tolerations, &cordon)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_toleration_fits_by_key_value_and_effect() {
        let node = json!({"spec": {"taints": [
            {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
            {"key": "soft", "effect": "PreferNoSchedule"},
        ]}});
        let hard = ["NoSchedule", "NoExecute"];
        for (toleration, want) in [
            (json!({"key": "gpu", "operator": "Exists"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "gpu", "value": "yes", "effect": "NoSchedule"}), true),
            (json!({"key": "gpu", "value": "no"}), false),
            (json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            assert_eq!(
                tolerates(std::slice::from_ref(&toleration), &node, &hard),
                want,
                "{toleration}"
            );
        }
        assert!(!tolerates(
            &[json!({"key": "gpu", "operator": "Exists"})],
            &node,
            &["PreferNoSchedule"]
        ));
    }
}
