//! Requests of a kubelet: registration of its Node, status reports and lease renewals.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Labels;
use crate::objects::{Command, GroupResource, Key, PatchKind, Store};

const VERSION: &str = "v1.36.3";
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
const LEASE_SECONDS: u32 = 40;

/// Facts that a kubelet reports about its machine, and the flags of the kubelet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Machine {
    /// Name of the Node.
    pub name: String,
    /// The SMBIOS UUID as the guest reads it, which may be byte-swapped; empty if the machine has
    /// none.
    pub system_uuid: String,
    /// Addresses of `--node-ip`. Without the flag the real kubelet reports no addresses and leaves
    /// them to the cloud provider.
    #[serde(default)]
    pub node_ips: Vec<String>,
    /// Labels of `--node-labels`.
    #[serde(default)]
    pub labels: Labels,
    /// Taints of `--register-with-taints`, besides the `uninitialized` taint for the cloud
    /// provider.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// `--provider-id`; usually empty.
    #[serde(default)]
    pub provider_id: String,
    /// Number of virtual processors.
    #[serde(default = "default_cpus")]
    pub cpus: u32,
    /// Memory in MiB.
    #[serde(default = "default_memory_mib")]
    pub memory_mib: u64,
}

fn default_cpus() -> u32 {
    2
}

fn default_memory_mib() -> u64 {
    8192
}

impl Machine {
    /// Creates the facts for a machine with this name and UUID: 2 processors, 8 GiB of memory, no
    /// flags.
    pub fn new(name: impl Into<String>, system_uuid: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            system_uuid: system_uuid.into(),
            node_ips: Vec::new(),
            labels: Labels::new(),
            taints: Vec::new(),
            provider_id: String::new(),
            cpus: default_cpus(),
            memory_mib: default_memory_mib(),
        }
    }
}

/// Taint of a Node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Taint {
    /// Key of the taint, such as `node.kubernetes.io/not-ready`.
    pub key: String,
    /// Value of the taint; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Effect of the taint: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Returns the request that creates the Node: ready, with the taint `uninitialized`, which the
/// cloud provider removes.
pub(crate) fn register(machine: &Machine, now: Timestamp) -> Command {
    let name = machine.name.as_str();
    let mut labels: Labels = [
        ("beta.kubernetes.io/arch", "amd64"),
        ("beta.kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    labels.extend(machine.labels.clone());
    let mut annotations = json!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
    if !machine.node_ips.is_empty() {
        annotations[PROVIDED_NODE_IP] = machine.node_ips.join(",").into();
    }
    let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
    let mut taints = vec![json!({"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"})];
    taints.extend(machine.taints.iter().map(|taint| json!(taint)));
    let mut spec = json!({"taints": taints});
    if !machine.provider_id.is_empty() {
        spec["providerID"] = machine.provider_id.as_str().into();
    }
    let resources = resources(machine);
    let mut status = json!({
        "capacity": resources,
        "allocatable": resources,
        "conditions": conditions(None, now),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": node_info(machine),
    });
    if let Some(addresses) = addresses(machine) {
        status["addresses"] = addresses;
    }
    let node = json!({
        "kind": "Node", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status,
    });
    Command::create(GroupResource::core("nodes"), "", node)
}

/// Returns the request that reports an existing Node as ready, after a restart of its kubelet;
/// `None` if the Node does not exist.
pub(crate) fn become_ready(store: &Store, machine: &Machine, now: Timestamp) -> Option<Command> {
    let key = Key::node(&machine.name);
    let node = store.get(&key)?;
    let mut status = json!({
        "conditions": conditions(Some(node), now),
        "nodeInfo": node_info(machine),
    });
    // Addresses of the cloud provider take precedence; the kubelet sets its own only if the Node
    // has none.
    if node["status"]["addresses"].as_array().is_none_or(Vec::is_empty)
        && let Some(addresses) = addresses(machine)
    {
        status["addresses"] = addresses;
    }
    Some(status_patch(key, status))
}

/// Returns the periodic status report of a kubelet whose machine has not changed; `None` if the
/// Node does not exist.
pub(crate) fn heartbeat(store: &Store, name: &str, now: Timestamp) -> Option<Command> {
    let key = Key::node(name);
    let conditions = conditions(Some(store.get(&key)?), now);
    Some(status_patch(key, json!({"conditions": conditions})))
}

/// Returns the request that creates or renews the lease of a Node.
pub(crate) fn renew_lease(store: &Store, name: &str, now: Timestamp) -> Command {
    let leases = GroupResource::of("coordination.k8s.io", "leases");
    let key = Key::new(leases.clone(), "kube-node-lease", name);
    let renewed = format!("{now:.6}");
    if let Some(lease) = store.get(&key) {
        let mut lease = lease.as_ref().clone();
        lease["spec"]["renewTime"] = renewed.into();
        return Command::update(key, lease);
    }
    let mut metadata = json!({"name": name});
    if let Some(node) = store.get(&Key::node(name)) {
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"],
        }]);
    }
    let lease = json!({
        "metadata": metadata,
        "spec": {
            "holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed,
        },
    });
    Command::create(leases, "kube-node-lease", lease)
}

