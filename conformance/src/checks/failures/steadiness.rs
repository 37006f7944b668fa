//! CCM-013, CCM-015, CCM-021 and LIVE-007: interrupted watches, a cluster without changes, the end
//! of a process, and a clock that steps.

use std::time::Duration;

use sim::faults::{Action, Rule};
use sim::ledger::Record;
use sim::world::{Command, ControlPlane};
use sim::{Class, Face};

use crate::checks::build::{
    GRACE, SETTLED, T_INIT, T_LIFE, T_STATUS, create_joining_machine, machine, s, set_address,
    vanishing, world,
};
use crate::checks::canary::Canary;
use crate::checks::queries::{name, names};
use crate::checks::{Case, Check};
use crate::judge::terms;
use crate::judge::verdict::{AboutMoment as _, Verdict, when};
use crate::lab::{Exit, Run};
use crate::scenario::{Act, Backend, Pace};

pub(super) fn checks(backend: Backend) -> Vec<Check> {
    vec![
        Check::new("CCM-013", [interrupted(backend, None), interrupted(backend, Some(410))]),
        Check::new("CCM-015", [settled()]),
        Check::new("CCM-021", [stopped(false), stopped(true)]),
        Check::new("LIVE-007", [stepped(backend, 3600), stepped(backend, -3600)]),
    ]
}

/// Creates a case in which all watches and long polls end, and lists and watches fail for five
/// seconds. Meanwhile one machine is deleted and another one is created. With `next`, the first
/// watch after that, of Nodes or of VirtualMachines, gets this status code.
fn interrupted(backend: Backend, next: Option<u16>) -> Case {
    let (cut, healed) = (SETTLED, SETTLED + s(5));
    let reads = ["list nodes", "watch nodes", "list virtualmachines", "watch virtualmachines"];
    let gap = Rule::new("gap", [Action::Reset]).op(reads);
    let mut scenario = world(12, s(300))
        .at(cut, gap)
        .at(cut, Command::EndWatches { plane: ControlPlane::Workload })
        .at(cut, backend.disconnect())
        .at(cut + s(1), create_joining_machine("late", None))
        .at(cut + s(1), Command::DeleteMachine(machine(2)))
        .at(healed, Act::RemoveRules);
    if let Some(code) = next {
        let status = Action::status(code);
        let old = Rule::new("old", [status]).op(["watch nodes", "watch virtualmachines"]);
        scenario = scenario.at(healed, old.first(1));
    }
    let case = Case::new(scenario, move |run| {
        let bound = s(60);
        let registered = run.when("late", |_| true).map_or(healed, |at| at.since_start());
        let silent = cut + s(1) + vanishing(backend) + GRACE;
        let gone = run.deleted(&name(2)).map(|at| at.since_start());
        run.initializes(&["late".to_owned()], registered.max(healed), bound).and(|| {
            Verdict::pass_if(gone.is_some_and(|at| at <= silent.max(healed) + bound), || {
                format!("the Node of the machine that was deleted while the watches failed was deleted {gone}, which is too late", gone = when(gone))
                    .late(gone)
            })
        })
    });
    case.named(match next {
        None => "all streams are cut".to_owned(),
        Some(code) => format!("the next watch is answered with {code}"),
    })
}

/// Creates a case in which nothing changes for two address periods, so the leader must write only
/// its lease. Then a machine is deleted as a canary.
fn settled() -> Case {
    let end = SETTLED + T_STATUS * 2;
    let scenario = world(10, end)
        .with_provider(|it| it.leader_election = true)
        .at(SETTLED, Act::Phase("settled".into()))
        .at(end, Act::Phase("after".into()));
    let case = Case::new(scenario, |run| {
        let writes = || {
            run.calls_in("settled")
                .filter(|call| call.is_cluster_call() && call.class == Some(Class::Write))
        };
        let other = writes().find(|call| !call.op.contains("leases"));
        Verdict::pass_if(other.is_none(), || {
            format!("nothing changed, but the provider wrote: {}", text_of(other))
        })
        .and(|| match writes().count() {
            0 => Verdict::inconclusive("the provider did not renew its lease"),
            _ => run.initializes(&names(10), s(0), SETTLED),
        })
    });
    case.canary(Canary::Gone(10), end)
}

/// Returns the text of a call, or an empty text without a call.
fn text_of(call: Option<&Record>) -> String {
    call.map(ToString::to_string).unwrap_or_default()
}

