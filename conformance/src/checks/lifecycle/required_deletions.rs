//! NODE-DEL: deletion of Nodes whose machines are really gone, and the hold of deletions while many
//! machines seem to be gone.

use std::time::Duration;

use serde_json::json;
use sim::Face;
use sim::faults::{Action, Between, Rule, Spoil};
use sim::world::objects::{self, Key};
use sim::world::{Command, ControlPlane, Grant, PROVIDER_USER};

use super::deletion::survives;
use crate::catalogue;
use crate::checks::build::{
    GRACE, KNOWN_UUID, SETTLED, T_LIFE, T_MONITOR, known_uuid, machine, patch, s, vanishing, world,
};
use crate::checks::canary::Canary;
use crate::checks::queries::{EventFacts, name, names};
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::{Run, sum};
use crate::scenario::{Act, Backend, Initializer, Pace, Scenario};

/// Time by which an event of a provider that is a process may follow its cause. The event
/// recorders, client-go's and ours, send events in the background.
const RECORDER: Duration = s(5);

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![
        Check::new("NODE-DEL-008", mass(backend)),
        Check::new(
            "NODE-DEL-010",
            [
                really_gone(one_gone(), backend),
                gone_after_untold_deletions(backend),
                gone_after_deletions_by_hand(backend),
                gone_in_other_words(backend),
            ]
            .into_iter()
            .chain(backend.is_vcenter().then(gone_while_hidden))
            .chain(backend.is_vcenter().then(gone_unseen)),
        ),
        Check::new("NODE-DEL-011", [deletion_forbidden()]),
        Check::new("NODE-DEL-012", [event()]),
    ]
}

fn mass(backend: Backend) -> Vec<Case> {
    match backend {
        Backend::VCenter => vec![mass_vanish(), mass_vanish_of_ready(backend), mass_hidden()],
        Backend::Supervisor => {
            vec![
                mass_vanish(),
                mass_vanish_of_ready(backend),
                listed_empty_once(),
                empty_for_a_moment(),
                half_restored(),
                nothing_from_the_start(),
            ]
        }
    }
}

/// Reason of the event about a Node whose deletion the provider holds back.
const HELD: &str = "NodeDeletionHeld";

fn mass_vanish() -> Case {
    let n = 20;
    let mut scenario = world(n, s(900)).at(SETTLED + GRACE + s(20), Act::Scrape);
    for gone in 1..=12 {
        scenario = scenario.at(SETTLED, Command::DeleteMachine(machine(gone)));
    }
    Case::new(scenario, move |run| {
        let times: Vec<Duration> = names(12)
            .iter()
            .filter_map(|name| run.deleted(name))
            .map(|at| at.since_start())
            .collect();
        let not_ready = SETTLED + GRACE;
        let first = times.iter().min().copied();
        let gone = names(12);
        let held = gone.iter().any(|gone| has_held_event(run, gone));
        Verdict::pass_if(first.is_some_and(|first| first >= not_ready + s(30)), || {
            format!("the first of twelve nodes was deleted {first}; the earliest allowed time is 30 s after they were NotReady {not_ready}", first = when(first), not_ready = when(not_ready))
                .at(first)
        })
        .and(|| {
            Verdict::pass_if(held, || format!("no Warning event {HELD} is about a Node whose deletion is held back"))
        })
        .and(|| {
            let held = run.scrapes.iter().find(|it| it.at.since_start() == not_ready + s(20));
            let held = held.map(|it| sum(&it.samples(), "vsphere_nodes_held", &[]));
            Verdict::pass_if(held.is_some_and(|n| n >= 1.0), || {
                format!("the deletions of twelve Nodes are held back, but vsphere_nodes_held is {held:?}")
            })
        })
        .and(|| {
            let counted = run.metric("vsphere_node_deletions_held_total");
            Verdict::pass_if(counted.is_some_and(|n| n >= 1.0), || {
                format!("vsphere_node_deletions_held_total is {counted:?}; it has to be at least 1")
            })
        })
        .and(|| {
            let left = run.nodes().len();
            Verdict::pass_if(left == 8, || format!("{left} Nodes are left at the end, but 8 machines exist"))
        })
    })
    .paced(Pace::Virtual("the case reads a metric of our provider"))
    .named("machines really deleted")
}

