//! Engine that applies the rules to a call at a given time and returns a verdict. Uses no clock and
//! no I/O.
//!
//! Seed, rule, client and number of matches determine each random number. The numbers of a rule
//! therefore stay the same if other rules are added or removed.

mod glob;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sim_world::Time;

use super::{
    Action, Denial, Effect, Effects, GrpcStatus, HttpStatus, KubeStatus, Matcher, Ops, Rule,
    RuleId, SoapFault, Spoil, Throttle, When, check,
};
use crate::{Call, Class};
use glob::glob;

/// Decision of a rule about a call that it matched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// Id of the rule.
    pub rule: RuleId,
    /// Number of this match of the rule, from 1.
    pub n: u64,
    /// The random number in [0, 1), if the rule has a probability.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draw: Option<f64>,
    /// True if the rule fired.
    pub fired: bool,
}

/// Failure that replaces, breaks or corrupts the answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReplacedAnswer {
    SoapFault(SoapFault),
    Status(HttpStatus),
    Reset,
    StreamReset,
    Blackhole,
    /// Code 0 is an answer without message.
    Grpc(GrpcStatus),
    Truncate {
        bytes: u64,
    },
    Spoil(Spoil),
    Cluster(ClusterAnswer),
}

/// Answer that a rule makes a Kubernetes API server give.
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
    /// HTTP status code of the answer.
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

/// Decision of all rules together about a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// Delay before the server handles the call: the sum of the delays of the rules that fired, up
    /// to the action that set `ending`.
    pub(crate) delay: Duration,
    /// Failure that replaces, breaks or corrupts the answer, if any.
    pub(crate) ending: Option<ReplacedAnswer>,
    /// True if the server carries out the operation although `ending` replaces its answer. For
    /// `Truncate` and `Spoil` the server always does so, because they need the real answer.
    pub(crate) applied: bool,
    /// Changes that the handler makes to its answer.
    pub(crate) effects: Effects,
    /// Evaluations of the rules that matched the call, whether they fired or not, up to the rule
    /// that set `ending`.
    pub(crate) evaluations: Vec<Evaluation>,
    /// Ids of the rules whose lifetime was over when the call arrived.
    pub(crate) expired: Vec<RuleId>,
}

/// A rule in force, with its counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ActiveRule {
    /// The rule as it was added.
    pub rule: Rule,
    /// Number of calls that matched. Excludes calls for which an earlier rule set the failure.
    pub matched: u64,
    /// Number of times the rule fired.
    pub fired: u64,
    /// World time at which the rule was added.
    pub added: Time,
    /// Number of this addition of the rule. Tells apart two additions with the same id, of which
    /// the first was removed.
    #[serde(skip)]
    number: u64,
}

/// Reason why the engine does not accept a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// The rule is not valid. The text names the rule, the key, the value and the remedy.
    #[error("{0}")]
    Invalid(String),
    /// Another rule in force, or an earlier one of the same list, has this id.
    #[error("a rule with the id `{0}` exists already; remove that rule or choose another id")]
    Exists(RuleId),
}

/// One addition of a rule. A rule that is removed and added again has another addition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Addition {
    /// Id of the rule.
    pub(crate) id: RuleId,
    number: u64,
}

/// The rules in force, and the counts of removed rules. Clones share both.
///
/// [`Sim::fault`](crate::Sim::fault) adds rules.
#[derive(Clone, Debug)]
pub struct Faults {
    seed: u64,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The rules in force, in the order of evaluation.
    rules: Vec<ActiveRule>,
    /// Ids of removed rules with the number of times they fired.
    gone: Vec<(RuleId, u64)>,
    /// Number of the last addition.
    last_number: u64,
}

impl Inner {
    /// Removes the rules that `goes` selects, keeps their ids with the number of times they fired,
    /// and returns their ids.
    fn remove_where(&mut self, goes: impl Fn(&ActiveRule) -> bool) -> Vec<RuleId> {
        let before = self.gone.len();
        self.rules.retain(|armed| {
            let goes = goes(armed);
            if goes {
                self.gone.push((armed.rule.id.clone(), armed.fired));
            }
            !goes
        });
        self.gone[before..].iter().map(|(id, _)| id.clone()).collect()
    }
}

