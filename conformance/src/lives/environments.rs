//! Lives in which a vCenter, the workload cluster or a replica stops, is replaced, restored or
//! upgraded, in which the configuration gains or loses a vCenter, or in which clocks step.

use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::objects::{self, GroupResource};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Named, Nodes, Topology};

use super::{Life, calm, phase, s};
use crate::scenario::{Act, Backend, Initializer, Scenario};

pub(super) fn lives(backend: Backend) -> Vec<Life> {
    let mut lives = vec![
        rolling_update(),
        two_replicas(),
        stopped_leader(),
        stepped_clocks(),
        restored_cluster(),
    ];
    if backend.is_vcenter() {
        lives.push(vcenter_added());
        for (name, by) in [
            ("vcenter-removed", None),
            ("vcenter-removed-by-upstream", Some(Initializer::Upstream)),
        ] {
            lives.push(vcenter_removed(name, by));
        }
        for (name, by) in [
            ("vcenter-replaced", None),
            ("vcenter-replaced-by-upstream", Some(Initializer::Upstream)),
        ] {
            lives.push(vcenter_replaced(name, by));
        }
        lives.push(vcenter_restored());
        lives.push(vcenter_upgraded());
    }
    lives
}

/// Returns the names of `n` machines of the first vCenter, then of `n` machines of the second.
fn nodes(n: u32) -> impl Iterator<Item = String> {
    (1..=n).map(|n| format!("node-{n:04}")).chain((1..=n).map(|n| format!("node-1-{n:04}")))
}

/// Returns a scenario in which the provider initializes all nodes after their join, or the
/// initializer `by` does at 5 s. In the second case a later step has to start the provider.
fn begun(topology: Topology, by: Option<Initializer>) -> Scenario {
    let scenario = Scenario::new("", topology, s(0)).at(s(0), phase("join"));
    match by {
        None => scenario,
        Some(by) => scenario
            .with_provider(|it| it.start = false)
            .at(s(5), Act::Initialize { node: None, by }),
    }
}

/// Returns the life in which nodes of a second vCenter stay uninitialized until a restart with a
/// configuration that contains this vCenter. One of them has a silent kubelet meanwhile.
fn vcenter_added() -> Life {
    let silent = || Named::from("node-1-0002");
    let scenario = Scenario::new("", Topology::zones(3).machines(3).vcenters(2), s(0))
        .with_provider(|it| it.vcenters = vec!["vc0".to_owned()])
        .at(s(0), phase("join"))
        .at(s(20), Command::StopKubelet(silent()))
        .at(s(30), set_address(Named::from("node-1-0001"), 1))
        .at(s(90), phase("added"))
        .at(s(95), Act::Stop(0))
        .at(s(95), Act::Vcenters(Vec::new()))
        .at(s(97), Act::StartAll)
        .at(s(120), Command::StartKubelet(silent()))
        .at(s(150), phase("change"))
        .at(s(155), set_address(Named::from("node-1-0001"), 2))
        .at(s(156), Command::PowerOff(Named::from("node-1-0002")))
        .at(s(157), Command::DeleteMachine(Named::from("node-1-0003")));
    let about = "nodes of a second vCenter stay uninitialized until a restart with a configuration that contains this vCenter";
    Life::new("vcenter-added", about, calm(scenario, s(320)))
}

/// Returns a life in which the second vCenter is removed from the configuration while its machines
/// run, and added again later. `by` initializes the nodes; `None` means the provider.
fn vcenter_removed(name: &'static str, by: Option<Initializer>) -> Life {
    let silent = ["node-1-0001", "node-1-0002"];
    let mut scenario = begun(Topology::zones(3).machines(6).vcenters(2), by)
        .at(s(60), phase("removed"))
        .at(s(60), Act::Stop(0))
        .at(s(60), Act::Vcenters(vec!["vc0".to_owned()]))
        .at(s(62), Act::StartAll);
    for node in silent {
        scenario = scenario.at(s(70), Command::StopKubelet(Named::from(node)));
    }
    scenario = scenario
        .at(s(250), phase("put back"))
        .at(s(250), Act::Stop(0))
        .at(s(250), Act::Vcenters(Vec::new()))
        .at(s(252), Act::StartAll);
    for node in silent {
        scenario = scenario.at(s(260), Command::StartKubelet(Named::from(node)));
    }
    let about =
        "a vCenter is removed from the configuration while its machines run, and added again later";
    Life::new(name, about, calm(scenario, s(320)))
}

