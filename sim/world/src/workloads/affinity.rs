//! The Nodes that a pod selects: `nodeSelector` and required node affinity.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{list, map, name, text};

const REQUIRED: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";

/// True if the pod selects the Node.
pub(super) fn selects(pod: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let mut selector = map(pod, "/spec/nodeSelector").into_iter().flatten();
    let is_labeled = selector.all(|(key, value)| labels.get(key) == Some(value));
    let Some(required) = pod.pointer(REQUIRED) else { return is_labeled };
    is_labeled && list(required, "/nodeSelectorTerms").iter().any(|term| matches(term, node))
}

/// True if the Node meets all requirements of a term that is not empty.
fn matches(term: &Value, node: &Value) -> bool {
    let (labels, fields) = (list(term, "/matchExpressions"), list(term, "/matchFields"));
    let label = |it: &Value| node["metadata"]["labels"][text(it, "/key")].as_str();
    let field = |it: &Value| (text(it, "/key") == "metadata.name").then(|| name(node));
    !(labels.is_empty() && fields.is_empty())
        && labels.iter().all(|it| is_met(it, label(it)))
        && fields.iter().all(|it| is_met(it, field(it)))
}

fn is_met(requirement: &Value, value: Option<&str>) -> bool {
    let values = list(requirement, "/values");
    let bound = || values.first()?.as_str()?.parse::<i64>().ok();
    let number = || value?.parse::<i64>().ok();
    match text(requirement, "/operator") {
        "In" => value.is_some_and(|value| values.iter().any(|it| it == value)),
        "NotIn" => value.is_none_or(|value| !values.iter().any(|it| it == value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number().zip(bound()).is_some_and(|(value, bound)| value > bound),
        "Lt" => number().zip(bound()).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

/// Names of the only Nodes that the pod can select, if every term of its affinity names them;
/// `None` if the names do not decide.
///
/// Follows `kubernetes: pkg/scheduler/framework/plugins/nodeaffinity`, `PreFilter`.
pub(super) fn named(pod: &Value) -> Option<BTreeSet<&str>> {
    let terms = list(pod.pointer(REQUIRED)?, "/nodeSelectorTerms");
    let mut all = BTreeSet::new();
    for term in terms {
        let is_name =
            |it: &&Value| text(it, "/key") == "metadata.name" && text(it, "/operator") == "In";
        let field = list(term, "/matchFields").iter().find(is_name)?;
        all.extend(list(field, "/values").iter().filter_map(Value::as_str));
    }
    (!terms.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_selects_nodes_by_labels_expressions_and_name() {
        let node = json!({"metadata": {"name": "n1", "labels": {"zone": "a", "size": "8"}}});
        let affinity = |term: Value| {
            json!({"spec": {"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
            }}}})
        };
        let expression = |key: &str, operator: &str, values: Value| {
            affinity(
                json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}),
            )
        };
        for (pod, want) in [
            (json!({"spec": {}}), true),
            (json!({"spec": {"nodeSelector": {"zone": "a"}}}), true),
            (json!({"spec": {"nodeSelector": {"zone": "b"}}}), false),
            (expression("zone", "In", json!(["b", "a"])), true),
            (expression("zone", "NotIn", json!(["a"])), false),
            (expression("rack", "NotIn", json!(["a"])), true),
            (expression("size", "Gt", json!(["7"])), true),
            (expression("size", "Lt", json!(["8"])), false),
            (expression("rack", "Exists", json!([])), false),
            (affinity(json!({})), false),
            (
                affinity(
                    json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}),
                ),
                false,
            ),
        ] {
            assert_eq!(selects(&pod, &node), want, "{pod}");
        }
    }
}
