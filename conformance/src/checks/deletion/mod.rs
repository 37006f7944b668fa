//! NODE-DEL: cases in which a node must not be deleted.

mod failures;
mod hidden;
mod references;

use std::time::Duration;

use sim::Face;
use sim::faults::{Action, Rule};
use sim::ledger::Record;
use sim::world::objects::{self, GroupResource};
use sim::world::vcenter::MachineSpec;
use sim::world::{Command, Completion, Named, Step};
use uuid::Uuid;

use super::build::{KNOWN_UUID, SETTLED, forget_reference, known_uuid, machine, s, world};
use super::canary::Canary;
use super::observe::{name, names};
use super::{Case, Check};
use crate::backend::Backend;
use crate::foreign::Pace;
use crate::judge::Invariant;
use crate::lab::Run;
use crate::scenario::Act;
use crate::verdict::{Told as _, Verdict};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let mut checks = vec![
        Check::new("NODE-DEL-001", failures::errors(backend)),
        Check::new("NODE-DEL-002", failures::partial(backend)),
        Check::new("NODE-DEL-003", silent(backend)),
        Check::new("NODE-DEL-004", states()),
        Check::new("NODE-DEL-005", [young()]),
        Check::new("NODE-DEL-006", moved(backend)),
        Check::new("NODE-DEL-007", unseen(backend)),
    ];
    if backend.is_vcenter() {
        checks.push(Check::new("NODE-DEL-009", [hidden::another_identity()]));
    }
    checks
}

fn moved(backend: Backend) -> Vec<Case> {
    let mut cases = vec![vmotion(), host_failure()];
    if backend.is_vcenter() {
        cases.extend([references::registered_again(), references::moved_to_another_vcenter()]);
        let moved = references::moved_during_a_search;
        cases.extend((0..5).map(|later| moved(s(2), s(later))));
        let quarter = Duration::from_millis(250);
        cases.extend((0..20).map(|n| moved(quarter, quarter * n)));
    }
    cases
}

fn unseen(backend: Backend) -> Vec<Case> {
    let mut cases: Vec<Case> =
        [false, true].map(|cold| hidden::privilege_lost(backend, cold)).into();
    if backend.is_vcenter() {
        cases.extend([references::refused(), references::means_another()]);
    }
    cases
}

/// Time at which the faults of a deletion check end.
const HEALED: Duration = s(300);
/// Longest pause of a provider before it asks again.
pub(super) const PATIENCE: Duration = s(90);

/// Fails if one of the first `n` nodes was deleted. Inconclusive unless the first was NotReady, so that the provider had a
/// reason to ask.
pub(super) fn survives(run: &Run, n: u32) -> Verdict {
    let alive = run.nodes();
    let lost: Vec<String> = names(n).into_iter().filter(|name| !alive.contains(name)).collect();
    Verdict::of(lost.is_empty(), || format!("deleted: {}", lost.join(", ")))
        .and(|| run.was_not_ready(&name(1)))
}

fn silent(backend: Backend) -> Vec<Case> {
    let mut cases = vec![heartbeats(), heartbeats_and_a_miss(backend)];
    if backend == Backend::Supervisor {
        cases.extend([
            odd_identity("aws:///eu-west-1a/i-0123456789abcdef0", "somebody else's provider ID"),
            odd_identity("vsphere://", "a provider ID without a UUID"),
            not_told_yet(),
            other_spelling(true),
            other_spelling(false),
        ]);
    }
    cases
}

/// The Node came with a provider ID of no machine of the Supervisor. Its machine runs.
fn odd_identity(provider_id: &str, case: &str) -> Case {
    let odd = serde_json::json!({"spec": {"providerID": provider_id, "taints": null}});
    let scenario = world(4, s(400))
        .at(s(0), super::build::patch(&name(1), odd))
        .at(SETTLED, Command::StopKubelet(machine(1)));
    Case::new(scenario, |run| survives(run, 3))
        .canary(Canary::Gone(4), s(200))
        .named(case)
        .exempt(Invariant::ProviderIdStays, "a person sets it")
        .exempt(Invariant::AddressesFirst, "a person takes the taint off")
        .exempt(Invariant::TaintLeavesOnceAndLast, "a person takes the taint off")
}

