//! CCM: leadership, the work of a standby, and changes of leadership.

use std::time::Duration;

use sim::Class;
use sim::Face;
use sim::faults::{Action, Rule};
use sim::ledger::Record;
use sim::world::objects::{self, GroupResource, Key, PatchKind};
use sim::world::{Command, Time};

use super::build::{SETTLED, T_INIT, machine, newcomer, s, set_address, world};
use super::observe::names;
use super::{Case, Check};
use crate::judge::{Term, terms};
use crate::lab::{Exit, LEASE, Run};
use crate::scenario::Act;
use crate::verdict::{Told as _, Verdict};

/// Duration of a lease without a renewal.
const LEASE_DURATION: Duration = s(15);
/// Time within which a leader that cannot renew must have stopped.
const RENEW_DEADLINE: Duration = s(10);
/// Interval between the attempts of candidates, with the longest jitter.
const RETRY: Duration = Duration::from_millis(4_400);
/// Extra time for a takeover, and for a process to end.
const SLACK: Duration = s(5);

pub(super) fn checks() -> Vec<Check> {
    vec![
        Check::new("CCM-001", [held_and_renewed(), unreadable_at_first()]),
        Check::new("CCM-002", [standby()]),
        Check::new("CCM-003", [takeover()]),
        Check::new(
            "CCM-004",
            [
                slow_clock(),
                fast_clock(),
                renewals_falter(500),
                renewals_falter(409),
                creation_falters(),
            ],
        ),
        Check::new(
            "CCM-005",
            [
                renewals_refused(),
                overwritten(),
                suspended(None).named("suspended"),
                suspended(Some(-3600)).named("suspended, and its clock steps back"),
            ],
        ),
        Check::new("CCM-006", [announced()]),
        Check::new("CCM-025", [handover()]),
    ]
}

fn key() -> Key {
    let (namespace, name) = LEASE;
    Key::new(GroupResource::of("coordination.k8s.io", "leases"), namespace, name)
}

/// True for writes other than those of leases and events.
fn works(call: &Record) -> bool {
    call.class == Some(Class::Write) && !call.op.contains("leases") && !call.op.contains("events")
}

