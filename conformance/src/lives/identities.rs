//! Lives in which the identity of a machine or a vCenter changes, and lives in which one kind of
//! read is slow or refused all the time.

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Between, Rule};
use sim::world::objects::{self, Key};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Named, Topology};
use uuid::Uuid;

use super::{Life, calm, phase, s};
use crate::scenario::{Act, Backend, Scenario};

pub(super) fn lives(backend: Backend) -> Vec<Life> {
    let mut lives = vec![rebuilt(backend)];
    match backend {
        Backend::VCenter => {
            lives.extend([without_uuid(), moved_between_vcenters(), another_first(), slow_reads()]);
        }
        Backend::Supervisor => lives.push(watch_refused()),
    }
    lives
}

fn node(n: u32) -> Named {
    Named::from(format!("node-{n:04}").as_str())
}

/// Returns the name of the machine that a life creates with the UUID `id(n)`.
fn moving(n: u32) -> Named {
    Named::from(format!("moving-{n}").as_str())
}

/// Returns a fixed UUID for the number `n`.
fn id(n: u32) -> Uuid {
    Uuid::from_u128(0x4242_0000_1111_4222_8333_0000_0000_0000 + u128::from(n))
}

/// Returns the command that creates a machine with this UUID and a kubelet in this vCenter
/// (default: the first).
fn create(vcenter: Option<&str>, name: &str, uuid: Uuid) -> Command {
    Command::CreateMachine {
        vcenter: vcenter.map(str::to_owned),
        spec: MachineSpec {
            name: Some(name.to_owned()),
            uuid: Some(uuid),
            ..MachineSpec::default()
        },
        cluster: None,
        power_on: true,
        kubelet: true,
    }
}

/// Returns the life in which two machines are replaced by new ones of the same names, and their
/// Nodes are deleted and register again: one while the provider runs, one while it is down. Later
/// the kubelets of both are silent.
fn rebuilt(backend: Backend) -> Life {
    let mut scenario = Scenario::new("", Topology::zones(3).machines(3), s(0))
        .at(s(0), phase("join"))
        .at(s(60), phase("rebuilt"))
        .at(s(130), phase("rebuilt while away"))
        .at(s(131), Act::Stop(0))
        .at(s(170), Act::Start(0));
    for (n, at) in [(1, s(62)), (2, s(133))] {
        let name = format!("node-{n:04}");
        let delete = objects::Command::delete(Key::node(name.as_str()));
        scenario = match backend {
            Backend::VCenter => scenario.at(at, Command::Replace { machine: node(n), uuid: id(n) }),
            // The Supervisor accepts a new object of the same name only after the old one is gone.
            Backend::Supervisor => scenario
                .at(at, Command::DeleteMachine(node(n)))
                .at(at + s(20), create(None, &name, id(n))),
        };
        scenario = scenario
            .at(at + s(1), Command::Cluster(delete))
            .at(s(200), Command::StopKubelet(node(n)))
            .at(s(300), Command::StartKubelet(node(n)));
    }
    let about = "new machines and Nodes replace old ones of the same names, once while the provider runs and once while it is down";
    Life::new("rebuilt", about, calm(scenario.at(s(195), phase("silent")), s(310)))
}

/// Returns the life in which vCenter reports no UUID for two machines until 260 s: for one from a
/// time when the provider runs, for the other from a time when the provider is down.
fn without_uuid() -> Life {
    let set = |n, uuid| Command::SetUuid { machine: moving(n), uuid };
    let scenario = Scenario::new("", Topology::zones(3).machines(3), s(0))
        .at(s(0), create(None, &moving(1).name, id(1)))
        .at(s(0), create(None, &moving(2).name, id(2)))
        .at(s(0), phase("join"))
        .at(s(60), phase("without UUID"))
        .at(s(62), set(1, None))
        .at(s(62), Command::StopKubelet(moving(1)))
        .at(s(130), phase("restart"))
        .at(s(132), Act::Stop(0))
        .at(s(133), set(2, None))
        .at(s(133), Command::StopKubelet(moving(2)))
        .at(s(135), Act::Start(0))
        .at(s(260), set(1, Some(id(1))))
        .at(s(260), set(2, Some(id(2))))
        .at(s(265), Command::StartKubelet(moving(1)))
        .at(s(265), Command::StartKubelet(moving(2)));
    let about = "vCenter reports no UUID for two machines for some time, once while the provider runs and once across its restart";
    Life::new("without-uuid", about, calm(scenario, s(270)))
}

