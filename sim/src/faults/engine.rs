//! The judge: a call and the time come in, a verdict goes out. No clock, no I/O.
//!
//! Draws are keyed: seed, rule, client and the count of matches give the number. Rules do not
//! disturb each other, and removing one leaves the draws of the others as they were.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sim_world::Time;

use super::rule::{Action, Denial, Effect, KubeStatus, Matcher, Rule, Spoil, Throttle, When, glob};
use super::{Effects, MissingPaths};
use crate::Call;

/// What a rule decided about a call that it matched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The rule.
    pub rule: String,
    /// Its how-manieth match this is.
    pub n: u64,
    /// What was drawn, if its gate draws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<f64>,
    /// Whether it fired.
    pub fired: bool,
}

/// How the answer is replaced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ending {
    SoapFault { class: String, message: Option<String> },
    Status { code: u16, retry_after: Option<u32>, message: Option<String> },
    Reset,
    Blackhole,
    Truncate { bytes: u64 },
    Spoil(Spoil),
    Cluster(ClusterAnswer),
}

/// What an API server is made to say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ClusterAnswer {
    Status(KubeStatus),
    Denied(Denial),
    Unreachable,
    Throttled(Throttle),
    NotServed,
    Terminating,
}

impl ClusterAnswer {
    /// The code it comes with.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Status(status) => status.code,
            Self::Denied(denial) => denial.code,
            Self::Unreachable => 500,
            Self::Throttled(_) => 429,
            Self::NotServed => 404,
            Self::Terminating => 403,
        }
    }
}

/// What happens to a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// How long to wait first.
    pub(crate) delay: Duration,
    /// What replaces the answer.
    pub(crate) ending: Option<Ending>,
    /// Whether the operation is carried out although the answer is replaced.
    pub(crate) applied: bool,
    /// What the handler bends.
    pub(crate) effects: Effects,
    /// Every rule that matched, fired or not.
    pub(crate) evaluations: Vec<Evaluation>,
}

/// A rule with its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Armed {
    /// The rule.
    pub rule: Rule,
    /// Calls that matched.
    pub matched: u64,
    /// Times it fired.
    pub fired: u64,
    /// When it was added.
    pub added: Time,
}

/// Why a rule was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The rule makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// There is one of this name.
    #[error("a rule called `{0}` exists; remove it first or choose another id")]
    Exists(String),
}

/// The rules in force. Clones share them.
#[derive(Clone, Debug)]
pub struct Faults {
    seed: u64,
    rules: Arc<Mutex<Vec<Armed>>>,
    /// How often rules fired that are gone.
    gone: Arc<Mutex<Vec<(String, u64)>>>,
}

