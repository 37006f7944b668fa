//! Writes the journal: one change at a time, and each before it counts.

use std::{sync::Arc, time::Duration};

use tokio::sync::Mutex;
use tonic::Status;

use super::{
    VcenterMachines,
    journal::{Journal, JournalError, JournalStore},
};
use crate::controllers::autoscaler::instance::one_line;

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
    #[error("an instance that would be given up has a machine by now; nothing was changed")]
    Exists,
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl From<CommitError> for Status {
    fn from(err: CommitError) -> Self {
        let text = one_line(&err.to_string());
        match err {
            CommitError::Busy => Self::aborted(text),
            CommitError::Exists => Self::failed_precondition(text),
            CommitError::Journal(_) => Self::unavailable(text),
        }
    }
}

impl Keeper {
    pub(super) fn new(store: Arc<dyn JournalStore>) -> Self {
        Self { store, turn: Mutex::default() }
    }
}

impl VcenterMachines {
    /// Changes the journal. The change counts when it is written, and not at all if that fails.
    /// `budget` limits the wait for earlier changes.
    pub(super) async fn commit<T>(
        &self,
        budget: Duration,
        change: impl FnOnce(&mut Journal) -> Result<T, CommitError>,
    ) -> Result<T, CommitError> {
        let keeper = &self.0.keeper;
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
        match keeper.store.write(&journal.text()).await {
            Ok(()) => {
                turn.is_unsure = false;
                self.state().journal = journal;
                Ok(result)
            }
            Err(err) => {
                tracing::error!(error = %err, "the journal was not written; the change does not count");
                turn.is_unsure = true;
                // The change may have taken effect nevertheless, and a restart must not find it.
                let restored = match &err {
                    JournalError::Failed(_) => keeper.store.write(&before.text()).await,
                    JournalError::Lost(_) => Err(err.clone()),
                };
                match restored {
                    Ok(()) => turn.is_unsure = false,
                    Err(JournalError::Lost(why)) => self.state().lost = Some(why),
                    Err(JournalError::Failed(_)) => {}
                }
                Err(err.into())
            }
        }
    }

    /// Writes the journal again if a change that does not count may have been written.
    pub(super) async fn settle(&self) {
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
