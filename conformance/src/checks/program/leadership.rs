//! CCM: election of a leader, restraint of the standby replicas, and changes of the leader.

use std::time::Duration;

use sim::Class;
use sim::Face;
use sim::faults::{Action, Rule};
use sim::ledger::Record;
use sim::world::objects::{self, GroupResource, Key, PatchKind};
use sim::world::{Command, Time};

use crate::checks::build::{
    SETTLED, T_INIT, create_joining_machine, machine, s, set_address, world,
};
use crate::checks::queries::names;
use crate::checks::{Case, Check};
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::judge::{LeaseVersion, terms};
use crate::lab::{Exit, LEASE, Run};
use crate::scenario::Act;

/// Time after which a lease that its holder does not renew expires.
const LEASE_DURATION: Duration = s(15);
/// Time within which a leader that cannot renew its lease must stop.
const RENEW_DEADLINE: Duration = s(10);
/// Longest interval between two attempts of a candidate to acquire the lease, jitter included.
const RETRY: Duration = Duration::from_millis(4_400);
/// Additional time that the judges allow for a takeover and for the exit of a process.
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

/// Returns the key of the provider's Lease.
fn key() -> Key {
    let (namespace, name) = LEASE;
    Key::new(GroupResource::of("coordination.k8s.io", "leases"), namespace, name)
}

/// True if the call writes something other than leases and events, such as a Node, or a view in
/// vCenter. Only a leader may do so.
fn works(call: &Record) -> bool {
    call.class == Some(Class::Write) && !call.op.contains("leases") && !call.op.contains("events")
}

fn held_and_renewed() -> Case {
    let end = s(180);
    Case::new(world(3, end).with_provider(|it| it.leader_election = true), move |run| {
        let mut terms = terms(run);
        // Ignores the term without a holder that begins when the lab stops the provider at the end.
        terms.retain(|it| it.from.since_start() < end);
        let Some(first) = terms.first() else {
            return Verdict::fail("the provider did not create its lease".to_owned());
        };
        let wrong = terms.iter().find(|it| it.holder.is_empty() || it.lasts != LEASE_DURATION);
        let moments: Vec<Duration> =
            terms.iter().map(|it| it.from.since_start()).chain([end]).collect();
        let gaps = moments.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let longest = gaps.max().unwrap_or_default();
        Verdict::pass_if(first.from.since_start() <= s(5), || {
            format!("the provider acquired the lease only at {}; 5 s are allowed", first.from).at(first.from)
        })
        .and(|| {
            Verdict::pass_if(wrong.is_none(), || {
                let it = wrong.map(|it| (it.holder, it.lasts));
                format!("the lease needs a holder and a duration of 15 s; holder and duration are {it:?}").at(wrong.map(|it| it.from))
            })
        })
        .and(|| {
            Verdict::pass_if(longest <= s(5), || {
                format!("the leader did not renew its lease for {longest:?}; at most 5 s are allowed")
            })
        })
        .and(|| run.initializes(&names(3), s(0), s(5) + T_INIT))
    })
}

/// Creates a case in which the API server refuses to return the lease for a minute. A candidate
/// that cannot read the lease does not know whether the lease exists, so it must not create the
/// lease.
fn unreadable_at_first() -> Case {
    let healed = s(60);
    let unreadable =
        Rule::new("unreadable", [Action::status(500)]).on(Face::Cluster).op(["get leases"]);
    let scenario = world(3, s(150))
        .with_provider(|it| it.leader_election = true)
        .fault(unreadable)
        .at(healed, Act::RemoveRules);
    Case::new(scenario, move |run| {
        let blind =
            run.calls().find(|call| call.op == "create leases" && call.t.since_start() < healed);
        let work = run.calls().find(|call| works(call) && call.t.since_start() < healed);
        Verdict::none(blind, |blind| {
            format!("the provider could not read the lease, but tried to create it: {blind}")
        })
        .and(|| {
            Verdict::none(work, |work| {
                format!("the provider could not read the lease, but wrote without it: {work}")
            })
        })
        .and(|| run.initializes(&names(3), healed, RETRY + SLACK + T_INIT))
    })
    .named("the lease cannot be read at first")
}

