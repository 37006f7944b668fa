//! Checks pauses: those that a server asks for, and those between writes of flapping addresses.

use std::collections::BTreeMap;
use std::time::Duration;

use sim::faults::{Action, RuleId};
use sim::ledger::Record;
use sim::world::Time;
use sim::world::objects::Op;
use sim::{Class, Face};

use super::authors::WriteTimes;
use crate::judge::Invariant::{FewAddressWrites, RetryAfter};
use crate::judge::Violation;
use crate::lab::Run;
use crate::lab::facts::facts;
use crate::scenario::Act;

/// Window in which a provider may write the addresses of a node [`MOST`] times.
const WINDOW: Duration = Duration::from_secs(30);
/// Maximum number of address writes of a node in a [`WINDOW`].
const MOST: usize = 2;
/// Tolerance for a timer that ends early, because `Retry-After` has whole seconds.
const EARLY: Duration = Duration::from_secs(1);

/// Returns all violations.
pub(in crate::judge) fn violations(run: &Run) -> Vec<Violation> {
    let mut found = flapping(run);
    found.extend(impatient(run));
    found
}

/// Finds initialized nodes whose addresses the provider writes more than [`MOST`] times in a
/// [`WINDOW`], which begins with a write.
///
/// A start of a replica ends the window, because the new process does not know the earlier writes.
fn flapping(run: &Run) -> Vec<Violation> {
    let written = WriteTimes::in_run(run);
    let starts: Vec<Time> = run.starts().map(|(_, it)| it.at).collect();
    let mut found = Vec::new();
    for (name, events) in run.nodes_by_name() {
        let mut window: Option<(Time, usize)> = None;
        for pair in events.windows(2) {
            let [(_, _, old), (at, op, new)] = pair else { continue };
            let (old, new) = (facts(old), facts(new));
            let is_change = *op == Op::Modified && old.addresses != new.addresses;
            if !is_change || old.uninitialized || !written.covers(name, *at) {
                continue;
            }
            let goes_on = window.filter(|(begin, _)| {
                at.since(*begin) < WINDOW && !starts.iter().any(|it| (*begin..=*at).contains(it))
            });
            let (begin, n) = goes_on.map_or((*at, 1), |(begin, n)| (begin, n + 1));
            window = Some((begin, n));
            if n > MOST {
                let text = format!("addresses of node {name} were written {n} times since {begin}");
                found.push(Violation { invariant: FewAddressWrites, at: *at, text });
            }
        }
    }
    found
}

/// A pause that a server asked for.
struct Pause {
    /// Time of the answer that asks for the pause.
    told: Time,
    until: Time,
    /// True once one read that began at the instant of the answer has been allowed.
    crossed: bool,
}

impl Pause {
    /// True if a call breaks the pause.
    ///
    /// A call that began before the answer was sent does not break the pause. Neither does the
    /// first read that began at the same instant, for which this function sets `crossed`: time
    /// stands still in the lab while requests are under way, so another controller may have sent
    /// this read before it could know the answer.
    fn is_broken_by(&mut self, call: &Record) -> bool {
        let is_read = call.class == Some(Class::Read);
        let may_cross =
            is_read && call.t == self.told && !std::mem::replace(&mut self.crossed, true);
        (self.told..self.until).contains(&call.t) && !may_cross
    }
}

