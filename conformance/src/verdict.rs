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
    /// It was broken once and held when it was tried again.
    Flaky(String),
    /// The machine that judges did not keep up, so that nothing can be concluded.
    HarnessError(String),
    /// The provider says that it does not do this.
    NotSupported(String),
    /// It was not run.
    Skipped(String),
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
            Self::Flaky(_) => "flaky",
            Self::HarnessError(_) => "harness-error",
            Self::NotSupported(_) => "not-supported",
            Self::Skipped(_) => "skipped",
        }
    }

    /// The reason, if there is one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Pass => None,
            Self::Fail(reason)
            | Self::Inconclusive(reason)
            | Self::Flaky(reason)
            | Self::HarnessError(reason)
            | Self::NotSupported(reason)
            | Self::Skipped(reason) => Some(reason),
        }
    }

    /// Whether it was put to the test at all.
    pub fn is_run(&self) -> bool {
        !matches!(self, Self::NotSupported(_) | Self::Skipped(_))
    }

    /// The same, with the name of a case in its reason.
    #[must_use]
    pub fn of_case(self, case: &str) -> Self {
        if case.is_empty() {
            return self;
        }
        let name = |why: String| format!("[{case}] {why}");
        match self {
            Self::Pass => Self::Pass,
            Self::Fail(why) => Self::Fail(name(why)),
            Self::Inconclusive(why) => Self::Inconclusive(name(why)),
            Self::Flaky(why) => Self::Flaky(name(why)),
            Self::HarnessError(why) => Self::HarnessError(name(why)),
            Self::NotSupported(why) => Self::NotSupported(name(why)),
            Self::Skipped(why) => Self::Skipped(name(why)),
        }
    }

    /// The worse of two: a failure outweighs an inconclusive case.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let rank = |verdict: &Self| match verdict {
            Self::Pass => 0,
            Self::Skipped(_) => 1,
            Self::NotSupported(_) => 2,
            Self::Inconclusive(_) => 3,
            Self::Flaky(_) => 4,
            Self::HarnessError(_) => 5,
            Self::Fail(_) => 6,
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