/// Creates a case in which each leader must write an event about the Lease when it begins to lead.
fn announced() -> Case {
    let scenario =
        world(3, s(150)).with_provider(|it| it.replicas = 2).at(SETTLED, Act::CrashLeader);
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
            return Verdict::inconclusive(format!(
                "the leaders were {leaders:?}; the case needs two"
            ));
        }
        Verdict::none(silent, |silent| {
            format!(
                "no event LeaderElection announces the leader {silent}; the messages of the events are {told:?}"
            )
        })
    })
}

fn standby() -> Case {
    let scenario = world(3, s(240))
        .with_provider(|it| it.replicas = 2)
        .at(SETTLED, create_joining_machine("late", None));
    Case::new(scenario, |run| {
        let terms = terms(run);
        let Some(leader) = terms.first().map(|it| it.label().to_owned()) else {
            return Verdict::fail("the provider did not create its lease".to_owned());
        };
        let others: Vec<&Record> =
            run.calls().filter(|call| call.client.client != leader).collect();
        if !others.iter().any(|call| call.op.contains("leases")) {
            return Verdict::inconclusive("the standby never requested the lease".to_owned());
        }
        let work = others.iter().find(|call| works(call));
        Verdict::none(work, |work| format!("{leader} leads, but another replica writes: {work}"))
            .and(|| joins(run, SETTLED))
    })
}

fn takeover() -> Case {
    let dies = SETTLED;
    let scenario = world(3, s(180))
        .with_provider(|it| it.replicas = 2)
        .at(dies, Act::CrashLeader)
        .at(dies + s(1), create_joining_machine("late", None));
    Case::new(scenario, move |run| {
        let terms = terms(run);
        let Some(first) = terms.first() else {
            return Verdict::fail("the provider did not create its lease".to_owned());
        };
        let next =
            terms.iter().find(|it| it.from.since_start() >= dies && it.label() != first.label());
        let bound = dies + LEASE_DURATION + RETRY + SLACK;
        let Some(next) = next else {
            return Verdict::fail(
                "no replica acquired the lease after the leader crashed".to_owned(),
            );
        };
        let at = next.from;
        Verdict::pass_if(at.since_start() <= bound, || {
            format!("the other replica acquired the lease at {at}; the limit is {bound:?}").late(at)
        })
        .and(|| joins(run, at.since_start()))
    })
}

/// Creates a case in which the lab asks the leader to stop. The leader must release its lease, so
/// that the other replica need not wait until the lease expires.
fn handover() -> Case {
    let stops = SETTLED;
    let scenario = world(3, s(180))
        .with_provider(|it| it.replicas = 2)
        .at(stops, Act::StopLeader)
        .at(stops + s(1), create_joining_machine("late", None));
    Case::new(scenario, move |run| {
        let terms = terms(run);
        let of_end = terms.iter().find(|it| it.from.since_start() >= stops && it.holder.is_empty());
        let Some(given_up) = of_end else {
            return Verdict::fail("the leader was asked to stop, but did not release its lease");
        };
        let next = terms.iter().find(|it| it.from > given_up.from && !it.holder.is_empty());
        // client-go releases a lease with the shortest possible duration, so that a client that
        // does not understand an empty holder waits only one second.
        Verdict::pass_if(given_up.lasts == s(1), || {
            format!("the released lease has a duration of {:?}; it has to be 1 s", given_up.lasts)
                .at(given_up.from)
        })
        .and(|| {
            let at = next.map(|it| it.from);
            let bound = given_up.from.since_start() + RETRY + s(1);
            Verdict::pass_if(at.is_some_and(|at| at.since_start() <= bound), || {
                format!("the leader released the lease {}, but the other replica acquired it {}, which is too late", when(given_up.from), when(at)).late(at)
            })
        })
        .and(|| joins(run, next.map_or(stops, |it| it.from.since_start())))
    })
}

