//! LIFE-…: existence of the machines of nodes that are not Ready, and the consequences.

use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::{Command, Named};

use super::build::{
    GRACE, KNOWN_UUID, SETTLED, T_INIT, T_LIFE, T_MONITOR, awaited, early_with, forget_reference,
    known_machine_arrives, known_uuid, machine, s, unlisted, vanishing, world, world_with,
};
use super::canary::Canary;
use super::observe::{name, names};
use super::{Case, Check};
use crate::backend::Backend;
use crate::lab::Run;
use crate::scenario::Act;
use crate::verdict::{Told as _, Verdict};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![
        Check::new(
            "LIFE-001",
            [Case::new(world(12, s(300)).at(SETTLED, Command::DeleteMachine(machine(1))), |run| {
                let deleted = run.deleted(&name(1));
                run.was_not_ready(&name(1))
                    .and(|| {
                        Verdict::of(
                            deleted.is_some_and(|at| {
                                at.since_start()
                                    <= SETTLED + vanishing(run.backend()) + GRACE + T_LIFE
                            }),
                            || format!("the node was deleted at {deleted:?}").at(deleted),
                        )
                    })
                    .and(|| {
                        let node = run.versions(&name(1)).into_iter().find_map(|(_, node)| node);
                        let uid = node.map(|node| node.uid).unwrap_or_default();
                        let told = run.events().into_iter().any(|it| {
                            it.reason == "DeletingNode" && it.object == name(1) && it.uid == uid
                        });
                        Verdict::of(told, || {
                            "no DeletingNode event names the node and its uid".to_owned()
                        })
                    })
            })],
        ),
        Check::new("LIFE-002", [without_condition(backend)]),
        Check::new("LIFE-003", [ready_without_machine()]),
        Check::new("LIFE-004", errors(backend)),
        Check::new(
            "LIFE-012",
            [
                deletion_fails(),
                foreign_not_found(),
                comes_back_after_a_failed_deletion(backend, 500, None),
                comes_back_after_a_failed_deletion(backend, 429, Some(60)),
            ],
        ),
        Check::new("LIFE-014", [never_matched(backend)]),
        Check::new("LIFE-015", [replaced_meanwhile(backend)]),
        Check::new("LIFE-016", hung(backend)),
    ]
}

/// The conditions of a node stay empty, and its machine is deleted.
fn without_condition(backend: Backend) -> Case {
    let scenario = world(12, s(200))
        .at(s(0), awaited(KNOWN_UUID))
        .at(s(40), early_with(KNOWN_UUID, serde_json::json!([])))
        .at(SETTLED, Command::DeleteMachine(Named::from("early")));
    Case::new(scenario, move |run| {
        let says = |node: &serde_json::Value| {
            node["status"]["conditions"].as_array().is_some_and(|it| !it.is_empty())
        };
        let was_said = run.node_events("early").iter().any(|(_, _, node)| says(node));
        if was_said {
            return Verdict::inconclusive("somebody wrote a condition of the node".to_owned());
        }
        let deleted = run.deleted("early");
        run.initializes(&["early".to_owned()], s(40), T_INIT).and(|| {
            let bound = SETTLED + vanishing(backend) + T_LIFE;
            let holds = deleted.is_some_and(|at| (SETTLED..=bound).contains(&at.since_start()));
            Verdict::of(holds, || {
                format!(
                    "the node was deleted at {deleted:?}; {SETTLED:?} to {bound:?} is asked for"
                )
                .at(deleted)
            })
        })
    })
}