/// Creates a case in which many machines are deleted, and the watch of Nodes does not deliver the
/// deletions of their Nodes. Later one more machine is deleted. The provider must delete the Node
/// of this machine without a hold.
fn gone_after_untold_deletions(backend: Backend) -> Case {
    let (n, many) = (20, 12);
    let last = many + 1;
    let silent = Rule::new("silent", [Action::Blackhole]).on(Face::Cluster).op(["watch nodes"]);
    let (begin, later) = (SETTLED + GRACE + s(10), s(900));
    let mut scenario = world(n, later + s(200));
    for gone in 1..=many {
        scenario = scenario.at(SETTLED, Command::DeleteMachine(machine(gone)));
    }
    let scenario = scenario
        .at(begin, silent)
        .at(begin, Command::EndWatches { plane: ControlPlane::Workload })
        .at(begin + s(240), Act::RemoveRules)
        .at(later, Command::DeleteMachine(machine(last)));
    Case::new(scenario, move |run| {
        let many_are_gone = names(many).iter().all(|name| run.deleted(name).is_some());
        let gone = run.deleted(&name(last)).map(|at| at.since_start());
        let bound = later + vanishing(backend) + GRACE + T_LIFE;
        Verdict::pass_if(many_are_gone, || format!("{many} machines are gone, but not all of their Nodes were deleted; Nodes left: {:?}", run.nodes()))
            .and(|| {
                Verdict::pass_if(gone.is_some_and(|gone| gone <= bound), || {
                    format!("the Node of the machine that was deleted last was deleted {gone}; the limit is {bound:?}", gone = when(gone))
                        .late(gone)
                })
            })
    })
    .named("after deletions that no watch told of")
}

/// Creates a case in which four machines are deleted, and a person deletes their Nodes one after
/// the other. Later one more machine is deleted. The provider must delete the Node of this machine
/// without a hold.
fn gone_after_deletions_by_hand(backend: Backend) -> Case {
    let (n, some) = (20, 4);
    let (last, later) = (some + 1, s(300));
    let mut scenario = world(n, later + s(200));
    for gone in 1..=some {
        let node = objects::Command::delete(Key::node(name(gone)));
        scenario = scenario
            .at(SETTLED, Command::DeleteMachine(machine(gone)))
            .at(SETTLED + s(8) * gone, Command::Cluster(node));
    }
    let scenario = scenario.at(later, Command::DeleteMachine(machine(last)));
    Case::new(scenario, move |run| {
        let gone = run.deleted(&name(last)).map(|at| at.since_start());
        let bound = later + vanishing(backend) + GRACE + T_LIFE;
        Verdict::pass_if(gone.is_some_and(|gone| gone <= bound), || {
            format!("the Node of the machine that was deleted last was deleted {gone}; the limit is {bound:?}", gone = when(gone)).late(gone)
        })
    })
    .named("after deletions by hand")
}

/// True if a Warning event about the first Node of this name, by its uid, reports that its deletion
/// is held back.
fn has_held_event(run: &Run, node: &str) -> bool {
    let uid = run.first_uid(node);
    let is_it = |event: &EventFacts| {
        event.kind == "Warning" && event.reason == HELD && event.object == node
    };
    run.events().iter().any(|event| is_it(event) && Some(&event.uid) == uid.as_ref())
}

/// Creates a case in which twelve machines vanish while only one of their nodes is not ready. The
/// provider has no reason to look for the machines of the nodes that are still ready. Because its
/// view lacks all twelve machines, it must hold the deletion of the one Node back.
fn mass_vanish_of_ready(backend: Backend) -> Case {
    let vanish = s(112);
    let mut scenario = world(20, s(900)).at(SETTLED, Command::StopKubelet(machine(1)));
    for gone in 1..=12 {
        scenario = scenario.at(vanish, Command::DeleteMachine(machine(gone)));
    }
    let judge = move |run: &Run| {
        if run.stage.mode.is_v1() {
            return Verdict::inconclusive("v1 looks only for machines of nodes that are not ready");
        }
        let deleted = run.deleted(&name(1));
        let first = vanish + vanishing(backend) + s(30);
        let others = run.when(&name(2), |node| !node.is_ready());
        run.was_not_ready(&name(1))
            .and(|| match others {
                Some(at) if at.since_start() > first => Verdict::Pass,
                _ => Verdict::inconclusive(format!("the other nodes were not ready {others}; the case needs this after {first:?}", others = when(others))),
            })
            .and(|| {
                Verdict::pass_if(deleted.is_some_and(|at| at.since_start() >= first), || {
                    format!("the Node was deleted {deleted}; it has to be held until {first:?}, because eleven other machines vanished with its own", deleted = when(deleted))
                        .at(deleted)
                })
            })
            .and(|| {
                let is_told = has_held_event(run, &name(1));
                Verdict::pass_if(is_told, || format!("no Warning event {HELD} is about the Node"))
            })
            .and(|| {
                let left = run.nodes().len();
                Verdict::pass_if(left == 8, || format!("{left} Nodes are left at the end, but 8 machines exist"))
            })
    };
    Case::new(scenario, judge)
        .paced(Pace::Virtual("other providers need not look at machines of ready nodes"))
        .named("machines of ready nodes really deleted")
}

