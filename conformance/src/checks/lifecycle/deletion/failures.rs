//! Cases in which all calls about machines fail, or one kind of them, so that no answer proves that
//! a machine is gone.

use sim::Face;
use sim::faults::{Action, Between, Rule};
use sim::world::{Command, Time};

use super::{HEALED, PATIENCE, survives};
use crate::checks::Case;
use crate::checks::build::{SETTLED, about_machines, forget_reference, machine, s, world};
use crate::checks::canary::Canary;
use crate::checks::queries::{name, names};
use crate::judge::NodeFacts;
use crate::judge::verdict::Verdict;
use crate::lab::Run;
use crate::scenario::{Act, Backend, fault_kinds};

/// Creates two cases per kind of failure, one with a running and one with a restarted provider: a
/// node is NotReady, its machine runs, and every call about machines fails. The node must stay, and
/// the provider must change no taint. After the failures end, the provider must delete the Node of
/// a machine that is really gone.
pub(super) fn errors(backend: Backend) -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in fault_kinds(backend.face()) {
        for restarted in [false, true] {
            let rule = about_machines(backend, "errors", kind.actions.clone());
            let mut scenario =
                world(4, s(400)).at(SETTLED, Command::StopKubelet(machine(1))).at(s(100), rule);
            if restarted {
                scenario = scenario.at(s(100), Act::Crash(0)).at(s(101), Act::Start(0));
            }
            // Ends the sessions or watches, so that a provider with an up-to-date view meets the
            // failures, too.
            scenario = scenario.at(s(130), backend.disconnect()).at(HEALED, Act::RemoveRules);
            let name = format!("{}{}", kind.name, if restarted { ", cold cache" } else { "" });
            let judge = |run: &Run| survives(run, 3).and(|| same_taints(run, 3));
            let case = Case::new(scenario, judge).canary_within(Canary::Gone(4), HEALED, PATIENCE);
            cases.push(case.named(name));
        }
    }
    cases
}

/// Fails if the cloud provider's taints of one of the first `n` nodes change after [`SETTLED`].
/// Taints that the control plane sets on nodes that are not Ready do not count.
fn same_taints(run: &Run, n: u32) -> Verdict {
    for name in names(n) {
        let cloud = |node: NodeFacts| -> Vec<String> {
            let is_cloud = |key: &String| key.contains("cloudprovider.kubernetes.io");
            node.taints.into_iter().filter(is_cloud).collect()
        };
        let shown: Vec<_> = run
            .versions(&name)
            .into_iter()
            .filter_map(|(at, node)| Some((at, cloud(node?))))
            .collect();
        let has_changed = |pair: &&[(Time, Vec<String>)]| {
            pair[1].0.since_start() > SETTLED && pair[0].1 != pair[1].1
        };
        if let Some(pair) = shown.windows(2).find(has_changed) {
            return Verdict::fail(format!(
                "the cloud provider's taints on {name} changed from {:?} to {:?} at {}",
                pair[0].1, pair[1].1, pair[1].0
            ));
        }
    }
    Verdict::Pass
}

/// Creates cases in which one kind of call works and another kind fails.
pub(super) fn partial(backend: Backend) -> Vec<Case> {
    match backend {
        Backend::VCenter => partial_searches(),
        Backend::Supervisor => partial_reads(),
    }
}

