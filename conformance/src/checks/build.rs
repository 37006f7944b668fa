//! Building blocks of cases: durations, worlds, commands and fault rules.

use std::net::IpAddr;
use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Between, Rule};
use sim::world::objects::{self, Key, PatchKind};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Named, Nodes, Topology};
use uuid::Uuid;

use super::queries::name;
pub(super) use crate::scenario::periods::GRACE;
use crate::scenario::{Act, Backend, Scenario, virtual_machines};

/// Returns a duration of this many seconds.
pub(super) const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Limit for the initialization of one node without injected latency.
pub(super) const T_INIT: Duration = s(10);
/// Address sync period of the provider: `--node-status-update-frequency`.
pub(super) const T_STATUS: Duration = s(300);
/// Monitor period of the provider: `--node-monitor-period`.
pub(super) const T_MONITOR: Duration = s(5);
/// Limit for a decision about a NotReady node: two monitor periods and five seconds.
pub(super) const T_LIFE: Duration = s(15);
/// Namespace of the Supervisor that contains the machines of the workload cluster.
pub(super) const NAMESPACE: &str = "workloads";
/// Time by which the provider has initialized the nodes of a new world of at most a few dozen
/// nodes.
pub(super) const SETTLED: Duration = s(60);
/// Operations that write a Node: some providers patch it, others replace it.
pub(super) const WRITE_NODE: [&str; 2] = ["patch nodes", "update nodes"];
/// Operations that write the status of a Node.
pub(super) const WRITE_STATUS: [&str; 2] = ["patch nodes/status", "update nodes/status"];

/// Creates a scenario with this many running machines in three zones. All of them run kubelets,
/// whose Nodes are registered and uninitialized at the beginning. The scenario lasts until
/// `horizon`.
pub(super) fn world(nodes: u32, horizon: Duration) -> Scenario {
    Scenario::new("", Topology::zones(3).machines(nodes), horizon)
}

/// Creates a scenario with `machines` running machines in three zones. The first `nodes` of them
/// run kubelets, whose Nodes are registered and uninitialized at the beginning. The scenario lasts
/// until `horizon`.
pub(super) fn world_with(nodes: u32, machines: u32, horizon: Duration) -> Scenario {
    let topology = Topology::zones(3).machines(machines).nodes(Nodes::Count(nodes));
    Scenario::new("", topology, horizon)
}

/// Returns the name of the `n`-th machine (from 1), in the form that commands take.
pub(super) fn machine(n: u32) -> Named {
    Named::from(name(n))
}

/// Returns the key of the VirtualMachine object of the `n`-th machine.
pub(super) fn machine_object(n: u32) -> Key {
    Key::new(virtual_machines(), NAMESPACE, name(n))
}

/// Returns the command that sets the addresses of the `n`-th machine.
pub(super) fn set_address(n: u32, addresses: &[&str]) -> Command {
    Command::SetAddresses { machine: machine(n), addresses: vec![ips(addresses)] }
}

/// Parses IP addresses.
///
/// # Panics
/// Panics if a text is not a valid address.
pub(super) fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect("the address in the check is valid")).collect()
}

/// BIOS UUID that scenarios give to a machine. Unlike generated UUIDs, it does not depend on the
/// seed.
pub(super) const KNOWN_UUID: Uuid = Uuid::from_u128(0x4242_5eed_0000_4000_8000_0000_0000_0001);

/// Sets the UUID of the `n`-th machine to [`KNOWN_UUID`] before the provider starts, and then
/// starts the machine's kubelet anew, so that the Node has this UUID, too. With a Supervisor,
/// delays the start of the provider to 3 s.
pub(super) fn known_uuid(backend: Backend, scenario: Scenario, n: u32) -> Scenario {
    let scenario = scenario
        .at(s(0), Command::SetUuid { machine: machine(n), uuid: Some(KNOWN_UUID) })
        .at(s(0), Command::StartKubelet(machine(n)));
    match backend {
        Backend::VCenter => scenario,
        // VM Operator reports the new UUID a moment later.
        Backend::Supervisor => {
            scenario.with_provider(|it| it.start = false).at(s(3), Act::StartAll)
        }
    }
}

/// Returns the command that creates a running machine without a kubelet in this vCenter (default:
/// the first). The machine has the name of machine 1 and [`KNOWN_UUID`].
pub(super) fn known_machine_arrives(vcenter: Option<&str>) -> Command {
    Command::CreateMachine {
        vcenter: vcenter.map(str::to_owned),
        spec: MachineSpec { name: Some(name(1)), uuid: Some(KNOWN_UUID), ..MachineSpec::default() },
        cluster: None,
        power_on: true,
        kubelet: false,
    }
}