fn mass_hidden() -> Case {
    let n = 20;
    let object = "DC0".to_owned();
    let grant = Grant { vcenter: None, user: PROVIDER_USER.to_owned(), object };
    let mut scenario = world(n, s(600)).at(SETTLED, Command::RevokePrivilege(grant));
    for silent in 1..=12 {
        scenario = scenario.at(s(65), Command::StopKubelet(machine(silent)));
    }
    Case::new(scenario, move |run| survives(run, n)).named("inventory hidden")
}

/// Creates a case in which the watch expires, and the first list after that is empty.
fn listed_empty_once() -> Case {
    let n = 20;
    let empty = Rule::new("empty", [Action::EmptyResult]).on(Face::Supervisor).op([LIST]).first(1);
    let scenario = at_once(n, 12, empty).at(s(130), Backend::Supervisor.disconnect());
    let case = Case::new(scenario, move |run| survives(run, n - 1)).named("listed empty once");
    case.canary(Canary::Gone(n), s(200))
}

const LIST: &str = "list virtualmachines";

/// Creates a case in which lists and reads by name show no machine for 20 s, less than the hold, as
/// during a restoration from a backup. Only one node is not ready, so a provider that holds
/// deletions only when many nodes are not ready deletes this Node.
fn empty_for_a_moment() -> Case {
    let n = 20;
    let mut empty = Rule::new("empty", [Action::EmptyResult])
        .on(Face::Supervisor)
        .op([LIST, "get virtualmachines"]);
    empty.when.between = Some(Between::new(s(130), s(150)));
    let scenario = at_once(n, 1, empty).at(s(130), Backend::Supervisor.disconnect());
    let case = Case::new(scenario, move |run| survives(run, n - 1)).named("empty for a moment");
    case.canary_within(Canary::Gone(n), s(200), s(60))
}

/// Returns a scenario in which `n_silent` nodes are not ready when, at 130 s, the watch expires and
/// this rule comes into force.
fn at_once(n: u32, n_silent: u32, rule: Rule) -> Scenario {
    let expired = Rule::new("expired", [Action::WatchGone])
        .on(Face::Supervisor)
        .op(["watch virtualmachines"])
        .first(1);
    let mut scenario = world(n, s(600));
    for silent in 1..=n_silent {
        scenario = scenario.at(SETTLED, Command::StopKubelet(machine(silent)));
    }
    scenario.at(s(130), rule).at(s(130), expired)
}

/// Creates a case in which the provider restarts and sees no machine at all, as in a wrong
/// namespace. It must not take machines that it has never seen for deleted ones.
fn nothing_from_the_start() -> Case {
    let n = 20;
    let nothing = Rule::new("nothing", [Action::EmptyResult]).on(Face::Supervisor);
    let mut scenario = world(n, s(700));
    for silent in 1..=2 {
        scenario = scenario.at(SETTLED, Command::StopKubelet(machine(silent)));
    }
    let scenario = scenario
        .at(s(90), nothing)
        .at(s(90), Act::Crash(0))
        .at(s(91), Act::Start(0))
        .at(s(400), Act::RemoveRules)
        .at(s(400), Act::Crash(0))
        .at(s(401), Act::Start(0));
    let case = Case::new(scenario, move |run| survives(run, n - 1)).named("nothing from the start");
    case.canary(Canary::Gone(n), s(450))
}

/// Creates a case in which twelve of twenty machines are invisible for 20 s, less than the hold.
fn half_restored() -> Case {
    let n = 20;
    let actions = (1..=12).map(|n| Action::Hide(name(n)));
    let hide = Rule::new("half restored", actions).on(Face::Supervisor);
    let scenario = at_once(n, 12, hide)
        .at(s(130), Backend::Supervisor.disconnect())
        .at(s(150), Act::RemoveRules);
    let case = Case::new(scenario, move |run| survives(run, n - 1)).named("half restored");
    case.canary_within(Canary::Gone(n), s(200), s(60))
}

/// Returns the maximum number of calls to this backend for one deleted machine: the number of
/// EFF-009 in the catalogue.
pub(crate) fn allowed(backend: Backend) -> u64 {
    catalogue::entry("EFF-009").map_or(0, |entry| entry.allowed(backend))
}

/// Returns a scenario in which one of twenty machines, [`GONE`], is deleted.
fn one_gone() -> Scenario {
    world(20, s(400)).at(SETTLED, Command::DeleteMachine(machine(GONE)))
}

