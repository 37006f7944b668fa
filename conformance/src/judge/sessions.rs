//! Logins: no more sessions than needed, no storm, no locked account, nothing left behind.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::ledger::{Kind, Record};
use sim::world::objects::GroupResource;
use sim::world::vcenter::{Family, LoginEvent, VCenter, VcEvent};
use sim::world::{Event, PROVIDER_USER, State, Time};

use super::Violation;
use crate::lab::{Exit, Run};
use crate::scenario::Act;

const WINDOW: Duration = Duration::from_secs(600);

pub(super) fn violations(run: &Run) -> Vec<Violation> {
    let mut found = Vec::new();
    concurrent(run, &mut found);
    storms(run, &mut found);
    left_behind(run, &mut found);
    let passwords = passwords(run);
    let resource = GroupResource::core("events");
    let events = run.end.cluster.all(&resource).map(ToString::to_string);
    let lines = run.ledger.iter().map(Record::to_line);
    let written = lines.chain([run.logs.clone()]).chain(events);
    for text in written {
        if passwords.iter().any(|password| text.contains(password.as_str())) {
            let text = format!("a password is in {:.120}…", text);
            found.push(Violation { invariant: 63, at: Time::ZERO, text });
            break;
        }
    }
    found
}

/// Sessions that the provider may have open at once for reasons beyond its reach: one per replica,
/// and one for every login whose answer it never got and every replica that was killed.
fn excused(run: &Run, until: Time) -> usize {
    // Logins whose answer was lost leave a session behind that nobody knows, and so do lost logouts.
    let opens_or_ends = |op: &str| {
        matches!(
            op,
            "Login"
                | "RetrieveServiceContent"
                | "CloneSession"
                | "Logout"
                | "cis.session.create"
                | "cis.session.delete"
        )
    };
    // A client that is told its session has ended opens another, though the old one lives on.
    let lied_to = |call: &Record| {
        let fault = call.ended.as_ref().and_then(|ended| ended.fault.as_deref());
        call.was_faulted() && matches!(fault, Some("NotAuthenticated" | "unauthenticated"))
    };
    let unanswered = |call: &Record| {
        call.was_faulted() || call.ended.as_ref().is_none_or(|ended| ended.broken.is_some())
    };
    let lost = run
        .calls()
        .filter(|call| call.is_vcenter_call() && call.t <= until)
        .filter(|call| lied_to(call) || (opens_or_ends(&call.op) && unanswered(call)))
        .count();
    let killed = run
        .scenario
        .timeline
        .iter()
        .filter(|step| matches!(step.act, Act::Crash(_) | Act::CrashLeader))
        .filter(|step| Time::after_start(step.at) <= until)
        .count();
    run.scenario.provider.replicas.max(1) + lost + killed
}

fn concurrent(run: &Run, found: &mut Vec<Violation>) {
    run.log.play(|at, event, _, after| {
        let Event::VCenter { vcenter, event: VcEvent::Login(event) } = event else { return };
        if let LoginEvent::UserSet { name, user } = event
            && name == PROVIDER_USER
            && user.locked_until.is_some_and(|until| until > at)
        {
            let text = format!("the account of the provider at {vcenter} is locked");
            found.push(Violation { invariant: 53, at, text });
        }
        if !matches!(event, LoginEvent::LoggedIn { .. } | LoginEvent::Opened { .. }) {
            return;
        }
        let Some(vc) = after.vcenter(vcenter) else { return };
        for family in [Family::Soap, Family::Vapi] {
            let open = live(vc, family);
            if open > excused(run, at) {
                let text = format!("{open} {family:?} sessions are open at {vcenter}");
                found.push(Violation { invariant: 50, at, text });
            }
        }
    });
}

fn storms(run: &Run, found: &mut Vec<Violation>) {
    let mut logins: BTreeMap<(String, String), Vec<Time>> = BTreeMap::new();
    for call in
        run.calls().filter(|call| matches!(call.op.as_str(), "Login" | "cis.session.create"))
    {
        logins.entry((call.server.clone(), call.op.clone())).or_default().push(call.t);
    }
    for ((server, op), times) in logins {
        for (n, at) in times.iter().enumerate() {
            let since = times[..=n].iter().filter(|then| at.since(**then) < WINDOW).count();
            let reasons = endings(run, &server, *at);
            if since > 2 * run.scenario.provider.replicas.max(1) + reasons {
                let text =
                    format!("{since} × {op} at {server} within ten minutes, for {reasons} reasons");
                found.push(Violation { invariant: 51, at: *at, text });
                break;
            }
        }
    }
}

/// Reasons to log in again within the window before `at`: broken calls, restarts (also of replicas that lost
/// their lease), ended sessions.
fn endings(run: &Run, server: &str, at: Time) -> usize {
    let recent = |then: Time| then <= at && at.since(then) < WINDOW + Duration::from_secs(60);
    let broken = run
        .calls()
        .filter(|call| call.server == server && recent(call.t))
        .filter(|call| call.was_faulted() || !call.succeeded())
        .count();
    let steps = run
        .scenario
        .timeline
        .iter()
        .filter(|step| recent(Time::after_start(step.at)))
        .filter(|step| {
            matches!(step.act, Act::World(_) | Act::Crash(_) | Act::CrashLeader | Act::StopLeader)
        })
        .count();
    let starts = run
        .ledger
        .iter()
        .filter(|it| it.kind == Kind::Note && it.op.starts_with("replica ") && recent(it.t))
        .filter(|it| it.op.ends_with(" starts"))
        .count();
    broken + 2 * (steps + starts)
}

fn left_behind(run: &Run, found: &mut Vec<Violation>) {
    let told = run.exits.iter().all(|exit| *exit == Exit::Stopped);
    let at = run.end_time();
    if !told || excused(run, at) > run.scenario.provider.replicas.max(1) {
        return;
    }
    for (name, vc) in &run.after.vcenters {
        for family in [Family::Soap, Family::Vapi] {
            let open = live(vc, family);
            if open > 0 {
                let text = format!("{open} {family:?} sessions are left behind at {name}");
                found.push(Violation { invariant: 54, at, text });
            }
        }
    }
}

fn live(vc: &VCenter, family: Family) -> usize {
    vc.logins
        .sessions
        .values()
        .filter(|it| it.family == family && it.user.as_deref() == Some(PROVIDER_USER))
        .count()
}

/// Every password that there was in the course of the run.
fn passwords(run: &Run) -> Vec<String> {
    let of = |state: &State| -> Vec<String> {
        state
            .vcenters
            .values()
            .flat_map(|vc| vc.logins.users.values())
            .map(|user| user.password.expose().to_owned())
            .collect()
    };
    let mut all = of(&run.end);
    if let Some(base) = run.log.base() {
        all.extend(of(base));
    }
    run.log.play(|_, event, _, _| {
        if let Event::VCenter { event: VcEvent::Login(LoginEvent::UserSet { user, .. }), .. } =
            event
        {
            all.push(user.password.expose().to_owned());
        }
    });
    all.sort();
    all.dedup();
    all
}
