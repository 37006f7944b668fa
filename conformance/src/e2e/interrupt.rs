//! Cancels work on SIGINT and SIGTERM, so that the program can clean up before it ends.

use tokio::signal::unix::{SignalKind, signal};

/// Runs `work`, and drops it on SIGINT or SIGTERM. Further signals do not interrupt the cleanup
/// that the caller then does.
///
/// # Errors
/// Fails if the work fails or a signal ends it.
pub(super) async fn guarded<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => anyhow::bail!("interrupted"),
        _ = terminate.recv() => anyhow::bail!("terminated"),
    }
}
