//! NODE-…: the contract of Kubernetes' cloud-node controller.

use serde_json::json;
use sim::Face;
use sim::faults::{Action, Rule};
use sim::world::objects::{self, Key};
use sim::world::{Command, Time};

use crate::checks::build::{
    GRACE, KNOWN_UUID, SETTLED, T_INIT, T_STATUS, WRITE_NODE, create_machine_of_early,
    create_node_early, hidden, known_uuid, machine, patch, s, set_address, world, world_with,
};
use crate::checks::canary::Canary;
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::judge::{Invariant, NodeFacts};
use crate::lab::Run;
use crate::scenario::{Act, Backend, Initializer};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![
        Check::new(
            "NODE-001",
            [Case::new(world(5, SETTLED), |run| run.initializes(&names(5), s(0), T_INIT))],
        ),
        Check::new("NODE-002", [Case::new(world(5, SETTLED), atomic)]),
        Check::new("NODE-004", [Case::new(world(5, SETTLED), provider_ids)]),
        Check::new("NODE-005", [preset_provider_id(backend), foreign_provider_id()]),
        Check::new("NODE-015", [first_addresses()]),
        Check::new("NODE-016", [new_address()]),
        Check::new("NODE-018", [no_reported_address()]),
        Check::new("NODE-026", [silent(false)]),
        Check::new("NODE-027", [silent(true)]),
        Check::new("NODE-028", [absent_machine()]),
        Check::new("NODE-031", [hidden_machine(backend)]),
        Check::new("NODE-032", [conflicts(5), conflicts(12)]),
        Check::new("NODE-033", [Case::new(world(4, SETTLED), one_event_each)]),
        Check::new("NODE-034", [restarted()]),
        Check::new("NODE-035", [deleted_meanwhile(backend), deleted_unseen(backend)]),
        Check::new("NODE-036", [crash_between()]),
    ]
}

/// Creates a case in which each node must show its first address within [`T_INIT`].
fn first_addresses() -> Case {
    Case::new(world(5, SETTLED), |run| {
        for name in names(5) {
            let shown = run.when(&name, |node| node.of_type("InternalIP").next().is_some());
            if shown.is_none_or(|at| at.since_start() > T_INIT) {
                return Verdict::fail(
                    format!("the first address on node {name} appeared {shown}; the limit is {T_INIT:?}", shown = when(shown)).late(shown),
                );
            }
        }
        Verdict::Pass
    })
}

/// Creates a case in which a machine gets another address. Within an address period and [`T_INIT`]
/// the machine's node must show this address and no other.
fn new_address() -> Case {
    Case::new(world(3, s(700)).at(s(100), set_address(1, &["10.5.0.1"])), |run| {
        let shown = run.when_after(&name(1), s(100), |node| {
            node.ips().all(|ip| ip == "10.5.0.1") && node.ips().next().is_some()
        });
        Verdict::pass_if(
            shown.is_some_and(|at| at.since_start() <= s(100) + T_STATUS + T_INIT),
            || {
                format!(
                "the node showed the new address, and no other, {shown}; the limit is {limit:?}",
                shown = when(shown),
                limit = s(100) + T_STATUS + T_INIT
            )
            .late(shown)
            },
        )
    })
}

/// Creates a case in which a running machine stops reporting addresses. The machine's node must
/// keep an address.
fn no_reported_address() -> Case {
    Case::new(
        world(3, SETTLED + T_STATUS * 2 + s(30)).at(SETTLED, Command::ClearAddresses(machine(1))),
        |run| {
            let left = run.node(&name(1)).map(|node| node.ips().count()).unwrap_or(0);
            Verdict::pass_if(
                left > 0,
                || "at the end the Node has no address or does not exist, although its machine runs",
            )
        },
    )
}

