//! CCM: who leads, what a standby does meanwhile, and how leadership changes hands.

use std::time::Duration;

use sim::Class;
use sim::Face;
use sim::faults::{Action, Rule};
use sim::ledger::Record;
use sim::world::objects::{self, GroupResource, Key, PatchKind};
use sim::world::{Command, Time};

use super::build::{SETTLED, T_INIT, newcomer, s, world};
use super::observe::names;
use super::{Case, Check};
use crate::foreign::Pace;
use crate::judge::terms;
use crate::lab::{Exit, LEASE, Run};
use crate::scenario::Act;
use crate::verdict::{Told as _, Verdict};

/// How long a lease lasts without a renewal.
const LEASE_DURATION: Duration = s(15);
/// When a leader that cannot renew has to have stopped.
const RENEW_DEADLINE: Duration = s(10);
/// How often others try, with the longest jitter.
const RETRY: Duration = Duration::from_millis(4_400);
/// Time for a takeover beside that, and for a process to end.
const SLACK: Duration = s(5);

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![
        Check::new("CCM-001", [held_and_renewed()]),
        Check::new("CCM-002", [standby()]),
        Check::new("CCM-003", [takeover()]),
        Check::new("CCM-005", [renewals_refused(), overwritten()]),
        Check::new("CCM-006", [announced()]),
    ];
    for case in checks.iter_mut().flat_map(|check| &mut check.cases) {
        case.pace = Pace::Virtual("the periods of leader election are constants of the provider");
    }
    checks
}

fn key() -> Key {
    let (namespace, name) = LEASE;
    Key::new(GroupResource::of("coordination.k8s.io", "leases"), namespace, name)
}

/// Changes that a caller asks for, but for the lease and events.
fn works(call: &Record) -> bool {
    call.class == Some(Class::Write) && !call.op.contains("leases") && !call.op.contains("events")
}

fn held_and_renewed() -> Case {
    let end = s(180);
    Case::new(world(3, end).with(|it| it.leader_election = true), move |run| {
        let mut terms = terms(run);
        // It is given up when the provider is told to stop.
        terms.retain(|it| it.from.since_start() < end);
        let Some(first) = terms.first() else {
            return Verdict::fail("there is no lease".to_owned());
        };
        let wrong = terms.iter().find(|it| it.holder.is_empty() || it.lasts != LEASE_DURATION);
        let moments: Vec<Duration> =
            terms.iter().map(|it| it.from.since_start()).chain([end]).collect();
        let gaps = moments.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let longest = gaps.max().unwrap_or_default();
        Verdict::of(first.from.since_start() <= s(5), || {
            format!("the lease is there at {}", first.from).at(first.from)
        })
        .and(|| {
            Verdict::of(wrong.is_none(), || {
                let it = wrong.map(|it| (it.holder, it.lasts));
                format!("holder and duration of the lease are {it:?}").at(wrong.map(|it| it.from))
            })
        })
        .and(|| {
            Verdict::of(longest <= s(5), || {
                format!("the lease was not renewed for {longest:?}; 5 s are allowed")
            })
        })
        .and(|| run.initializes(&names(3), s(0), s(5) + T_INIT))
    })
}

/// Each leader records an event on the Lease when it begins to lead.
fn announced() -> Case {
    let scenario = world(3, s(150)).with(|it| it.replicas = 2).at(SETTLED, Act::CrashLeader);
    Case::new(scenario, |run| {
        let (_, lease) = LEASE;
        let told: Vec<String> = run
            .events()
            .into_iter()
            .filter(|it| it.reason == "LeaderElection" && it.kind == "Normal" && it.object == lease)
            .map(|it| it.message)
            .collect();
        let mut leaders: Vec<&str> =
            terms(run).into_iter().map(|it| it.holder).filter(|it| !it.is_empty()).collect();
        leaders.dedup();
        let silent =
            leaders.iter().find(|leader| !told.contains(&format!("{leader} became leader")));
        if leaders.len() < 2 {
            return Verdict::inconclusive(format!("{leaders:?} led; two have to"));
        }
        Verdict::of(silent.is_none(), || {
            format!("{silent:?} led, and the events on the Lease say {told:?}")
        })
    })
}

