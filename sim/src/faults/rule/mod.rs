//! Fault rules: the calls that a rule matches, when it fires, and what it does then.
//!
//! Documents in YAML or JSON and code in Rust use the same types.

mod action;
mod check;
mod kubernetes;
mod matcher;
mod scalars;
mod spoil;
mod warnings;
mod when;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Face;
pub use action::Action;
pub use kubernetes::{Denial, KubeCause, KubeStatus, Throttle};
pub(super) use matcher::glob;
pub use matcher::{Client, Matcher, Ops, Resource};
pub use spoil::Spoil;
pub use when::{Between, Nth, When};

/// A fault rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// Unique name of the rule.
    pub id: String,
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
    #[serde(
        default,
        with = "sim_world::duration::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub ttl: Option<Duration>,
}

fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

/// Effect on the world of an operation whose answer an action replaces. `truncate` and `spoil` need
/// the real answer, so the server carries out their operations with either effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
    pub fn new(id: impl Into<String>, actions: impl IntoIterator<Item = Action>) -> Self {
        Self { id: id.into(), actions: actions.into_iter().collect(), ..Self::default() }
    }

    /// Returns the rule of this name in the catalogue; `None` if the catalogue has no such name.
    pub fn known(name: &str) -> Option<Self> {
        super::catalogue().iter().find(|known| known.name() == name).map(|known| known.rule.clone())
    }

    /// Restricts the rule to one front end.
    #[must_use]
    pub fn on(mut self, face: Face) -> Self {
        self.matcher.protocol = Some(face);
        self
    }

    /// Restricts the rule to servers of this name; `*` stands for any text.
    #[must_use]
    pub fn at(mut self, server: impl Into<String>) -> Self {
        self.matcher.server = Some(server.into());
        self
    }

    /// Restricts the rule to operations that match one of these patterns.
    #[must_use]
    pub fn op<'a>(mut self, patterns: impl IntoIterator<Item = &'a str>) -> Self {
        self.matcher.op = patterns.into_iter().collect();
        self
    }

    /// Restricts the rule to calls that refer to an object of this name; `*` stands for any text.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.matcher.resource.name = Some(name.into());
        self
    }

    /// Lets the rule fire on the n-th match only.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.when.nth = Nth(vec![(n, n)]);
        self
    }

    /// Lets the rule fire on the first `n` matches.
    #[must_use]
    pub fn first(mut self, n: u64) -> Self {
        self.when.first = Some(n);
        self
    }

    /// Makes the server carry out the operation although an action replaces its answer.
    #[must_use]
    pub fn applied(mut self) -> Self {
        self.effect = Effect::Applied;
        self
    }
}
