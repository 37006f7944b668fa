//! ROB-001 to ROB-003: answers that are truncated, invalid, too large or contain unknown parts.
//!
//! Each case spoils the first answers of each operation of one face in one way. It spoils only the
//! first, so that a provider gets past one operation and reaches the next. On a face of vCenter the
//! cases spoil every operation. On an API server they spoil the reads at the start of a provider,
//! when a node joins, and when a node is not ready.

use std::collections::BTreeSet;
use std::time::Duration;

use sim::faults::{Action, Rule, Spoil};
use sim::ledger::Record;
use sim::world::{Command, ControlPlane};
use sim::{Class, Face};

use crate::checks::build::{SETTLED, T_STATUS, create_joining_machine, machine, s, world};
use crate::checks::canary::Canary;
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::NodeFacts;
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::{Exit, Run};
use crate::scenario::{Act, Backend, Scenario};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    let cut = |bytes| Action::truncate(bytes);
    let short = |percent| Action::Spoil(Spoil::CutShort(percent));
    let truncated = [
        ("the connection breaks after 40 bytes", cut(40)),
        ("the connection breaks after 600 bytes", cut(600)),
        ("half comes", short(50)),
        ("all but the end comes", short(99)),
    ];
    let unknown = [
        ("unknown members", Action::Spoil(Spoil::UnknownMembers)),
        ("unknown types", Action::Spoil(Spoil::UnknownTypes)),
    ];
    let invalid = [
        ("invalid UTF-8", Action::Spoil(Spoil::InvalidUtf8)),
        ("deep nesting", Action::Spoil(Spoil::Deep)),
    ];
    let mut refused = on_each_face(backend, &invalid);
    refused.extend(faces(backend).iter().map(|face| huge(backend, *face)));
    if backend.is_vcenter() {
        let entities = Action::Spoil(Spoil::Entities);
        refused.push(spoiled(backend, Face::Soap, "entity definitions", &entities));
    }
    vec![
        Check::new("ROB-001", on_each_face(backend, &truncated)),
        Check::new("ROB-002", on_each_face(backend, &unknown)),
        Check::new("ROB-003", refused),
    ]
}

fn faces(backend: Backend) -> &'static [Face] {
    match backend {
        Backend::VCenter => &[Face::Soap, Face::Vapi, Face::Cluster],
        Backend::Supervisor => &[Face::Supervisor, Face::Cluster],
    }
}

fn on_each_face(backend: Backend, kinds: &[(&str, Action)]) -> Vec<Case> {
    let of_face = |face: &Face| {
        kinds.iter().map(|(kind, action)| spoiled(backend, *face, kind, action)).collect()
    };
    faces(backend).iter().flat_map(|face| -> Vec<Case> { of_face(face) }).collect()
}

/// Returns the name of a face in case names.
fn title(face: Face) -> &'static str {
    match face {
        Face::Soap => "SOAP",
        Face::Vapi => "vAPI",
        Face::Cluster => "cluster",
        Face::Supervisor => "Supervisor",
        Face::Autoscaler => "autoscaler",
    }
}

/// Returns the operations of a face whose answers the cases spoil.
fn operations(face: Face) -> Vec<&'static str> {
    match face {
        Face::Soap | Face::Vapi => {
            sim::operations().filter(|(of, _)| *of == face).map(|(_, name)| name).collect()
        }
        Face::Cluster => vec![
            "list nodes",
            "watch nodes",
            "get nodes",
            "get leases",
            "get secrets",
            "list secrets",
            "watch secrets",
            "get configmaps",
            "list services",
            "watch services",
        ],
        Face::Supervisor => {
            vec!["list virtualmachines", "watch virtualmachines", "get virtualmachines"]
        }
        // No provider of nodes is called by autoscalers.
        Face::Autoscaler => Vec::new(),
    }
}

/// Time from which on answers are spoiled.
const BEGIN: Duration = SETTLED;
/// Time until which answers are spoiled.
const END: Duration = s(300);
/// Longest pause of a provider until its next attempt: five minutes after a refused login, plus 30
/// s. Its pauses after other failures are at most 90 s.
const PATIENCE: Duration = s(330);

/// Returns a scenario in which the `first` answers of each of these operations are spoiled by
/// `action`. Meanwhile the provider restarts and reads everything again, a node joins, another node
/// is silent although its machine runs, and the machine of yet another node is deleted.
fn life(
    backend: Backend,
    face: Face,
    operations: &[&str],
    action: &Action,
    first: u64,
) -> Scenario {
    let mut scenario = world(6, END + PATIENCE + T_STATUS)
        .with_provider(|it| it.leader_election = face == Face::Cluster)
        .with_provider(|it| it.secret = backend.is_vcenter().then(|| "credentials".to_owned()));
    for operation in operations {
        let rule = Rule::new(format!("bad bytes/{operation}"), [action.clone()]);
        scenario = scenario.at(BEGIN, rule.on(face).op([*operation]).first(first));
    }
    scenario = scenario
        .at(BEGIN, backend.disconnect())
        .at(BEGIN, Command::EndWatches { plane: ControlPlane::Workload })
        .at(BEGIN + s(20), Act::Crash(0))
        .at(BEGIN + s(21), Act::Start(0))
        .at(BEGIN + s(30), Command::StopKubelet(machine(1)))
        .at(BEGIN + s(30), Command::DeleteMachine(machine(5)))
        .at(BEGIN + s(40), create_joining_machine("newcomer", None))
        .at(END, Act::RemoveRules)
        // Ends the calls that still hang on a connection with a spoiled answer.
        .at(END, backend.disconnect())
        .at(END, Command::EndWatches { plane: ControlPlane::Workload })
        .at(END, Command::StartKubelet(machine(1)));
    scenario
}