impl Faults {
    /// No rules yet; draws come from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, rules: Arc::default(), gone: Arc::default() }
    }

    /// Adds a rule, in force from the next call on.
    ///
    /// # Errors
    /// A rule that makes no sense, or a name that is taken.
    pub fn add(&self, now: Time, rule: Rule) -> Result<(), RuleError> {
        rule.check().map_err(RuleError::Invalid)?;
        let mut rules = self.lock();
        if rules.iter().any(|armed| armed.rule.id == rule.id) {
            return Err(RuleError::Exists(rule.id));
        }
        rules.push(Armed { rule, matched: 0, fired: 0, added: now });
        rules.sort_by_key(|armed| armed.rule.priority);
        Ok(())
    }

    /// Removes a rule; `false` if there is none of this name.
    pub fn remove(&self, id: &str) -> bool {
        let mut rules = self.lock();
        let before = rules.len();
        self.bury(&mut rules, |armed| armed.rule.id == id);
        rules.len() < before
    }

    /// Removes every rule.
    pub fn clear(&self) {
        self.bury(&mut self.lock(), |_| true);
    }

    /// How often each rule fired that is or was in force.
    pub fn history(&self) -> Vec<(String, u64)> {
        let rules = self.lock();
        let mut all = self.gone.lock().expect("no holder of the counters panics").clone();
        all.extend(rules.iter().map(|armed| (armed.rule.id.clone(), armed.fired)));
        all
    }

    /// Takes rules out of force and remembers how often they fired.
    fn bury(&self, rules: &mut Vec<Armed>, goes: impl Fn(&Armed) -> bool) {
        let mut gone = self.gone.lock().expect("no holder of the counters panics");
        rules.retain(|armed| {
            let goes = goes(armed);
            if goes {
                gone.push((armed.rule.id.clone(), armed.fired));
            }
            !goes
        });
    }

    /// The rules in force with their counters, in the order they are asked.
    pub fn list(&self) -> Vec<Armed> {
        self.lock().clone()
    }

    /// How often a rule has fired; 0 for an unknown one.
    pub fn fired(&self, id: &str) -> u64 {
        self.lock().iter().find(|armed| armed.rule.id == id).map_or(0, |armed| armed.fired)
    }

    /// Judges a call.
    pub(crate) fn judge(&self, call: &Call, now: Time) -> Verdict {
        let mut rules = self.lock();
        let over = |armed: &Armed| armed.rule.ttl.is_some_and(|ttl| now >= armed.added + ttl);
        if rules.iter().any(over) {
            self.bury(&mut rules, over);
        }
        let mut verdict = Verdict::default();
        for armed in rules.iter_mut() {
            if verdict.ending.is_some() {
                break;
            }
            if !matches(&armed.rule.matcher, call) {
                continue;
            }
            armed.matched += 1;
            let (fired, draw) = gate(self.seed, armed, call, now);
            if fired {
                armed.fired += 1;
                act(&armed.rule, &mut verdict);
            }
            let (rule, n) = (armed.rule.id.clone(), armed.matched);
            verdict.evaluations.push(Evaluation { rule, n, draw, fired });
        }
        verdict
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Armed>> {
        self.rules.lock().expect("no holder of the rules panics")
    }
}

fn matches(matcher: &Matcher, call: &Call) -> bool {
    let Matcher { protocol, server, op, resource, client } = matcher;
    let is = |pattern: &Option<String>, value: Option<&str>| match (pattern, value) {
        (None, _) => true,
        (Some(pattern), Some(value)) => glob(pattern, value),
        (Some(_), None) => false,
    };
    let target = &call.target;
    protocol.is_none_or(|face| face == call.face)
        && is(server, Some(&call.server))
        && op.matches(&call.operation, call.class)
        && is(&resource.kind, target.kind.as_deref())
        && is(&resource.name, target.name.as_deref())
        && is(&resource.namespace, target.namespace.as_deref())
        && is(&resource.moref, target.moref.as_deref())
        && is(&resource.uuid, target.uuid.as_deref())
        && is(&client.name, Some(&call.caller.client))
        && is(&client.user_agent, Some(&call.caller.user_agent))
}

/// Whether the rule fires on this match, and what was drawn.
fn gate(seed: u64, armed: &Armed, call: &Call, now: Time) -> (bool, Option<f64>) {
    let When { nth, first, after, every, max, probability, between } = &armed.rule.when;
    let n = armed.matched;
    let open = nth.includes(n)
        && first.is_none_or(|first| n <= first)
        && after.is_none_or(|after| n > after)
        && every.is_none_or(|every| n.is_multiple_of(every))
        && max.is_none_or(|max| armed.fired < max)
        && between.is_none_or(|between| (between.0..between.1).contains(&now.since_start()));
    let draw = probability.map(|_| draw(seed, &armed.rule.id, &call.caller.client, n));
    let drawn = match (probability, draw) {
        (Some(probability), Some(draw)) => draw < *probability,
        _ => true,
    };
    (open && drawn, draw)
}

fn act(rule: &Rule, verdict: &mut Verdict) {
    for action in &rule.actions {
        if let Some(ending) = ending(action) {
            verdict.ending = Some(ending);
            verdict.applied = rule.effect == Effect::Applied;
            return;
        }
        match action {
            Action::Delay(delay) => verdict.delay += *delay,
            other => bend(other, &mut verdict.effects),
        }
    }
}

