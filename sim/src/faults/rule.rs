//! The language of rules: what a call must look like, when a rule fires, what then happens.
//!
//! Rules are read from YAML or JSON and built in Rust; both are these types.

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
    /// Its name; unique.
    pub id: String,
    /// Rules of lower priority are asked first; then file order decides.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Which calls it is about.
    #[serde(rename = "match", default)]
    pub matcher: Matcher,
    /// When it fires; all of these must hold. Always, if empty.
    #[serde(default, skip_serializing_if = "When::is_always")]
    pub when: When,
    /// What happens, in order.
    #[serde(rename = "do")]
    pub actions: Vec<Action>,
    /// Whether the operation is carried out although the answer fails.
    #[serde(default, skip_serializing_if = "Effect::is_none")]
    pub effect: Effect,
    /// How long the rule lives after it was added; for ever if left out.
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

/// Whether the operation is carried out when its answer fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// The world does not change.
    #[default]
    None,
    /// The operation is carried out, then the failure is delivered.
    Applied,
}

impl Effect {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl Rule {
    /// A rule that always fires.
    pub fn new(id: impl Into<String>, actions: impl IntoIterator<Item = Action>) -> Self {
        Self { id: id.into(), actions: actions.into_iter().collect(), ..Self::default() }
    }

    /// A rule of the catalogue, by its name.
    pub fn known(name: &str) -> Option<Self> {
        super::catalogue().iter().find(|known| known.name() == name).map(|known| known.rule.clone())
    }

    /// For one front end.
    #[must_use]
    pub fn on(mut self, face: Face) -> Self {
        self.matcher.protocol = Some(face);
        self
    }

    /// For one server.
    #[must_use]
    pub fn at(mut self, server: impl Into<String>) -> Self {
        self.matcher.server = Some(server.into());
        self
    }

    /// For these operations.
    #[must_use]
    pub fn op<'a>(mut self, patterns: impl IntoIterator<Item = &'a str>) -> Self {
        self.matcher.op = patterns.into_iter().collect();
        self
    }

    /// For the object of this name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.matcher.resource.name = Some(name.into());
        self
    }

    /// For the n-th match only.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.when.nth = Nth(vec![(n, n)]);
        self
    }

    /// For the first so many matches.
    #[must_use]
    pub fn first(mut self, n: u64) -> Self {
        self.when.first = Some(n);
        self
    }

    /// With the operation carried out.
    #[must_use]
    pub fn applied(mut self) -> Self {
        self.effect = Effect::Applied;
        self
    }
}
