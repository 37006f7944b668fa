//! Annotations of a group that are lists: labels, taints and drivers of volumes.

use serde_json::json;

use super::Outcome;
use super::reader::{group, node, usual};
use super::trial::ensure;
use crate::lab::capacity::Reader;

/// CAPZ-026: annotations for labels and taints are read entry by entry.
pub(super) fn labels_and_taints_are_read_by_entry(reader: &dyn Reader) -> Outcome {
    let labels = "a=b,no-value,x=y=z,kubernetes.io/arch=arm64,empty=";
    let taints = "k=new:NoSchedule,k=x:NoExecute,key,b:Odd,a:b:c,=v:NoSchedule";
    let mut group = group(&[("labels", labels), ("taints", taints)]);
    group["spec"]["template"]["spec"]["taints"] = json!([
        {"key": "k", "value": "old", "effect": "NoSchedule", "propagation": "Always"},
        {"key": "z", "effect": "NoExecute", "propagation": "Always"},
    ]);
    let node = node(reader, &group, &usual())?;
    for (name, expected) in [
        ("a", Some("b")),
        ("x", Some("y=z")),
        ("empty", Some("")),
        ("kubernetes.io/arch", Some("arm64")),
        ("no-value", None),
    ] {
        let found = node.labels.get(name).map(String::as_str);
        ensure!(found == expected, "the Node has the label {name} {found:?}, not {expected:?}");
    }
    let text = |it: &crate::lab::capacity::Taint| format!("{}={}:{}", it.key, it.value, it.effect);
    let found: Vec<String> = node.taints.iter().map(text).collect();
    let expected = ["k=new:NoSchedule", "z=:NoExecute", "k=x:NoExecute", "key=:", "b=:Odd"];
    ensure!(found == expected, "the Node has the taints {found:?}, not {expected:?}");
    Ok(())
}

/// CAPZ-027: the annotation for drivers of volumes is read entry by entry.
pub(super) fn drivers_are_read_by_entry(reader: &dyn Reader) -> Outcome {
    let group = group(&[("csi-driver", "a=25,b=0, c=-1,d,=3,e=x")]);
    let node = node(reader, &group, &usual())?;
    let found: Vec<(&str, Option<u32>)> =
        node.drivers.iter().map(|it| (it.name.as_str(), it.limit)).collect();
    let expected = [("a", Some(25)), ("b", None)];
    ensure!(found == expected, "the Node has the drivers {found:?}, not {expected:?}");
    Ok(())
}