/// Creates a case in which the provider can no longer see a machine. The provider must not change
/// the machine's node.
fn hidden_machine(backend: Backend) -> Case {
    Case::new(
        world(3, SETTLED + T_STATUS * 2)
            .at(SETTLED, Command::SetHeartbeats { every: None })
            .at(SETTLED, hidden(backend, 1))
            .at(SETTLED, backend.disconnect()),
        |run| {
            let before = run.versions(&name(1));
            let settled = before.iter().filter(|(at, _)| at.since_start() > SETTLED).count();
            Verdict::pass_if(settled == 0, || {
                format!("the node changed {settled} times while its machine was hidden")
            })
        },
    )
    .canary(Canary::Moved(2), SETTLED + T_STATUS)
}

fn one_event_each(run: &Run) -> Verdict {
    let events = run.events();
    for name in names(4) {
        let n = events.iter().filter(|it| it.reason == "Synced" && it.object == name).count();
        if n != 1 {
            return Verdict::fail(format!(
                "{n} events Synced are about {name}; exactly 1 is needed"
            ));
        }
    }
    Verdict::Pass
}

/// Creates a case in which the provider restarts after all nodes were initialized. It must write
/// nothing to the cluster afterwards.
fn restarted() -> Case {
    Case::new(
        world(4, s(200))
            .at(SETTLED, Act::Crash(0))
            .at(s(61), Act::Phase("again".into()))
            .at(s(61), Act::Start(0))
            .at(s(200), Act::Phase("after".into())),
        |run| {
            let writes: Vec<String> = run
                .calls_in("again")
                .filter(|call| call.is_cluster_call() && call.class == Some(sim::Class::Write))
                .map(ToString::to_string)
                .collect();
            Verdict::pass_if(writes.is_empty(), || {
                format!(
                    "all nodes were initialized before the restart, but afterwards the provider wrote: {}",
                    writes.join("; ")
                )
            })
        },
    )
    .canary(Canary::Gone(4), s(200))
}

fn atomic(run: &Run) -> Verdict {
    for name in names(5) {
        let first =
            run.versions(&name).into_iter().filter_map(|(_, it)| it).find(|it| !it.uninitialized);
        match first {
            None => {
                return Verdict::fail(
                    format!("node {name} was never initialized").late(None::<Time>),
                );
            }
            Some(node) if node.provider_id.is_none() || !has_labels(run, &node) => {
                return Verdict::fail(format!(
                    "the first version of {name} without the taint lacks the provider ID or a label: {node:?}"
                ));
            }
            Some(_) => {}
        }
    }
    Verdict::Pass
}

/// True if the node has zone, region and instance type in vCenter mode, or a zone in Supervisor
/// mode.
fn has_labels(run: &Run, node: &NodeFacts) -> bool {
    match run.backend() {
        Backend::VCenter => !node.labels.contains(&None),
        Backend::Supervisor => node.labels[0].is_some(),
    }
}

fn provider_ids(run: &Run) -> Verdict {
    run.initializes(&names(5), s(0), T_INIT)
}

fn preset_provider_id(backend: Backend) -> Case {
    let preset = format!("vsphere://{KNOWN_UUID}");
    let scenario = known_uuid(backend, world(2, T_STATUS + SETTLED), 1)
        .at(s(0), patch(&name(1), json!({"spec": {"providerID": preset.clone()}})));
    Case::new(scenario, move |run| {
        let ids: Vec<_> =
            run.versions(&name(1)).into_iter().filter_map(|(_, node)| node?.provider_id).collect();
        let kept = ids.iter().all(|id| *id == preset) && !ids.is_empty();
        let other = run.writes_on(&name(1)).any(|call| {
            call.req.detail.contains("providerID") && !call.req.detail.contains(&preset)
        });
        Verdict::pass_if(kept, || {
            format!(
                "the provider ID of the node did not stay as it was set; its values were {ids:?}"
            )
        })
        .and(|| {
            Verdict::pass_if(!other, || {
                "a request of the provider carried another provider ID".to_owned()
            })
        })
        .and(|| run.initializes(&names(2), s(0), T_INIT))
    })
}

