//! What is given up when somebody wants this program to end.

use tokio::signal::unix::{SignalKind, signal};

/// Gives up what it does on SIGINT and SIGTERM. What comes afterwards is not disturbed by another.
///
/// # Errors
/// It was given up.
pub(super) async fn guarded<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = interrupt.recv() => anyhow::bail!("interrupted"),
        _ = terminate.recv() => anyhow::bail!("told to end"),
    }
}
