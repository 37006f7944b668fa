//! The reader of groups: what an autoscaler learns from a template and from annotations.

use serde_json::{Value, json};

use super::Outcome;
use super::expected::is_same_amount;
use super::trial::{Trial, ensure};
use crate::judge::verdict::Verdict;
use crate::lab::capacity::{Expected, GroupReading, NodeReading, OurReader, Reader};

const MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";

/// Returns a MachineDeployment that an autoscaler scales.
pub(super) fn group(annotations: &[(&str, &str)]) -> Value {
    let mut group = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": "workers", "annotations": {MAX_SIZE: "3"}},
        "spec": {"replicas": 0, "template": {"spec": {}}},
    });
    for (key, value) in annotations {
        let key = format!("capacity.cluster-autoscaler.kubernetes.io/{key}");
        group["metadata"]["annotations"][key] = (*value).into();
    }
    group
}

/// Reads a group that must have a Node.
pub(super) fn node(
    reader: &dyn Reader,
    group: &Value,
    template: &Value,
) -> Result<NodeReading, Verdict> {
    match reader.read(group, Some(template)) {
        GroupReading::Node(node) => Ok(node),
        GroupReading::NotScaled(why) | GroupReading::NotFromZero { why, .. } => {
            let status = &template["status"];
            Err(Verdict::fail(format!("no machine is added to the empty group: {why}; {status}")))
        }
    }
}

/// CAPZ-020: an autoscaler reads resources, 110 Pods, architecture and operating system from the
/// status that the reconciler has written.
pub(super) async fn reads_what_is_published(trial: &Trial<'_>) -> Outcome {
    let template = trial.create_sample("workers").await?;
    let running = trial.start_usual().await?;
    let expected = &trial.sample().status;
    trial.until_status(&template, expected).await?;
    let read = trial.get(&template).await?;
    let reader = trial.subject.reader.as_deref().unwrap_or(&OurReader);
    is_read_as(&node(reader, &group(&[]), &read)?, expected)?;
    trial.stop(running).await
}

fn is_read_as(node: &NodeReading, expected: &Expected) -> Outcome {
    for (name, amount) in &expected.capacity {
        let found = node.capacity.get(name).map(String::as_str).unwrap_or_default();
        ensure!(
            name == "pods" || is_same_amount(found, amount),
            "the Node has {name} {found:?}, not {amount}"
        );
    }
    let pods = node.capacity.get("pods").map(String::as_str);
    ensure!(pods == Some("110"), "the Node has pods {pods:?}, not 110");
    let label = |name: &str| node.labels.get(name).map(String::as_str).unwrap_or_default();
    for (key, name, default) in [
        ("architecture", "kubernetes.io/arch", "amd64"),
        ("operatingSystem", "kubernetes.io/os", "linux"),
    ] {
        let expected = expected.node_info.get(key).map_or(default, String::as_str);
        let found = label(name);
        ensure!(found == expected, "the Node has the label {name}={found:?}, not {expected}");
    }
    Ok(())
}

/// Returns a template with this status.
pub(super) fn template(status: Value) -> Value {
    json!({
        "apiVersion": "vmware.infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "VSphereMachineTemplate", "metadata": {"name": "small"}, "spec": {},
        "status": status,
    })
}

/// Returns a template with 4 CPUs and 8Gi.
pub(super) fn usual() -> Value {
    template(json!({"capacity": {"cpu": "4", "memory": "8Gi"}}))
}

/// Verifies an amount of a Node; `None` for a resource that it must not have.
fn has_amount(node: &NodeReading, name: &str, expected: Option<&str>) -> Outcome {
    let found = node.capacity.get(name).map(String::as_str);
    let is_right = match (found, expected) {
        (Some(found), Some(expected)) => is_same_amount(found, expected),
        (None, None) => true,
        _ => false,
    };
    ensure!(is_right, "the Node has {name} {found:?}, not {expected:?}");
    Ok(())
}

