//! Verdicts of checks and cases, with their reasons.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sim::world::Time;

use crate::judge::{Invariant, Violation};

/// Result of a check or a case. A check that exercised nothing is inconclusive, not passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum Verdict {
    /// The promise held.
    Pass,
    /// The promise held in every case that was played, but some cases were not played.
    Partial(Reason),
    /// The provider broke the promise; the reason says how.
    Fail(Reason),
    /// The run did not exercise the promise, so it proves nothing.
    Inconclusive(Reason),
    /// The provider broke the promise at first, and kept it when the case was repeated.
    Flaky(Reason),
    /// The harness failed or its computer was too slow, so the check concludes nothing.
    HarnessError(Reason),
    /// The provider lacks a feature or right that the promise needs, as it declares or as the run
    /// shows.
    NotSupported(Reason),
    /// The check or case was not run, for a reason other than a missing feature or right.
    Skipped(Reason),
}

/// Reason for a verdict other than pass: a sentence for people and fields for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// Sentence for people.
    #[serde(rename = "reason")]
    pub text: String,
    /// The moment that the sentence is about, if any; in nanoseconds since the world began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// The invariant that was broken, if the reason is a violation; as its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invariant: Option<Invariant>,
    /// True if an action of the provider came too late or not at all, which a slow computer can
    /// cause.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_late: bool,
    /// Name of the case that the reason is about; `None` if it has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
}

impl Reason {
    /// Returns this reason with the text that `words` makes of the present text.
    #[must_use]
    pub fn reworded(self, words: impl FnOnce(&str) -> String) -> Self {
        Self { text: words(&self.text), ..self }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.case {
            None => f.write_str(&self.text),
            Some(case) => write!(f, "[{case}] {}", self.text),
        }
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<&Violation> for Reason {
    fn from(violation: &Violation) -> Self {
        Self {
            text: violation.to_string(),
            at: Some(violation.at),
            invariant: Some(violation.invariant),
            ..Self::default()
        }
    }
}

/// A value that may name the moment that a reason is about.
pub trait Moment {
    /// Returns the moment, if the value has one.
    fn moment(self) -> Option<Time>;
}

impl Moment for Time {
    fn moment(self) -> Option<Time> {
        Some(self)
    }
}

impl Moment for Duration {
    fn moment(self) -> Option<Time> {
        Some(Time::after_start(self))
    }
}

impl<M: Moment> Moment for Option<M> {
    fn moment(self) -> Option<Time> {
        self.and_then(M::moment)
    }
}

/// Returns `at` and the moment for a sentence such as "the Node was deleted at 412.000s", or
/// `never` if the value has no moment.
pub fn when(moment: impl Moment) -> String {
    moment.moment().map_or_else(|| "never".to_owned(), |at| format!("at {at}"))
}

/// Turns a sentence into a reason with the moment that the sentence is about.
pub trait AboutMoment {
    /// Returns a reason with this sentence and moment.
    fn at(self, moment: impl Moment) -> Reason;

    /// Returns a reason with this sentence about an action that came too late, at this moment, or
    /// not at all.
    fn late(self, moment: impl Moment) -> Reason;
}

impl AboutMoment for String {
    fn at(self, moment: impl Moment) -> Reason {
        Reason { at: moment.moment(), ..self.into() }
    }

    fn late(self, moment: impl Moment) -> Reason {
        Reason { is_late: true, ..self.at(moment) }
    }
}

impl Verdict {
    /// Returns `Pass` if `holds`, else `Fail` with the sentence from `otherwise`.
    pub fn pass_if<R: Into<Reason>>(holds: bool, otherwise: impl FnOnce() -> R) -> Self {
        if holds { Self::Pass } else { Self::fail(otherwise()) }
    }

    /// Returns `Pass` if `wrong` is `None`, else `Fail` with the sentence from `about` about it.
    pub fn none<T, R: Into<Reason>>(wrong: Option<T>, about: impl FnOnce(T) -> R) -> Self {
        wrong.map_or(Self::Pass, |wrong| Self::fail(about(wrong)))
    }

    /// Returns `Fail`: the promise was broken.
    pub fn fail(why: impl Into<Reason>) -> Self {
        Self::Fail(why.into())
    }

    /// Returns `Inconclusive`: the promise was not exercised.
    pub fn inconclusive(why: impl Into<Reason>) -> Self {
        Self::Inconclusive(why.into())
    }

    /// Returns `HarnessError`: the harness failed.
    pub fn harness_error(why: impl Into<Reason>) -> Self {
        Self::HarnessError(why.into())
    }

    /// Returns `NotSupported`: the provider lacks a feature that the promise needs.
    pub fn not_supported(why: impl Into<Reason>) -> Self {
        Self::NotSupported(why.into())
    }

    /// Returns `Skipped`: the check was not run.
    pub fn skipped(why: impl Into<Reason>) -> Self {
        Self::Skipped(why.into())
    }

    /// Returns this verdict if it is not `Pass`, else the verdict that `next` returns.
    pub fn and(self, next: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Pass => next(),
            other => other,
        }
    }

    /// Returns the word for tables and reports.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Partial(_) => "partial",
            Self::Fail(_) => "FAIL",
            Self::Inconclusive(_) => "inconclusive",
            Self::Flaky(_) => "flaky",
            Self::HarnessError(_) => "harness-error",
            Self::NotSupported(_) => "not-supported",
            Self::Skipped(_) => "skipped",
        }
    }

    /// Returns the reason, or `None` for a pass.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Self::Pass => None,
            Self::Partial(reason)
            | Self::Fail(reason)
            | Self::Inconclusive(reason)
            | Self::Flaky(reason)
            | Self::HarnessError(reason)
            | Self::NotSupported(reason)
            | Self::Skipped(reason) => Some(reason),
        }
    }

    /// True if the check was run.
    pub fn is_run(&self) -> bool {
        !matches!(self, Self::NotSupported(_) | Self::Skipped(_))
    }

    /// True for `Pass` and `Partial`: no case that was played failed or stayed inconclusive.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Pass | Self::Partial(_))
    }

    /// Returns this verdict with the name of a case in its reason; an empty name means none. A pass
    /// has no reason and stays unchanged.
    #[must_use]
    pub fn of_case(mut self, case: &str) -> Self {
        let reason = match &mut self {
            Self::Pass => return self,
            Self::Partial(reason)
            | Self::Fail(reason)
            | Self::Inconclusive(reason)
            | Self::Flaky(reason)
            | Self::HarnessError(reason)
            | Self::NotSupported(reason)
            | Self::Skipped(reason) => reason,
        };
        reason.case = (!case.is_empty()).then(|| case.to_owned());
        self
    }

    /// True if two runs of one check have the same kind of verdict. Two failures must also name the
    /// same case and the same invariant. If neither names an invariant, their texts must agree in
    /// all words that contain no digit.
    pub fn agrees_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fail(one), Self::Fail(two)) => {
                one.case == two.case
                    && one.invariant == two.invariant
                    && (one.invariant.is_some() || cause(&one.text) == cause(&two.text))
            }
            _ => self.word() == other.word(),
        }
    }

    /// Returns the worse of two verdicts. From best to worst: pass, partial, skipped, not
    /// supported, inconclusive, flaky, harness error, fail.
    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        let rank = |verdict: &Self| match verdict {
            Self::Pass => 0,
            Self::Partial(_) => 1,
            Self::Skipped(_) => 2,
            Self::NotSupported(_) => 3,
            Self::Inconclusive(_) => 4,
            Self::Flaky(_) => 5,
            Self::HarnessError(_) => 6,
            Self::Fail(_) => 7,
        };
        if rank(&other) > rank(&self) { other } else { self }
    }
}