/// Creates cases in which a list lacks a running machine, and the call that could confirm its
/// absence fails.
fn partial_reads() -> Vec<Case> {
    const LIST: &str = "list virtualmachines";
    let on = |id: &str, action, op: &str| Rule::new(id, [action]).on(Face::Supervisor).op([op]);
    let fail = || Action::status(500);
    // Ends the watch with 410 (its version is too old), so that the provider lists the machines
    // again.
    let expired = || on("expired", Action::WatchGone, "watch virtualmachines").first(1);
    let mut cases = Vec::new();
    for cold in [false, true] {
        let mut scenario = world(4, s(400)).at(SETTLED, Command::StopKubelet(machine(1)));
        scenario = match cold {
            true => scenario.at(s(100), Act::Crash(0)).at(s(101), Act::Start(0)),
            false => scenario.at(s(100), expired()).at(s(101), Backend::Supervisor.disconnect()),
        };
        // A provider that has just started confirms an absence by a read by name. A provider that
        // had the machine in its view lists again.
        let (ops, from) = if cold { ("get virtualmachines", s(101)) } else { (LIST, s(102)) };
        let mut later = on("faults", fail(), ops);
        later.when.between = Some(Between::new(from, HEALED));
        let lists = scenario
            .at(s(100), on("missing", Action::Hide(name(1)), LIST).first(1))
            .at(s(100), later)
            .at(HEALED, Act::RemoveRules);
        let name = if cold { "cold cache" } else { "warm cache" };
        let name = format!("missing in one list, what follows fails, {name}");
        let case = Case::new(lists, |run| survives(run, 3)).named(name);
        cases.push(case.canary_within(Canary::Gone(4), HEALED, PATIENCE));
    }
    cases
}

/// Creates cases in which searches work and reads fail, searches fail and reads work, or searches
/// find nothing and reads fail.
fn partial_searches() -> Vec<Case> {
    let fail = || Action::soap_fault("SystemError");
    let mut cases = Vec::new();
    for (case, ops) in [
        ("search answers, reads and updates fail", vec!["RetrieveProperties*", "WaitForUpdatesEx"]),
        ("read answers, search fails", vec!["Find*"]),
        ("search is empty, read fails", vec![]),
    ] {
        for cold in [false, true] {
            let mut scenario = world(4, s(400)).at(SETTLED, Command::StopKubelet(machine(1)));
            if ops.is_empty() {
                scenario = scenario
                    .at(
                        s(100),
                        Rule::new("empty", [Action::EmptyResult]).on(Face::Soap).op(["Find*"]),
                    )
                    .at(
                        s(100),
                        Rule::new("faults", [fail()])
                            .on(Face::Soap)
                            .op(["RetrieveProperties*", "WaitForUpdatesEx"]),
                    );
            } else {
                let rule = Rule::new("faults", [fail()]).on(Face::Soap).op(ops.iter().copied());
                scenario = scenario.at(s(100), rule);
            }
            if cold {
                // The restarted provider has to search, because the Node lacks the reference to its
                // machine.
                scenario = scenario
                    .at(s(100), Act::Crash(0))
                    .at(s(100), forget_reference(1))
                    .at(s(101), Act::Start(0));
            }
            let rebuild = Backend::VCenter.disconnect();
            let scenario = scenario.at(s(130), rebuild).at(HEALED, Act::RemoveRules);
            let name = format!("{case}{}", if cold { ", cold cache" } else { "" });
            let judge = |run: &Run| survives(run, 3);
            let case = Case::new(scenario, judge).named(name);
            cases.push(case.canary_within(Canary::Gone(4), HEALED, PATIENCE));
        }
    }
    cases.push(machine_cannot_be_read());
    // A provider whose view has the machine does not search, so rules about searches cannot fire.
    cases.retain(|case| {
        !matches!(case.name.as_str(), "read answers, search fails" | "search is empty, read fails")
    });
    cases
}

/// Creates a case in which searches find the machine and only reads of this machine fail. Other
/// objects stay readable, because a provider reads its datacenter before it searches. Waits for
/// updates fail, too, because our provider receives its machines through them.
fn machine_cannot_be_read() -> Case {
    let fail = || Action::soap_fault("SystemError");
    let on = |id, op| Rule::new(id, [fail()]).on(Face::Soap).op([op]);
    let scenario = world(4, s(400))
        .at(SETTLED, Command::StopKubelet(machine(1)))
        .at(s(100), on("faults/reads", "RetrieveProperties*").named(name(1)))
        .at(s(100), on("faults/updates", "WaitForUpdatesEx"))
        .at(s(100), Act::Crash(0))
        .at(s(100), forget_reference(1))
        .at(s(101), Act::Start(0))
        .at(HEALED, Act::RemoveRules);
    let case = Case::new(scenario, |run| survives(run, 3));
    let name = "search answers, reads of that machine fail, cold cache";
    case.named(name).canary_within(Canary::Gone(4), HEALED, PATIENCE)
}