/// Creates a case with a Node that carries the provider ID of another cloud from the start. The
/// provider must not replace this ID. It may find the machine by the Node's name. If it leaves the
/// Node uninitialized, an event or a log line must name the provider ID.
fn foreign_provider_id() -> Case {
    const FOREIGN: &str = "aws:///eu-west-1a/i-0123456789abcdef0";
    let scenario = world(3, T_STATUS + SETTLED)
        .at(s(0), patch(&name(1), json!({"spec": {"providerID": FOREIGN}})));
    Case::new(scenario, |run| {
        let other =
            run.when(&name(1), |node| node.provider_id.as_deref().is_some_and(|id| id != FOREIGN));
        let opened = run.initialized(&name(1));
        let told = |text: &str| {
            text.contains(FOREIGN) || text.to_lowercase().replace(' ', "").contains("providerid")
        };
        let logged = run.logged_after(s(0)).any(|line| line.contains(&name(1)) && told(line));
        let event = run.events().iter().any(|it| it.object == name(1) && told(&it.message));
        Verdict::pass_if(other.is_none(), || "the provider replaced the provider ID of another cloud".to_owned().at(other))
            .and(|| {
                Verdict::pass_if(opened.is_some() || logged || event, || {
                    "the node stays uninitialized, but neither an event nor a log line names its provider ID as the reason".to_owned()
                })
            })
            .and(|| run.initializes(&names(3)[1..], s(0), T_INIT))
    })
    .named("of another cloud")
    .exempt(Invariant::ProviderIdStays, "the scenario sets the provider ID in place of a person or another cloud")
}

fn silent(dual_stack: bool) -> Case {
    let topology =
        sim::world::Topology { dual_stack, ..sim::world::Topology::zones(3).machines(4) };
    let scenario = crate::scenario::Scenario::new("", topology, SETTLED + T_STATUS * 3)
        .with_provider(|it| {
            if dual_stack {
                it.families = vec!["ipv4".into(), "ipv6".into()];
            }
        })
        .at(SETTLED, Act::Phase("settled".into()));
    Case::new(scenario, move |run| {
        let writes: Vec<String> = run
            .calls_in("settled")
            .filter(|call| {
                call.op.starts_with("patch nodes") || call.op.starts_with("update nodes")
            })
            .map(ToString::to_string)
            .collect();
        run.initializes(&names(4), s(0), T_INIT)
            .and(|| {
                Verdict::pass_if(writes.is_empty(), || {
                    format!("nothing changed, but the provider wrote Nodes: {}", writes.join("; "))
                })
            })
            .and(|| if dual_stack { run.shows_several(&name(1)) } else { Verdict::Pass })
    })
}

fn absent_machine() -> Case {
    // The Node registers with a UUID that no machine has until 200 s.
    let uuid = uuid::Uuid::from_u128(0x4242_1111_2222_4333_8444_0000_0000_0077);
    let scenario = world_with(1, 2, s(900))
        .at(s(10), create_node_early(uuid))
        .at(s(200), create_machine_of_early(uuid));
    Case::new(scenario, |run| {
        let before: Vec<_> = run
            .writes_on("early")
            .filter(|call| call.t.since_start() < s(200))
            .map(ToString::to_string)
            .collect();
        Verdict::pass_if(before.is_empty(), || {
            format!("the provider wrote the Node before its machine existed: {}", before.join("; "))
        })
        .and(|| run.initializes(&["early".to_owned()], s(222), s(600)))
    })
}

/// Creates a case in which the API server answers the first `n` writes of a Node with a conflict,
/// while a person adds a label. The provider must initialize the Node and keep the label.
fn conflicts(n: u64) -> Case {
    let rule = Rule::new("conflict", [Action::status(409)])
        .on(Face::Cluster)
        .op(WRITE_NODE)
        .named(name(1))
        .first(n);
    let label = json!({"metadata": {"labels": {"example.com/added": "meanwhile"}}});
    let scenario = world(2, s(120)).fault(rule).at(s(1), patch(&name(1), label));
    Case::new(scenario, |run| {
        run.initializes(&names(2), s(0), T_INIT + s(5)).and(|| {
            let kept = run
                .node_object(&name(1))
                .is_some_and(|node| node["metadata"]["labels"]["example.com/added"] == "meanwhile");
            Verdict::pass_if(kept, || {
                "the provider overwrote a label that a person added meanwhile".to_owned()
            })
        })
    })
    .named(format!("{n} conflicts"))
}

