//! NODE-INIT: initialization of nodes, from the uninitialized taint to a node that is open for
//! pods.

use sim::faults::Action;
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Completion, ControlPlane, Step};

use crate::checks::build::{
    GRACE, KNOWN_UUID, SETTLED, T_INIT, WRITE_NODE, WRITE_STATUS, create_joining_machine,
    create_machine_of_early, create_node_early, hidden, machine, s, world, world_with,
};
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::scenario::{Act, Backend, Pace, fault_kinds};
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

/// Creates cases in which a node has to wait until the provider can find its machine, or until the
/// machine has addresses or a UUID.
fn late(backend: Backend) -> Vec<Case> {
    match backend {
        Backend::VCenter => vec![late_guest(), late_machine(backend)],
        Backend::Supervisor => vec![late_machine(backend), late_uuid()],
    }
}

/// Creates a case in which a machine is created while the provider runs, and its guest reports an
/// address long after its kubelet has registered. The provider must not initialize the node before
/// 110 s.
fn late_guest() -> Case {
    let scenario = world_with(0, 2, s(240))
        .at(s(20), create_joining_machine("late", None))
        // The kubelet registers long before VMware Tools report an address.
        .at(s(0), Command::SetTiming { step: Step::Kubelet, completion: Completion::After(s(2)) })
        .at(s(0), Command::SetTiming { step: Step::Address, completion: Completion::After(s(90)) });
    Case::new(scenario, |run| {
        let early = run.when("late", |node| !node.uninitialized);
        Verdict::pass_if(early.is_none_or(|at| at.since_start() >= s(110)), || {
            format!(
                "the provider initialized the node {early}, before its machine reported an address",
                early = when(early)
            )
            .at(early)
        })
        .and(|| run.initializes(&["late".to_owned()], s(110), T_INIT))
    })
    // Real time only: the provider's back-off decides when it retries.
    .paced(Pace::Real)
    .named("guest reports late")
}

/// Creates a case in which the backend hides the machine of a registered Node until 120 s. The
/// provider must not initialize the node before 120 s.
fn late_machine(backend: Backend) -> Case {
    let mut scenario = world(2, s(400)).fault(hidden(backend, 1)).at(s(120), Act::RemoveRules);
    if backend == Backend::Supervisor {
        // A watch that began while the machine was hidden does not show it later. So the commands
        // make the provider list again.
        let plane = ControlPlane::Supervisor;
        scenario = scenario.at(s(120), Command::CompactCluster { plane, keep: 0 });
        scenario = scenario.at(s(120), backend.disconnect());
    }
    Case::new(scenario, |run| {
        let opened = run.initialized(&name(1));
        Verdict::pass_if(opened.is_none_or(|at| at.since_start() >= s(120)), || {
            format!(
                "the provider initialized the node {opened}, while its machine was hidden",
                opened = when(opened)
            )
            .at(opened)
        })
        // Allows one back-off of the queue, whose delay doubles from 5 ms on.
        .and(|| run.initializes(&[name(1)], s(120), s(170)))
        .and(|| run.initializes(&[name(2)], s(0), T_INIT))
    })
    .named("machine is visible late")
}

/// Creates a case in which a Node registers before the object of its machine has a UUID. The
/// provider must initialize the Node only after the object gets a UUID, at 120 s.
pub(super) fn late_uuid() -> Case {
    let late =
        Command::SetTiming { step: Step::VmIdentified, completion: Completion::After(s(100)) };
    let scenario = world_with(1, 2, s(400))
        .at(s(10), create_node_early(KNOWN_UUID))
        .at(s(19), late)
        .at(s(20), create_machine_of_early(KNOWN_UUID));
    Case::new(scenario, |run| {
        let early = ["early".to_owned()];
        let opened = run.initialized(&early[0]);
        Verdict::pass_if(opened.is_none_or(|at| at.since_start() >= s(120)), || {
            format!(
                "the provider initialized the node {opened}, while its machine had no UUID",
                opened = when(opened)
            )
            .at(opened)
        })
        // Allows one back-off of the queue, whose delay doubles from 5 ms on.
        .and(|| run.initializes(&early, s(120), s(170)))
        .and(|| run.initializes(&[name(1)], s(0), T_INIT))
    })
    .paced(Pace::Real)
    .named("the UUID is told late")
}

/// Creates a case in which the label of the instance type must consist of processors, memory and
/// guest system in vCenter mode, and must be missing in Supervisor mode.
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
            Verdict::pass_if(is_right, || {
                format!("wrong instance type: 4 processors, 8 GiB and Ubuntu gave {first:?}; 6 processors and 16 GiB gave {second:?}")
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

/// Creates a case with 1,000 nodes, and in vCenter mode one with more machines than vCenter reports
/// in one answer.
fn many_at_once(backend: Backend) -> Vec<Case> {
    let mut cases = vec![at_once(backend, 1000).named("1,000 nodes")];
    if backend.is_vcenter() {
        cases.push(at_once(backend, 1100).named("1,100 nodes"));
    }
    cases
}

fn at_once(backend: Backend, n: u32) -> Case {
    // Allows three writes per node at 20 requests per second, with a burst of 30.
    let bound = T_INIT + s((3 * u64::from(n) - 30) / 20);
    Case::new(world(n, bound + s(60)), move |run| {
        let calls = run.machine_calls().count();
        let (allowed, begun) = match backend {
            Backend::VCenter => (20 + n as usize / 50, ["Login", "cis.session.create"]),
            // A list of a thousand machines takes two calls, one per page.
            Backend::Supervisor => (3, ["list virtualmachines", "watch virtualmachines"]),
        };
        run.initializes(&names(n), s(0), bound)
            .and(|| {
                Verdict::pass_if(calls <= allowed, || {
                    format!(
                        "the provider made {calls} calls to the backend for {n} nodes; at most \
                         {allowed} are allowed"
                    )
                })
            })
            .and(|| {
                let is_page = |call: &Record| call.req.detail.ends_with("continue");
                let times = begun
                    .map(|op| run.calls().filter(|call| call.op == op && !is_page(call)).count());
                Verdict::pass_if(times == [1, 1], || {
                    format!("the provider sent {begun:?} {times:?} times; exactly one of each is allowed")
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
        // The write gets no answer, and the provider crashes while it waits.
        let rule = Rule::new("hang", [Action::Blackhole]).on(Face::Cluster).op(ops).first(1);
        let rule = if applied { rule.applied() } else { rule };
        let scenario = world(2, s(180))
            .fault(rule)
            .at(s(5), Act::Crash(0))
            .at(s(6), Act::RemoveRules)
            .at(s(8), Act::Start(0));
        cases.push(
            Case::new(scenario, |run| run.initializes(&names(2), s(8), T_INIT + GRACE)).named(name),
        );
    }
    cases
}