/// Creates a case in which the lab asks the process to stop during its work: one node joins, one
/// machine is powered off and one has a new address. With `slow`, each write to the cluster takes
/// three seconds. The process must end within 30 s, begin no write later than 5 s after the
/// request, and await the answers to its writes. A separate invariant demands that the provider
/// leaves no session open.
fn stopped(slow: bool) -> Case {
    let stop = s(106);
    let mut scenario = world(6, s(200))
        .at(s(95), create_joining_machine("late", None))
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
        // Finds a write that was under way at the stop and whose answer the provider did not await.
        let cut = run.calls().find(|call| {
            call.is_cluster_call()
                && call.class == Some(Class::Write)
                && call.t.since_start() < stop
                && call.ended.as_ref().is_none_or(|it| it.status.is_none())
        });
        Verdict::pass_if(run.exits == [Exit::Stopped], || {
            format!(
                "the process of the provider has to stop cleanly exactly once; its ends are {:?}",
                run.exits
            )
        })
        .and(|| {
            Verdict::pass_if(end.is_some_and(|at| at <= stop + s(30)), || {
                format!(
                    "the process was asked to stop {stop}, but ended {end}; 30 s are allowed",
                    stop = when(stop),
                    end = when(end)
                )
                .at(end)
            })
        })
        .and(|| {
            Verdict::pass_if(late.is_none(), || {
                format!(
                    "the provider wrote more than 5 s after it was asked to stop: {}",
                    text_of(late)
                )
            })
        })
        .and(|| {
            Verdict::pass_if(cut.is_none(), || {
                format!(
                    "the provider ended without waiting for the answer to a write: {}",
                    text_of(cut)
                )
            })
        })
        .and(|| run.initializes(&names(6), s(0), SETTLED))
    });
    case.named(if slow { "amid slow writes" } else { "amid work" })
}

/// Creates a case in which the wall clock of the leader steps by this many seconds, while the
/// clocks of the API server and of the backend do not. The provider must keep its lease and do its
/// work in time.
fn stepped(backend: Backend, seconds: i64) -> Case {
    let (step, end) = (SETTLED, s(400));
    let window = s(60);
    let scenario = world(12, end)
        .with_provider(|it| it.leader_election = true)
        .at(step, Act::StepClocks(seconds))
        .at(s(150), Command::DeleteMachine(machine(2)))
        .at(s(150), create_joining_machine("late", None))
        .at(s(220), set_address(1, &["10.6.0.1"]));
    let case = Case::new(scenario, move |run| {
        let holders: Vec<&str> = terms(run).iter().map(|it| it.holder).collect();
        let lost = run.ended_at.iter().find(|at| at.since_start() < end);
        let first = holders.first().copied().unwrap_or_default();
        let other = holders.iter().find(|it| **it != first && !it.is_empty());
        // Counts calls in the minute after the step, except those about leases.
        let calls = |from: Duration| {
            let of =
                run.calls().filter(|call| (from..from + window).contains(&call.t.since_start()));
            of.filter(|call| !call.op.contains("leases")).count()
        };
        let (storm, allowed) = (calls(step), 20);
        let gone = run.deleted(&name(2)).map(|at| at.since_start());
        let bound = s(150) + vanishing(backend) + GRACE + T_LIFE;
        let shown = run.when_after(&name(1), s(220), |it| it.ips().any(|ip| ip == "10.6.0.1"));
        Verdict::pass_if(lost.is_none() && other.is_none(), || {
            format!("after the step of the clock the leader must keep its lease and its process must not end; other holder of the lease: {other:?}, end of a process: {lost:?}")
        })
        .and(|| match unmoved(run, step, seconds) {
            Some(unmoved) => Verdict::inconclusive(unmoved),
            None => Verdict::Pass,
        })
        .and(|| {
            Verdict::pass_if(storm <= allowed, || {
                format!(
                    "the provider made {storm} calls in the minute after the step of the clock; \
                     at most {allowed} are allowed"
                )
            })
        })
        .and(|| {
            Verdict::pass_if(gone.is_some_and(|at| at <= bound), || {
                format!("the Node of the deleted machine was deleted {gone}; the limit is {bound:?}", gone = when(gone))
                    .late(gone)
            })
        })
        .and(|| {
            let at = run.when("late", |_| true).map_or(s(150), |at| at.since_start());
            run.initializes(&["late".to_owned()], at, T_INIT)
        })
        .and(|| {
            Verdict::pass_if(shown.is_some_and(|at| at.since_start() < s(220) + T_STATUS), || {
                format!("the node shows the new address {shown}; the limit is an address period", shown = when(shown)).late(shown)
            })
        })
    });
    case.paced(Pace::Virtual("the lab cannot step the clock of a process")).named(if seconds > 0 {
        "an hour forwards"
    } else {
        "an hour backwards"
    })
}

/// Returns an explanation if the renewal times in the lease do not show the step of the clock, so
/// that the case proves nothing. Returns `None` if they show it.
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
            "the provider's clock has to step by {seconds} s, but renewals of the lease show a step of {other:?}"
        )),
    }
}

/// Returns the time of each write of the lease, with the renewal time that its holder wrote, in
/// seconds since 1970.
fn renewals(run: &Run) -> Vec<(Duration, i64)> {
    let stamp = |text: &str| text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
    terms(run)
        .into_iter()
        .filter_map(|it| Some((it.from.since_start(), stamp(it.renewed)?)))
        .collect()
}