/// Returns a life in which the provider restarts and another vCenter answers at the same address,
/// with another instance UUID and without the machines of the nodes. `by` initializes the nodes;
/// `None` means the provider.
fn vcenter_replaced(name: &'static str, by: Option<Initializer>) -> Life {
    let uuid = uuid::Uuid::from_u128(0x0bad_cafe_0000_4000_8000_0000_0000_0002);
    let hide = Rule::new("other inventory", nodes(6).map(Action::Hide)).on(Face::Soap);
    // The two machines without kubelets stay visible, as the machines of the other vCenter.
    let topology = Topology::zones(3).machines(8).nodes(Nodes::Count(6));
    let mut scenario = begun(topology, by)
        .at(s(60), phase("replaced"))
        .at(s(60), Act::Stop(0))
        .at(s(60), Command::SetInstanceUuid { vcenter: None, uuid })
        .at(s(60), hide)
        .at(s(62), Act::StartAll);
    for node in ["node-0001", "node-0002"] {
        scenario = scenario
            .at(s(70), Command::StopKubelet(Named::from(node)))
            .at(s(240), Command::StartKubelet(Named::from(node)));
    }
    // The machines are visible again under the new instance UUID, as after a restoration from a
    // backup.
    let scenario = calm(scenario, s(250)).at(s(251), Act::Crash(0)).at(s(252), Act::StartAll);
    let about = "after a restart of the provider another vCenter answers at the same address, with other machines";
    Life::new(name, about, scenario)
}

/// Returns the life in which a vCenter is restored from a backup twice, once while the provider
/// runs and once while it is down. Each restoration exchanges the managed object ids of machines,
/// and machines change after it.
fn vcenter_restored() -> Life {
    let machines = ["node-0001", "node-0002", "node-0003"];
    let mut scenario =
        Scenario::new("", Topology::zones(3).machines(6), s(0)).at(s(0), phase("join"));
    for (n, name) in [(0_u8, "first restoration"), (1, "second restoration")] {
        let begin = s(60) + s(180) * u32::from(n);
        scenario = scenario
            .at(begin, phase(name))
            .at(begin, Command::StopVCenter { vcenter: None })
            .at(begin + s(5), Command::ReassignIds { machines: machines.map(Named::from).into() })
            .at(begin + s(10), Command::StartVCenter { vcenter: None });
        if n == 1 {
            scenario = scenario.at(begin + s(1), Act::Crash(0)).at(begin + s(65), Act::StartAll);
        }
        // A silent kubelet makes the provider check whether the machine exists.
        scenario = scenario
            .at(begin + s(80), Command::StopKubelet(Named::from("node-0001")))
            .at(begin + s(90), set_address(Named::from("node-0002"), n + 1))
            .at(begin + s(150), Command::StartKubelet(Named::from("node-0001")));
    }
    // The id on a Node now belongs to another machine and proves nothing. So the life gives the
    // provider an address period to find each machine again before one is deleted.
    let deleted = Command::DeleteMachine(Named::from("node-0003"));
    let scenario = calm(scenario, s(400)).at(s(710), deleted);
    let about = "a vCenter is restored from a backup and exchanges ids of machines, once while the provider runs and once while it is down";
    Life::new("vcenter-restored", about, scenario)
}

