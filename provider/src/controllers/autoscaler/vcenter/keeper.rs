//! Writes the journal: one change at a time, and each before it counts.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::{
    VcenterMachines,
    journal::{Journal, JournalError, JournalStore},
};
use crate::controllers::autoscaler::instance::one_line;

/// Longest time that a write of the journal takes.
const LONGEST_WRITE: Duration = Duration::from_secs(60);
/// Interval at which the server looks whether the journal has to be written again.
const SETTLE: Duration = Duration::from_secs(10);

/// The store of the journal, and the turn of its writes.
pub(super) struct Keeper {
    store: Arc<dyn JournalStore>,
    turn: Mutex<Turn>,
}

#[derive(Default)]
struct Turn {
    /// True if the result of the last write is not known.
    is_unsure: bool,
}

/// Reason why a change of the journal did not take effect.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommitError {
    #[error("another change did not end in time; nothing was changed")]
    Busy,
    #[error("the journal was not written in time; the change does not count")]
    Slow,
    #[error("an instance that would be given up has a machine by now; nothing was changed")]
    Exists,
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl From<CommitError> for Status {
    fn from(err: CommitError) -> Self {
        let text = one_line(&err.to_string());
        match err {
            CommitError::Busy | CommitError::Slow => Self::aborted(text),
            CommitError::Exists => Self::failed_precondition(text),
            CommitError::Journal(_) => Self::unavailable(text),
        }
    }
}

impl Keeper {
    pub(super) fn new(store: Arc<dyn JournalStore>) -> Self {
        Self { store, turn: Mutex::default() }
    }

    /// Replaces the journal `before` by `journal`. After a failure it writes the old content again at
    /// once, because the change may have taken effect nevertheless, and a restart must not find it.
    /// If that fails too, or the time `limit` is over, the turn stays unsure.
    async fn write(
        &self,
        turn: &mut Turn,
        before: &Journal,
        journal: &Journal,
        limit: Duration,
    ) -> Result<(), CommitError> {
        // Also if this future is dropped.
        turn.is_unsure = true;
        let writes = async {
            let Err(err) = self.store.write(&journal.text()).await else { return Ok(()) };
            tracing::error!(error = %err, "the journal was not written; the change does not count");
            match (&err, before == journal) {
                (JournalError::Failed(_), false) => {
                    Err((err, self.store.write(&before.text()).await))
                }
                _ => Err((err.clone(), Err(err))),
            }
        };
        match tokio::time::timeout(limit, writes).await {
            Ok(Ok(())) => {
                turn.is_unsure = false;
                Ok(())
            }
            Ok(Err((err, restored))) => {
                turn.is_unsure = restored.is_err();
                Err(match restored {
                    Err(lost @ JournalError::Lost(_)) => lost,
                    _ => err,
                }
                .into())
            }
            Err(_) => {
                tracing::error!("the journal was not written in time; the change does not count");
                Err(CommitError::Slow)
            }
        }
    }
}

impl VcenterMachines {
    /// Changes the journal. The change counts when it is written, and not at all if that fails.
    /// `budget` limits the wait for earlier changes and the write.
    pub(super) async fn commit<T>(
        &self,
        budget: Duration,
        change: impl FnOnce(&mut Journal) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        let keeper = &self.0.keeper;
        let began = Instant::now();
        let turn = tokio::time::timeout(budget, keeper.turn.lock());
        let mut turn = turn.await.map_err(|_| CommitError::Busy)?;
        let (before, lost) = {
            let state = self.state();
            (state.journal.clone(), state.lost.clone())
        };
        if let Some(why) = lost {
            return Err(JournalError::Lost(why).into());
        }
        let mut journal = before.clone();
        let result = change(&mut journal)?;
        if journal == before && !turn.is_unsure {
            return Ok(result);
        }
        let limit = budget.saturating_sub(began.elapsed()).min(LONGEST_WRITE);
        let written = keeper.write(&mut turn, &before, &journal, limit).await;
        if written.is_ok() {
            self.state().journal = journal;
        }
        if let Err(CommitError::Journal(JournalError::Lost(why))) = &written {
            self.state().lost = Some(why.clone());
        }
        written.map(|()| result)
    }

    /// Settles the journal again and again, until the stop, also while vCenter does not answer.
    pub(super) async fn keep_settled(&self, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            self.settle().await;
            stop.run_until_cancelled(tokio::time::sleep(SETTLE)).await;
        }
    }

    /// Writes the journal again if a change that does not count may have been written.
    async fn settle(&self) {
        // A change that has its turn now settles the journal itself.
        let is_unsure = self.0.keeper.turn.try_lock().is_ok_and(|turn| turn.is_unsure);
        if is_unsure && self.note(|_| {}).await {
            tracing::info!("the journal has the content that counts again");
        }
    }

    /// Changes the journal, and logs a failure. A later attempt makes the change again.
    pub(super) async fn note(&self, change: impl FnOnce(&mut Journal)) -> bool {
        let change = |journal: &mut Journal| {
            change(journal);
            Ok(())
        };
        self.commit(Duration::MAX, change).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::InputError;

    /// A store whose writes never end.
    struct Stuck;

    #[tonic::async_trait]
    impl JournalStore for Stuck {
        fn place(&self) -> String {
            "--journal stuck".to_owned()
        }

        async fn read(&self) -> Result<Option<String>, InputError> {
            Ok(None)
        }

        async fn write(&self, _: &str) -> Result<(), JournalError> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_does_not_end_fails_in_time_and_is_to_be_settled() {
        let keeper = Keeper::new(Arc::new(Stuck));
        let mut turn = keeper.turn.lock().await;
        let (before, mut journal) = (Journal::new(Uuid::nil()), Journal::new(Uuid::nil()));
        journal.want("workers", None, |_| false);
        let limit = Duration::from_secs(4);
        let began = Instant::now();
        let err = keeper.write(&mut turn, &before, &journal, limit).await.unwrap_err();
        assert_eq!(Status::from(err).code(), tonic::Code::Aborted);
        assert!(turn.is_unsure && began.elapsed() < Duration::from_secs(5));
    }
}