/// The machine is destroyed at once, but its kubelet is missed only after a while. Until then the provider must not ask;
/// after that it must.
fn ready_without_machine() -> Case {
    let scenario = world(3, SETTLED)
        .at(SETTLED, Act::Phase("gone".into()))
        .at(SETTLED + GRACE - s(1), Act::Phase("missed".into()));
    let judge = |run: &Run| {
        let asked = run
            .calls_in("gone")
            .filter(|call| run.backend().takes(call) && !run.backend().is_news(call))
            .count();
        let missed = run.when(&name(1), |node| !node.is_ready());
        let deleted = run.deleted(&name(1));
        let early = deleted.is_some_and(|at| missed.is_none_or(|missed| at < missed));
        Verdict::of(!early, || {
            format!("a Ready node was deleted at {deleted:?}, NotReady at {missed:?}").at(deleted)
        })
        .and(|| Verdict::of(asked == 0, || format!("{asked} calls about a Ready node")))
    };
    Case::new(scenario, judge).canary(Canary::Gone(1), SETTLED)
}

/// The Node has no provider ID, because its machine was gone before the provider looked. In vCenter mode the Node stays,
/// because a name does not identify a machine there. In a Supervisor it does, and the provider can prove that the object of
/// that name is absent.
fn never_matched(backend: Backend) -> Case {
    let scenario = world(4, s(400)).at(s(0), Command::DeleteMachine(machine(1)));
    let scenario = match backend {
        Backend::VCenter => scenario,
        // The object is gone once VM Operator has done its work.
        Backend::Supervisor => scenario.with(|it| it.start = false).at(s(20), Act::StartAll),
    };
    let judge = move |run: &Run| {
        let given = run.when(&name(1), |node| node.provider_id.is_some());
        if given.is_some() {
            return Verdict::inconclusive(
                format!("the node got a provider ID at {given:?}").at(given),
            );
        }
        run.was_not_ready(&name(1)).and(|| {
            let is_there = run.node(&name(1)).is_some();
            Verdict::of(is_there == backend.is_vcenter(), || match is_there {
                true => "a node is still there whose name no machine has".to_owned(),
                false => "a node without provider ID was deleted".to_owned(),
            })
        })
    };
    Case::new(scenario, judge).canary(Canary::Gone(4), s(200))
}

fn errors(backend: Backend) -> Vec<Case> {
    let mut cases = Vec::new();
    let status = |code| Action::Status { code, retry_after: None, message: None };
    let fault = |class: &str| Action::SoapFault { class: class.to_owned(), message: None };
    let mut actions = vec![("timeouts", Action::Blackhole), ("503", status(503))];
    match backend {
        Backend::VCenter => actions.extend([
            ("rejected logins", fault("InvalidLogin")),
            ("unauthenticated", fault("NotAuthenticated")),
        ]),
        Backend::Supervisor => actions.extend([
            ("unauthenticated", status(401)),
            ("forbidden", status(403)),
            ("not served", Action::NotServed),
        ]),
    }
    for (case, action) in actions {
        let mut scenario = world(12, s(1500))
            .at(SETTLED, Rule::new("failing", [action]).on(backend.face()))
            .at(s(61), backend.cut());
        for n in 1..=4 {
            scenario = scenario.at(s(62), Command::StopKubelet(machine(n)));
        }
        let scenario =
            scenario.at(s(300), Command::DeleteMachine(machine(4))).at(s(500), Act::Heal);
        cases.push(
            Case::new(scenario, |run| {
                let early = run.deleted(&name(4));
                Verdict::of(early.is_none_or(|at| at.since_start() >= s(500)), || {
                    format!("a node was deleted at {early:?}, while every query failed").at(early)
                })
                .and(|| {
                    let left = run.nodes();
                    let mut wanted = names(12);
                    wanted.retain(|it| *it != name(4));
                    Verdict::of(left == wanted, || format!("nodes left: {left:?}"))
                })
            })
            .named(case),
        );
    }
    cases
}

