//! Cancels work on SIGINT and SIGTERM, so that cleanup can follow.

use tokio::signal::unix::{SignalKind, signal};

/// Runs `work` and drops it on SIGINT or SIGTERM. Later signals do not interrupt the cleanup.
///
/// # Errors
/// Fails if a signal stopped the work.
pub(super) async fn guarded<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => anyhow::bail!("interrupted"),
        _ = terminate.recv() => anyhow::bail!("told to end"),
    }
}
