//! Fault rules, and their construction in code.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Action, Between, Face, Matcher, Nth, RuleId, When};

/// A fault rule. A rule without restrictions matches every call, and fires on every match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[must_use = "a rule has no effect before it is added to a sim"]
#[non_exhaustive]
pub struct Rule {
    /// Unique name of the rule.
    pub id: RuleId,
    /// Order of evaluation: rules with a lower number first (0 by default), rules with the same
    /// number in the order in which they were added.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// The calls that the rule matches.
    #[serde(rename = "match", default)]
    pub matcher: Matcher,
    /// Conditions under which the rule fires on a match; all of them must hold. A rule without
    /// conditions fires on every match.
    #[serde(default, skip_serializing_if = "When::is_always")]
    pub when: When,
    /// Actions of the rule, in order.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
    /// Effect on the world of an operation whose answer an action replaces; none by default.
    #[serde(default, skip_serializing_if = "Effect::is_none")]
    pub effect: Effect,
    /// World time after which the rule is no longer in force, counted from its addition; unlimited
    /// by default.
    #[serde(default, with = "sim_duration::option", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
}

fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

/// Effect on the world of an operation whose answer an action replaces. `truncate` and `spoil` need
/// the real answer, so the server carries out their operations with either effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Effect {
    /// The server does not carry out the operation.
    #[default]
    None,
    /// The server carries out the operation, then the client gets the failure.
    Applied,
}

impl Effect {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl Rule {
    /// Returns a rule that applies `actions` to every call.
    pub fn new(id: impl Into<RuleId>, actions: impl IntoIterator<Item = Action>) -> Self {
        Self {
            id: id.into(),
            priority: 0,
            matcher: Matcher::default(),
            when: When::default(),
            actions: actions.into_iter().collect(),
            effect: Effect::None,
            ttl: None,
        }
    }

    /// Restricts the rule to one front end.
    pub fn on(mut self, face: impl Into<Face>) -> Self {
        self.matcher.protocol = Some(face.into());
        self
    }

    /// Restricts the rule to servers of this name; `*` stands for any text.
    pub fn at(mut self, server: impl Into<String>) -> Self {
        self.matcher.server = Some(server.into());
        self
    }

    /// Restricts the rule to operations that match one of these patterns: exact names (`Login`),
    /// names with `*`, or classes (`@read`, `@write`, `@login`, `@longpoll`, `@task`).
    pub fn op<'a>(mut self, patterns: impl IntoIterator<Item = &'a str>) -> Self {
        self.matcher.op = patterns.into_iter().collect();
        self
    }

    /// Restricts the rule to calls that refer to an object of this name; `*` stands for any text.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.matcher.resource.name = Some(name.into());
        self
    }

    /// Restricts the rule to calls that refer to an object of this managed object type or
    /// Kubernetes kind; `*` stands for any text.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.matcher.resource.kind = Some(kind.into());
        self
    }

    /// Restricts the rule to clients with this label or user; `*` stands for any text.
    pub fn client(mut self, name: impl Into<String>) -> Self {
        self.matcher.client.name = Some(name.into());
        self
    }

    /// Restricts the rule to clients with this `User-Agent`; `*` stands for any text.
    pub fn user_agent(mut self, pattern: impl Into<String>) -> Self {
        self.matcher.client.user_agent = Some(pattern.into());
        self
    }

    /// Lets the rule fire on the n-th match only, counted from 1.
    pub fn nth(self, n: u64) -> Self {
        self.nth_range(n, n)
    }

    /// Lets the rule fire on the matches from the `first` to the `last`, both included and counted
    /// from 1.
    pub fn nth_range(mut self, first: u64, last: u64) -> Self {
        self.when.nth = Nth::range(first, last);
        self
    }

    /// Lets the rule fire on the first `n` matches.
    pub fn first(mut self, n: u64) -> Self {
        self.when.first = Some(n);
        self
    }

    /// Lets the rule fire only after the first `n` matches.
    pub fn after(mut self, n: u64) -> Self {
        self.when.after = Some(n);
        self
    }

    /// Lets the rule fire on every n-th match.
    pub fn every(mut self, n: u64) -> Self {
        self.when.every = Some(n);
        self
    }

    /// Lets the rule fire at most `n` times.
    pub fn max(mut self, n: u64) -> Self {
        self.when.max = Some(n);
        self
    }

    /// Lets the rule fire with this probability, from 0 to 1.
    pub fn probability(mut self, probability: f64) -> Self {
        self.when.probability = Some(probability);
        self
    }

    /// Lets the rule fire only from `begin` until `end`, both counted from the beginning of the
    /// world.
    pub fn between(mut self, begin: Duration, end: Duration) -> Self {
        self.when.between = Some(Between::new(begin, end));
        self
    }

    /// Makes the server carry out the operation although an action replaces its answer.
    pub fn applied(mut self) -> Self {
        self.effect = Effect::Applied;
        self
    }

    /// Sets the place in the order of evaluation (0 by default): rules with a lower number first.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Limits the time for which the rule is in force, counted from its addition.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}