fn held_and_renewed() -> Case {
    let end = s(180);
    Case::new(world(3, end).with(|it| it.leader_election = true), move |run| {
        let mut terms = terms(run);
        // The provider gives the lease up when it is told to stop.
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

/// For a minute the API server refuses to show the lease. A candidate that cannot read the lease cannot know that it does not
/// exist, and must not create it.
fn unreadable_at_first() -> Case {
    let healed = s(60);
    let unreadable =
        Rule::new("unreadable", [Action::Status { code: 500, retry_after: None, message: None }])
            .on(Face::Cluster)
            .op(["get leases"]);
    let scenario = world(3, s(150))
        .with(|it| it.leader_election = true)
        .fault(unreadable)
        .at(healed, Act::Heal);
    Case::new(scenario, move |run| {
        let blind =
            run.calls().find(|call| call.op == "create leases" && call.t.since_start() < healed);
        let work = run.calls().find(|call| works(call) && call.t.since_start() < healed);
        Verdict::of(blind.is_none(), || {
            let blind = blind.map(ToString::to_string).unwrap_or_default();
            format!("the lease could not be read, and was created: {blind}")
        })
        .and(|| {
            Verdict::of(work.is_none(), || {
                let work = work.map(ToString::to_string).unwrap_or_default();
                format!("the lease could not be read, and somebody works: {work}")
            })
        })
        .and(|| run.initializes(&names(3), healed, RETRY + SLACK + T_INIT))
    })
    .named("the lease cannot be read at first")
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

/// A leader that is told to stop gives its lease up, so that the other replica need not wait until the lease runs out.
fn handover() -> Case {
    let stops = SETTLED;
    let scenario = world(3, s(180))
        .with(|it| it.replicas = 2)
        .at(stops, Act::StopLeader)
        .at(stops + s(1), newcomer("late", None));
    Case::new(scenario, move |run| {
        let terms = terms(run);
        let of_end = terms.iter().find(|it| it.from.since_start() >= stops && it.holder.is_empty());
        let Some(given_up) = of_end else {
            return Verdict::fail("a leader that is told to stop does not give its lease up");
        };
        let next = terms.iter().find(|it| it.from > given_up.from && !it.holder.is_empty());
        // client-go writes the shortest possible lease, so a client that does not understand an empty holder waits only a second.
        Verdict::of(given_up.lasts == s(1), || {
            format!("the lease that was given up lasts {:?}; it has to last 1 s", given_up.lasts)
                .at(given_up.from)
        })
        .and(|| {
            let at = next.map(|it| it.from);
            let bound = given_up.from.since_start() + RETRY + s(1);
            Verdict::of(at.is_some_and(|at| at.since_start() <= bound), || {
                format!("the lease was given up at {}, and taken at {at:?}", given_up.from).at(at)
            })
        })
        .and(|| joins(run, next.map_or(stops, |it| it.from.since_start())))
    })
}

/// For two minutes a leader renews the lease while its clock differs from that of its standby.
fn apart(seconds: i64) -> Case {
    let (begin, dies) = (s(20), s(140));
    let scenario = world(3, s(260))
        .with(|it| (it.replicas, it.start) = (2, false))
        .at(s(0), Act::Start(0))
        .at(s(5), Act::StepClocks(seconds))
        .at(begin, Act::Start(1))
        .at(dies, Act::Crash(0))
        .at(dies + s(1), newcomer("late", None));
    Case::new(scenario, move |run| {
        let terms = terms(run);
        let held = |from: Duration, to: Duration| {
            let of = terms.iter().filter(move |it| (from..to).contains(&it.from.since_start()));
            of.map(|it| it.label().to_owned())
        };
        let Some(leader) = held(s(0), begin).next() else {
            return Verdict::fail("there is no lease".to_owned());
        };
        let other = held(begin, dies).find(|it| *it != leader);
        let asked = |call: &Record| {
            call.op == "get leases"
                && call.client.client != leader
                && (begin..dies).contains(&call.t.since_start())
        };
        if !run.calls().any(asked) {
            return Verdict::inconclusive("the standby never asked for the lease".to_owned());
        }
        let next = terms.iter().find(|it| it.from.since_start() >= dies && it.label() != leader);
        let bound = dies + LEASE_DURATION + RETRY + SLACK;
        let at = next.map(|it| it.from);
        Verdict::of(other.is_none(), || {
            format!("{leader} renews the lease, and {other:?} takes it: their clocks differ")
        })
        .and(|| {
            Verdict::of(at.is_some_and(|at| at.since_start() <= bound), || {
                format!("the leader died at {dies:?}; its lease was taken at {at:?}").at(at)
            })
        })
        .and(|| joins(run, at.map_or(dies, Time::since_start)))
    })
}

fn slow_clock() -> Case {
    apart(-600).named("the leader's clock is ten minutes slow")
}

fn fast_clock() -> Case {
    apart(600).named("the leader's clock is ten minutes fast")
}

/// Renewals fail for less than the renew deadline, and the leader continues to lead.
fn renewals_falter(code: u16) -> Case {
    let status = Action::Status { code, retry_after: None, message: None };
    let falter =
        Rule::new("falter", [status]).on(Face::Cluster).op(["update leases", "patch leases"]);
    let healed = SETTLED + s(6);
    let scenario = world(3, s(150))
        .with(|it| it.replicas = 2)
        .at(SETTLED, falter)
        .at(healed, Act::Heal)
        .at(healed + s(1), newcomer("late", None));
    Case::new(scenario, move |run| leads_on(run).and(|| joins(run, healed)))
        .named(format!("renewals are answered with {code} for six seconds"))
}

/// Fails unless one process leads until 150 s.
fn leads_on(run: &Run) -> Verdict {
    let mut leaders: Vec<&str> = terms(run).iter().map(|it| it.holder).collect();
    leaders.retain(|it| !it.is_empty());
    leaders.dedup();
    let early = run.ended_at.iter().find(|at| at.since_start() < s(150));
    Verdict::of(leaders.len() == 1 && early.is_none(), || {
        format!("renewals failed for 6 s, and {leaders:?} led; a process ended at {early:?}")
    })
}

/// A person deletes the Lease, and the API server answers the first attempts to create it anew with a conflict. The leader
/// tries again within the renew deadline, as client-go does.
fn creation_falters() -> Case {
    let conflict = Action::Status { code: 409, retry_after: None, message: None };
    let falter = Rule::new("falter", [conflict]).on(Face::Cluster).op(["create leases"]).first(2);
    let healed = SETTLED + s(8);
    let scenario = world(3, s(150))
        .with(|it| it.leader_election = true)
        .at(SETTLED, falter)
        .at(SETTLED, Command::Cluster(objects::Command::delete(key())))
        .at(healed, newcomer("late", None));
    Case::new(scenario, move |run| leads_on(run).and(|| joins(run, healed)))
        .named("the lease is deleted, and its creation is answered with 409 twice")
}

/// Fails unless the process ends with an error within [`RENEW_DEADLINE`] plus [`SLACK`] of the loss of the lease, no replica
/// writes from a second after that deadline until the lease is taken again, and the newcomer is initialized then.
fn ends(run: &Run, lost: Duration, free: Duration) -> Verdict {
    let deadline = lost + RENEW_DEADLINE + s(1);
    let by = lost + RENEW_DEADLINE + SLACK;
    let mut ends = run.exits.iter().zip(&run.ended_at);
    let failed = ends.any(|(exit, at)| {
        matches!(exit, Exit::Failed(_) | Exit::Finished) && at.since_start() <= by
    });
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

/// Fails unless the newcomer is initialized within [`T_INIT`] of `since` or of its registration, whichever is later.
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

/// The leader's machine is suspended for longer than its lease lasts, and its clock may step by some seconds meanwhile. When
/// the leader resumes after a step back by an hour, its wall clock makes the lease look freshly renewed.
fn suspended(step: Option<i64>) -> Case {
    let (begin, end) = (SETTLED, SETTLED + s(40));
    let mut scenario = world(6, s(240))
        .with(|it| it.replicas = 2)
        .at(begin, Act::SuspendLeader)
        .at(begin + s(1), set_address(1, &["10.6.0.1"]))
        .at(begin + s(2), Command::PowerOff(machine(2)));
    if let Some(seconds) = step {
        scenario = scenario.at(begin + s(30), Act::StepClocks(seconds));
    }
    let scenario = scenario
        // The news of this change waits for the leader until it resumes.
        .at(end - s(8), set_address(5, &["10.6.0.5"]))
        .at(end, set_address(3, &["10.6.0.3"]))
        .at(end, set_address(4, &["10.6.0.4"]))
        .at(end, Act::ResumeAll)
        .at(end + s(20), newcomer("late", None));
    Case::new(scenario, move |run| {
        let terms = terms(run);
        let Some(first) = terms.first() else {
            return Verdict::fail("there is no lease".to_owned());
        };
        let taken = |it: &&Term<'_>| {
            (begin..end).contains(&it.from.since_start()) && it.label() != first.label()
        };
        let Some(taken) = terms.iter().find(taken) else {
            return Verdict::inconclusive("nobody took the lease of the suspended leader");
        };
        let late = run
            .calls()
            .find(|call| works(call) && call.t > taken.from && call.client.client == first.label());
        Verdict::of(late.is_none(), || {
            let late = late.map(ToString::to_string).unwrap_or_default();
            format!("{} was suspended, and writes without the lease: {late}", first.label())
        })
        .and(|| joins(run, end + s(20)))
    })
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
