//! CCM-013, CCM-015, CCM-021 and LIVE-007: interrupted watches, a settled cluster, the end of a process, and a clock that steps.

use std::time::Duration;

use sim::faults::{Action, Rule};
use sim::ledger::Record;
use sim::world::{Command, ControlPlane};
use sim::{Class, Face};

use super::build::{
    GRACE, SETTLED, T_INIT, T_LIFE, T_STATUS, machine, newcomer, s, set_address, vanishing, world,
};
use super::canary::Canary;
use super::observe::{name, names};
use super::{Case, Check};
use crate::backend::Backend;
use crate::foreign::Pace;
use crate::judge::terms;
use crate::lab::{Exit, Run};
use crate::scenario::Act;
use crate::verdict::{Told as _, Verdict};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![
        Check::new("CCM-013", [interrupted(backend, None), interrupted(backend, Some(410))]),
        Check::new("CCM-015", [settled()]),
        Check::new("CCM-021", [stopped(false), stopped(true)]),
        Check::new("LIVE-007", [stepped(backend, 3600), stepped(backend, -3600)]),
    ]
}

/// Every stream ends, and lists and watches are refused for five seconds, in which one machine is deleted and another joins.
fn interrupted(backend: Backend, next: Option<u16>) -> Case {
    let (cut, healed) = (SETTLED, SETTLED + s(5));
    let reads = ["list nodes", "watch nodes", "list virtualmachines", "watch virtualmachines"];
    let gap = Rule::new("gap", [Action::Reset]).op(reads);
    let mut scenario = world(12, s(300))
        .at(cut, gap)
        .at(cut, Command::EndWatches { plane: ControlPlane::Workload })
        .at(cut, backend.cut())
        .at(cut + s(1), newcomer("late", None))
        .at(cut + s(1), Command::DeleteMachine(machine(2)))
        .at(healed, Act::Heal);
    if let Some(code) = next {
        let status = Action::Status { code, retry_after: None, message: None };
        let old = Rule::new("old", [status]).op(["watch nodes", "watch virtualmachines"]);
        scenario = scenario.at(healed, old.first(1));
    }
    let case = Case::new(scenario, move |run| {
        let bound = s(60);
        let registered = run.when("late", |_| true).map_or(healed, |at| at.since_start());
        let silent = cut + s(1) + vanishing(backend) + GRACE;
        let gone = run.deleted(&name(2)).map(|at| at.since_start());
        run.initializes(&["late".to_owned()], registered.max(healed), bound).and(|| {
            Verdict::of(gone.is_some_and(|at| at <= silent.max(healed) + bound), || {
                format!("the node of a machine that went in the gap was deleted at {gone:?}")
                    .at(gone)
            })
        })
    });
    case.named(match next {
        None => "all streams are cut".to_owned(),
        Some(code) => format!("the next watch is answered with {code}"),
    })
}

/// For two address periods nothing changes under a leader; then a machine is deleted.
fn settled() -> Case {
    let end = SETTLED + T_STATUS * 2;
    let scenario = world(10, end)
        .with(|it| it.leader_election = true)
        .at(SETTLED, Act::Phase("settled".into()))
        .at(end, Act::Phase("after".into()));
    let case = Case::new(scenario, |run| {
        let writes = || {
            run.calls_in("settled")
                .filter(|call| call.is_cluster_call() && call.class == Some(Class::Write))
        };
        let other = writes().find(|call| !call.op.contains("leases"));
        Verdict::of(other.is_none(), || {
            format!("nothing changed, and this was written: {}", told(other))
        })
        .and(|| match writes().count() {
            0 => Verdict::inconclusive("the lease was not renewed"),
            _ => run.initializes(&names(10), s(0), SETTLED),
        })
    });
    case.canary(Canary::Gone(10), end)
}

fn told(call: Option<&Record>) -> String {
    call.map(ToString::to_string).unwrap_or_default()
}