fn deletion_fails() -> Case {
    let rule =
        Rule::new("refused", [Action::Status { code: 500, retry_after: None, message: None }])
            .on(Face::Cluster)
            .op(["delete nodes"])
            .first(2);
    let scenario = world(12, s(400)).at(s(0), rule).at(SETTLED, Command::DeleteMachine(machine(1)));
    Case::new(scenario, |run| {
        let deleted = run.deleted(&name(1));
        let bound = SETTLED + GRACE + T_LIFE + T_MONITOR * 2;
        let told = run.events().into_iter().any(|it| {
            it.kind == "Warning" && it.reason == "DeletingNodeFailed" && it.object == name(1)
        });
        Verdict::of(deleted.is_some_and(|at| at.since_start() <= bound), || {
            format!("the node was deleted at {deleted:?}; two deletions were refused").at(deleted)
        })
        .and(|| Verdict::of(told, || "no Warning DeletingNodeFailed event".to_owned()))
    })
}

/// The answer to a deletion is a 404 that is not about the node, as from a load balancer without a route to the API server.
fn foreign_not_found() -> Case {
    let rule =
        Rule::new("no way", [Action::NotServed]).on(Face::Cluster).op(["delete nodes"]).first(1);
    let scenario = world(12, s(400)).at(s(0), rule).at(SETTLED, Command::DeleteMachine(machine(1)));
    Case::new(scenario, |run| {
        let deleted = run.deleted(&name(1));
        let bound = SETTLED + GRACE + T_LIFE + T_MONITOR * 2;
        Verdict::of(deleted.is_some_and(|at| at.since_start() <= bound), || {
            format!("the node was deleted at {deleted:?}; one deletion did not arrive").at(deleted)
        })
    })
    .named("a 404 about nothing")
}

/// The API server refuses deletions until the machine is registered again, so the proof of the first attempt no longer holds.
fn comes_back_after_a_failed_deletion(
    backend: Backend,
    code: u16,
    retry_after: Option<u32>,
) -> Case {
    let rule = Rule::new("refused", [Action::Status { code, retry_after, message: None }])
        .on(Face::Cluster)
        .op(["delete nodes"]);
    let again = known_machine_arrives(None);
    // The node is NotReady at 110 s; attempts follow in each period until the rule is removed.
    let back = s(132) + vanishing(backend);
    let scenario = known_uuid(backend, world(12, s(400)), 1)
        .at(s(0), rule)
        .at(SETTLED, Command::DeleteMachine(machine(1)))
        .at(back, again)
        .at(back + s(1), Act::Heal);
    Case::new(scenario, |run| {
        run.was_not_ready(&name(1)).and(|| {
            Verdict::of(run.node(&name(1)).is_some(), || {
                "deleted on an old proof, although its machine had come back".to_owned()
            })
        })
    })
    .named(format!("the machine comes back after {code}"))
}

