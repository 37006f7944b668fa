//! LIFE-…: a provider's decisions about nodes that are not Ready, by the existence of their
//! machines.

use sim::Face;
use sim::faults::{Action, HttpStatus, Rule};
use sim::world::{Command, Named};

use crate::checks::build::{
    GRACE, KNOWN_UUID, SETTLED, T_INIT, T_LIFE, T_MONITOR, create_machine_of_early, early_with,
    forget_reference, known_machine_arrives, known_uuid, lists_refused, machine, s, vanishing,
    world, world_with,
};
use crate::checks::canary::Canary;
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::Run;
use crate::scenario::{Act, Backend};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![
        Check::new(
            "LIFE-001",
            [Case::new(world(12, s(300)).at(SETTLED, Command::DeleteMachine(machine(1))), |run| {
                let deleted = run.deleted(&name(1));
                run.was_not_ready(&name(1))
                    .and(|| {
                        Verdict::pass_if(
                            deleted.is_some_and(|at| {
                                at.since_start()
                                    <= SETTLED + vanishing(run.backend()) + GRACE + T_LIFE
                            }),
                            || {
                                format!(
                                    "the Node was deleted {deleted}, too late after the deletion of its machine at {SETTLED:?}",
                                    deleted = when(deleted)
                                )
                                .late(deleted)
                            },
                        )
                    })
                    .and(|| {
                        let node = run.versions(&name(1)).into_iter().find_map(|(_, node)| node);
                        let uid = node.map(|node| node.uid).unwrap_or_default();
                        let told = run.events().into_iter().any(|it| {
                            it.reason == "DeletingNode" && it.object == name(1) && it.uid == uid
                        });
                        Verdict::pass_if(told, || {
                            "no event DeletingNode is about the Node, by name and uid".to_owned()
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

/// Creates a case in which the machine of a Node without any condition is deleted. The provider
/// must treat the Node as not Ready and delete it.
fn without_condition(backend: Backend) -> Case {
    let scenario = world(12, s(200))
        .at(s(0), create_machine_of_early(KNOWN_UUID))
        .at(s(40), early_with(KNOWN_UUID, serde_json::json!([])))
        .at(SETTLED, Command::DeleteMachine(Named::from("early")));
    Case::new(scenario, move |run| {
        let says = |node: &serde_json::Value| {
            node["status"]["conditions"].as_array().is_some_and(|it| !it.is_empty())
        };
        let was_said = run.node_events("early").iter().any(|(_, _, node)| says(node));
        if was_said {
            return Verdict::inconclusive(
                "the Node got a condition, but the case needs a Node without conditions".to_owned(),
            );
        }
        let deleted = run.deleted("early");
        run.initializes(&["early".to_owned()], s(40), T_INIT).and(|| {
            let bound = SETTLED + vanishing(backend) + T_LIFE;
            let holds = deleted.is_some_and(|at| (SETTLED..=bound).contains(&at.since_start()));
            Verdict::pass_if(holds, || {
                format!(
                    "the Node was deleted {deleted}; it has to be between {SETTLED:?} and {bound:?}", deleted = when(deleted)
                )
                .at(deleted)
            })
        })
    })
}

/// Creates a case in which the canary deletes the machine of a node, which stays Ready for
/// [`GRACE`]. In this time the provider must not delete the Node, and must not call the backend
/// except to wait for changes.
fn ready_without_machine() -> Case {
    let scenario = world(3, SETTLED)
        .at(SETTLED, Act::Phase("gone".into()))
        .at(SETTLED + GRACE - s(1), Act::Phase("missed".into()));
    let judge = |run: &Run| {
        let asked = run
            .calls_in("gone")
            .filter(|call| run.backend().receives(call) && !run.backend().is_wait(call))
            .count();
        let missed = run.when(&name(1), |node| !node.is_ready());
        let deleted = run.deleted(&name(1));
        let early = deleted.is_some_and(|at| missed.is_none_or(|missed| at < missed));
        Verdict::pass_if(!early, || {
            format!(
                "the Node was deleted {deleted}, before it was NotReady {missed}",
                deleted = when(deleted),
                missed = when(missed)
            )
            .at(deleted)
        })
        .and(|| {
            Verdict::pass_if(asked == 0, || {
                format!(
                    "the provider made {asked} calls to the backend while all nodes were Ready; 0 \
                     are allowed"
                )
            })
        })
    };
    Case::new(scenario, judge).canary(Canary::Gone(1), SETTLED)
}

/// Creates a case with a Node without provider ID, because its machine was deleted before the
/// provider looked for it. In vCenter mode the Node must stay, because a name does not identify a
/// machine. In Supervisor mode a name does, so the provider can prove that the object is absent and
/// must delete the Node.
fn never_matched(backend: Backend) -> Case {
    let scenario = world(4, s(400)).at(s(0), Command::DeleteMachine(machine(1)));
    let scenario = match backend {
        Backend::VCenter => scenario,
        // The provider starts after VM Operator has removed the object.
        Backend::Supervisor => {
            scenario.with_provider(|it| it.start = false).at(s(20), Act::StartAll)
        }
    };
    let judge = move |run: &Run| {
        let given = run.when(&name(1), |node| node.provider_id.is_some());
        if given.is_some() {
            return Verdict::inconclusive(
                format!(
                    "the Node got a provider ID {given}, but the case needs a Node without one",
                    given = when(given)
                )
                .at(given),
            );
        }
        run.was_not_ready(&name(1)).and(|| {
            let is_there = run.node(&name(1)).is_some();
            Verdict::pass_if(is_there == backend.is_vcenter(), || match is_there {
                true => {
                    "the provider did not delete the Node although no VirtualMachine has its name"
                        .to_owned()
                }
                false => "the provider deleted a Node without provider ID".to_owned(),
            })
        })
    };
    Case::new(scenario, judge).canary(Canary::Gone(4), s(200))
}

fn errors(backend: Backend) -> Vec<Case> {
    let mut cases = Vec::new();
    let status = |code| Action::status(code);
    let fault = |class: &str| Action::soap_fault(class);
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
            .at(s(61), backend.disconnect());
        for n in 1..=4 {
            scenario = scenario.at(s(62), Command::StopKubelet(machine(n)));
        }
        let scenario =
            scenario.at(s(300), Command::DeleteMachine(machine(4))).at(s(500), Act::RemoveRules);
        cases.push(
            Case::new(scenario, |run| {
                let early = run.deleted(&name(4));
                Verdict::pass_if(early.is_none_or(|at| at.since_start() >= s(500)), || {
                    format!("a Node was deleted {early}, while every call to the backend failed", early = when(early)).at(early)
                })
                .and(|| {
                    let left = run.nodes();
                    let mut wanted = names(12);
                    wanted.retain(|it| *it != name(4));
                    Verdict::pass_if(left == wanted, || format!("exactly the Node of the deleted machine has to go; Nodes at the end: {left:?}"))
                })
            })
            .named(case),
        );
    }
    cases
}

fn deletion_fails() -> Case {
    let rule =
        Rule::new("refused", [Action::status(500)]).on(Face::Cluster).op(["delete nodes"]).first(2);
    let scenario = world(12, s(400)).at(s(0), rule).at(SETTLED, Command::DeleteMachine(machine(1)));
    Case::new(scenario, |run| {
        let deleted = run.deleted(&name(1));
        let bound = SETTLED + GRACE + T_LIFE + T_MONITOR * 2;
        let told = run.events().into_iter().any(|it| {
            it.kind == "Warning" && it.reason == "DeletingNodeFailed" && it.object == name(1)
        });
        Verdict::pass_if(deleted.is_some_and(|at| at.since_start() <= bound), || {
            format!(
                "the Node was deleted {deleted}, too late after two refused deletions",
                deleted = when(deleted)
            )
            .late(deleted)
        })
        .and(|| {
            Verdict::pass_if(told, || {
                "no Warning event DeletingNodeFailed is about the Node".to_owned()
            })
        })
    })
}

/// Creates a case in which the first deletion of a Node gets a 404 that is not about the Node, as
/// from a load balancer without a route to the API server. The provider must repeat the deletion.
fn foreign_not_found() -> Case {
    let rule =
        Rule::new("no way", [Action::NotServed]).on(Face::Cluster).op(["delete nodes"]).first(1);
    let scenario = world(12, s(400)).at(s(0), rule).at(SETTLED, Command::DeleteMachine(machine(1)));
    Case::new(scenario, |run| {
        let deleted = run.deleted(&name(1));
        let bound = SETTLED + GRACE + T_LIFE + T_MONITOR * 2;
        Verdict::pass_if(deleted.is_some_and(|at| at.since_start() <= bound), || {
            format!("the Node was deleted {deleted}, too late after one deletion that did not reach the API server", deleted = when(deleted)).late(deleted)
        })
    })
    .named("a 404 about nothing")
}

/// Creates a case in which the API server refuses to delete a Node until its machine exists again.
/// The provider must not use the proof of its first attempt for a later one.
fn comes_back_after_a_failed_deletion(
    backend: Backend,
    code: u16,
    retry_after: Option<u32>,
) -> Case {
    let rule = Rule::new("refused", [HttpStatus::new(code).retry_after(retry_after).into()])
        .on(Face::Cluster)
        .op(["delete nodes"]);
    let again = known_machine_arrives(None);
    // The node is NotReady at 110 s. The provider then tries again until the rule is removed, in
    // each monitor period or when the answer permits it.
    let back = s(132) + vanishing(backend);
    let scenario = known_uuid(backend, world(12, s(400)), 1)
        .at(s(0), rule)
        .at(SETTLED, Command::DeleteMachine(machine(1)))
        .at(back, again)
        .at(back + s(1), Act::RemoveRules);
    Case::new(scenario, |run| {
        run.was_not_ready(&name(1)).and(|| {
            Verdict::pass_if(run.node(&name(1)).is_some(), || {
                "the provider deleted the Node with an old proof, although its machine exists again"
                    .to_owned()
            })
        })
    })
    .named(format!("the machine comes back after {code}"))
}

/// Creates a case in which a person deletes a Node and its successor of the same name registers
/// while the provider's deletion of the first is under way. The successor must stay.
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
    // The node is NotReady at 110 s, and the provider sends its deletion soon after that.
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
                return Verdict::inconclusive(format!(
                    "the provider's deletion was not under way when the Node was replaced; its begin and end: {other:?}"
                ));
            }
        }
        let survives = run
            .node_object(&name(1))
            .is_some_and(|node| node["metadata"]["labels"]["example.com/generation"] == "second");
        Verdict::pass_if(survives, || {
            "the provider deleted the new Node instead of its predecessor".to_owned()
        })
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
    // In a large inventory our provider searches for each machine separately.
    let scenario = world_with(4, 3000, s(500))
        .at(SETTLED, Command::DeleteMachine(machine(2)))
        .at(SETTLED, Command::StopKubelet(machine(1)))
        .at(s(100), hang)
        .at(s(100), Act::Crash(0))
        .at(s(100), forget_reference(1))
        .at(s(101), Act::Start(0));
    Case::new(scenario, |run| {
        let deleted = run.deleted(&name(2));
        Verdict::pass_if(
            deleted.is_some_and(|at| at.since_start() <= s(101) + T_LIFE + s(60)),
            || {
                format!("the Node of the deleted machine was deleted {deleted}; a hanging search delayed it", deleted = when(deleted)).at(deleted)
            },
        )
    })
}

/// Creates a case in which the provider may not list machines, so it reads each by name. It first
/// has to delete one Node, whose machine is gone. Later the reads for one machine hang, and the
/// provider must still delete the Node of another machine that is gone.
fn hung_read() -> Case {
    let begin = s(200);
    let hang = Rule::new("hang", [Action::Blackhole]).on(Face::Supervisor).named(name(1));
    let scenario = world(6, s(600))
        .fault(lists_refused())
        .at(SETTLED, Command::DeleteMachine(machine(3)))
        .at(begin, Command::DeleteMachine(machine(2)))
        .at(begin, Command::StopKubelet(machine(1)))
        .at(begin, hang);
    Case::new(scenario, move |run| {
        let works = run.deleted(&name(3)).is_some_and(|at| at.since_start() < begin);
        let deleted = run.deleted(&name(2));
        let bound = begin + GRACE + vanishing(run.backend()) + T_LIFE + s(60);
        run.supports_missing_list(works).and(|| {
            Verdict::pass_if(deleted.is_some_and(|at| at.since_start() <= bound), || {
                format!("the Node of the deleted machine was deleted {deleted}; a hanging read delayed it", deleted = when(deleted)).at(deleted)
            })
        })
    })
}

/// Creates a case in which the provider may not list machines, so it reads each by name, and 150
/// nodes are not ready although their machines run. The provider must still delete the Node of a
/// machine that is gone, although the time of one lookup suffices only for a hundred reads.
fn many_reads() -> Case {
    const N: u32 = 152;
    let stopped = s(200);
    let mut scenario =
        world(N, s(700)).fault(lists_refused()).at(SETTLED, Command::DeleteMachine(machine(N)));
    for n in 1..=150 {
        scenario = scenario.at(stopped, Command::StopKubelet(machine(n)));
    }
    let begin = s(300);
    let scenario = scenario.at(begin, Command::DeleteMachine(machine(151)));
    Case::new(scenario, move |run| {
        let works = run.deleted(&name(N)).is_some_and(|at| at.since_start() < stopped);
        let deleted = run.deleted(&name(151));
        // Allows two rounds of one read per node at five reads per second: the current one and the
        // next.
        let bound = begin + GRACE + vanishing(run.backend()) + T_LIFE + s(60);
        let is_in_time = deleted.is_some_and(|at| at.since_start() <= bound);
        run.supports_missing_list(works).and(|| {
            Verdict::pass_if(is_in_time, || {
                format!("the Node of the deleted machine was deleted {deleted}; reads for 150 other nodes delayed it", deleted = when(deleted)).at(deleted)
            })
        })
    })
    .named("many nodes are read by name")
}
