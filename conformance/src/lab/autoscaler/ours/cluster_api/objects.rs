//! Objects of Cluster API: paths, and reads from the simulated world.

use std::sync::Arc;

use serde_json::Value;
use sim::Sim;
use sim::world::objects::GroupResource;
use sim::world::{ControlPlane, World};

pub(super) const NAMESPACE: &str = "workloads";
pub(super) const API_VERSION: &str = "cluster.x-k8s.io/v1beta2";
pub(super) const INFRASTRUCTURE: &str = "vmware.infrastructure.cluster.x-k8s.io";
pub(super) const CLUSTER: &str = "blue";
pub(super) const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Annotation of a Machine that goes first when a size is lowered.
const MARK: &str = "cluster.x-k8s.io/delete-machine";

/// Returns the path of the objects of a resource of Cluster API.
pub(super) fn collection(resource: &str) -> String {
    format!("/apis/{API_VERSION}/namespaces/{NAMESPACE}/{resource}")
}

pub(super) fn path(resource: &str, name: &str) -> String {
    format!("{}/{name}", collection(resource))
}

/// Returns the objects of a resource of Cluster API, in the order of their names.
pub(super) fn all(sim: &Sim, resource: &'static str) -> Vec<Arc<Value>> {
    let resource = GroupResource::of("cluster.x-k8s.io", resource);
    sim.world().read(|world| {
        World::state(world).objects(ControlPlane::Workload).all(&resource).cloned().collect()
    })
}

pub(super) fn name(object: &Value) -> Option<String> {
    object["metadata"]["name"].as_str().map(str::to_owned)
}

/// True if the controller of `object` is `owner`.
pub(super) fn is_owned(object: &Value, owner: &Value) -> bool {
    object["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
}

pub(super) fn replicas(object: &Value) -> usize {
    let n = object["spec"]["replicas"].as_u64();
    n.and_then(|it| usize::try_from(it).ok()).unwrap_or_default()
}

pub(super) fn is_deleted(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(super) fn is_node(machine: &Value) -> bool {
    machine["status"]["nodeRef"].is_object()
}

pub(super) fn is_marked(machine: &Value) -> bool {
    machine["metadata"]["annotations"].get(MARK).is_some()
}

pub(super) fn has_failed(machine: &Value) -> bool {
    machine["status"]["phase"] == "Failed"
}