impl Faults {
    /// Returns an engine without rules, whose draws come from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, inner: Arc::default() }
    }

    /// Adds rules, in force from the next call on: all of them or none.
    ///
    /// # Errors
    /// [`RuleError`] about the first rule that is invalid, or that has the id of another rule.
    pub(crate) fn add_all(&self, now: Time, rules: Vec<Rule>) -> Result<Vec<Addition>, RuleError> {
        let mut inner = self.lock();
        let mut ids: HashSet<&RuleId> = inner.rules.iter().map(|armed| &armed.rule.id).collect();
        for (n, rule) in rules.iter().enumerate() {
            let is_nameless = rule.id.as_str().is_empty() && rules.len() > 1;
            check(rule).map_err(|problem| match is_nameless {
                true => RuleError::Invalid(format!("[{n}]: {problem}")),
                false => RuleError::Invalid(problem),
            })?;
            if !ids.insert(&rule.id) {
                return Err(RuleError::Exists(rule.id.clone()));
            }
        }
        let mut additions = Vec::new();
        for rule in rules {
            inner.last_number += 1;
            let number = inner.last_number;
            additions.push(Addition { id: rule.id.clone(), number });
            inner.rules.push(ActiveRule { rule, matched: 0, fired: 0, added: now, number });
        }
        inner.rules.sort_by_key(|armed| armed.rule.priority);
        Ok(additions)
    }

    /// Removes a rule; returns `false` if no rule in force has this id.
    #[cfg(feature = "listen")]
    pub(crate) fn remove(&self, id: &RuleId) -> bool {
        !self.lock().remove_where(|armed| armed.rule.id == *id).is_empty()
    }

    /// Removes the rules of these additions that are still in force, and returns their ids.
    pub(crate) fn remove_additions(&self, additions: &[Addition]) -> Vec<RuleId> {
        let is_one = |armed: &ActiveRule| additions.iter().any(|it| it.number == armed.number);
        self.lock().remove_where(is_one)
    }

    /// Removes every rule in force, and keeps the number of times that each fired.
    pub(crate) fn clear(&self) {
        self.lock().remove_where(|_| true);
    }

    /// Number of times that each rule fired: removed rules first, then the rules in force.
    pub(crate) fn history(&self) -> Vec<(RuleId, u64)> {
        let inner = self.lock();
        let in_force = inner.rules.iter().map(|armed| (armed.rule.id.clone(), armed.fired));
        inner.gone.iter().cloned().chain(in_force).collect()
    }

    /// Returns the rules in force with their counters, in the order of evaluation. A rule past its
    /// lifetime stays in the list until the next call arrives.
    pub fn list(&self) -> Vec<ActiveRule> {
        self.lock().rules.clone()
    }

    /// Number of times that the rule with this id has fired; 0 if no such rule is in force.
    pub fn fired(&self, id: impl Into<RuleId>) -> u64 {
        let id = id.into();
        self.lock().rules.iter().find(|armed| armed.rule.id == id).map_or(0, |armed| armed.fired)
    }

    /// Applies the rules to a call: removes rules past their lifetime, evaluates the others in
    /// order until one sets a failure, and returns the verdict.
    pub(crate) fn judge(&self, call: &Call, now: Time) -> Verdict {
        let mut inner = self.lock();
        let over = |armed: &ActiveRule| armed.rule.ttl.is_some_and(|ttl| now >= armed.added + ttl);
        let expired =
            if inner.rules.iter().any(over) { inner.remove_where(over) } else { Vec::new() };
        let mut verdict = Verdict { expired, ..Verdict::default() };
        for armed in &mut inner.rules {
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

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("the lock of the rules is not poisoned")
    }
}

fn matches(matcher: &Matcher, call: &Call) -> bool {
    let Matcher { protocol, server, op, resource, client, .. } = matcher;
    let is = |pattern: &Option<String>, value: Option<&str>| match (pattern, value) {
        (None, _) => true,
        (Some(pattern), Some(value)) => glob(pattern, value),
        (Some(_), None) => false,
    };
    let target = &call.target;
    protocol.is_none_or(|face| face == call.face)
        && is(server, Some(&call.server))
        && matches_operation(op, &call.operation, call.class)
        && is(&resource.kind, target.kind.as_deref())
        && is(&resource.name, target.name.as_deref())
        && is(&resource.namespace, target.namespace.as_deref())
        && is(&resource.moref, target.moref.as_deref())
        && is(&resource.uuid, target.uuid.as_deref())
        && is(&client.name, Some(&call.caller.client))
        && is(&client.user_agent, Some(&call.caller.user_agent))
}

