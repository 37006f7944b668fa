//! NODE-INIT: initialization of nodes, from the taint to a working node.

use sim::faults::Action;
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Completion, ControlPlane, Step};

use super::build::{
    GRACE, KNOWN_UUID, SETTLED, T_INIT, WRITE_NODE, WRITE_STATUS, awaited, early, fault_kinds,
    hidden, machine, newcomer, s, world, world_with,
};
use super::observe::{name, names};
use super::{Case, Check};
use crate::backend::Backend;
use crate::foreign::Pace;
use crate::scenario::Act;
use crate::verdict::{Told as _, Verdict};
use sim::Face;
use sim::faults::Rule;
use sim::ledger::Record;

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![
        Check::new(
            "NODE-INIT-001",
            [Case::new(world(6, SETTLED), |run| run.initializes(&names(6), s(0), T_INIT))],
        ),
        Check::new("NODE-INIT-002", late(backend)),
        Check::new("NODE-INIT-003", write_faults()),
        Check::new("NODE-INIT-004", [instance_type(backend)]),
        Check::new("NODE-INIT-007", many_at_once(backend)),
        Check::new("NODE-INIT-008", restarts_between_writes()),
    ]
}

/// A node waits for its machine; in vCenter mode also for the report of its guest.
fn late(backend: Backend) -> Vec<Case> {
    match backend {
        Backend::VCenter => vec![late_guest(), late_machine(backend)],
        Backend::Supervisor => vec![late_machine(backend), late_uuid()],
    }
}

/// The machine is powered on after the provider has started; its guest reports step by step.
fn late_guest() -> Case {
    let scenario = world_with(0, 2, s(240))
        .at(s(20), newcomer("late", None))
        // The kubelet is up long before VMware Tools report an address.
        .at(s(0), Command::SetTiming { step: Step::Kubelet, completion: Completion::After(s(2)) })
        .at(s(0), Command::SetTiming { step: Step::Address, completion: Completion::After(s(90)) });
    Case::new(scenario, |run| {
        let early = run.when("late", |node| !node.uninitialized);
        Verdict::of(early.is_none_or(|at| at.since_start() >= s(110)), || {
            format!("the node was opened at {early:?}, before its machine reported an address")
                .at(early)
        })
        .and(|| run.initializes(&["late".to_owned()], s(110), T_INIT))
    })
    // The time of the next attempt depends on the provider's own back-off.
    .paced(Pace::Real)
    .named("guest reports late")
}

/// The Node exists before the provider can find its machine.
fn late_machine(backend: Backend) -> Case {
    let mut scenario = world(2, s(400)).fault(hidden(backend, 1)).at(s(120), Act::Heal);
    if backend == Backend::Supervisor {
        // A watch that began meanwhile would hide the machine, so its client has to list again.
        let plane = ControlPlane::Supervisor;
        scenario = scenario.at(s(120), Command::CompactCluster { plane, keep: 0 });
        scenario = scenario.at(s(120), backend.cut());
    }
    Case::new(scenario, |run| {
        let opened = run.initialized(&name(1));
        Verdict::of(opened.is_none_or(|at| at.since_start() >= s(120)), || {
            format!("the node was opened at {opened:?}, while its machine was hidden").at(opened)
        })
        // One back-off of the queue: the delay doubles from 5 ms.
        .and(|| run.initializes(&[name(1)], s(120), s(170)))
        .and(|| run.initializes(&[name(2)], s(0), T_INIT))
    })
    .named("machine is visible late")
}

/// The Node exists before its machine's object has a UUID.
pub(super) fn late_uuid() -> Case {
    let late =
        Command::SetTiming { step: Step::VmIdentified, completion: Completion::After(s(100)) };
    let scenario = world_with(1, 2, s(400))
        .at(s(10), early(KNOWN_UUID))
        .at(s(19), late)
        .at(s(20), awaited(KNOWN_UUID));
    Case::new(scenario, |run| {
        let early = ["early".to_owned()];
        let opened = run.initialized(&early[0]);
        Verdict::of(opened.is_none_or(|at| at.since_start() >= s(120)), || {
            format!("the node was opened at {opened:?}, while its machine had no UUID").at(opened)
        })
        // One back-off of the queue, as above.
        .and(|| run.initializes(&early, s(120), s(170)))
        .and(|| run.initializes(&[name(1)], s(0), T_INIT))
    })
    .paced(Pace::Real)
    .named("the UUID is told late")
}

