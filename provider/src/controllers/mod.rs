//! The controllers of the cloud provider: pure decisions in `plan` modules, side effects in `run`
//! modules and in the modules that those call. `autoscaler` is a server that another program calls.

pub(crate) mod autoscaler;
pub(crate) mod capacity;
pub(crate) mod lifecycle;
pub(crate) mod node;
mod quantity;
mod queue;
mod taints;

pub(crate) use queue::WorkQueue;
#[cfg(test)]
pub(crate) use taints::SHUTDOWN_TAINT;
pub(crate) use taints::UNINITIALIZED_TAINT;
