//! Checks sessions and logins: few sessions, no login storm, no locked account, no session left
//! behind. Also searches the outputs of a run for secrets.

pub(super) mod dead;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sim::ledger::Record;
use sim::world::objects::GroupResource;
use sim::world::vcenter::{LoginEvent, SessionService, VCenter, VcEvent};
use sim::world::{Event, PROVIDER_USER, State, Time};

use super::{Invariant, Violation};
use crate::lab::secrets::{SecretKind, Secrets};
use crate::lab::{Exit, Run};
use crate::scenario::Act;

/// Window in which the judge counts logins.
const WINDOW: Duration = Duration::from_secs(600);
/// Length of an interval, in seconds, in which all answers about ended sessions count as one reason
/// for a login.
const EPISODE: u64 = 5;
/// Length of an interval, in seconds, in which all failed logins count as one reason for a login.
const PATIENCE: u64 = 30;

/// Checks sessions and logins, and searches outputs for the secrets that it collects.
pub(super) struct Judge<'a> {
    run: &'a Run,
    found: Vec<Violation>,
    /// Every password and session of the run.
    secrets: BTreeSet<(SecretKind, String)>,
}

impl<'a> Judge<'a> {
    /// Creates the judge at the beginning of a run.
    pub(super) fn new(run: &'a Run) -> Self {
        let secrets = run.log.base().into_iter().chain([&run.end]).flat_map(secrets).collect();
        Self { run, found: Vec::new(), secrets }
    }

    /// Examines the next event of the log.
    pub(super) fn see(&mut self, at: Time, event: &Event, after: &State) {
        let Event::VCenter { vcenter, event: VcEvent::Login(event) } = event else { return };
        if let LoginEvent::UserSet { name, user } = event {
            self.secrets.insert((SecretKind::Password, user.password.expose().to_owned()));
            if name == PROVIDER_USER && user.locked_until.is_some_and(|until| until > at) {
                let text = format!("the account of the provider at {vcenter} is locked");
                self.found.push(Violation { invariant: Invariant::NoLockOut, at, text });
            }
        }
        if let LoginEvent::Opened { token, .. } = event {
            self.secrets.insert((SecretKind::Session, token.clone()));
        }
        if !matches!(event, LoginEvent::LoggedIn { .. } | LoginEvent::Opened { .. }) {
            return;
        }
        let Some(vc) = after.vcenter(vcenter) else { return };
        for family in [SessionService::Soap, SessionService::Vapi] {
            let open = live(vc, family);
            if open > 1 && open > allowed_sessions(self.run, at) {
                let text = format!(
                    "{open} {family:?} sessions are open at {vcenter}; at most {} are allowed",
                    allowed_sessions(self.run, at).max(1)
                );
                self.found.push(Violation { invariant: Invariant::FewSessions, at, text });
            }
        }
    }

    /// Returns all violations.
    pub(super) fn violations(mut self) -> Vec<Violation> {
        storms(self.run, &mut self.found);
        left_behind(self.run, &mut self.found);
        self.search_for_secrets();
        self.found
    }

    /// Searches the ledger, logs, metrics and events for secrets, and reports only the first one
    /// that it finds. In a check about credentials, also searches all other objects of the cluster
    /// except Secrets.
    fn search_for_secrets(&mut self) {
        let run = self.run;
        let given = run.tokens.iter().map(|token| (SecretKind::Token, token.as_str()));
        let seen = self.secrets.iter().map(|(kind, text)| (*kind, text.as_str()));
        let mut tell = |at: Time, text: String| {
            let invariant = Invariant::NoSecretTold;
            self.found.push(Violation { invariant, at, text });
        };
        let secrets = match Secrets::new(seen.chain(given)) {
            Ok(secrets) => secrets,
            Err(error) => {
                return tell(Time::ZERO, format!("cannot search for secrets: {error}"));
            }
        };
        // Covers also events that were overwritten or are gone at the end, because the log has each
        // version.
        let base = run.log.base().into_iter().chain([&run.end]);
        let resource = GroupResource::core("events");
        let events = base.flat_map(|state| state.cluster.all(&resource));
        let events = events.map(|event| (run.end_time(), event.to_string()));
        let written = run.log.entries().filter_map(|(at, event)| match event {
            Event::Cluster(event) if event.key.resource.resource == "events" => {
                Some((*at, event.object.to_string()))
            }
            _ => None,
        });
        // In a check about credentials, covers also every other object except Secrets.
        let is_thorough = run.scenario.provider.verbose;
        let others = run.log.entries().filter_map(|(at, event)| match event {
            Event::Cluster(event) if is_thorough && event.key.resource.resource != "secrets" => {
                Some(("an object", *at, event.object.to_string()))
            }
            _ => None,
        });
        let events = written.chain(events).map(|(at, text)| ("an event", at, text));
        let records = run.ledger.iter().map(|it| ("the ledger", it.t, it.to_line()));
        let metrics = run.scrapes.iter().map(|it| ("the metrics", it.at, it.metrics.clone()));
        for (place, at, text) in records.chain(events).chain(others).chain(metrics) {
            if let Some(what) = secrets.find_in(&text) {
                return tell(at, format!("{what}, is in {place}"));
            }
        }
        for log in [&run.logs, &run.debug_words] {
            let line =
                log.lines().enumerate().find_map(|(n, line)| Some((n, secrets.find_in(line)?)));
            if let Some((n, what)) = line {
                return tell(Time::ZERO, format!("{what}, is in line {} of the log", n + 1));
            }
        }
    }
}

