//! The stage in containers: a real cluster made by kind, our simulator and a provider in it.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`command`] | `conformance e2e` |
//! | `lab` | a laboratory is made, found again, ended |
//! | `engine`, `shell`, `interrupt` | the Docker engine, other programs, and what is given up |
//! | `cluster`, `simulator`, `deploy`, `peer` | what is in a laboratory |
//! | `scenarios`, `disturbances`, `swap` | what happens in it, under the IDs of the catalogue |
//! | `play` | scenarios one after the other, their verdicts beside those of virtual time |
//! | `tally` | calls, from ledger and audit log |
//! | `kubelet` | Nodes whose kubelets are played |
//! | `bench` | what a provider costs there, beside virtual time |
//!
//! Three real kubelets prove the wiring, which no simulated one can.

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

/// Asks again and again until it says yes, or until `within` has passed.
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
