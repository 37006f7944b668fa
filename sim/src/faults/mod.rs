//! Failures on demand: rules, the pure engine that judges a call, and what handlers must bend.

mod effects;
mod engine;
mod rule;

pub use effects::{Effects, MissingPaths, WatchEffects};
pub use engine::{Armed, Evaluation, Faults, RuleError};
pub(crate) use engine::{Ending, Verdict};
pub use rule::{Action, Between, Client, Effect, Matcher, Nth, Ops, Resource, Rule, When};
