//! Counts the calls of a provider in a real cluster and in virtual time, with the same flags, fleet and windows.
//!
//! | part | what it is |
//! | --- | --- |
//! | `plan` | the phases, with durations that both stages share |
//! | `fleet` | Nodes with simulated kubelets beside the real ones |
//! | `played` | plays the phases in a cluster made by kind |
//! | `imagined` | plays them in virtual time |
//! | `report` | writes `bench.json`, `bench.md`, `bench.svg` and the differences |
//!
//! A number that differs between the stages is a defect of the simulator or of this module; the comparison
//! exists to find it.

mod command;
mod fleet;
mod imagined;
mod plan;
mod played;
mod report;

pub(super) use command::{BenchOptions, run};
