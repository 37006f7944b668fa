//! Error for wrong usage, which ends the program with exit code 2.

/// Usage error, whose text includes a remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Usage(String);

impl Usage {
    /// Returns a usage error with this text, as an `anyhow` error.
    pub(super) fn error(text: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(text.into()))
    }
}