fn standby() -> Case {
    let scenario = world(3, s(240)).with(|it| it.replicas = 2).at(SETTLED, newcomer("late", None));
    Case::new(scenario, |run| {
        let terms = terms(run);
        let Some(leader) = terms.first().map(|it| it.label().to_owned()) else {
            return Verdict::fail("there is no lease".to_owned());
        };
        let others: Vec<&Record> =
            run.calls().filter(|call| call.client.client != leader).collect();
        if !others.iter().any(|call| call.op.contains("leases")) {
            return Verdict::inconclusive("the standby never asked for the lease".to_owned());
        }
        let work = others.iter().find(|call| works(call));
        Verdict::of(work.is_none(), || {
            let work = work.map(ToString::to_string).unwrap_or_default();
            format!("{leader} leads, and another one works: {work}")
        })
        .and(|| joins(run, SETTLED))
    })
}

fn takeover() -> Case {
    let dies = SETTLED;
    let scenario = world(3, s(180))
        .with(|it| it.replicas = 2)
        .at(dies, Act::CrashLeader)
        .at(dies + s(1), newcomer("late", None));
    Case::new(scenario, move |run| {
        let terms = terms(run);
        let Some(first) = terms.first() else {
            return Verdict::fail("there is no lease".to_owned());
        };
        let next =
            terms.iter().find(|it| it.from.since_start() >= dies && it.label() != first.label());
        let bound = dies + LEASE_DURATION + RETRY + SLACK;
        let Some(next) = next else {
            return Verdict::fail("nobody takes the lease of a leader that died".to_owned());
        };
        let at = next.from;
        Verdict::of(at.since_start() <= bound, || {
            format!("the lease is taken at {at}; {bound:?} is allowed").at(at)
        })
        .and(|| joins(run, at.since_start()))
    })
}

/// From the loss of the lease until it is taken again nothing is written, and the process has ended with an error.
fn ends(run: &Run, lost: Duration, free: Duration) -> Verdict {
    let deadline = lost + RENEW_DEADLINE + s(1);
    let by = lost + RENEW_DEADLINE + SLACK;
    let mut ends = run.exits.iter().zip(&run.ended_at);
    let failed = ends.any(|(exit, at)| matches!(exit, Exit::Failed(_)) && at.since_start() <= by);
    let terms = terms(run);
    let again = terms.iter().find(|it| {
        it.from.since_start() >= free && run.calls().any(|call| call.client.client == it.label())
    });
    let until = again.map_or(Duration::MAX, |it| it.from.since_start());
    let late =
        run.calls().find(|call| works(call) && (deadline..until).contains(&call.t.since_start()));
    Verdict::of(failed, || {
        let ends: Vec<_> = run.exits.iter().zip(&run.ended_at).collect();
        format!("the process has to fail by {by:?} without the lease; it ended so: {ends:?}")
    })
    .and(|| {
        Verdict::of(late.is_none(), || {
            let late = late.map(ToString::to_string).unwrap_or_default();
            format!("it was written without the lease: {late}")
        })
    })
    .and(|| Verdict::of(again.is_some(), || "nobody took the lease again".to_owned()))
    .and(|| joins(run, until))
}

/// The newcomer is initialized in time: its kubelet registers a while after its machine was made, and somebody leads by `since`.
fn joins(run: &Run, since: Duration) -> Verdict {
    let registered = run.when("late", |_| true).map_or(since, Time::since_start);
    run.initializes(&["late".to_owned()], since.max(registered), T_INIT)
}

fn renewals_refused() -> Case {
    let refused =
        Rule::new("renewals", [Action::Status { code: 500, retry_after: None, message: None }])
            .on(Face::Cluster)
            .op(["update leases", "patch leases", "create leases"]);
    let healed = SETTLED + s(60);
    let scenario = world(3, s(240))
        .with(|it| it.leader_election = true)
        .at(SETTLED, refused)
        .at(SETTLED + s(2), newcomer("late", None))
        .at(healed, Act::Heal);
    Case::new(scenario, move |run| ends(run, SETTLED, healed)).named("renewals are refused")
}

fn overwritten() -> Case {
    let spec = serde_json::json!({"spec": {"holderIdentity": "somebody-else"}});
    let taken = Command::Cluster(objects::Command::patch(key(), PatchKind::Merge, spec));
    let scenario = world(3, s(240))
        .with(|it| it.leader_election = true)
        .at(SETTLED, taken)
        .at(SETTLED + s(2), newcomer("late", None));
    Case::new(scenario, |run| ends(run, SETTLED, SETTLED + LEASE_DURATION))
        .named("another holder is written")
}
