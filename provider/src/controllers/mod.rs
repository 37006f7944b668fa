//! The cloud controllers: pure decisions in `plan`s, side effects in `run`s.

pub(crate) mod lifecycle;
pub(crate) mod node;
mod queue;
mod taints;

pub(crate) use queue::WorkQueue;
#[cfg(test)]
pub(crate) use taints::SHUTDOWN_TAINT;
pub(crate) use taints::UNINITIALIZED_TAINT;
