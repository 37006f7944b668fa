//! Labels that a pod gets from its Node, and addresses of a pod.

use serde_json::{Value, json};

use crate::kind::ObjectReader;
use crate::object::fields;
use crate::{GroupResource, Key, Status};

/// Labels that the admission plugin `PodTopologyLabels` copies from the Node of a new pod.
const TOPOLOGY: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Copies to a new pod the topology labels of the Node in its `spec.nodeName`, if this Node exists.
/// Changes nothing on an update, and never fails.
///
/// Follows `kubernetes: plugin/pkg/admission/podtopologylabels`.
pub(super) fn copy_topology(
    store: &dyn ObjectReader,
    pod: &mut Value,
    old: Option<&Value>,
) -> Result<(), Status> {
    let name = fields::text(pod, "/spec/nodeName");
    let key = Key::new(GroupResource::core("nodes"), "", name);
    let (None, Some(node)) = (old, store.get(&key)) else { return Ok(()) };
    for label in TOPOLOGY {
        let Some(place) = node["metadata"]["labels"].get(label) else { continue };
        let metadata = fields::map_mut(pod, "metadata");
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        fields::as_map(labels).insert(label.to_owned(), place.clone());
    }
    Ok(())
}

/// Makes `podIP` and the first of `podIPs` equal. If they differ, `podIP` becomes the only one of
/// `podIPs`, because older kubelets set only `podIP`. If `podIP` is empty, it gets the first of
/// `podIPs`.
///
/// Follows `kubernetes: pkg/apis/core/v1/conversion.go`, `Convert_v1_PodStatus_To_core_PodStatus`.
pub(super) fn agree_on_addresses(pod: &mut Value) {
    let ip = fields::text(pod, "/status/podIP").to_owned();
    let first = fields::text(pod, "/status/podIPs/0/ip").to_owned();
    match (ip.as_str(), first.as_str()) {
        ("", "") => {}
        ("", first) => {
            fields::map_mut(pod, "status").insert("podIP".into(), first.into());
        }
        (ip, first) if ip != first => {
            fields::map_mut(pod, "status").insert("podIPs".into(), json!([{"ip": ip}]));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ids;
    use crate::{Command, PatchKind, Store, Subresource};

    fn run(store: &mut Store, command: Command) -> Value {
        let now = "2026-03-01T08:00:00Z".parse().unwrap();
        let decision = store.decide(now, command).unwrap();
        decision.events.iter().for_each(|event| store.fold(event));
        decision.reply.object.as_ref().clone()
    }

    fn pod(store: &mut Store, name: &str, node: &str) -> Value {
        let spec = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
        let labels = json!({"app": "web", "topology.kubernetes.io/zone": "asked-for"});
        let object = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        run(store, Command::create(GroupResource::core("pods"), "default", object))
    }

    #[test]
    fn a_new_pod_is_labeled_with_the_topology_of_its_node() {
        let mut store = Store::new(Ids::new(7));
        let labels = json!({"topology.kubernetes.io/zone": "z1", "kubernetes.io/hostname": "n1"});
        let node = json!({"metadata": {"name": "n1", "labels": labels}});
        run(&mut store, Command::create(GroupResource::core("nodes"), "", node));
        let zone = |pod: &Value| pod["metadata"]["labels"].clone();
        let here = pod(&mut store, "here", "n1");
        assert_eq!(zone(&here), json!({"app": "web", "topology.kubernetes.io/zone": "z1"}));
        let nowhere = pod(&mut store, "nowhere", "n2");
        assert_eq!(
            zone(&nowhere),
            json!({"app": "web", "topology.kubernetes.io/zone": "asked-for"})
        );
        let key = Key::new("pods", "default", "here");
        let patch = json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "z2"}}});
        let changed = run(&mut store, Command::patch(key, PatchKind::Merge, patch));
        assert_eq!(changed["metadata"]["labels"]["topology.kubernetes.io/zone"], "z2");
    }

    #[test]
    fn pod_ips_start_with_the_pod_ip() {
        let mut store = Store::new(Ids::new(7));
        pod(&mut store, "p", "n1");
        for (name, status, ip, ips) in [
            ("podIP alone", json!({"podIP": "10.0.0.1"}), "10.0.0.1", json!([{"ip": "10.0.0.1"}])),
            (
                "another podIP",
                json!({"podIP": "10.0.0.2"}),
                "10.0.0.2",
                json!([{"ip": "10.0.0.2"}]),
            ),
            (
                "podIP and podIPs",
                json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]}),
                "10.0.0.2",
                json!([{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]),
            ),
        ] {
            let key = Key::new("pods", "default", "p");
            let patch = Command::patch(key, PatchKind::Merge, json!({"status": status}));
            let patch = Command { subresource: Some(Subresource::Status), ..patch };
            let pod = run(&mut store, patch);
            assert_eq!(
                (&pod["status"]["podIP"], &pod["status"]["podIPs"]),
                (&ip.into(), &ips),
                "{name}"
            );
        }
    }
}