/// The Node came with its machine's UUID in the byte order of a guest's report, or without dashes. The machine runs.
fn other_spelling(is_swapped: bool) -> Case {
    let (id, case) = if is_swapped {
        let turned = Uuid::from_bytes_le(KNOWN_UUID.into_bytes());
        (format!("vsphere://{turned}"), "its UUID in the other byte order")
    } else {
        (format!("vsphere://{}", KNOWN_UUID.simple()), "its UUID without dashes")
    };
    let odd = serde_json::json!({"spec": {"providerID": id, "taints": null}});
    let scenario = known_uuid(Backend::Supervisor, world(4, s(400)), 1)
        .at(s(0), super::build::patch(&name(1), odd))
        .at(SETTLED, Command::StopKubelet(machine(1)));
    let case = Case::new(scenario, |run| survives(run, 3))
        .canary(Canary::Gone(4), s(200))
        .named(case)
        .exempt(Invariant::AddressesFirst, "a person takes the taint off")
        .exempt(Invariant::TaintLeavesOnceAndLast, "a person takes the taint off");
    if is_swapped {
        case.exempt(Invariant::ProviderIdIsTrue, "a person wrote it in the other byte order")
    } else {
        case
    }
}

/// The machine was created anew, and its object has no UUID yet: it may be the same machine.
fn not_told_yet() -> Case {
    let told = HEALED;
    let late = Command::SetTiming {
        step: Step::VmIdentified,
        completion: Completion::After(told - s(110)),
    };
    let uuid = Some(KNOWN_UUID);
    let spec = MachineSpec { name: Some(name(1)), uuid, ..MachineSpec::default() };
    let again = Command::CreateMachine {
        vcenter: None,
        spec,
        cluster: None,
        power_on: true,
        kubelet: false,
    };
    let scenario = known_uuid(Backend::Supervisor, world(20, s(500)), 1)
        .at(SETTLED, Command::DeleteMachine(machine(1)))
        .at(s(99), late)
        .at(s(100), again);
    let case = Case::new(scenario, move |run| {
        let deleted = run.deleted(&name(1));
        run.was_not_ready(&name(1)).and(|| {
            Verdict::of(deleted.is_none_or(|at| at.since_start() >= told - s(10)), || {
                format!("the node was deleted at {deleted:?}; which machine has its name was told at {told:?}").at(deleted)
            })
        })
    });
    case.canary(Canary::Gone(20), s(200)).named("its machine is not identified yet")
}

fn heartbeats() -> Case {
    let mut scenario = world(7, s(600));
    for n in 1..=6 {
        scenario = scenario.at(SETTLED, Command::StopKubelet(machine(n)));
    }
    Case::new(scenario, |run| {
        survives(run, 6).and(|| {
            let marked =
                names(6).into_iter().find(|name| run.node(name).is_some_and(|it| it.shutdown));
            Verdict::of(marked.is_none(), || format!("{marked:?} is marked shut down; it runs"))
        })
    })
    .canary(Canary::Gone(7), s(300))
    .named("machines run")
}

fn heartbeats_and_a_miss(backend: Backend) -> Case {
    // One lookup misses the machine; the others find it.
    let miss = match backend {
        Backend::VCenter => {
            Rule::new("miss", [Action::EmptyResult]).on(Face::Soap).op(["Find*"]).first(2)
        }
        Backend::Supervisor => Rule::new("miss", [Action::EmptyResult])
            .on(Face::Supervisor)
            .op(["list virtualmachines"])
            .first(1),
    };
    let scenario = world(4, s(400))
        .at(SETTLED, Command::StopKubelet(machine(1)))
        .at(s(115), Act::Crash(0))
        .at(s(115), forget_reference(1))
        .at(s(115), miss)
        .at(s(116), Act::Start(0));
    Case::new(scenario, |run| survives(run, 3))
        .canary(Canary::Gone(4), s(200))
        .named("one lookup misses")
}

