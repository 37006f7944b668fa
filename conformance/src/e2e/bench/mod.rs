//! What a provider costs, counted on the real thing and in virtual time, with the same flags, fleet and windows.
//!
//! | part | what it is |
//! | --- | --- |
//! | `plan` | the phases, as lengths of time that both stages share |
//! | `fleet` | Nodes without machines beside the real ones |
//! | `played` | the phases in a cluster made by kind |
//! | `imagined` | the same in virtual time |
//! | `report` | `bench.json`, `bench.md`, `bench.svg`, and what differs |
//!
//! A number that differs between the stages is a defect of the simulator or of this: both exist for that.

mod command;
mod fleet;
mod imagined;
mod plan;
mod played;
mod report;

pub(super) use command::{BenchOptions, run};
