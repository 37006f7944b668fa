//! What is wrong with what was asked for, and not with the world: exit code 2.

/// A sentence with a remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Usage(String);

impl Usage {
    /// As an error of anything here.
    pub(super) fn error(text: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self(text.into()))
    }
}