/// Returns the command that removes our provider's reference to the machine from the `n`-th Node,
/// as if another provider had initialized the Node. Other providers do not write this annotation,
/// so the command changes nothing for them.
pub(super) fn forget_reference(n: u32) -> Command {
    let annotations = serde_json::json!({"vsphere.cloud-provider/machine": null});
    let patch = serde_json::json!({"metadata": {"annotations": annotations}});
    Command::Cluster(objects::Command::patch(Key::node(name(n)), PatchKind::Merge, patch))
}

/// Creates a rule that applies `actions` to the calls with which a provider searches, reads and
/// watches machines.
pub(super) fn about_machines(
    backend: Backend,
    id: &str,
    actions: impl IntoIterator<Item = Action>,
) -> Rule {
    Rule::new(id, actions).on(backend.face()).op(backend.operations().iter().copied())
}

/// Creates a rule that refuses each list of VirtualMachines with 403, so that the provider must
/// read each machine by name.
pub(super) fn lists_refused() -> Rule {
    let status = Action::status(403);
    Rule::new("unlisted", [status]).on(Face::Supervisor).op(["list virtualmachines"])
}

/// Creates a rule that hides the `n`-th machine in every SOAP answer of vCenter, or in every answer
/// of the Supervisor.
pub(super) fn hidden(backend: Backend, n: u32) -> Rule {
    Rule::new("hidden", [Action::Hide(name(n))]).on(backend.face())
}

/// Time that VM Operator needs to delete or switch off a machine. vCenter needs none.
pub(super) const VANISHING: Duration = s(5);

/// Returns the time that the backend needs to delete or switch off a machine.
pub(super) fn vanishing(backend: Backend) -> Duration {
    if backend.is_vcenter() { s(0) } else { VANISHING }
}

/// Takes the backend down between `from` and `to`: vCenter stops, or the Supervisor resets every
/// connection.
pub(super) fn with_outage(
    scenario: Scenario,
    backend: Backend,
    from: Duration,
    to: Duration,
) -> Scenario {
    match backend {
        Backend::VCenter => scenario
            .at(from, Command::StopVCenter { vcenter: None })
            .at(to, Command::StartVCenter { vcenter: None }),
        Backend::Supervisor => {
            let mut down = Rule::new("away", [Action::Reset]).on(Face::Supervisor);
            down.when.between = Some(Between::new(from, to));
            scenario.at(Duration::ZERO, down).at(from, backend.disconnect())
        }
    }
}

/// Returns the command that creates a Ready, uninitialized Node called `early` with this system
/// UUID. [`create_machine_of_early`] creates its machine.
pub(super) fn create_node_early(uuid: Uuid) -> Command {
    early_with(uuid, serde_json::json!([{"type": "Ready", "status": "True"}]))
}

/// Returns the command of [`create_node_early`] with other conditions of the Node.
pub(super) fn early_with(uuid: Uuid, conditions: serde_json::Value) -> Command {
    let node = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "early"},
        "spec": {"taints": [{
            "key": "node.cloudprovider.kubernetes.io/uninitialized",
            "value": "true",
            "effect": "NoSchedule",
        }]},
        "status": {
            "nodeInfo": {"systemUUID": uuid.to_string()},
            "conditions": conditions,
        },
    });
    Command::Cluster(objects::Command::create(objects::GroupResource::core("nodes"), "", node))
}

/// Returns the command that creates the machine of [`create_node_early`]. The machine runs no
/// kubelet, because the command of [`create_node_early`] creates the Node.
pub(super) fn create_machine_of_early(uuid: Uuid) -> Command {
    let spec =
        MachineSpec { name: Some("early".into()), uuid: Some(uuid), ..MachineSpec::default() };
    Command::CreateMachine { vcenter: None, spec, cluster: None, power_on: true, kubelet: false }
}

/// Returns a command that patches a Node in place of a person or another controller.
pub(super) fn patch(node: &str, patch: serde_json::Value) -> Command {
    Command::Cluster(objects::Command::patch(Key::node(node), PatchKind::StrategicMerge, patch))
}

/// Returns the command that creates a machine in this vSphere cluster (default: the first) and
/// powers it on. Its kubelet registers a Node once the guest has booted.
pub(crate) fn create_joining_machine(name: &str, cluster: Option<&str>) -> Command {
    Command::CreateMachine {
        vcenter: None,
        spec: MachineSpec { name: Some(name.to_owned()), ..MachineSpec::default() },
        cluster: cluster.map(str::to_owned),
        power_on: true,
        kubelet: true,
    }
}