fn deleted_meanwhile(backend: Backend) -> Case {
    let slow = Rule::new("slow", [Action::Delay(s(8))]).on(backend.face()).first(20);
    let delete = Command::Cluster(objects::Command::delete(Key::node(name(1))));
    let scenario = world(2, s(300)).fault(slow).at(s(4), delete);
    Case::new(scenario, |run| {
        Verdict::pass_if(run.node(&name(1)).is_none(), || {
            "the provider created the deleted Node again".to_owned()
        })
        .and(|| {
            let late = run
                .calls()
                .filter(|call| call.target.name.as_deref() == Some(name(1).as_str()))
                .filter(|call| call.t.since_start() > s(4) + s(90))
                .count();
            Verdict::pass_if(late == 0, || {
                format!(
                    "the provider made {late} calls about the Node more than 90 s after its \
                     deletion; 0 are allowed"
                )
            })
        })
        .and(|| {
            Verdict::pass_if(
                run.initialized(&name(2)).is_some(),
                || "the provider did not initialize the other node",
            )
        })
    })
}

/// Creates a case in which a person deletes two Nodes while the provider reads their machines, and
/// the watch of Nodes does not deliver the deletions. Another provider has initialized one of the
/// two. The API server answers the provider's writes with 404. The provider must not repeat them,
/// and must not create the Nodes again.
fn deleted_unseen(backend: Backend) -> Case {
    let (starts, deleted) = (s(10), s(14));
    let held = Rule::new("held", [Action::WatchHoldAfter(0)]).on(Face::Cluster).op(["watch nodes"]);
    let slow = Rule::new("slow", [Action::Delay(s(8))]).on(backend.face()).first(2);
    let delete = |n| Command::Cluster(objects::Command::delete(Key::node(name(n))));
    let scenario = world(3, s(300))
        .with_provider(|it| it.start = false)
        .fault(held)
        .fault(slow)
        .at(s(5), Act::Initialize { node: Some(name(1)), by: Initializer::Upstream })
        .at(starts, Act::StartAll)
        .at(deleted, delete(1))
        .at(deleted, delete(2));
    Case::new(scenario, move |run| {
        let back: Vec<_> =
            [1, 2].map(name).into_iter().filter(|it| run.node(it).is_some()).collect();
        let n_written = |n: u32| {
            let node = name(n);
            run.writes_on(&node).filter(|call| call.t.since_start() > deleted).count()
        };
        // Allows one write of the status and one of the Node.
        let many = [1, 2].into_iter().find(|n| n_written(*n) > 2);
        Verdict::pass_if(back.is_empty(), || {
            format!("the provider created deleted Nodes again: {}", back.join(", "))
        })
        .and(|| {
            Verdict::pass_if(many.is_none(), || {
                let (n, node) = many.map(|n| (n_written(n), name(n))).unwrap_or_default();
                format!(
                    "the provider sent {n} writes of the deleted Node {node}; at most 2 are \
                     allowed"
                )
            })
        })
        .and(|| run.initializes(&[name(3)], starts, s(120)))
    })
    .named("the watch is silent about it")
}

fn crash_between() -> Case {
    let rule =
        Rule::new("hang", [Action::Blackhole]).on(Face::Cluster).op(WRITE_NODE).applied().first(1);
    let scenario = world(1, T_STATUS + s(120))
        .fault(rule)
        .at(s(5), Act::Crash(0))
        .at(s(5), Act::RemoveRules)
        .at(s(6), Act::Start(0));
    Case::new(scenario, |run| {
        let shown = run.when(&name(1), |node| !node.uninitialized && node.ips().next().is_some());
        Verdict::pass_if(
            shown.is_some_and(|at| at.since_start() <= T_STATUS + T_INIT + GRACE),
            || {
                format!(
                    "the Node was without taint and with addresses {shown}, later than allowed after the restart",
                    shown = when(shown)
                )
            },
        )
    })
}
