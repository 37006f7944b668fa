//! The language of rules: the calls that a rule matches, when it fires, and what it does then.
//!
//! Rules are read from YAML or JSON or built in Rust; both use these types.

mod action;
mod check;
mod doubt;
mod kubernetes;
mod matcher;
mod scalars;
mod spoil;
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

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Rule {
    /// Unique name of the rule.
    pub id: String,
    /// Order of evaluation: rules of lower priority first, then file order.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// The calls that the rule matches.
    #[serde(rename = "match", default)]
    pub matcher: Matcher,
    /// Conditions under which the rule fires; all of these must hold. Always, if empty.
    #[serde(default, skip_serializing_if = "When::is_always")]
    pub when: When,
    /// Actions of the rule, in order.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
    /// Effect of the operation when its answer fails.
    #[serde(default, skip_serializing_if = "Effect::is_none")]
    pub effect: Effect,
    /// Lifetime of the rule after it was added; unlimited if left out.
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

/// Effect of an operation whose answer fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// The world does not change.
    #[default]
    None,
    /// The operation is carried out, then the client gets the failure.
    Applied,
}

impl Effect {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl Rule {
    /// Returns a rule that always fires.
    pub fn new(id: impl Into<String>, actions: impl IntoIterator<Item = Action>) -> Self {
        Self { id: id.into(), actions: actions.into_iter().collect(), ..Self::default() }
    }

    /// Returns the rule of this name in the catalogue.
    pub fn known(name: &str) -> Option<Self> {
        super::catalogue().iter().find(|known| known.name() == name).map(|known| known.rule.clone())
    }

    /// Restricts the rule to one front end.
    #[must_use]
    pub fn on(mut self, face: Face) -> Self {
        self.matcher.protocol = Some(face);
        self
    }

    /// Restricts the rule to one server.
    #[must_use]
    pub fn at(mut self, server: impl Into<String>) -> Self {
        self.matcher.server = Some(server.into());
        self
    }

    /// Restricts the rule to these operations.
    #[must_use]
    pub fn op<'a>(mut self, patterns: impl IntoIterator<Item = &'a str>) -> Self {
        self.matcher.op = patterns.into_iter().collect();
        self
    }

    /// Restricts the rule to the object of this name.
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

    /// Lets the operation take effect although its answer fails.
    #[must_use]
    pub fn applied(mut self) -> Self {
        self.effect = Effect::Applied;
        self
    }
}