fn status_patch(key: Key, status: Value) -> Command {
    Command::patch(key, PatchKind::StrategicMerge, json!({"status": status})).on_status()
}

/// The conditions of a healthy Node. A condition gets the transition time `now` if its status in
/// `node` is different, or if `node` is `None` (a new Node).
fn conditions(node: Option<&Value>, now: Timestamp) -> Value {
    let now = super::lifecycle::seconds(now);
    let well = [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ];
    let before = |kind: &str| {
        node?["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
    };
    well.into_iter()
        .map(|(kind, status, reason, message)| {
            let since = before(kind).filter(|condition| condition["status"] == status);
            let since = since.map_or_else(|| now.clone(), |it| it["lastTransitionTime"].clone());
            json!({
                "type": kind, "status": status, "lastHeartbeatTime": now,
                "lastTransitionTime": since, "reason": reason, "message": message,
            })
        })
        .collect()
}

fn addresses(machine: &Machine) -> Option<Value> {
    let ips = machine.node_ips.iter();
    let mut addresses: Vec<Value> =
        ips.map(|ip| json!({"type": "InternalIP", "address": ip})).collect();
    if addresses.is_empty() {
        return None;
    }
    addresses.push(json!({"type": "Hostname", "address": machine.name}));
    Some(addresses.into())
}

fn resources(machine: &Machine) -> Map<String, Value> {
    let memory = format!("{}Ki", machine.memory_mib * 1024);
    [
        ("cpu", machine.cpus.to_string()),
        ("ephemeral-storage", "20470Mi".to_owned()),
        ("hugepages-2Mi", "0".to_owned()),
        ("memory", memory),
        ("pods", "110".to_owned()),
    ]
    .into_iter()
    .map(|(name, quantity)| (name.to_owned(), quantity.into()))
    .collect()
}

fn node_info(machine: &Machine) -> Value {
    let uuid = &machine.system_uuid;
    json!({
        "machineID": uuid.replace('-', "").to_ascii_lowercase(),
        "systemUUID": uuid,
        "bootID": "",
        "kernelVersion": "6.12.0",
        "osImage": "Simulated Linux",
        "containerRuntimeVersion": "containerd://2.2.0",
        "kubeletVersion": VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Action;

    #[test]
    fn a_node_ip_is_in_the_status_and_in_the_annotation_for_the_cloud_provider() {
        let mut machine = Machine::new("node-1", "421a7c0e-1111-4222-8333-abcdefabcdef");
        machine.node_ips = vec!["10.0.0.7".into()];
        let Action::Create { object: node } = register(&machine, Timestamp::UNIX_EPOCH).action
        else {
            panic!("the request does not create a Node");
        };
        assert_eq!(
            node["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"],
            "10.0.0.7"
        );
        assert_eq!(node["status"]["addresses"][0]["address"], "10.0.0.7");
        assert_eq!(node["status"]["addresses"][1]["type"], "Hostname");
    }
}