/// The process is told to stop amid work: one machine joins, one is off and one has another address. With `slow`, each write
/// takes three seconds. An invariant of every run demands that no session is left open.
fn stopped(slow: bool) -> Case {
    let stop = s(106);
    let mut scenario = world(6, s(200))
        .at(s(95), newcomer("late", None))
        .at(SETTLED, Command::PowerOff(machine(2)))
        .at(stop - s(1), set_address(1, &["10.6.0.1"]))
        .at(stop, Act::Stop(0));
    if slow {
        let writes = ["patch *", "update *", "create *", "delete *"];
        let late = Rule::new("slow", [Action::Delay(s(3))]).on(Face::Cluster).op(writes);
        scenario = scenario.at(s(90), late);
    }
    let case = Case::new(scenario, move |run| {
        let end = run.ended_at.first().map(|at| at.since_start());
        let late = run.calls().find(|call| {
            call.class == Some(Class::Write)
                && call.t.since_start() > stop + s(5)
                && call.op != "Logout"
                && !call.op.contains("leases")
        });
        // The provider waits for the answer to a write that was under way.
        let cut = run.calls().find(|call| {
            call.is_cluster_call()
                && call.class == Some(Class::Write)
                && call.t.since_start() < stop
                && call.ended.as_ref().is_none_or(|it| it.status.is_none())
        });
        Verdict::of(run.exits == [Exit::Stopped], || format!("it ended: {:?}", run.exits))
            .and(|| {
                Verdict::of(end.is_some_and(|at| at <= stop + s(30)), || {
                    format!("it was told to stop at {stop:?}, and ended at {end:?}").at(end)
                })
            })
            .and(|| {
                Verdict::of(late.is_none(), || {
                    format!("more than 5 s after it was told to stop: {}", told(late))
                })
            })
            .and(|| {
                Verdict::of(cut.is_none(), || {
                    format!(
                        "a write was under way, and nobody waited for its answer: {}",
                        told(cut)
                    )
                })
            })
            .and(|| run.initializes(&names(6), s(0), SETTLED))
    });
    case.named(if slow { "amid slow writes" } else { "amid work" })
}

/// The provider's clock steps against those of API server and vCenter, while the provider leads.
fn stepped(backend: Backend, seconds: i64) -> Case {
    let (step, end) = (SETTLED, s(400));
    let window = s(60);
    let scenario = world(12, end)
        .with(|it| it.leader_election = true)
        .at(step, Act::StepClocks(seconds))
        .at(s(150), Command::DeleteMachine(machine(2)))
        .at(s(150), newcomer("late", None))
        .at(s(220), set_address(1, &["10.6.0.1"]));
    let case = Case::new(scenario, move |run| {
        let holders: Vec<&str> = terms(run).iter().map(|it| it.holder).collect();
        let lost = run.ended_at.iter().find(|at| at.since_start() < end);
        let first = holders.first().copied().unwrap_or_default();
        let other = holders.iter().find(|it| **it != first && !it.is_empty());
        // Renewals, long polls and bookmarks continue as before.
        let calls = |from: Duration| {
            let of =
                run.calls().filter(|call| (from..from + window).contains(&call.t.since_start()));
            of.filter(|call| !call.op.contains("leases")).count()
        };
        let (storm, allowed) = (calls(step), 20);
        let gone = run.deleted(&name(2)).map(|at| at.since_start());
        let bound = s(150) + vanishing(backend) + GRACE + T_LIFE;
        let shown = run.when_after(&name(1), s(220), |it| it.ips().any(|ip| ip == "10.6.0.1"));
        Verdict::of(lost.is_none() && other.is_none(), || {
            format!("the clock stepped, and the lease was lost: {other:?} took it, a process ended at {lost:?}")
        })
        .and(|| match unmoved(run, step, seconds) {
            Some(unmoved) => Verdict::inconclusive(unmoved),
            None => Verdict::Pass,
        })
        .and(|| {
            Verdict::of(storm <= allowed, || {
                format!("{storm} calls in the minute after the step; {allowed} are allowed")
            })
        })
        .and(|| {
            Verdict::of(gone.is_some_and(|at| at <= bound), || {
                format!("the node of a destroyed machine went at {gone:?}; it has to by {bound:?}")
                    .at(gone)
            })
        })
        .and(|| {
            let at = run.when("late", |_| true).map_or(s(150), |at| at.since_start());
            run.initializes(&["late".to_owned()], at, T_INIT)
        })
        .and(|| {
            Verdict::of(shown.is_some_and(|at| at.since_start() < s(220) + T_STATUS), || {
                format!("the new address was shown at {shown:?}").at(shown)
            })
        })
    });
    case.paced(Pace::Virtual("clocks of a process cannot be stepped")).named(if seconds > 0 {
        "an hour forwards"
    } else {
        "an hour backwards"
    })
}

/// Returns a sentence if the renewals of the lease do not show the step of the clock.
fn unmoved(run: &Run, step: Duration, seconds: i64) -> Option<String> {
    let renewed = |from: Duration, to: Duration| {
        let of = renewals(run).into_iter().rfind(|(at, _)| (from..to).contains(at));
        of.map(|(at, stamp)| stamp - i64::try_from(at.as_secs()).unwrap_or_default())
    };
    let (before, after) = (renewed(s(0), step), renewed(step, step + s(30)));
    let moved = before.zip(after).map(|(before, after)| after - before);
    match moved {
        Some(moved) if (moved - seconds).abs() <= 2 => None,
        other => Some(format!(
            "the clock was to step by {seconds} s; renewals of the lease show {other:?}"
        )),
    }
}

/// Returns the time of each write of the lease, with the renewal time that its holder wrote, in seconds.
fn renewals(run: &Run) -> Vec<(Duration, i64)> {
    let stamp = |text: &str| text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
    terms(run)
        .into_iter()
        .filter_map(|it| Some((it.from.since_start(), stamp(it.renewed)?)))
        .collect()
}