/// vCenter's processors, memory and guest give an instance type; a VirtualMachine gives none.
fn instance_type(backend: Backend) -> Case {
    let other = MachineSpec {
        cpus: Some(6),
        memory_mib: Some(16_384),
        guest_id: Some("otherGuest".into()),
        ..MachineSpec::default()
    };
    let scenario =
        world(2, s(120)).at(s(0), Command::Reconfigure { machine: machine(2), spec: other });
    Case::new(scenario, move |run| {
        let label = |n| run.node(&name(n)).and_then(|node| node.labels[2].clone());
        let (first, second) = (label(1), label(2));
        let is_of = |label: &Option<String>, begin: &str| {
            label.as_ref().is_some_and(|label| label.starts_with(begin))
        };
        let is_right = match backend {
            Backend::VCenter => {
                first.as_deref() == Some("vsphere-vm.cpu-4.mem-8gb.os-ubuntu")
                    && is_of(&second, "vsphere-vm.cpu-6.mem-16gb.os-")
            }
            Backend::Supervisor => (&first, &second) == (&None, &None),
        };
        run.initializes(&names(2), s(0), T_INIT).and(|| {
            Verdict::of(is_right, || {
                format!("4 processors, 8 GiB and Ubuntu are {first:?}; 6 and 16 GiB are {second:?}")
            })
        })
    })
}

fn write_faults() -> Vec<Case> {
    let mut cases = Vec::new();
    for (write, ops) in [("status", WRITE_STATUS), ("provider ID and taint", WRITE_NODE)] {
        for kind in fault_kinds(Face::Cluster) {
            for applied in [false, true] {
                if applied && !kind.loses_answer {
                    continue;
                }
                let rule =
                    Rule::new("write", kind.actions.clone()).on(Face::Cluster).op(ops).first(2);
                let rule = if applied { rule.applied() } else { rule };
                let name =
                    format!("{write}, {}{}", kind.name, if applied { ", applied" } else { "" });
                cases.push(
                    Case::new(world(2, s(240)).fault(rule), |run| {
                        run.initializes(&names(2), s(0), s(150))
                    })
                    .named(name),
                );
            }
        }
    }
    cases
}

/// A thousand nodes, and in vCenter mode also more than vCenter reports in one answer.
fn many_at_once(backend: Backend) -> Vec<Case> {
    let mut cases = vec![at_once(backend, 1000).named("1,000 nodes")];
    if backend.is_vcenter() {
        cases.push(at_once(backend, 1100).named("1,100 nodes"));
    }
    cases
}

fn at_once(backend: Backend, n: u32) -> Case {
    // Three writes per node at 20 requests a second, 30 at once.
    let bound = T_INIT + s((3 * u64::from(n) - 30) / 20);
    Case::new(world(n, bound + s(60)), move |run| {
        let calls = run.machine_calls().count();
        let (allowed, begun) = match backend {
            Backend::VCenter => (20 + n as usize / 50, ["Login", "cis.session.create"]),
            // A list of a thousand machines comes in two pages.
            Backend::Supervisor => (3, ["list virtualmachines", "watch virtualmachines"]),
        };
        run.initializes(&names(n), s(0), bound)
            .and(|| {
                Verdict::of(calls <= allowed, || {
                    format!("{calls} calls about machines for {n} nodes; {allowed} are allowed")
                })
            })
            .and(|| {
                let is_page = |call: &Record| call.req.detail.ends_with("continue");
                let times = begun
                    .map(|op| run.calls().filter(|call| call.op == op && !is_page(call)).count());
                Verdict::of(times == [1, 1], || {
                    format!("{begun:?} came {times:?} times; one of each is needed")
                })
            })
            .and(|| run.keeps_one_view())
    })
}

fn restarts_between_writes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, ops, applied) in [
        ("before the addresses", WRITE_STATUS, false),
        ("after the addresses", WRITE_STATUS, true),
        ("before provider ID and taint", WRITE_NODE, false),
        ("after provider ID and taint", WRITE_NODE, true),
    ] {
        // The write hangs, and the provider dies with it.
        let rule = Rule::new("hang", [Action::Blackhole]).on(Face::Cluster).op(ops).first(1);
        let rule = if applied { rule.applied() } else { rule };
        let scenario = world(2, s(180))
            .fault(rule)
            .at(s(5), Act::Crash(0))
            .at(s(6), Act::Heal)
            .at(s(8), Act::Start(0));
        cases.push(
            Case::new(scenario, |run| run.initializes(&names(2), s(8), T_INIT + GRACE)).named(name),
        );
    }
    cases
}