fn states() -> Vec<Case> {
    let host = |run: &str| Named::from(run);
    let cases: [(&str, Command, Command); 3] = [
        ("inaccessible", Command::Inaccessible(machine(1)), Command::Connect(machine(1))),
        ("orphaned", Command::Orphan(machine(1)), Command::Connect(machine(1))),
        (
            "host disconnected",
            Command::DisconnectHost(host("DC0_C0_H0")),
            Command::ReconnectHost(host("DC0_C0_H0")),
        ),
    ];
    let mut all = Vec::new();
    for (state, begin, end) in cases {
        for cold in [false, true] {
            let mut scenario = world(5, s(700))
                .at(SETTLED, begin.clone())
                .at(SETTLED, Command::StopKubelet(machine(1)));
            if cold {
                scenario = scenario.at(s(80), Act::Crash(0)).at(s(81), Act::Start(0));
            }
            let scenario =
                scenario.at(s(400), end.clone()).at(s(410), Command::StartKubelet(machine(1)));
            let name = format!("{state}{}", if cold { ", cold cache" } else { "" });
            let judge = |run: &Run| {
                survives(run, 4).and(|| {
                    let back = run.node(&super::observe::name(1));
                    Verdict::of(back.is_some_and(|it| it.is_ready() && !it.shutdown), || {
                        "the node did not return to normal".to_owned()
                    })
                })
            };
            // The canary's machine disappears during that state; it is in another zone and on another host.
            let case = Case::new(scenario, judge).canary(Canary::Gone(5), s(200));
            all.push(case.named(name));
        }
    }
    all
}

fn young() -> Case {
    // A Node without a machine, NotReady from the start.
    let node = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "young"},
        "spec": {"taints": [{
            "key": "node.cloudprovider.kubernetes.io/uninitialized",
            "value": "true",
            "effect": "NoSchedule",
        }]},
        "status": {
            "nodeInfo": {"systemUUID": "00000000-aaaa-4bbb-8ccc-000000000001"},
            "conditions": [{"type": "Ready", "status": "False"}],
        },
    });
    let create = objects::Command::create(GroupResource::core("nodes"), "", node);
    let born = s(100);
    let scenario = world(3, s(400)).at(born, Command::Cluster(create));
    let judge = move |run: &Run| {
        let versions = run.versions("young");
        if versions.is_empty() {
            return Verdict::inconclusive("the young node was never there".to_owned());
        }
        // Looks for an answer that shows no machine of the node, after the node registered. A Supervisor answers with a 404
        // that an object does not exist.
        let is_answered = |call: &Record| {
            let status = call.ended.as_ref().and_then(|ended| ended.status);
            call.succeeded() || status == Some(404)
        };
        let looked = run
            .questions()
            .any(|call| (born..born + s(60)).contains(&call.t.since_start()) && is_answered(call));
        if !looked {
            return Verdict::inconclusive("nobody looked for the young node's machine".to_owned());
        }
        let deleted = run.deleted("young");
        Verdict::of(deleted.is_none_or(|at| at.since_start() >= born + s(60)), || {
            format!("the node was deleted at {deleted:?}; it registered at {born:?}").at(deleted)
        })
    };
    // The age of a node depends on a clock that a provider does not share with a faster world.
    Case::new(scenario, judge).canary(Canary::Gone(3), s(100)).paced(Pace::Real)
}

fn vmotion() -> Case {
    let mut scenario = world(4, s(500)).at(SETTLED, Command::StopKubelet(machine(1)));
    for (at, host) in
        [(70, "DC0_C0_H1"), (150, "DC0_C1_H0"), (200, "DC0_C2_H2"), (280, "DC0_C0_H0")]
    {
        scenario = scenario.at(s(at), Command::VMotion { machine: machine(1), host: host.into() });
    }
    Case::new(scenario, |run| survives(run, 3)).canary(Canary::Gone(4), s(150)).named("vMotion")
}

fn host_failure() -> Case {
    // The fifth machine is in another zone, so its host keeps running.
    let scenario = world(5, s(700)).at(SETTLED, Command::FailHost(Named::from("DC0_C0_H0")));
    Case::new(scenario, |run| {
        survives(run, 4).and(|| {
            let node = run.node(&name(1));
            Verdict::of(node.is_some_and(|it| it.is_ready() && it.ips().next().is_some()), || {
                "the node did not come back with addresses".to_owned()
            })
        })
    })
    .canary(Canary::Gone(5), s(100))
    .named("host fails, HA restarts")
}
