//! What a check can conclude.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A verdict. Vacuous is not green: what was not exercised is inconclusive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "reason")]
pub enum Verdict {
    /// The promise held.
    Pass,
    /// It was broken; the sentence says how.
    Fail(String),
    /// What the check is about did not happen.
    Inconclusive(String),
}

impl Verdict {
    /// Pass if it holds, else fail with this sentence.
    pub fn of(holds: bool, otherwise: impl FnOnce() -> String) -> Self {
        if holds { Self::Pass } else { Self::Fail(otherwise()) }
    }

    /// The first verdict that is no pass.
    pub fn and(self, next: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Pass => next(),
            other => other,
        }
    }

    /// The word in tables and reports.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail(_) => "FAIL",
            Self::Inconclusive(_) => "inconclusive",
        }
    }

    /// The reason, if there is one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Pass => None,
            Self::Fail(reason) | Self::Inconclusive(reason) => Some(reason),
        }
    }

    /// The worse of two: a failure outweighs an inconclusive case.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let rank = |verdict: &Self| match verdict {
            Self::Pass => 0,
            Self::Inconclusive(_) => 1,
            Self::Fail(_) => 2,
        };
        if rank(&other) > rank(&self) { other } else { self }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            None => f.write_str(self.word()),
            Some(reason) => write!(f, "{}: {reason}", self.word()),
        }
    }
}