/// CAPZ-021: an annotation overrides the status for its resource only. If the template cannot be
/// read, annotations alone suffice.
pub(super) fn annotation_overrides_one_resource(reader: &dyn Reader) -> Outcome {
    let node = node(reader, &group(&[("cpu", "8")]), &usual())?;
    has_amount(&node, "cpu", Some("8"))?;
    has_amount(&node, "memory", Some("8Gi"))?;
    let read = reader.read(&group(&[("cpu", "8"), ("memory", "16Gi")]), None);
    let GroupReading::Node(node) = read else {
        let why = format!("with both annotations and no readable template, the group is {read:?}");
        return Err(Verdict::fail(why));
    };
    has_amount(&node, "cpu", Some("8"))?;
    has_amount(&node, "memory", Some("16Gi"))
}

/// CAPZ-022: Pods come from the annotation or are 110.
pub(super) fn pods_never_come_from_the_status(reader: &dyn Reader) -> Outcome {
    let template = template(json!({"capacity": {"cpu": "4", "memory": "8Gi", "pods": "30"}}));
    has_amount(&node(reader, &group(&[]), &template)?, "pods", Some("110"))?;
    let annotated = group(&[("maxPods", "50")]);
    has_amount(&node(reader, &annotated, &template)?, "pods", Some("50"))
}

/// CAPZ-023: GPUs need a whole number and a type.
pub(super) fn gpus_need_count_and_type(reader: &dyn Reader) -> Outcome {
    let gpu = "nvidia.com/gpu";
    let both = group(&[("gpu-count", "2"), ("gpu-type", gpu)]);
    has_amount(&node(reader, &both, &usual())?, gpu, Some("2"))?;
    let without_type = node(reader, &group(&[("gpu-count", "2")]), &usual())?;
    let known = ["cpu", "memory", "pods"];
    let other = without_type.capacity.keys().find(|it| !known.contains(&it.as_str()));
    ensure!(other.is_none(), "a count without a type gives {:?}", without_type.capacity);
    let part = group(&[("gpu-count", "1.5"), ("gpu-type", gpu)]);
    let read = reader.read(&part, Some(&usual()));
    ensure!(
        matches!(read, GroupReading::NotFromZero { .. }),
        "a count of 1.5 does not make the capacity unknown: {read:?}"
    );
    Ok(())
}

/// CAPZ-024: without CPUs or memory an empty group is not listed.
pub(super) fn both_amounts_are_needed(reader: &dyn Reader) -> Outcome {
    for (name, amount) in [("cpu", "4"), ("memory", "8Gi")] {
        let half = template(json!({"capacity": {name: amount}}));
        let read = reader.read(&group(&[]), Some(&half));
        let is_hidden = matches!(read, GroupReading::NotFromZero { is_listed_at_zero: false, .. });
        ensure!(is_hidden, "with only {name}, the empty group is read as {read:?}");
    }
    // A reader that lists no group at all is not right either.
    node(reader, &group(&[]), &usual()).map(drop)
}

/// CAPZ-025: missing node information keeps the defaults.
pub(super) fn missing_node_info_keeps_defaults(reader: &dyn Reader) -> Outcome {
    for (info, architecture, system) in [
        (Value::Null, "amd64", "linux"),
        (json!({}), "amd64", "linux"),
        (json!({"architecture": "", "operatingSystem": ""}), "amd64", "linux"),
        (json!({"architecture": "arm64"}), "arm64", "linux"),
        (json!({"operatingSystem": "windows"}), "amd64", "windows"),
    ] {
        let mut template = usual();
        template["status"]["nodeInfo"] = info.clone();
        let labels = node(reader, &group(&[]), &template)?.labels;
        let label = |name: &str| labels.get(name).map(String::as_str).unwrap_or_default();
        let found = (label("kubernetes.io/arch"), label("kubernetes.io/os"));
        ensure!(
            found == (architecture, system),
            "with nodeInfo {info} the Node has {found:?}, not {architecture} and {system}"
        );
    }
    Ok(())
}
