//! NODE-DEL: cases in which a provider must not delete a Node, because the machine exists or its
//! absence is not proven.

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

use crate::checks::build::{KNOWN_UUID, SETTLED, forget_reference, known_uuid, machine, s, world};
use crate::checks::canary::Canary;
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check, build, queries};
use crate::judge::Invariant;
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::scenario::{Act, Backend, Pace};

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

/// Time at which the failures of these cases end.
const HEALED: Duration = s(300);
/// Longest pause of a provider between a failure and its next attempt.
pub(in crate::checks) const PATIENCE: Duration = s(90);

/// Fails if one of the first `n` Nodes is missing at the end of the run. Inconclusive unless the
/// first node was NotReady, because only then has the provider a reason to look for the machine.
pub(in crate::checks) fn survives(run: &Run, n: u32) -> Verdict {
    let alive = run.nodes();
    let lost: Vec<String> = names(n).into_iter().filter(|name| !alive.contains(name)).collect();
    Verdict::pass_if(lost.is_empty(), || {
        format!("the provider deleted Nodes of existing machines: {}", lost.join(", "))
    })
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

/// Creates a case with a Node whose provider ID identifies no machine of the Supervisor, although
/// its machine runs. The Node must stay.
fn odd_identity(provider_id: &str, case: &str) -> Case {
    let odd = serde_json::json!({"spec": {"providerID": provider_id, "taints": null}});
    let scenario = world(4, s(400))
        .at(s(0), build::patch(&name(1), odd))
        .at(SETTLED, Command::StopKubelet(machine(1)));
    Case::new(scenario, |run| survives(run, 3))
        .canary(Canary::Gone(4), s(200))
        .named(case)
        .exempt(Invariant::ProviderIdStays, "the scenario sets the provider ID")
        .exempt(Invariant::AddressesFirst, "the scenario removes the taint")
        .exempt(Invariant::TaintLeavesOnceAndLast, "the scenario removes the taint")
}

/// Creates a case with a Node whose provider ID has the UUID of its machine in the other byte order
/// if `is_swapped` is true, else without dashes. The machine runs, so the Node must stay.
fn other_spelling(is_swapped: bool) -> Case {
    let (id, case) = if is_swapped {
        let turned = Uuid::from_bytes_le(KNOWN_UUID.into_bytes());
        (format!("vsphere://{turned}"), "its UUID in the other byte order")
    } else {
        (format!("vsphere://{}", KNOWN_UUID.simple()), "its UUID without dashes")
    };
    let odd = serde_json::json!({"spec": {"providerID": id, "taints": null}});
    let scenario = known_uuid(Backend::Supervisor, world(4, s(400)), 1)
        .at(s(0), build::patch(&name(1), odd))
        .at(SETTLED, Command::StopKubelet(machine(1)));
    let case = Case::new(scenario, |run| survives(run, 3))
        .canary(Canary::Gone(4), s(200))
        .named(case)
        .exempt(Invariant::AddressesFirst, "the scenario removes the taint")
        .exempt(Invariant::TaintLeavesOnceAndLast, "the scenario removes the taint");
    if is_swapped {
        case.exempt(
            Invariant::ProviderIdIsTrue,
            "the scenario writes the provider ID in the other byte order",
        )
    } else {
        case
    }
}

/// Creates a case in which a person deletes a machine and creates one of the same name. Until the
/// new object has a UUID, it may be the same machine, so the Node must stay.
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
            Verdict::pass_if(deleted.is_none_or(|at| at.since_start() >= told - s(10)), || {
                format!("the node was deleted {deleted}, but the UUID of the machine with its name becomes known {told}", deleted = when(deleted), told = when(told)).at(deleted)
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
            Verdict::none(marked, |name| {
                format!("node {name} has the shutdown taint although its machine runs")
            })
        })
    })
    .canary(Canary::Gone(7), s(300))
    .named("machines run")
}

fn heartbeats_and_a_miss(backend: Backend) -> Case {
    // One lookup misses the machine: up to two searches in vCenter mode, one list in Supervisor
    // mode. Later lookups find it.
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
                    let back = run.node(&queries::name(1));
                    Verdict::pass_if(back.is_some_and(|it| it.is_ready() && !it.shutdown), || {
                        "at the end the node is not Ready or has the shutdown taint, although its machine runs".to_owned()
                    })
                })
            };
            // The machine of the canary is in another zone and on another host than the first
            // machine.
            let case = Case::new(scenario, judge).canary(Canary::Gone(5), s(200));
            all.push(case.named(name));
        }
    }
    all
}

fn young() -> Case {
    // This Node has no machine and is NotReady from the start.
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
            return Verdict::inconclusive("the Node named young was never created".to_owned());
        }
        // True for an answer that lets the provider see that the node has no machine: a success, or
        // a 404 by which a Supervisor says that an object does not exist.
        let is_answered = |call: &Record| {
            let status = call.ended.as_ref().and_then(|ended| ended.status);
            call.succeeded() || status == Some(404)
        };
        let looked = run
            .lookups()
            .any(|call| (born..born + s(60)).contains(&call.t.since_start()) && is_answered(call));
        if !looked {
            return Verdict::inconclusive(
                "the provider did not look for the machine of the young Node within 60 s"
                    .to_owned(),
            );
        }
        let deleted = run.deleted("young");
        Verdict::pass_if(deleted.is_none_or(|at| at.since_start() >= born + s(60)), || {
            format!(
                "the node was deleted {deleted}; it registered {born}, and has to stay for 60 s",
                deleted = when(deleted),
                born = when(born)
            )
            .at(deleted)
        })
    };
    // Real time only: the provider computes the age of a node with its own clock, which does not
    // run faster with the world.
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
    // The fifth machine is in another zone, so its host does not fail.
    let scenario = world(5, s(700)).at(SETTLED, Command::FailHost(Named::from("DC0_C0_H0")));
    Case::new(scenario, |run| {
        survives(run, 4).and(|| {
            let node = run.node(&name(1));
            Verdict::pass_if(
                node.is_some_and(|it| it.is_ready() && it.ips().next().is_some()),
                || {
                    "after the restart of its machine the node is not Ready or has no address"
                        .to_owned()
                },
            )
        })
    })
    .canary(Canary::Gone(5), s(100))
    .named("host fails, HA restarts")
}
