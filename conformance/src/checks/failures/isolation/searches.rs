//! Cases in which the search for a single machine hangs or fails. The inventory is large and the
//! nodes are few, because our provider then searches for each machine separately.

use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::objects::{self, Key};
use sim::world::{Command, Named};

use crate::checks::Case;
use crate::checks::build::{T_INIT, create_joining_machine, s, world_with};
use crate::checks::queries::{name, names};
use crate::judge::verdict::Verdict;
use crate::scenario::Act;

pub(super) fn cases() -> [Case; 3] {
    [one_hangs(), one_fails(), failed_for_nodes_that_went()]
}

/// Creates a rule by which vCenter answers every search by UUID with a fault, after the action
/// `before`.
fn failing(id: &str, before: Option<Action>) -> Rule {
    let fault = Action::soap_fault("SystemError");
    let actions = before.into_iter().chain([fault]);
    Rule::new(id, actions).on(Face::Soap).op(["FindAllByUuid", "FindByUuid"])
}

fn one_hangs() -> Case {
    let hang = Rule::new("hang", [Action::Blackhole]).on(Face::Soap).named(name(1));
    let scenario = world_with(3, 400, s(500)).fault(hang).at(s(300), Act::RemoveRules);
    Case::new(scenario, |run| {
        let others: Vec<String> = names(3).into_iter().skip(1).collect();
        // Allows the deadline of the call that hangs plus one monitor period.
        run.initializes(&others, s(0), T_INIT + s(35))
    })
    .named("a search hangs")
}

/// Creates a case in which vCenter answers every search for one machine with a fault until 400 s.
/// Nodes that join meanwhile must not wait for this machine.
fn one_fails() -> Case {
    let late = ["late-1", "late-2", "late-3"];
    let mut scenario = world_with(3, 400, s(500))
        .at(s(50), failing("fails", None).named("broken"))
        .at(s(50), create_joining_machine("broken", None))
        .at(s(400), Act::RemoveRules);
    for (name, at) in late.into_iter().zip([150, 200, 290]) {
        scenario = scenario.at(s(at), create_joining_machine(name, None));
    }
    Case::new(scenario, move |run| {
        let joined = run.when("broken", |_| true);
        let waits = run.initialized("broken").is_none_or(|at| at.since_start() > s(400));
        if joined.is_none() || !waits {
            return Verdict::inconclusive(
                "the provider found the machine of the node named broken without a search"
                    .to_owned(),
            );
        }
        late.iter()
            .fold(run.initializes(&names(3), s(0), T_INIT), |verdict, node| {
                verdict.and(|| match run.when(node, |_| true) {
                    None => {
                        Verdict::inconclusive(format!("the node named {node} did not register"))
                    }
                    Some(at) => run.initializes(&[(*node).to_owned()], at.since_start(), T_INIT),
                })
            })
            .and(|| run.initializes(&["broken".to_owned()], s(400), s(90)))
    })
    .named("a search fails")
}

/// Creates a case in which searches for three machines fail after three seconds, and the Nodes of
/// two of them are deleted. The failing searches for the third machine must not delay a node that
/// joins.
fn failed_for_nodes_that_went() -> Case {
    let slow = |node: &str| failing(node, Some(Action::Delay(s(3)))).named(node);
    let mut scenario = world_with(3, 400, s(1000))
        .at(s(200), slow("broken"))
        .at(s(200), create_joining_machine("broken", None))
        .at(s(750), create_joining_machine("late", None))
        .at(s(900), Act::RemoveRules);
    for node in ["went-1", "went-2"] {
        scenario = scenario
            .at(s(50), slow(node))
            .at(s(50), create_joining_machine(node, None))
            .at(s(150), Command::Cluster(objects::Command::delete(Key::node(node))))
            .at(s(150), Command::DeleteMachine(Named::from(node)));
    }
    Case::new(scenario, |run| {
        let has_waited = ["went-1", "went-2", "broken"].iter().all(|node| {
            run.when(node, |_| true).is_some()
                && run.initialized(node).is_none_or(|at| at.since_start() > s(900))
        });
        if !has_waited {
            return Verdict::inconclusive(
                "the provider found one of the machines without a search".to_owned(),
            );
        }
        run.initializes(&names(3), s(0), T_INIT)
            .and(|| match run.when("late", |_| true) {
                None => Verdict::inconclusive("the node named late did not register"),
                Some(at) => run.initializes(&["late".to_owned()], at.since_start(), T_INIT),
            })
            .and(|| run.initializes(&["broken".to_owned()], s(900), s(90)))
    })
    .named("searches failed for nodes that went")
}
