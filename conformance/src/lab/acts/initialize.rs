//! Initializes Nodes in the place of another provider or a person.
//!
//! A provider that takes over a cluster finds Nodes like these: they carry none of its annotations,
//! and it has not matched them to machines. The writes are commands to the world instead of calls,
//! so that the ledger holds only calls of the provider under test.

use serde_json::{Value, json};
use sim::world::objects::{self, GroupResource, Key, PatchKind};
use sim::world::vcenter::Machine;
use sim::world::{Command, State};

use crate::lab::facts::{facts, machine_of, reported};
use crate::scenario::Initializer;

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Returns the writes with which `by` initializes `node`, or every uninitialized Node if `node` is
/// `None`, in the order in which `by` makes them. Leaves out Nodes without the uninitialized taint.
/// Also leaves out Nodes whose machine does not exist, has no UUID or reports no address, as every
/// provider does.
pub(super) fn by_others(state: &State, node: &Option<String>, by: Initializer) -> Vec<Command> {
    let nodes = GroupResource::core("nodes");
    let waiting = state.cluster.all(&nodes).filter(|object| {
        let name = object["metadata"]["name"].as_str();
        facts(object).uninitialized && node.as_deref().is_none_or(|wanted| name == Some(wanted))
    });
    waiting.flat_map(|object| writes(state, object, by)).collect()
}

fn writes(state: &State, node: &Value, by: Initializer) -> Vec<Command> {
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let Some((_, _, machine)) = machine_of(state, name) else { return Vec::new() };
    let Some(uuid) = machine.config.uuid else { return Vec::new() };
    let addresses = addresses(name, machine);
    if addresses.len() < 2 {
        return Vec::new();
    }
    let id = match by {
        Initializer::Person => format!("vsphere://{}", uuid.to_string().to_uppercase()),
        Initializer::InTreePath => format!("vsphere:///DC0/vm/{name}"),
        _ => format!("vsphere://{uuid}"),
    };
    // The list of taints is atomic, so the patch contains the whole list without the uninitialized
    // taint.
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let kept: Vec<Value> = taints.into_iter().filter(|it| it["key"] != UNINITIALIZED).collect();
    let spec = json!({
        "metadata": {"labels": labels(by, name)},
        "spec": {"providerID": id, "taints": kept},
    });
    let status = json!({"status": {"addresses": addresses}});
    let key = || Key::node(name);
    let patch = |key, patch| objects::Command::patch(key, PatchKind::StrategicMerge, patch);
    let mut commands = vec![Command::Cluster(patch(key(), spec))];
    if by != Initializer::UpstreamHalf {
        commands.push(Command::Cluster(patch(key(), status).on_status()));
    }
    commands
}

/// Returns the zone and region labels that `by` writes for a generated machine; none for a person.
/// The topology spreads its machines over three zones in turn.
fn labels(by: Initializer, node: &str) -> Value {
    let digits: usize = node.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let zone = ["zone-a", "zone-b", "zone-c"][(digits + 2) % 3];
    let region = if node.starts_with("node-1-") { "region-b" } else { "region-a" };
    let beta = json!({
        "failure-domain.beta.kubernetes.io/zone": zone,
        "failure-domain.beta.kubernetes.io/region": region,
    });
    match by {
        Initializer::Person => json!({}),
        Initializer::InTree | Initializer::InTreePath => beta,
        Initializer::Upstream | Initializer::UpstreamHalf => json!({
            "failure-domain.beta.kubernetes.io/zone": zone,
            "failure-domain.beta.kubernetes.io/region": region,
            "topology.kubernetes.io/zone": zone,
            "topology.kubernetes.io/region": region,
        }),
    }
}

fn addresses(name: &str, machine: &Machine) -> Vec<Value> {
    let host = json!({"type": "Hostname", "address": name});
    let first = reported(machine).into_iter().next();
    let ips = first.into_iter().flat_map(|ip| {
        ["InternalIP", "ExternalIP"].map(|kind| json!({"type": kind, "address": ip.to_string()}))
    });
    std::iter::once(host).chain(ips).collect()
}