/// Creates a case in which the clock of the leader differs from that of the standby by this many
/// seconds. The leader crashes two minutes after the standby has started. The standby must not
/// acquire the lease before the crash, and must acquire it within [`LEASE_DURATION`], [`RETRY`] and
/// [`SLACK`] together afterwards.
fn apart(seconds: i64) -> Case {
    let (begin, dies) = (s(20), s(140));
    let scenario = world(3, s(260))
        .with_provider(|it| (it.replicas, it.start) = (2, false))
        .at(s(0), Act::Start(0))
        .at(s(5), Act::StepClocks(seconds))
        .at(begin, Act::Start(1))
        .at(dies, Act::Crash(0))
        .at(dies + s(1), create_joining_machine("late", None));
    Case::new(scenario, move |run| {
        let terms = terms(run);
        let held = |from: Duration, to: Duration| {
            let of = terms.iter().filter(move |it| (from..to).contains(&it.from.since_start()));
            of.map(|it| it.label().to_owned())
        };
        let Some(leader) = held(s(0), begin).next() else {
            return Verdict::fail("the provider did not create its lease".to_owned());
        };
        let other = held(begin, dies).find(|it| *it != leader);
        let asked = |call: &Record| {
            call.op == "get leases"
                && call.client.client != leader
                && (begin..dies).contains(&call.t.since_start())
        };
        if !run.calls().any(asked) {
            return Verdict::inconclusive("the standby never requested the lease".to_owned());
        }
        let next = terms.iter().find(|it| it.from.since_start() >= dies && it.label() != leader);
        let bound = dies + LEASE_DURATION + RETRY + SLACK;
        let at = next.map(|it| it.from);
        Verdict::none(other, |other| {
            format!("{other} acquired the lease although {leader} renewed it; their clocks differ")
        })
        .and(|| {
            Verdict::pass_if(at.is_some_and(|at| at.since_start() <= bound), || {
                format!("the leader crashed {dies}, but the standby acquired the lease {at}, which is too late", dies = when(dies), at = when(at)).late(at)
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

/// Creates a case in which renewals of the lease fail for six seconds, less than the renew
/// deadline. The leader must continue to lead.
fn renewals_falter(code: u16) -> Case {
    let status = Action::status(code);
    let falter =
        Rule::new("falter", [status]).on(Face::Cluster).op(["update leases", "patch leases"]);
    let healed = SETTLED + s(6);
    let scenario = world(3, s(150))
        .with_provider(|it| it.replicas = 2)
        .at(SETTLED, falter)
        .at(healed, Act::RemoveRules)
        .at(healed + s(1), create_joining_machine("late", None));
    Case::new(scenario, move |run| leads_on(run).and(|| joins(run, healed)))
        .named(format!("renewals are answered with {code} for six seconds"))
}

/// Fails unless only one process led and no process ended before 150 s.
fn leads_on(run: &Run) -> Verdict {
    let mut leaders: Vec<&str> = terms(run).iter().map(|it| it.holder).collect();
    leaders.retain(|it| !it.is_empty());
    leaders.dedup();
    let early = run.ended_at.iter().find(|at| at.since_start() < s(150));
    Verdict::pass_if(leaders.len() == 1 && early.is_none(), || {
        format!(
            "writes of the lease failed for less than the renew deadline, so one process has to lead all the time; leaders: {leaders:?}, early end of a process: {early:?}"
        )
    })
}

/// Creates a case in which a person deletes the Lease, and the API server answers the first two
/// attempts to create it again with a conflict. The leader must retry within the renew deadline, as
/// client-go does, and continue to lead.
fn creation_falters() -> Case {
    let conflict = Action::status(409);
    let falter = Rule::new("falter", [conflict]).on(Face::Cluster).op(["create leases"]).first(2);
    let healed = SETTLED + s(8);
    let scenario = world(3, s(150))
        .with_provider(|it| it.leader_election = true)
        .at(SETTLED, falter)
        .at(SETTLED, Command::Cluster(objects::Command::delete(key())))
        .at(healed, create_joining_machine("late", None));
    Case::new(scenario, move |run| leads_on(run).and(|| joins(run, healed)))
        .named("the lease is deleted, and its creation is answered with 409 twice")
}

/// Judges a case in which the leader loses its lease at `lost`, and a replica can acquire it again
/// from `free` on.
///
/// Fails unless the process exits within [`RENEW_DEADLINE`] plus [`SLACK`] after the loss, no
/// replica writes anything but leases and events from one second after the deadline until a replica
/// acquires the lease again, and the node that joined is initialized after that.
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
    Verdict::pass_if(failed, || {
        let ends: Vec<_> = run.exits.iter().zip(&run.ended_at).collect();
        format!(
            "the leader lost its lease and has to exit by {by:?}; exits and their times: {ends:?}"
        )
    })
    .and(|| Verdict::none(late, |late| format!("a replica wrote without the lease: {late}")))
    .and(|| Verdict::pass_if(again.is_some(), || "no replica acquired the lease again".to_owned()))
    .and(|| joins(run, until))
}

/// Fails unless the node `late` is initialized within [`T_INIT`] after `since` or after its
/// registration, whichever is later.
fn joins(run: &Run, since: Duration) -> Verdict {
    let registered = run.when("late", |_| true).map_or(since, Time::since_start);
    run.initializes(&["late".to_owned()], since.max(registered), T_INIT)
}

fn renewals_refused() -> Case {
    let refused = Rule::new("renewals", [Action::status(500)]).on(Face::Cluster).op([
        "update leases",
        "patch leases",
        "create leases",
    ]);
    let healed = SETTLED + s(60);
    let scenario = world(3, s(240))
        .with_provider(|it| it.leader_election = true)
        .at(SETTLED, refused)
        .at(SETTLED + s(2), create_joining_machine("late", None))
        .at(healed, Act::RemoveRules);
    Case::new(scenario, move |run| ends(run, SETTLED, healed)).named("renewals are refused")
}

/// Creates a case in which the leader is suspended for longer than the duration of its lease and
/// must not write after it resumes. With `step`, the wall clocks step by this many seconds
/// meanwhile. After a step back by an hour, the leader's wall clock makes the lease look freshly
/// renewed.
fn suspended(step: Option<i64>) -> Case {
    let (begin, end) = (SETTLED, SETTLED + s(40));
    let mut scenario = world(6, s(240))
        .with_provider(|it| it.replicas = 2)
        .at(begin, Act::SuspendLeader)
        .at(begin + s(1), set_address(1, &["10.6.0.1"]))
        .at(begin + s(2), Command::PowerOff(machine(2)));
    if let Some(seconds) = step {
        scenario = scenario.at(begin + s(30), Act::StepClocks(seconds));
    }
    let scenario = scenario
        // The leader receives this change only when it resumes.
        .at(end - s(8), set_address(5, &["10.6.0.5"]))
        .at(end, set_address(3, &["10.6.0.3"]))
        .at(end, set_address(4, &["10.6.0.4"]))
        .at(end, Act::ResumeAll)
        .at(end + s(20), create_joining_machine("late", None));
    Case::new(scenario, move |run| {
        let terms = terms(run);
        let Some(first) = terms.first() else {
            return Verdict::fail("the provider did not create its lease".to_owned());
        };
        let taken = |it: &&LeaseVersion<'_>| {
            (begin..end).contains(&it.from.since_start()) && it.label() != first.label()
        };
        let Some(taken) = terms.iter().find(taken) else {
            return Verdict::inconclusive(
                "no replica acquired the lease while the leader was suspended",
            );
        };
        let late = run
            .calls()
            .find(|call| works(call) && call.t > taken.from && call.client.client == first.label());
        Verdict::none(late, |late| {
            format!(
                "{} resumed after its suspension and wrote without the lease: {late}",
                first.label()
            )
        })
        .and(|| joins(run, end + s(20)))
    })
}

fn overwritten() -> Case {
    let spec = serde_json::json!({"spec": {"holderIdentity": "somebody-else"}});
    let taken = Command::Cluster(objects::Command::patch(key(), PatchKind::Merge, spec));
    let scenario = world(3, s(240))
        .with_provider(|it| it.leader_election = true)
        .at(SETTLED, taken)
        .at(SETTLED + s(2), create_joining_machine("late", None));
    Case::new(scenario, |run| ends(run, SETTLED, SETTLED + LEASE_DURATION))
        .named("another holder is written")
}