/// True if the operation or its class matches one of the patterns, and for an empty list of
/// patterns.
pub(crate) fn matches_operation(ops: &Ops, operation: &str, class: Class) -> bool {
    let is_match = |pattern: &str| match pattern.strip_prefix('@') {
        Some(_) => pattern == class.tag(),
        None => glob(pattern, operation),
    };
    ops.is_any() || ops.patterns().any(is_match)
}

/// Returns true if the rule fires on this match, and the random number if it has a probability.
fn gate(seed: u64, armed: &ActiveRule, call: &Call, now: Time) -> (bool, Option<f64>) {
    let When { nth, first, after, every, max, probability, between, .. } = &armed.rule.when;
    let n = armed.matched;
    let open = nth.includes(n)
        && first.is_none_or(|first| n <= first)
        && after.is_none_or(|after| n > after)
        && every.is_none_or(|every| n.is_multiple_of(every))
        && max.is_none_or(|max| armed.fired < max)
        && between.is_none_or(|between| between.contains(now.since_start()));
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
            other => apply_effect(other, &mut verdict.effects),
        }
    }
}

/// Returns the failure of an action that replaces, breaks or corrupts the answer; `None` for any
/// other action.
fn ending(action: &Action) -> Option<ReplacedAnswer> {
    Some(match action {
        Action::SoapFault(fault) => ReplacedAnswer::SoapFault(fault.clone()),
        Action::Status(status) => ReplacedAnswer::Status(status.clone()),
        Action::Reset => ReplacedAnswer::Reset,
        Action::StreamReset => ReplacedAnswer::StreamReset,
        Action::GrpcStatus(status) => ReplacedAnswer::Grpc(status.clone()),
        Action::TrailersOnly => ReplacedAnswer::Grpc(GrpcStatus::new(0)),
        Action::Blackhole => ReplacedAnswer::Blackhole,
        Action::Truncate { bytes, .. } => ReplacedAnswer::Truncate { bytes: *bytes },
        Action::Spoil(how) => ReplacedAnswer::Spoil(*how),
        Action::KubeStatus(status) => {
            ReplacedAnswer::Cluster(ClusterAnswer::Status(status.clone()))
        }
        Action::Deny(denial) => ReplacedAnswer::Cluster(ClusterAnswer::Denied(denial.clone())),
        Action::WebhookUnreachable => ReplacedAnswer::Cluster(ClusterAnswer::Unreachable),
        Action::Throttle(throttle) => ReplacedAnswer::Cluster(ClusterAnswer::Throttled(*throttle)),
        Action::NotServed => ReplacedAnswer::Cluster(ClusterAnswer::NotServed),
        Action::NamespaceTerminating => ReplacedAnswer::Cluster(ClusterAnswer::Terminating),
        _ => return None,
    })
}

/// Adds the effect of an action to `effects`. Actions that delay, replace, break or corrupt the
/// answer add none.
fn apply_effect(action: &Action, effects: &mut Effects) {
    match action {
        Action::EmptyResult => effects.empty_result = true,
        Action::Goaway => effects.goaway = true,
        Action::Hide(name) => effects.hidden.push(name.clone()),
        Action::MissingSet(missing) => effects.missing_set.push(missing.clone()),
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
        // The call path carries out delays and failures.
        _ => {}
    }
}

/// True if the built-in Kubernetes API server can carry out the action and a
/// [`Backing`](crate::Backing) cannot: the action changes the content of an answer or the kept
/// history. False for actions that delay, replace, break or corrupt an answer, and for actions that
/// only a vCenter can carry out.
pub fn needs_cluster_handler(action: &Action) -> bool {
    let mut effects = Effects::default();
    apply_effect(action, &mut effects);
    effects.change_cluster_answers()
}

/// Returns a random number in [0, 1). Seed, rule, stream (the client) and count determine it.
fn draw(seed: u64, rule: &RuleId, stream: &str, n: u64) -> f64 {
    let mut state = splitmix(seed);
    for byte in rule.as_str().bytes().chain([0]).chain(stream.bytes()) {
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