/// Returns the life in which two machines move to another vCenter and keep their UUIDs: one while
/// the provider runs, one while it is down. Afterwards the first vCenter has no trace of them.
fn moved_between_vcenters() -> Life {
    let mut scenario = Scenario::new("", Topology::zones(3).machines(3).vcenters(2), s(0))
        .at(s(0), phase("join"))
        .at(s(60), phase("moved"))
        .at(s(130), phase("moved while away"))
        .at(s(132), Act::Stop(0))
        .at(s(140), Act::Start(0));
    for (n, at) in [(1, s(62)), (2, s(134))] {
        let machine = moving(n);
        scenario = scenario
            .at(s(0), create(Some("vc0"), &machine.name, id(n)))
            .at(at, Command::DeleteMachine(machine.clone()))
            .at(at, create(Some("vc1"), &machine.name, id(n)));
    }
    let about = "machines move to another vCenter and keep their UUIDs, one while the provider runs and one while it is down";
    Life::new("moved-between-vcenters", about, calm(scenario, s(260)))
}

/// Returns the life in which a vCenter with a wrong instance UUID answers at the address of the
/// right one and refuses logins: for the first 30 s, and later once more for about two minutes.
fn another_first() -> Life {
    let (wrong, right) = (id(0x77), id(0x78));
    let known = |uuid| Command::SetInstanceUuid { vcenter: None, uuid };
    let refused = Action::status(503);
    let refuses = |id: &str, from, to| {
        let mut rule = Rule::new(id, [refused.clone()]).on(Face::Soap).op(["Login"]);
        rule.when.between = Some(Between::new(from, to));
        rule
    };
    let scenario = Scenario::new("", Topology::zones(3).machines(3), s(0))
        .at(s(0), known(wrong))
        .fault(refuses("refuses logins/first", s(0), s(30)))
        // Fires only if the provider sends its credentials to the wrong vCenter.
        .fault(refuses("refuses logins/again", s(122), s(250)))
        .at(s(0), phase("refused"))
        .at(s(30), known(right))
        .at(s(31), phase("join"))
        .at(s(120), phase("back"))
        .at(s(121), Command::StopVCenter { vcenter: None })
        .at(s(122), known(wrong))
        .at(s(124), Command::StartVCenter { vcenter: None })
        .at(s(130), Command::StopKubelet(node(1)))
        .at(s(240), Command::StartKubelet(node(1)))
        .at(s(249), known(right));
    let about = "another vCenter answers at the address of the right one at the start and once more later, and refuses logins";
    Life::new("another-vcenter-first", about, calm(scenario, s(250)))
}

/// Adds the phases of a life to a scenario: nodes join at the start and after `late`, one machine
/// is powered off after `off`, and one is deleted after `gone`.
fn come_and_go(scenario: Scenario, late: Duration, off: Duration, gone: Duration) -> Scenario {
    scenario
        .at(s(0), phase("join"))
        .at(late, phase("late join"))
        .at(late + s(2), create(None, "late", id(9)))
        .at(off, phase("shutdown"))
        .at(off + s(2), Command::PowerOff(node(2)))
        .at(gone, phase("delete"))
        .at(gone + s(2), Command::DeleteMachine(node(3)))
}

/// Returns the life in which each read of machines' properties takes six seconds, while a node
/// joins, one machine is powered off and one is deleted.
fn slow_reads() -> Life {
    // The first rule delays reads of one machine, the second reads of a view or of several objects.
    let [one, many] = ["VirtualMachine", "PropertyCollector"].map(|kind| {
        let slow = Rule::new(format!("slow reads/{kind}"), [Action::Delay(s(6))]);
        let mut slow = slow.op(["RetrievePropertiesEx"]);
        slow.matcher.resource.kind = Some(kind.to_owned());
        slow
    });
    let scenario = Scenario::new("", Topology::zones(3).machines(4), s(0)).fault(one).fault(many);
    let scenario = come_and_go(scenario, s(90), s(200), s(340));
    let about = "each read of machines takes six seconds while a node joins and machines are powered off and deleted";
    Life::new("slow-reads", about, calm(scenario, s(480)))
}

/// Returns the life in which a gateway in front of the Supervisor refuses each watch of
/// VirtualMachines, while lists work. A node joins, one machine is powered off and one is deleted.
fn watch_refused() -> Life {
    let refused = Action::status(400);
    let on = |rule: Rule, ops: &'static [&'static str]| {
        rule.on(Face::Supervisor).op(ops.iter().copied())
    };
    let watches = on(Rule::new("gateway/watches", [refused]), &["watch virtualmachines"]);
    // Delays reads, so that a rule fires also for a provider that does not watch.
    let delayed = Rule::new("gateway/reads", [Action::Delay(Duration::from_millis(100))]);
    let reads = on(delayed, &["list virtualmachines", "get virtualmachines"]);
    let scenario =
        Scenario::new("", Topology::zones(3).machines(3), s(0)).fault(watches).fault(reads);
    let scenario = come_and_go(scenario, s(90), s(160), s(300));
    let about = "a gateway in front of the Supervisor refuses each watch of VirtualMachines, while a node joins and machines are powered off and deleted";
    Life::new("watch-refused", about, calm(scenario, s(460)))
}