/// Finds calls to a Kubernetes API, and writes to any API, that a client repeats before the time
/// that the answer of a fault rule asked for. Leases are exempt: they have a deadline of their own,
/// and clients renew them sooner.
fn impatient(run: &Run) -> Vec<Violation> {
    let rules: BTreeMap<&RuleId, Duration> = run
        .scenario
        .timeline
        .iter()
        .filter_map(|step| match &step.act {
            Act::Fault(rule) => Some((&rule.id, requested_pause(&rule.actions)?)),
            _ => None,
        })
        .collect();
    let mut found = Vec::new();
    if rules.is_empty() {
        return found;
    }
    let mut pauses: BTreeMap<String, Pause> = BTreeMap::new();
    let is_judged = |call: &&Record| {
        let is_call =
            call.class == Some(Class::Write) || call.face.is_some_and(Face::is_kubernetes);
        is_call && !call.op.contains("leases")
    };
    for call in run.calls().filter(is_judged) {
        let Record { server, op, target, client, .. } = call;
        let same = format!("{} {server} {op} {:?}", client.client, target);
        let pause = pauses.get_mut(&same);
        if let Some(until) = pause.and_then(|it| it.is_broken_by(call).then_some(it.until)) {
            let text = format!("the client repeats a call that had to wait until {until}: {call}");
            found.push(Violation { invariant: RetryAfter, at: call.t, text });
        }
        let asked = call.rules.iter().filter(|rule| rule.fired);
        let pause = asked.filter_map(|rule| rules.get(&rule.rule)).max();
        let ended = call.ended.as_ref().filter(|ended| ended.broken.is_none());
        if let (Some(pause), Some(ended)) = (pause, ended) {
            let until = ended.at + pause.saturating_sub(EARLY);
            let crossed = pauses.get(&same).is_some_and(|it| it.told == ended.at && it.crossed);
            pauses.insert(same, Pause { told: ended.at, until, crossed });
        }
    }
    found
}

/// Returns the pause that an answer made by these actions asks for, if any.
fn requested_pause(actions: &[Action]) -> Option<Duration> {
    actions.iter().find_map(|action| match action {
        Action::Status(status) => {
            status.retry_after.map(|seconds| Duration::from_secs(u64::from(seconds)))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sim::faults::{HttpStatus, Rule};
    use sim::world::objects::{self, Key, PatchKind};
    use sim::world::{Command, Topology};

    use super::*;
    use crate::lab::{self, Stage};
    use crate::scenario::Scenario;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn a_world() -> Scenario {
        Scenario::new("", Topology::zones(1).machines(1), at(180))
    }

    #[test]
    fn a_third_write_of_addresses_in_half_a_minute_breaks_the_invariant() {
        let play = |times: [u64; 3]| {
            let mut scenario = a_world().at(at(60), Act::Stop(0));
            for (n, time) in times.into_iter().enumerate() {
                let addresses = json!([{"type": "InternalIP", "address": format!("10.0.0.{n}")}]);
                let status = json!({"status": {"addresses": addresses}});
                let key = Key::node("node-0001");
                let patch = objects::Command::patch(key, PatchKind::Merge, status).on_status();
                scenario = scenario.at(at(time), Command::Cluster(patch));
            }
            let mut run = lab::run(&scenario, &Stage::default());
            run.by_hand.clear();
            let write = run.calls().find(|call| call.op == "patch nodes/status").unwrap().clone();
            run.ledger.push(Record { t: Time::after_start(at(100)), ended: None, ..write });
            violations(&run).len()
        };
        assert_eq!((play([100, 110, 131]), play([100, 110, 129])), (0, 1));
    }

    #[test]
    fn a_call_repeated_before_retry_after_has_passed_breaks_the_invariant() {
        let status = Action::from(HttpStatus::new(429).retry_after(30));
        let rule = Rule::new("throttled", [status]).op(["patch nodes/status"]);
        let mut run = lab::run(&a_world().fault(rule), &Stage::default());
        assert_eq!(violations(&run), []);
        let refused = run.calls().find(|call| call.was_faulted()).unwrap().clone();
        let place = run.ledger.iter().position(|it| it.seq == refused.seq).unwrap();
        let told = refused.ended.as_ref().unwrap().at;
        let mut repeated = |class: Class, times: &[Time]| {
            let class = Some(class);
            let again = times.iter().map(|t| Record { t: *t, class, ..refused.clone() });
            run.ledger.splice(place + 1..=place, again);
            let found = violations(&run).len();
            run.ledger.drain(place + 1..=place + times.len());
            found
        };
        assert_eq!(repeated(Class::Write, &[told + at(5)]), 1);
        assert_eq!(repeated(Class::Write, &[told]), 1);
        assert_eq!(repeated(Class::Write, &[told + at(30)]), 0);
        assert_eq!(repeated(Class::Read, &[told + at(5)]), 1);
        assert_eq!(repeated(Class::Read, &[told]), 0, "it may have crossed the answer");
        assert_eq!(repeated(Class::Read, &[told, told]), 1, "only one may have crossed it");
    }
}