/// Number of the deleted machine.
const GONE: u32 = 7;

/// Returns the time at which the control plane sets the node of [`GONE`] NotReady, because its
/// kubelet has been silent for [`GRACE`].
fn silent_since(backend: Backend) -> Duration {
    SETTLED + vanishing(backend) + GRACE
}

/// Creates a case in which the login may not see the machine for three minutes, and the machine is
/// deleted when the login gets the right back. Only from then on can the provider prove that the
/// machine is gone.
fn gone_while_hidden() -> Case {
    let grant = Grant { vcenter: None, user: PROVIDER_USER.to_owned(), object: name(GONE) };
    let seen_again = s(240);
    let scenario = world(20, s(400))
        .at(SETTLED, Command::RevokePrivilege(grant.clone()))
        .at(SETTLED, Command::StopKubelet(machine(GONE)))
        .at(seen_again, Command::GrantPrivilege(grant))
        .at(seen_again, Command::DeleteMachine(machine(GONE)));
    Case::new(scenario, move |run| {
        let gone = name(GONE);
        let deleted = run.deleted(&gone).map(|at| at.since_start());
        // A provider may pause up to a minute before it looks again for a machine that it may not
        // see.
        let bound = seen_again + s(60);
        run.was_not_ready(&gone).and(|| {
            Verdict::pass_if(deleted.is_some_and(|at| at >= seen_again && at <= bound), || {
                format!(
                    "since {seen_again:?} the provider can see that the machine is gone; its Node was deleted {deleted}, not within a minute after that", deleted = when(deleted)
                )
                .at(deleted)
            })
        })
    })
    .named("after the machine could not be seen")
}

/// Creates a case in which another provider initialized a Node and its machine is deleted before
/// our provider starts, so that ours has never seen this machine. A person confirms by an
/// annotation that the machine is gone.
fn gone_unseen() -> Case {
    let (confirmed, bound) = (s(180), s(180) + s(60));
    let annotations =
        json!({"vsphere.cloud-provider/machine-gone": format!("vsphere://{KNOWN_UUID}")});
    let scenario = known_uuid(Backend::VCenter, world(20, s(400)), 1)
        .with_provider(|it| it.start = false)
        .at(s(5), Act::Initialize { node: None, by: Initializer::Upstream })
        .at(s(10), Command::DeleteMachine(machine(1)))
        .at(s(20), Act::StartAll)
        .at(confirmed, patch(&name(1), json!({"metadata": {"annotations": annotations}})));
    Case::new(scenario, move |run| {
        let deleted = run.deleted(&name(1)).map(|at| at.since_start());
        run.was_not_ready(&name(1))
            .and(|| {
                Verdict::pass_if(deleted.is_some_and(|at| at <= bound), || {
                    let (confirmed, end) = (when(confirmed), when(deleted));
                    format!("a person confirmed {confirmed} that the machine is gone, so its Node must be deleted by {bound:?}; it was deleted {end}")
                        .at(deleted)
                })
            })
            .and(|| {
                let left = run.nodes().len();
                Verdict::pass_if(left == 19, || format!("{left} Nodes are left at the end, but 19 machines exist"))
            })
    })
    .paced(Pace::Virtual("only our provider reads the annotation"))
    .named("a machine that was never seen, after a person confirmed it")
}

/// Creates a case in which every answer escapes characters that need no escape, as some servers and
/// proxies do.
fn gone_in_other_words(backend: Backend) -> Case {
    let spelled = Rule::new("spelled", [Action::Spoil(Spoil::Respelled)]);
    really_gone(one_gone().fault(spelled), backend).named("escapes in every answer")
}

/// Creates a case from a scenario in which the machine [`GONE`] is deleted. The provider must
/// delete the machine's Node within two monitor periods after the node becomes NotReady.
fn really_gone(scenario: Scenario, backend: Backend) -> Case {
    Case::new(scenario, move |run| {
        let gone = name(GONE);
        let deleted = run.deleted(&gone);
        let since = silent_since(backend);
        run.was_not_ready(&gone)
            .and(|| {
                let is_in_time =
                    deleted.is_some_and(|at| at.since_start() <= since + T_MONITOR * 2);
                Verdict::pass_if(is_in_time, || {
                    format!("the Node was deleted {deleted}; it has been NotReady since {since:?}, and two monitor periods are allowed", deleted = when(deleted))
                        .at(deleted)
                })
            })
            .and(|| {
                Verdict::pass_if(run.nodes().len() == 19, || {
                    format!("{} Nodes are left at the end, but 19 machines exist", run.nodes().len())
                })
            })
    })
}

