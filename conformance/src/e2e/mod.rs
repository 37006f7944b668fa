//! The stage in containers: a real cluster made by kind, with our simulator and a provider.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`command`] | `conformance e2e` |
//! | `lab` | makes, finds and ends a laboratory |
//! | `engine`, `shell`, `interrupt` | the Docker engine, other programs, and cancellation |
//! | `cluster`, `simulator`, `deploy`, `peer` | the parts of a laboratory |
//! | `scenarios`, `disturbances`, `swap` | the scenarios, under the IDs of the catalogue |
//! | `play` | plays the scenarios one by one and compares the verdicts with virtual time |
//! | `tally` | counts calls of ledgers and audit logs |
//! | `kubelet` | Nodes with simulated kubelets |
//! | `bench` | counts the calls of a provider and compares them with virtual time |
//!
//! Three real kubelets prove the wiring, which no simulated kubelet can.

mod bench;
mod cluster;
pub mod command;
mod deploy;
mod disturbances;
mod engine;
mod interrupt;
mod kubelet;
mod lab;
mod peer;
mod play;
mod scenarios;
mod shell;
mod simulator;
mod swap;
mod tally;
mod usage;

use std::time::Duration;

/// Calls `ask` every half second until it returns a value, or returns `None` after `within`.
async fn until<T>(
    within: Duration,
    mut ask: impl AsyncFnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let end = tokio::time::Instant::now() + within;
    loop {
        if let Some(answer) = ask().await? {
            return Ok(Some(answer));
        }
        if tokio::time::Instant::now() >= end {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
