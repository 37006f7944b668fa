//! Failures on demand: rules, the pure engine that judges a call, and what handlers must bend.

mod effects;

pub use effects::{Effects, MissingPaths, WatchEffects};