/// While the deletion is under way, a person deletes the Node and it registers anew.
fn replaced_meanwhile(backend: Backend) -> Case {
    let slow = Rule::new("slow", [Action::Delay(s(10))])
        .on(Face::Cluster)
        .op(["delete nodes"])
        .named(name(1))
        .first(1);
    let successor = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name(1), "labels": {"example.com/generation": "second"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let nodes = || sim::world::objects::GroupResource::core("nodes");
    let delete = sim::world::objects::Command::delete(sim::world::objects::Key::node(name(1)));
    let create = sim::world::objects::Command::create(nodes(), "", successor);
    // The node is NotReady at 110 s; the deletion is under way a moment later.
    let meanwhile = s(119) + vanishing(backend);
    let scenario = world(12, s(300))
        .at(s(0), slow)
        .at(SETTLED, Command::DeleteMachine(machine(1)))
        .at(meanwhile, Command::Cluster(delete))
        .at(meanwhile, Command::Cluster(create));
    Case::new(scenario, move |run| {
        let deletion = run.calls().find(|call| call.op == "delete nodes");
        match deletion.map(|call| (call.t, call.ended.as_ref().map(|ended| ended.at))) {
            Some((from, Some(to)))
                if from.since_start() < meanwhile && to.since_start() > meanwhile => {}
            other => {
                return Verdict::inconclusive(format!("the deletion was not under way: {other:?}"));
            }
        }
        let survives = run
            .node_object(&name(1))
            .is_some_and(|node| node["metadata"]["labels"]["example.com/generation"] == "second");
        Verdict::of(survives, || "the new Node was deleted for its predecessor".to_owned())
    })
}

fn hung(backend: Backend) -> Vec<Case> {
    match backend {
        Backend::VCenter => vec![hung_query(backend)],
        Backend::Supervisor => vec![hung_query(backend), many_reads()],
    }
}

fn hung_query(backend: Backend) -> Case {
    if backend == Backend::Supervisor {
        return hung_read();
    }
    let hang = Rule::new("hang", [Action::Blackhole]).on(Face::Soap).named(name(1));
    // In a large inventory the provider searches for nodes one by one.
    let scenario = world_with(4, 3000, s(500))
        .at(SETTLED, Command::DeleteMachine(machine(2)))
        .at(SETTLED, Command::StopKubelet(machine(1)))
        .at(s(100), hang)
        .at(s(100), Act::Crash(0))
        .at(s(100), forget_reference(1))
        .at(s(101), Act::Start(0));
    Case::new(scenario, |run| {
        let deleted = run.deleted(&name(2));
        Verdict::of(deleted.is_some_and(|at| at.since_start() <= s(101) + T_LIFE + s(60)), || {
            format!("the node without a machine was deleted at {deleted:?}").at(deleted)
        })
    })
}

/// The provider may not list machines, so it reads each by name. One node is deleted after its machine. Then a read hangs,
/// and the next node without a machine must be deleted, too.
fn hung_read() -> Case {
    let begin = s(200);
    let hang = Rule::new("hang", [Action::Blackhole]).on(Face::Supervisor).named(name(1));
    let scenario = world(6, s(600))
        .fault(unlisted())
        .at(SETTLED, Command::DeleteMachine(machine(3)))
        .at(begin, Command::DeleteMachine(machine(2)))
        .at(begin, Command::StopKubelet(machine(1)))
        .at(begin, hang);
    Case::new(scenario, move |run| {
        let works = run.deleted(&name(3)).is_some_and(|at| at.since_start() < begin);
        let deleted = run.deleted(&name(2));
        let bound = begin + GRACE + vanishing(run.backend()) + T_LIFE + s(60);
        run.does_without_list(works).and(|| {
            Verdict::of(deleted.is_some_and(|at| at.since_start() <= bound), || {
                format!("the node without a machine was deleted at {deleted:?}").at(deleted)
            })
        })
    })
}

/// The provider may not list machines, and 150 nodes are not ready though their machines run, so it reads each by name. The
/// last node, which has no machine, must get its turn. A question has time for a hundred reads.
fn many_reads() -> Case {
    const N: u32 = 152;
    let stopped = s(200);
    let mut scenario =
        world(N, s(700)).fault(unlisted()).at(SETTLED, Command::DeleteMachine(machine(N)));
    for n in 1..=150 {
        scenario = scenario.at(stopped, Command::StopKubelet(machine(n)));
    }
    let begin = s(300);
    let scenario = scenario.at(begin, Command::DeleteMachine(machine(151)));
    Case::new(scenario, move |run| {
        let works = run.deleted(&name(N)).is_some_and(|at| at.since_start() < stopped);
        let deleted = run.deleted(&name(151));
        // One read per node at five a second, twice: for the tick under way, and for the next one.
        let bound = begin + GRACE + vanishing(run.backend()) + T_LIFE + s(60);
        let is_in_time = deleted.is_some_and(|at| at.since_start() <= bound);
        run.does_without_list(works).and(|| {
            Verdict::of(is_in_time, || {
                format!("the node without a machine was deleted at {deleted:?}").at(deleted)
            })
        })
    })
    .named("many nodes are read by name")
}
