//! NODE-INIT: how a node gets from its taint to work.

use sim::faults::Action;
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Completion, Step};

use super::build::{GRACE, SETTLED, T_INIT, fault_kinds, machine, newcomer, s, world, world_with};
use super::observe::{name, names};
use super::{Case, Check};
use crate::scenario::Act;
use crate::verdict::Verdict;
use sim::Face;
use sim::faults::Rule;

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new(
            "NODE-INIT-001",
            [Case::new(world(6, SETTLED), |run| {
                run.initializes(&names(6), s(0), T_INIT).and(|| run.keeps(&[9, 10, 11, 26]))
            })],
        ),
        Check::new("NODE-INIT-002", [late_guest(), late_machine()]),
        Check::new("NODE-INIT-003", write_faults()),
        Check::new(
            "NODE-INIT-004",
            [Case::new(
                world(2, s(120)).at(
                    s(0),
                    Command::Reconfigure {
                        machine: machine(2),
                        spec: MachineSpec {
                            cpus: Some(6),
                            memory_mib: Some(16_384),
                            guest_id: Some("otherGuest".into()),
                            ..MachineSpec::default()
                        },
                    },
                ),
                |run| {
                    let label = |n| run.node(&name(n)).and_then(|node| node.labels[2].clone());
                    let (first, second) = (label(1), label(2));
                    Verdict::of(
                        first.as_deref() == Some("vsphere-vm.cpu-4.mem-8gb.os-ubuntu"),
                        || format!("a machine with 4 processors, 8 GiB and Ubuntu is {first:?}"),
                    )
                    .and(|| {
                        Verdict::of(
                            second
                                .as_deref()
                                .is_some_and(|it| it.starts_with("vsphere-vm.cpu-6.mem-16gb.os-")),
                            || format!("a machine with 6 processors and 16 GiB is {second:?}"),
                        )
                    })
                },
            )],
        ),
        Check::new("NODE-INIT-007", [thousand_at_once()]),
        Check::new("NODE-INIT-008", restarts_between_writes()),
    ]
}

/// The machine is powered on after the provider started; its guest reports step by step.
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
        })
        .and(|| run.initializes(&["late".to_owned()], s(110), T_INIT))
        .and(|| run.keeps(&[9, 10, 11, 17, 18]))
    })
    .named("guest reports late")
}

/// The Node is there before its machine can be found.
fn late_machine() -> Case {
    let scenario = world(2, s(400))
        .fault(Rule::new("hidden", [Action::Hide(name(1))]).on(Face::Soap))
        .at(s(120), Act::Heal);
    Case::new(scenario, |run| {
        let opened = run.initialized(&name(1));
        Verdict::of(opened.is_none_or(|at| at.since_start() >= s(120)), || {
            format!("the node was opened at {opened:?}, while its machine was hidden")
        })
        // One back-off of the queue: the delay doubles from 5 ms.
        .and(|| run.initializes(&[name(1)], s(120), s(170)))
        .and(|| run.initializes(&[name(2)], s(0), T_INIT))
        .and(|| run.keeps(&[9, 10, 11]))
    })
    .named("machine is visible late")
}

fn write_faults() -> Vec<Case> {
    let mut cases = Vec::new();
    for op in ["patch nodes/status", "patch nodes"] {
        for kind in fault_kinds(Face::Cluster) {
            for applied in [false, true] {
                if applied && !kind.loses_answer {
                    continue;
                }
                let rule =
                    Rule::new("write", kind.actions.clone()).on(Face::Cluster).op([op]).first(2);
                let rule = if applied { rule.applied() } else { rule };
                let name = format!("{op}, {}{}", kind.name, if applied { ", applied" } else { "" });
                cases.push(
                    Case::new(world(2, s(240)).fault(rule), |run| {
                        run.keeps(&[9, 10, 11]).and(|| run.initializes(&names(2), s(0), s(150)))
                    })
                    .named(name),
                );
            }
        }
    }
    cases
}

fn thousand_at_once() -> Case {
    let n = 1000;
    // Three writes per node at 20 requests a second, 30 at once.
    let bound = T_INIT + s((3 * u64::from(n) - 30) / 20);
    Case::new(world(n, bound + s(60)), move |run| {
        let calls = run.vcenter_calls().count();
        let allowed = 20 + n as usize / 50;
        run.initializes(&names(n), s(0), bound)
            .and(|| {
                Verdict::of(calls <= allowed, || {
                    format!("{calls} vCenter calls for {n} nodes; {allowed} are allowed")
                })
            })
            .and(|| {
                let logins = |op: &str| run.calls().filter(|call| call.op == op).count();
                let (soap, rest) = (logins("Login"), logins("cis.session.create"));
                Verdict::of((soap, rest) == (1, 1), || {
                    format!("{soap} SOAP and {rest} REST logins; one of each is needed")
                })
            })
            .and(|| run.keeps(&[9, 10, 11]))
    })
}

fn restarts_between_writes() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, op, applied) in [
        ("before the addresses", "patch nodes/status", false),
        ("after the addresses", "patch nodes/status", true),
        ("before provider ID and taint", "patch nodes", false),
        ("after provider ID and taint", "patch nodes", true),
    ] {
        // The write hangs, and the provider dies with it.
        let rule = Rule::new("hang", [Action::Blackhole]).on(Face::Cluster).op([op]).first(1);
        let rule = if applied { rule.applied() } else { rule };
        let scenario = world(2, s(180))
            .fault(rule)
            .at(s(5), Act::Crash(0))
            .at(s(6), Act::Heal)
            .at(s(8), Act::Start(0));
        cases.push(
            Case::new(scenario, |run| {
                run.initializes(&names(2), s(8), T_INIT + GRACE)
                    .and(|| run.keeps(&[9, 10, 11, 17, 18]))
            })
            .named(name),
        );
    }
    cases
}
