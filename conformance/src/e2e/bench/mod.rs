//! The benchmark: counts the calls of a provider in a real cluster and in virtual time, with the
//! same flags, fleet and windows.
//!
//! | part | task |
//! | --- | --- |
//! | `command` | runs the subcommand `conformance e2e bench` |
//! | `plan` | defines the phases, with durations that both stages share |
//! | `fleet` | registers Nodes with simulated kubelets beside the real ones |
//! | `in_cluster` | plays the phases in a cluster made by kind |
//! | `virtual_time` | plays the phases in virtual time |
//! | `report` | writes `bench.json`, `bench.md`, `bench.svg` and the differences |
//!
//! The comparison finds defects: a count that differs between the two stages is a defect of the
//! simulator or of this module.

mod command;
mod fleet;
mod in_cluster;
mod plan;
mod report;
mod virtual_time;

pub(super) use command::{BenchOptions, run};