/// Returns the words of `text` that contain no digit. Two reports of the same problem agree in
/// these words, while times, names and counts differ.
fn cause(text: &str) -> Vec<&str> {
    text.split_whitespace().filter(|word| !word.contains(|it: char| it.is_ascii_digit())).collect()
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            None => f.write_str(self.word()),
            Some(reason) => write!(f, "{}: {reason}", self.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_failures_agree_in_case_invariant_and_cause() {
        let broken = |invariant, text: &str, case: &str| {
            Verdict::Fail(Reason { invariant: Some(invariant), ..text.into() }).of_case(case)
        };
        use Invariant::{NoMassDeletion, NoWrongDeletion};
        let early = broken(NoWrongDeletion, "node-0001 was deleted at 61.2s", "cold");
        assert!(early.agrees_with(&broken(NoWrongDeletion, "node-0002 went at 70.1s", "cold")));
        assert!(!early.agrees_with(&broken(NoWrongDeletion, "node-0001 was deleted", "warm")));
        assert!(!early.agrees_with(&broken(NoMassDeletion, "node-0001 was deleted", "cold")));
        assert!(Verdict::fail("7 calls").agrees_with(&Verdict::fail("8 calls")));
        assert!(!Verdict::fail("7 calls").agrees_with(&Verdict::fail("never shown")));
        assert!(!Verdict::fail("7 calls").agrees_with(&Verdict::Pass));
        assert!(Verdict::inconclusive("a").agrees_with(&Verdict::inconclusive("b")));
    }
}
