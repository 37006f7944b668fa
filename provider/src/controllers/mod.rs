//! The cloud controllers: decisions in pure `plan`s, acts in `run`s.

pub(crate) mod lifecycle;
pub(crate) mod node;
mod queue;
mod taints;

pub(crate) use queue::WorkQueue;
pub(crate) use taints::UNINITIALIZED_TAINT;
#[cfg(test)]
pub(crate) use taints::SHUTDOWN_TAINT;
