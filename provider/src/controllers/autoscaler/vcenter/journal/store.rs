//! Where the journal is kept: the interface of its store, and its opening.

use std::sync::Arc;

use uuid::Uuid;

use super::Journal;
use crate::{InputError, model::Clock};

/// Namespace of the identities of journals and of their owners.
const JOURNALS: Uuid = Uuid::from_u128(0x1f6e_43bb_90a5_4c0e_8d58_7a6c_2f94_be01);

/// Reason why a journal was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Another server has written the journal. This one must change nothing any more.
    #[error("another server uses the journal: {0}")]
    Lost(String),
    /// The write failed, or its result is not known. The caller may write again.
    #[error("cannot write the journal: {0}")]
    Failed(String),
}

/// Store of the journal of the vCenter backend.
///
/// A store lets only one server write: a file is locked, and a ConfigMap is written with the resource
/// version that the server last saw.
#[tonic::async_trait]
pub trait JournalStore: Send + Sync {
    /// Returns flag and value that name the store, for errors.
    fn place(&self) -> String;

    /// Reads the journal, and makes sure that no other server writes it from now on; `None` if none
    /// exists yet.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read, or another server uses it.
    async fn read(&self) -> Result<Option<String>, InputError>;

    /// Replaces the journal. Returns when the new content survives a crash.
    ///
    /// # Errors
    ///
    /// See [`JournalError`].
    async fn write(&self, text: &str) -> Result<(), JournalError>;
}

/// An opened journal.
pub struct AutoscalerJournal {
    pub(in super::super) store: Arc<dyn JournalStore>,
    pub(in super::super) content: Journal,
}

impl AutoscalerJournal {
    /// Reads the journal, and makes this server its owner.
    ///
    /// # Errors
    ///
    /// If the journal cannot be read, parsed or written.
    pub async fn open(
        store: Arc<dyn JournalStore>,
        clock: &Clock,
        seed: u64,
    ) -> Result<Self, InputError> {
        let place = store.place();
        let in_place = |err: InputError| err.in_source(place.as_str());
        let owner =
            Uuid::new_v5(&JOURNALS, format!("{seed}/{}", clock.now().as_nanosecond()).as_bytes());
        let text = store.read().await.map_err(in_place)?;
        let mut content = match text {
            Some(text) => Journal::parse(&text).map_err(in_place)?,
            None => Journal::new(owner),
        };
        content.take(owner);
        store.write(&content.text()).await.map_err(|err| {
            let err = InputError::new(err.to_string());
            in_place(err.remedy("check its permissions, and that no other server runs"))
        })?;
        Ok(Self { store, content })
    }
}