/// What replaces the answer, if the action does.
fn ending(action: &Action) -> Option<Ending> {
    Some(match action {
        Action::SoapFault { class, message } => {
            Ending::SoapFault { class: class.clone(), message: message.clone() }
        }
        Action::Status { code, retry_after, message } => {
            Ending::Status { code: *code, retry_after: *retry_after, message: message.clone() }
        }
        Action::Reset => Ending::Reset,
        Action::Blackhole => Ending::Blackhole,
        Action::Truncate { bytes } => Ending::Truncate { bytes: *bytes },
        Action::Spoil(how) => Ending::Spoil(*how),
        Action::KubeStatus(status) => Ending::Cluster(ClusterAnswer::Status(status.clone())),
        Action::Deny(denial) => Ending::Cluster(ClusterAnswer::Denied(denial.clone())),
        Action::WebhookUnreachable => Ending::Cluster(ClusterAnswer::Unreachable),
        Action::Throttle(throttle) => Ending::Cluster(ClusterAnswer::Throttled(*throttle)),
        Action::NotServed => Ending::Cluster(ClusterAnswer::NotServed),
        Action::NamespaceTerminating => Ending::Cluster(ClusterAnswer::Terminating),
        _ => return None,
    })
}

/// What the handler does otherwise than it would.
fn bend(action: &Action, effects: &mut Effects) {
    match action {
        Action::EmptyResult => effects.empty_result = true,
        Action::Hide(name) => effects.hidden.push(name.clone()),
        Action::MissingSet(MissingPaths { paths, fault }) => {
            let missing = MissingPaths { paths: paths.clone(), fault: fault.clone() };
            effects.missing_set.push(missing);
        }
        Action::VersionReset => effects.version_reset = true,
        Action::WatchGone => effects.watch.gone410 = true,
        Action::WatchGoneAfter(events) => effects.watch.gone_after = Some(*events),
        Action::WatchHoldAfter(events) => effects.watch.hold_after = Some(*events),
        Action::WatchSilent => effects.watch.silent = true,
        Action::WatchNoBookmark => effects.watch.no_bookmark = true,
        Action::WatchCloseAfter(events) => effects.watch.close_after = Some(*events),
        Action::WatchDuplicate => effects.watch.duplicate = true,
        Action::WatchDelay(delay) => effects.watch.delay = Some(*delay),
        Action::WatchLasts(lasts) => effects.watch.lasts = Some(*lasts),
        Action::ListPartial(n) => effects.partial = Some(*n),
        Action::ListStale(n) => effects.stale = Some(*n),
        Action::ReadStale(n) => effects.read_stale = Some(*n),
        Action::ListContinueExpired => effects.continue_expired = true,
        Action::ConversionDown => effects.conversion_down = true,
        Action::Compact(keep) => effects.compact = Some(*keep),
        // A pause, or what replaces the answer.
        Action::Delay(_)
        | Action::SoapFault { .. }
        | Action::Status { .. }
        | Action::Reset
        | Action::Blackhole
        | Action::Truncate { .. }
        | Action::Spoil(_)
        | Action::KubeStatus(_)
        | Action::Deny(_)
        | Action::WebhookUnreachable
        | Action::Throttle(_)
        | Action::NotServed
        | Action::NamespaceTerminating => {}
    }
}

impl Action {
    /// Whether it asks something of a Kubernetes API server's answer itself; what only delays, replaces or breaks an
    /// answer can be done to any server from outside.
    pub fn bends_a_cluster(&self) -> bool {
        let mut effects = Effects::default();
        bend(self, &mut effects);
        effects.bend_a_cluster()
    }
}

/// A number in [0, 1) that follows from the seed, the rule, the stream and the count.
fn draw(seed: u64, rule: &str, stream: &str, n: u64) -> f64 {
    let mut state = splitmix(seed);
    for byte in rule.bytes().chain([0]).chain(stream.bytes()) {
        state = splitmix(state ^ u64::from(byte));
    }
    let bits = splitmix(state ^ n) >> 11;
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    let fraction = bits as f64 / (1_u64 << 53) as f64;
    fraction
}

fn splitmix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
