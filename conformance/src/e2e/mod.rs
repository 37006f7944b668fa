//! The third stage, in containers: a real cluster made by kind, with our simulator and a provider.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`command`] | `conformance e2e` |
//! | `lab` | makes, finds and deletes a lab |
//! | `engine`, `shell`, `interrupt` | the Docker engine, other programs, and cancellation |
//! | `cluster`, `simulator`, `deploy`, `peer` | the parts of a lab |
//! | `scenarios`, `disturbances`, `swap` | the scenarios, under the IDs of the catalogue |
//! | `play` | plays the scenarios one by one and compares the verdicts with virtual time |
//! | `tally` | counts the calls in ledgers and audit logs |
//! | `kubelet` | Nodes with simulated kubelets |
//! | `bench` | counts the calls of a provider and compares them with virtual time |
//!
//! The three real kubelets of the cluster test what simulated kubelets cannot: that pods run on
//! initialized Nodes, and that logs and exec reach the pods at the Nodes' addresses.

mod bench;
pub mod command;
mod engine;
mod interrupt;
mod lab;
mod play;
mod scenarios;
mod shell;
mod tally;

use std::time::Duration;

/// Calls `ask` at least once, and then every half second until it returns a value or an error.
/// Returns `None` if it has returned neither within `within`.
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
