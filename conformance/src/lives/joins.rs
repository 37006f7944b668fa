//! Lives in which nodes join, machines get a new reference, and other clients write Nodes.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Between, Rule};
use sim::world::objects::{self, Key, PatchKind};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Topology};

use super::{Life, calm, phase, s};
use crate::scenario::{Act, Backend, Scenario};

fn machine(n: u32) -> sim::world::Named {
    sim::world::Named::from(format!("node-{n:04}").as_str())
}

fn moves_to(n: u32, last: u8) -> Command {
    let addresses = vec![vec![std::net::Ipv4Addr::new(10, 6, 0, last).into()]];
    Command::SetAddresses { machine: machine(n), addresses }
}

pub(super) fn lives(backend: Backend) -> Vec<Life> {
    vec![usual(), late(), registered_again(), foreign_writers(backend)]
}

/// Returns the life in which three nodes join, and then one machine changes its address, one is
/// powered off and one is deleted.
pub(super) fn usual() -> Life {
    let scenario = Scenario::new("", Topology::zones(3).machines(3), s(0))
        .at(s(0), phase("join"))
        .at(s(90), phase("change"))
        .at(s(95), moves_to(1, 1))
        .at(s(150), phase("shutdown"))
        .at(s(155), Command::PowerOff(machine(2)))
        .at(s(300), phase("delete"))
        .at(s(305), Command::DeleteMachine(machine(3)));
    let about = "three nodes join at the start; one machine changes its address, one is powered off, one is deleted";
    Life::new("usual", about, calm(scenario, s(460)))
}

/// Returns the life in which a machine is created and joins while the provider watches other
/// machines. Later the new machine changes its address and is deleted.
fn late() -> Life {
    let newcomer = |name: &str| Command::CreateMachine {
        vcenter: None,
        spec: MachineSpec { name: Some(name.to_owned()), ..MachineSpec::default() },
        cluster: None,
        power_on: true,
        kubelet: true,
    };
    let late = sim::world::Named::from("late");
    let moved = Command::SetAddresses {
        machine: late.clone(),
        addresses: vec![vec![std::net::Ipv4Addr::new(10, 6, 0, 77).into()]],
    };
    let scenario = Scenario::new("", Topology::zones(3).machines(3), s(0))
        .at(s(0), phase("join"))
        .at(s(90), phase("late join"))
        .at(s(100), newcomer("late"))
        .at(s(200), phase("late change"))
        .at(s(205), moved)
        .at(s(260), phase("late delete"))
        .at(s(265), Command::DeleteMachine(late));
    let about = "a machine is created while the provider watches three others; it joins, changes its address and is deleted";
    Life::new("late-join", about, calm(scenario, s(420)))
}

/// Returns the life in which vCenter registers two machines again under new references, one while
/// the provider runs and one while the provider is down.
fn registered_again() -> Life {
    let scenario = Scenario::new("", Topology::zones(3).machines(3), s(0))
        .at(s(0), phase("join"))
        .at(s(90), phase("registered again"))
        .at(s(95), Command::Reregister(machine(1)))
        .at(s(150), phase("restart"))
        .at(s(155), Act::Stop(0))
        .at(s(157), Command::Reregister(machine(2)))
        .at(s(160), Act::Start(0))
        .at(s(165), Command::StopKubelet(machine(2)))
        .at(s(240), Command::StartKubelet(machine(2)));
    let about =
        "two machines get new references, one while the provider runs and one while it is down";
    Life::new("registered-again", about, calm(scenario, s(300)))
}