/// Creates the case of EFF-009: the deletion of one machine may cause at most [`allowed`] calls to
/// the backend, without those that wait for changes.
pub(in crate::checks) fn cheap_deletion(backend: Backend) -> Case {
    let allowed = allowed(backend);
    Case::new(one_gone(), move |run| {
        let calls = run.lookups().filter(|call| {
            let at = call.t.since_start();
            at >= SETTLED && at <= silent_since(backend) + T_LIFE
        });
        let n_calls = u64::try_from(calls.count()).unwrap_or(u64::MAX);
        let is_gone = run.deleted(&name(GONE)).is_some();
        Verdict::pass_if(n_calls <= allowed, || {
            format!(
                "the provider made {n_calls} calls for one deleted machine; at most {allowed} are \
                 allowed"
            )
        })
        // A provider that never deletes the node needs no calls.
        .and(|| match is_gone {
            true => Verdict::Pass,
            false => Verdict::inconclusive("the provider did not delete the Node"),
        })
    })
}

fn deletion_forbidden() -> Case {
    let scenario = world(12, s(400))
        .with_provider(|it| it.skip_deletion = true)
        .at(SETTLED, Command::DeleteMachine(machine(2)))
        .at(s(200), Act::Phase("long gone".into()));
    // The twin is the same scenario with deletions permitted.
    let twin = scenario.clone().with_provider(|it| it.skip_deletion = false);
    Case::new(scenario, move |run| {
        let kept = name(2);
        let otherwise = crate::lab::run(&twin, &run.stage).deleted(&kept);
        if otherwise.is_none_or(|at| at.since_start() > SETTLED + GRACE + T_LIFE) {
            return Verdict::inconclusive(format!(
                "without SKIP_NODE_DELETION the Node is deleted {otherwise}, so the case cannot show that SKIP_NODE_DELETION has an effect", otherwise = when(otherwise)
            ).at(otherwise));
        }
        let deletions = run.calls().filter(|call| call.op == "delete nodes").count();
        let told = run.events().iter().any(|event| event.reason.starts_with("DeletingNode"));
        // The phase lasts forty monitor periods and begins well after the provider could prove the
        // absence.
        let writes = run
            .calls_in("long gone")
            .filter(|call| call.is_cluster_call() && call.class == Some(sim::Class::Write))
            .count();
        run.was_not_ready(&kept)
            .and(|| Verdict::pass_if(run.node(&kept).is_some(), || "the provider deleted the Node although SKIP_NODE_DELETION is set".to_owned()))
            .and(|| Verdict::pass_if(deletions == 0, || format!("the provider tried to delete Nodes {deletions} times although SKIP_NODE_DELETION is set")))
            .and(|| {
                Verdict::pass_if(!told, || "an event announces a deletion although SKIP_NODE_DELETION is set".to_owned())
            })
            .and(|| Verdict::pass_if(writes == 0, || format!(
                "the provider made {writes} writes to the cluster long after the deletion of the \
                 machine; 0 are allowed"
            )))
    })
    // The provider must still mark other nodes.
    .canary(Canary::Off(3), s(100))
    .paced(Pace::Virtual("the case compares two runs of our provider in this process"))
}

fn event() -> Case {
    let scenario = world(5, s(300)).at(SETTLED, Command::DeleteMachine(machine(2)));
    Case::new(scenario, |run| {
        let gone = name(2);
        let Some(deleted) = run.deleted(&gone) else {
            return Verdict::inconclusive("the provider did not delete the Node".to_owned());
        };
        let events: Vec<_> = run
            .events()
            .into_iter()
            .filter(|event| event.reason == "DeletingNode" && event.object == gone)
            .collect();
        let call = run
            .calls()
            .find(|call| call.op == "create events" && call.req.detail.contains("DeletingNode"));
        let lag = if run.hosted { RECORDER } else { Duration::ZERO };
        Verdict::pass_if(events.len() == 1 && events[0].kind == "Normal", || {
            format!("exactly one Normal event DeletingNode has to be about the Node, not {events:?}")
        })
        .and(|| {
            Verdict::pass_if(events[0].message.contains(&gone), || {
                format!("the message of the event DeletingNode does not name the Node: {}", events[0].message)
            })
        })
        .and(|| {
            Verdict::pass_if(call.is_some_and(|call| call.t <= deleted + lag), || {
                let came = call.map(|call| call.t);
                format!(
                    "the Node was deleted {deleted}, and its event came {came}; at most {lag:?} later is allowed", deleted = when(deleted), came = when(came)
                )
                .at(deleted)
            })
        })
    })
}