/// Returns the life in which one of two vCenters is down for an upgrade, twice. Each time a machine
/// of each vCenter joins, a machine of each changes its address, and a machine of the upgraded
/// vCenter is deleted.
fn vcenter_upgraded() -> Life {
    let vcenter = Some("vc0".to_owned());
    let machine = |name: &str| Named::from(name);
    let late = |vcenter: &str, name: &str| Command::CreateMachine {
        vcenter: Some(vcenter.to_owned()),
        spec: MachineSpec { name: Some(name.to_owned()), ..MachineSpec::default() },
        cluster: None,
        power_on: true,
        kubelet: true,
    };
    let mut scenario =
        Scenario::new("", Topology::zones(3).machines(6).vcenters(2), s(0)).at(s(0), phase("join"));
    for (n, version, build) in [(0, "8.0.3", "24853646"), (1, "9.0.0", "24755230")] {
        let begin = s(60 + n * 180);
        let name = if n == 0 { "first upgrade" } else { "second upgrade" };
        let last = u8::try_from(n).unwrap_or_default() * 10 + 1;
        let (node, gone) = (format!("node-000{}", n + 1), format!("node-000{}", n + 3));
        let other = format!("node-1-000{}", n + 1);
        scenario = scenario
            .at(begin, phase(name))
            .at(begin, Command::StopVCenter { vcenter: vcenter.clone() })
            .at(begin + s(5), late("vc1", &format!("late-1-{n}")))
            .at(begin + s(10), set_address(machine(&node), last))
            .at(begin + s(10), set_address(machine(&other), 100 + last))
            .at(begin + s(12), Command::StopKubelet(machine("node-0006")))
            .at(
                begin + s(20),
                Command::UpgradeVCenter {
                    vcenter: vcenter.clone(),
                    version: version.to_owned(),
                    build: build.to_owned(),
                },
            )
            .at(begin + s(21), Command::SwapCertificate { vcenter: vcenter.clone() })
            .at(begin + s(80), Command::StartVCenter { vcenter: vcenter.clone() })
            // One machine is deleted and another one created while the vCenter starts.
            .at(begin + s(81), Command::DeleteMachine(machine(&gone)))
            .at(begin + s(82), late("vc0", &format!("late-{n}")))
            .at(begin + s(120), Command::StartKubelet(machine("node-0006")));
    }
    let about = "one of two vCenters is down for an upgrade, twice, while machines of both join and change addresses, and machines of the upgraded one are deleted";
    Life::new("vcenter-upgraded", about, calm(scenario, s(420)))
}

/// Returns the life in which one replica after the other is stopped and started again, as in a
/// rolling update, while one machine changes its address and another is deleted.
fn rolling_update() -> Life {
    let addresses = vec![vec![std::net::Ipv4Addr::new(10, 6, 0, 1).into()]];
    let machine = Named::from("node-0001");
    let scenario = Scenario::new("", Topology::zones(3).machines(3), s(0))
        .with_provider(|it| it.replicas = 2)
        .at(s(0), phase("join"))
        .at(s(60), phase("update"))
        .at(s(60), Act::Stop(1))
        .at(s(62), Act::Start(1))
        .at(s(80), Command::SetAddresses { machine, addresses })
        .at(s(80), Act::Stop(0))
        .at(s(85), Act::Start(0))
        .at(s(86), Command::DeleteMachine(Named::from("node-0002")));
    let about = "the provider is updated replica by replica while a machine changes its address and another is deleted";
    Life::new("rolling-update", about, calm(scenario, s(300)))
}

/// Returns the life in which the workload cluster is restored from a backup that is older than the
/// join of a node, a change of an address, a shutdown taint and the deletion of a machine.
fn restored_cluster() -> Life {
    let machine = |name: &str| Named::from(name);
    let late = Command::CreateMachine {
        vcenter: None,
        spec: MachineSpec { name: Some("late".to_owned()), ..MachineSpec::default() },
        cluster: None,
        power_on: true,
        kubelet: true,
    };
    let scenario = Scenario::new("", Topology::zones(3).machines(4), s(0))
        .at(s(0), phase("join"))
        .at(s(60), Command::BackUpCluster)
        .at(s(61), late)
        .at(s(62), set_address(machine("node-0001"), 1))
        .at(s(63), Command::PowerOff(machine("node-0002")))
        .at(s(65), Command::DeleteMachine(machine("node-0003")))
        .at(s(220), phase("restored"))
        .at(s(222), Command::RestoreCluster)
        // The backup lacks this Node. The restart makes its kubelet register it again.
        .at(s(240), Command::StopKubelet(machine("late")))
        .at(s(245), Command::StartKubelet(machine("late")))
        .at(s(330), phase("change"))
        .at(s(335), set_address(machine("node-0004"), 4));
    let about = "the workload cluster is restored from a backup taken before a node joined, an address changed and a machine was deleted";
    Life::new("restored-cluster", about, calm(scenario, s(420)))
}