/// Returns the life in which other clients write Nodes between a read and a write of the provider:
/// taints, labels and addresses at the join, addresses at a change of address, and taints at a
/// shutdown. Between the join and the change they also overwrite addresses that the provider has
/// written.
fn foreign_writers(backend: Backend) -> Life {
    let slow = |id: &str, ops: &'static [&'static str]| {
        Rule::new(id, [Action::Delay(s(2))]).on(Face::Cluster).op(ops.iter().copied()).first(1)
    };
    let during = |rule: Rule, from, to| {
        let mut rule = rule;
        rule.when.between = Some(Between::new(from, to));
        rule
    };
    let off = if backend.is_vcenter() { s(150) } else { s(155) };
    let at_change = during(slow("slow addresses", &["patch nodes/status"]), s(70), s(250));
    let at_shutdown = during(slow("slow shutdown taint", &["patch nodes"]), off, off + s(100));
    let mut scenario = Scenario::new("", Topology::zones(3).machines(3), s(0))
        .with_provider(|it| it.status_period = PERIOD)
        .at(s(0), phase("join"))
        .fault(slow("slow first write", &["patch nodes/status"]));
    // The provider's first write takes two seconds, in which other clients write each node.
    for n in 1..=3 {
        scenario = scenario
            .at(s(1), foreign_taint(n, "example.com/at-join"))
            .at(s(1), foreign_label(n, "example.com/at-join"))
            .at(s(1), foreign_addresses(n, &["192.0.2.66", "192.0.2.67"]))
            .at(s(30), foreign_label(n, "example.com/while-watched"));
    }
    scenario = scenario
        .at(s(31), foreign_addresses(1, &["10.0.0.1", "192.0.2.66"]))
        .at(s(31), foreign_addresses(2, &[]))
        .at(s(31), foreign_address(3, "10.0.0.3"))
        .at(s(70), at_change)
        .at(s(80), moves_to(1, 1));
    // Other clients write every 100 ms in the times when the provider may write the new address: at
    // once after the change, or at its next address sync.
    for begin in [s(80), PERIOD] {
        for tenth in 0..60_u32 {
            let at = begin + tenth * Duration::from_millis(100);
            scenario = scenario.at(at, foreign_addresses(1, &["192.0.2.66", "192.0.2.67"]));
        }
    }
    scenario = scenario
        .at(s(90), phase("shutdown"))
        .at(s(100), at_shutdown)
        .at(s(100), Command::PowerOff(machine(2)));
    for at in 140..165 {
        scenario = scenario.at(s(at), foreign_taint(2, &format!("example.com/at-{at}")));
    }
    let about = "other clients write taints, labels and addresses of nodes while the provider's own writes are under way";
    Life::new("foreign-writers", about, calm(scenario, s(300)))
}

/// Address sync period of the provider in [`foreign_writers`]: short, so that an address sync
/// follows the writes of other clients during the life.
const PERIOD: Duration = s(100);

fn foreign_taint(n: u32, key: &str) -> Command {
    let taint = serde_json::json!({"key": key, "effect": "NoSchedule"});
    let patch = serde_json::json!([{"op": "add", "path": "/spec/taints/-", "value": taint}]);
    Command::Cluster(objects::Command::patch(node(n), PatchKind::Json, patch))
}

fn foreign_label(n: u32, label: &str) -> Command {
    let patch = serde_json::json!({"metadata": {"labels": {label: "theirs"}}});
    Command::Cluster(objects::Command::patch(node(n), PatchKind::Merge, patch))
}

/// Returns the command by which another client replaces all addresses of a node with these internal
/// ones. It replaces the whole list, so the node also loses its host name.
pub(crate) fn foreign_addresses(n: u32, addresses: &[&str]) -> Command {
    let typed = |address| serde_json::json!({"type": "InternalIP", "address": address});
    addresses_by_others(n, addresses.iter().map(typed).collect())
}

/// Returns the command by which another client adds one internal address to a node whose own
/// address is `own`.
pub(crate) fn foreign_address(n: u32, own: &str) -> Command {
    let typed = |(kind, address)| serde_json::json!({"type": kind, "address": address});
    let name = format!("node-{n:04}");
    let own = [("Hostname", name.as_str()), ("InternalIP", own), ("ExternalIP", own)];
    let all = own.into_iter().chain([("InternalIP", "192.0.2.66")]);
    addresses_by_others(n, all.map(typed).collect())
}

fn addresses_by_others(n: u32, list: Vec<serde_json::Value>) -> Command {
    let patch = serde_json::json!({"status": {"addresses": list}});
    Command::Cluster(objects::Command::patch(node(n), PatchKind::Merge, patch).on_status())
}

fn node(n: u32) -> Key {
    Key::node(format!("node-{n:04}"))
}
