//! The outcome of the runs with a mutant.

use serde::{Deserialize, Serialize};

/// Outcome of the runs with a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// A check failed; the value is the ID of the first one.
    Check(String),
    /// No check failed, but a check that passes without the mutant had no verdict; the value is the
    /// ID of the first one.
    Unsure(String),
    /// A run of the judge exceeded its time limits, so `mutants` killed it.
    Hung,
    /// The judge ended without a verdict; the value is its exit status.
    Crashed(String),
    /// The catalogue did not catch the mutant, but a test of the provider failed or took too long;
    /// the value names the test program.
    Test(String),
    /// No check and no test failed.
    Survived,
}

impl End {
    /// True if the catalogue caught the mutant, or if its run hung or crashed.
    pub(crate) fn is_caught(&self) -> bool {
        matches!(self, Self::Check(_) | Self::Hung | Self::Crashed(_))
    }
}