fn spoiled(backend: Backend, face: Face, kind: &str, action: &Action) -> Case {
    let operations = operations(face);
    let scenario = life(backend, face, &operations, action, 3);
    Case::new(scenario, move |run| lives(run, face, &operations))
        .canary(Canary::Gone(6), END + PATIENCE)
        .named(format!("{}: {kind}", title(face)))
}

/// Returns a size in MiB that exceeds every real answer: 100 for vCenter, which sends a large
/// inventory in pages, and 300 for an API server, because a list of 10,000 VirtualMachines has a
/// third of this.
fn too_large(face: Face) -> u32 {
    if face.is_kubernetes() { 300 } else { 100 }
}

/// Creates a case with answers of [`too_large`] MiB, from an API server to lists and watches, from
/// a vCenter to all operations. The provider must not read them to the end.
fn huge(backend: Backend, face: Face) -> Case {
    let mib = too_large(face);
    let action = Action::Spoil(Spoil::Padded(mib));
    let is_large = |operation: &&str| !face.is_kubernetes() || !operation.starts_with("get ");
    let operations: Vec<&str> = operations(face).into_iter().filter(is_large).collect();
    let scenario = life(backend, face, &operations, &action, 1);
    Case::new(scenario, move |run| {
        let whole = u64::from(mib) << 20;
        // Looks for an answer that the provider read completely. A provider breaks off a watch in
        // any case, because a watch has no end.
        let read = bad(run, face)
            .find(|call| call.ended.as_ref().is_some_and(|ended| ended.bytes >= whole));
        lives(run, face, &operations).and(|| {
            Verdict::pass_if(read.is_none(), || {
                let call = read.map(ToString::to_string).unwrap_or_default();
                format!("the provider read an answer of {mib} MiB to the end: {call}")
            })
        })
    })
    .canary(Canary::Gone(6), END + PATIENCE)
    .named(format!("{}: an answer of {mib} MiB", title(face)))
}

/// Returns the calls to this face whose answers a rule spoiled.
fn bad(run: &Run, face: Face) -> impl Iterator<Item = &Record> {
    run.calls().filter(move |call| call.face == Some(face) && call.was_faulted())
}

/// Returns the parts of a Node that spoiled answers must not change: provider ID, labels, addresses
/// and the uninitialized taint.
fn lasting_parts(node: &NodeFacts) -> (Option<&String>, &[Option<String>], Vec<&str>, bool) {
    (node.provider_id.as_ref(), &node.labels, node.ips().collect(), node.uninitialized)
}

/// Judges a run with spoiled answers to the operations `known` of a face. Inconclusive if no call
/// got a spoiled answer, if one of these operations that the provider used between [`BEGIN`] and
/// [`END`], other than a write, got none, or if a Node did not exist at [`BEGIN`]. Fails if the
/// process ends, a Node changes or goes although its machine runs, or the provider does not resume
/// its work within [`PATIENCE`] after [`END`].
fn lives(run: &Run, face: Face, known: &[&str]) -> Verdict {
    let is_meant = |call: &&Record| {
        let at = call.t.since_start();
        call.face == Some(face) && at > BEGIN && at < END && call.class != Some(Class::Write)
    };
    let met: BTreeSet<&str> = bad(run, face).map(|call| call.op.as_str()).collect();
    let used: BTreeSet<&str> = run
        .calls()
        .filter(is_meant)
        .map(|call| call.op.as_str())
        .filter(|op| known.contains(op))
        .collect();
    if let Some(spared) = used.difference(&met).next() {
        return Verdict::inconclusive(format!(
            "the provider called {spared}, but no answer to it was spoiled"
        ));
    }
    if met.is_empty() {
        return Verdict::inconclusive(format!("no call to the face {face:?} got a spoiled answer"));
    }
    let ended = run
        .exits
        .iter()
        .find(|exit| matches!(exit, Exit::Failed(_) | Exit::Finished | Exit::Panicked));
    if let Some(exit) = ended {
        return Verdict::fail(format!("a spoiled answer must not end the process, but it {exit}"));
    }
    // Skips the fifth and the sixth node, whose machines are deleted.
    for node in names(4) {
        let Some(before) =
            run.versions(&node).into_iter().rfind(|(at, _)| at.since_start() <= BEGIN)
        else {
            return Verdict::inconclusive(format!(
                "node {node} did not exist when the spoiled answers began"
            ));
        };
        let Some(before) = before.1 else {
            return Verdict::inconclusive(format!(
                "node {node} did not exist when the spoiled answers began"
            ));
        };
        let other = run.versions(&node).into_iter().find(|(at, now)| {
            at.since_start() > BEGIN
                && now.as_ref().is_none_or(|now| lasting_parts(now) != lasting_parts(&before))
        });
        if let Some((at, now)) = other {
            let what = if now.is_none() { "was deleted" } else { "changed" };
            return Verdict::fail(format!("node {node} {what} at {at}, although only answers were spoiled and its machine runs").at(at));
        }
    }
    run.initializes(&names(6), s(0), BEGIN)
        .and(|| run.initializes(&["newcomer".to_owned()], END, PATIENCE))
        .and(|| {
            let gone = run.deleted(&name(5));
            Verdict::pass_if(gone.is_some_and(|at| at.since_start() <= END + PATIENCE), || {
                format!("the Node of the machine that was deleted meanwhile was deleted {gone}, too late after the last spoiled answer", gone = when(gone))
                    .late(gone)
            })
        })
}
