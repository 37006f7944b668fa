//! Cancels work on SIGINT and SIGTERM, so that the program can clean up before it ends.

use crate::foreign::interruption::Interruptions;

/// Runs `work`, and drops it on SIGINT or SIGTERM. Further signals do not interrupt the cleanup
/// that the caller then does.
///
/// # Errors
/// Fails if the program cannot listen for signals, if the work fails, and with an `Interruption` if
/// a signal ends it.
pub(super) async fn until_signal<T>(
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let mut signals = Interruptions::listen()?;
    tokio::select! {
        done = work => done,
        signal = signals.next() => Err(signal.into()),
    }
}