/// Returns the life in which the leader of two replicas is killed while nodes join, and its
/// successor while it handles a powered-off machine.
fn two_replicas() -> Life {
    let scenario = Scenario::new("", Topology::zones(3).machines(3), s(0))
        .with_provider(|it| it.replicas = 2)
        .at(s(0), phase("join"))
        .at(s(1), Act::CrashLeader)
        .at(s(10), Act::StartAll)
        .at(s(90), phase("shutdown"))
        .at(s(95), Command::PowerOff(Named::from("node-0001")))
        .at(s(146), Act::CrashLeader)
        .at(s(150), Act::StartAll);
    let about = "the leader of two replicas is killed while nodes join, and its successor while it handles a powered-off machine";
    Life::new("two-replicas", about, calm(scenario, s(300)))
}

/// Returns the life in which the leader is suspended during work five times, each time for longer
/// than the duration of its lease, and resumes when the other replica leads.
fn stopped_leader() -> Life {
    let mut scenario = Scenario::new("", Topology::zones(3).machines(6), s(0))
        .with_provider(|it| it.replicas = 2)
        .at(s(0), phase("join"))
        .at(s(60), phase("stopped"));
    for round in 0..5_u8 {
        let begin = s(60 + u64::from(round) * 60);
        let machine = |n: u8| Named::from(format!("node-{n:04}").as_str());
        scenario = scenario
            .at(begin, Act::SuspendLeader)
            // The new leader does this work. The old leader sees the result when it resumes.
            .at(begin + s(1), set_address(machine(1), round))
            .at(begin + s(2), Command::StopKubelet(machine(2)))
            .at(begin + s(3), Command::PowerOff(machine(3)))
            .at(
                begin + s(4),
                Command::CreateMachine {
                    vcenter: None,
                    spec: MachineSpec {
                        name: Some(format!("late-{round}")),
                        ..MachineSpec::default()
                    },
                    cluster: None,
                    power_on: true,
                    kubelet: true,
                },
            )
            .at(begin + s(41), set_address(machine(1), 100 + round))
            .at(begin + s(41), set_address(machine(4), 150 + round))
            .at(begin + s(41), Act::ResumeAll)
            .at(begin + s(50), Command::StartKubelet(machine(2)))
            .at(begin + s(50), Command::PowerOn(machine(3)));
    }
    let about = "the leader of two replicas is suspended for longer than its lease lasts, five times, and resumes each time";
    Life::new("stopped-leader", about, calm(scenario, s(370)))
}

fn set_address(machine: Named, last: u8) -> Command {
    let addresses = vec![vec![std::net::Ipv4Addr::new(10, 6, 1, last).into()]];
    Command::SetAddresses { machine, addresses }
}

/// Returns the command that creates a Node that is not ready and has no machine.
fn node_without_machine(name: &str) -> Command {
    let node = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {"taints": [
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
        ]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]},
    });
    Command::Cluster(objects::Command::create(GroupResource::core("nodes"), "", node))
}

/// Returns the life in which the wall clocks of both replicas step forwards by an hour, then
/// backwards by two hours. Meanwhile a new Node without a machine exists, and machines are deleted.
/// At last the leader is killed and starts again.
fn stepped_clocks() -> Life {
    let scenario = Scenario::new("", Topology::zones(3).machines(3), s(0))
        .with_provider(|it| it.replicas = 2)
        .at(s(0), phase("join"))
        .at(s(58), node_without_machine("early"))
        .at(s(60), phase("forwards"))
        .at(s(60), Act::StepClocks(3600))
        .at(s(62), Command::DeleteMachine(Named::from("node-0001")))
        .at(s(150), phase("backwards"))
        .at(s(150), Act::StepClocks(-7200))
        .at(s(152), Command::DeleteMachine(Named::from("node-0002")))
        .at(s(230), Act::CrashLeader)
        .at(s(240), Act::StartAll);
    let about = "the wall clocks of both replicas step by an hour forwards, then by two backwards";
    Life::new("stepped-clocks", about, calm(scenario, s(300)))
}