/// Returns the number of sessions that the provider may have open at one vCenter and API at the
/// time `until`: one per replica, one per call that opens or ends a session (such as a login or a
/// logout) on which a rule fired or that has no complete answer, one per false report that a
/// session has ended, and one per kill of a replica.
fn allowed_sessions(run: &Run, until: Time) -> usize {
    // A lost answer to a login leaves a session open that the client does not know. A lost logout
    // leaves its session open, too.
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
    // If a false answer says that the session has ended, the client opens another one while the old
    // session lives on.
    let lied_to = |call: &Record| call.was_faulted() && tells_of_an_end(call);
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

fn storms(run: &Run, found: &mut Vec<Violation>) {
    let mut logins: BTreeMap<(String, String), Vec<Time>> = BTreeMap::new();
    for call in run.calls().filter(|call| is_login(call)) {
        logins.entry((call.server.clone(), call.op.clone())).or_default().push(call.t);
    }
    for ((server, op), times) in logins {
        for (n, at) in times.iter().enumerate() {
            let since = times[..=n].iter().filter(|then| at.since(**then) < WINDOW).count();
            let reasons = reasons(run, &server, *at);
            if since > 2 * run.scenario.provider.replicas.max(1) + reasons {
                let text = format!(
                    "{since} × {op} at {server} within ten minutes; allowed are two per replica and one for each of {reasons} reasons, such as an ended session"
                );
                found.push(Violation { invariant: Invariant::NoLoginStorm, at: *at, text });
                break;
            }
        }
    }
}

/// Returns the number of reasons for logins at a server in the last eleven minutes before `at`.
/// Each step of the scenario counts twice, except phases and starts of single replicas; each start
/// of a replica (also after a lost lease) counts twice, too. All answers of one [`EPISODE`] that
/// say that a session has ended count once.
///
/// All failed logins of one [`PATIENCE`] count once. So a failed login does not justify many others
/// at once, but a client that waits for a server may retry once per [`PATIENCE`] in the long run.
fn reasons(run: &Run, server: &str, at: Time) -> usize {
    let recent = |then: Time| then <= at && at.since(then) < WINDOW + Duration::from_secs(60);
    let calls = || run.calls().filter(|call| call.server == server && recent(call.t));
    let ended = calls().filter(|call| !is_login(call) && tells_of_an_end(call));
    let ended: BTreeSet<u64> = ended.map(|call| within(call, EPISODE)).collect();
    let failed = calls().filter(|call| is_login(call) && !call.succeeded());
    let failed: BTreeSet<u64> = failed.map(|call| within(call, PATIENCE)).collect();
    let steps = run.scenario.timeline.iter().filter(|step| {
        recent(Time::after_start(step.at)) && !matches!(step.act, Act::Phase(_) | Act::Start(_))
    });
    let starts = run.starts().filter(|(_, it)| recent(it.at)).count();
    ended.len() + failed.len() + 2 * (steps.count() + starts)
}

/// Returns the index of the interval of this many seconds that contains the call.
fn within(call: &Record, seconds: u64) -> u64 {
    call.t.since_start().as_secs() / seconds
}

fn is_login(call: &Record) -> bool {
    matches!(call.op.as_str(), "Login" | "cis.session.create")
}

/// True if the answer is a fault that says that the client has no session. Also true for every
/// read of the session manager's properties on which a rule fired, because a rule may leave the
/// session out of the answer.
fn tells_of_an_end(call: &Record) -> bool {
    let fault = call.ended.as_ref().and_then(|ended| ended.fault.as_deref());
    // vCenter leaves `SessionManager.currentSession` out of the answer if the session has ended.
    let asks_for_session = call.target.kind.as_deref() == Some("SessionManager")
        && call.op.starts_with("RetrieveProperties");
    matches!(fault, Some("NotAuthenticated" | "unauthenticated"))
        || (asks_for_session && call.was_faulted())
}

fn left_behind(run: &Run, found: &mut Vec<Violation>) {
    let told = run.exits.iter().all(|exit| *exit == Exit::Stopped);
    let at = run.end_time();
    if !told || allowed_sessions(run, at) > run.scenario.provider.replicas.max(1) {
        return;
    }
    for (name, vc) in &run.after.vcenters {
        for family in [SessionService::Soap, SessionService::Vapi] {
            let open = live(vc, family);
            if open > 0 {
                let text = format!("the provider left {open} {family:?} sessions open at {name}");
                found.push(Violation { invariant: Invariant::NoSessionLeft, at, text });
            }
        }
    }
}

fn live(vc: &VCenter, family: SessionService) -> usize {
    vc.logins
        .sessions
        .values()
        .filter(|it| it.family == family && it.user.as_deref() == Some(PROVIDER_USER))
        .count()
}

/// Returns every password and session in a state of the world.
fn secrets(state: &State) -> impl Iterator<Item = (SecretKind, String)> {
    state.vcenters.values().flat_map(|vc| {
        let passwords = vc.logins.users.values().map(|user| user.password.expose());
        let passwords = passwords.map(|it| (SecretKind::Password, it.to_owned()));
        passwords.chain(vc.logins.sessions.keys().map(|it| (SecretKind::Session, it.clone())))
    })
}
