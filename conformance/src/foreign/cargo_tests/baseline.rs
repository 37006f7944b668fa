//! The baseline of a vendor: a file in the vendor's repository with the accepted verdicts and
//! numbers of calls of its provider.
//!
//! A run must match the file, and the vendor must record an improvement: a test fails if a check
//! that passed now fails, if a check that failed now passes, or if the number of calls rises or
//! falls too much. Apart from reading the file, the module is pure: it compares results and returns
//! sentences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sim::document::{self, DocumentError};

use crate::catalogue::{self, CheckId};
use crate::judge::Invariant;
use crate::judge::verdict::Verdict;
use crate::scenario::InputError;
use crate::suite::Conclusion;

const API_VERSION: &str = "sim.vsphere/v1alpha1";
const KIND: &str = "Baseline";
/// Default tolerance for the number of calls, in percent. It is needed because on a real clock a
/// periodic loop of the provider may run once more or once less.
const TOLERANCE: u8 = 15;
/// Smallest tolerance, in calls.
const MIN_TOLERANCE: u64 = 2;

/// Accepted results of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    /// Path of the file.
    pub path: PathBuf,
    /// Maximum difference from the recorded number of calls, in percent; two calls are always
    /// tolerated.
    pub tolerance: u8,
    /// Accepted results by the ID of the check.
    pub checks: BTreeMap<CheckId, BaselineEntry>,
}

/// Accepted result of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Accepted")]
#[serde(deny_unknown_fields)]
pub struct BaselineEntry {
    /// Accepted verdict.
    pub verdict: BaselineVerdict,
    /// Number of calls to vCenter or Supervisor in all cases together; only for the verdict `pass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Cases that fail or are flaky, each with the invariant that it breaks, if any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub failures: BTreeSet<Failure>,
    /// Reason to accept the result. [`Baseline::update`] keeps the reason while the verdict stays
    /// the same. If it records a new number of calls of a check that passes, it removes the reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// One way to fail a check: the case, and the invariant that it breaks. A baseline that accepts one
/// failure of a check does not accept another failure of the same check.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// Name of the case; empty if the check has only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub case: String,
    /// Broken invariant, in the file as its number; `None` if the case fails for a reason other
    /// than an invariant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invariant: Option<Invariant>,
}

impl Failure {
    /// Returns the failure as a YAML flow mapping, such as `{case: "x", invariant: 1}`.
    fn flow(&self) -> String {
        let case = (!self.case.is_empty()).then(|| format!("case: {}", Value::from(&*self.case)));
        let invariant = self.invariant.map(|it| format!("invariant: {}", it.number()));
        let parts: Vec<String> = case.into_iter().chain(invariant).collect();
        format!("{{{}}}", parts.join(", "))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.case.as_str(), self.invariant) {
            ("", None) => write!(f, "its only case fails"),
            ("", Some(invariant)) => write!(f, "its only case breaks {invariant}"),
            (case, None) => write!(f, "case {case:?} fails"),
            (case, Some(invariant)) => write!(f, "case {case:?} breaks {invariant}"),
        }
    }
}

/// Verdict of a check, as far as a baseline distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BaselineVerdict {
    /// The check passed: in all of its cases, or in those that were played.
    Pass,
    /// The check failed.
    Fail,
    /// The check failed at first and passed when repeated.
    Flaky,
    /// The run did not exercise what the check tests.
    Inconclusive,
    /// The check was not run: the provider lacks a feature, the manifest skips the check, or the
    /// check cannot be played with this provider.
    Skipped,
}

impl BaselineVerdict {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Flaky => "flaky",
            Self::Inconclusive => "inconclusive",
            Self::Skipped => "skipped",
        }
    }
}

/// Observed result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedResult {
    /// Verdict of the check.
    pub verdict: BaselineVerdict,
    /// Reason of the verdict; empty if all cases of the check were played and passed.
    pub why: String,
    /// Number of calls to vCenter or Supervisor in all cases together.
    pub calls: u64,
    /// Cases that failed, including those that passed when repeated.
    pub failures: BTreeSet<Failure>,
}

impl ObservedResult {
    /// Returns the observed result that a conclusion contains.
    ///
    /// # Errors
    /// Returns the reason if the verdict is a harness error, which says nothing about the provider.
    pub fn from_conclusion(conclusion: &Conclusion) -> Result<Self, String> {
        let verdict = match &conclusion.verdict {
            Verdict::Pass | Verdict::Partial(_) => BaselineVerdict::Pass,
            Verdict::Fail(_) => BaselineVerdict::Fail,
            Verdict::Flaky(_) => BaselineVerdict::Flaky,
            Verdict::Inconclusive(_) => BaselineVerdict::Inconclusive,
            Verdict::NotSupported(_) | Verdict::Skipped(_) => BaselineVerdict::Skipped,
            Verdict::HarnessError(why) => return Err(why.to_string()),
        };
        let summary = conclusion.summary();
        let calls = (summary.vcenter_calls + summary.supervisor_calls) as u64;
        let why = conclusion.verdict.reason().map(ToString::to_string).unwrap_or_default();
        let failures = conclusion.outcomes.iter().filter_map(|it| match &it.verdict {
            Verdict::Fail(why) | Verdict::Flaky(why) => {
                Some(Failure { case: it.case.clone(), invariant: why.invariant })
            }
            _ => None,
        });
        Ok(Self { verdict, why, calls, failures: failures.collect() })
    }

    /// Returns the entry of the baseline that records this result. Leaves out `reason` if the
    /// verdict is `pass`.
    pub fn accepted(&self, reason: &str) -> BaselineEntry {
        let calls = (self.verdict == BaselineVerdict::Pass).then_some(self.calls);
        let is_pass = self.verdict == BaselineVerdict::Pass;
        let reason = if is_pass { String::new() } else { reason.to_owned() };
        BaselineEntry { verdict: self.verdict, calls, failures: self.failures.clone(), reason }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    api_version: Value,
    kind: Value,
    #[serde(default)]
    tolerance: Option<u8>,
    checks: BTreeMap<String, BaselineEntry>,
}

impl Baseline {
    /// Returns an empty baseline for this path.
    pub fn empty(path: &Path) -> Self {
        Self { path: path.to_owned(), tolerance: TOLERANCE, checks: BTreeMap::new() }
    }

    /// Reads the baseline in this file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or its content is invalid.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            let remedy = "correct the path, or record a baseline: UPDATE_BASELINE=1 cargo test";
            let wrong = DocumentError::document(format!("cannot be read: {error}"), remedy);
            InputError::in_document(path.display().to_string(), wrong)
        })?;
        Self::read(path, &text)
    }

    /// Parses a baseline.
    ///
    /// # Errors
    /// Fails if the content is invalid.
    pub fn read(path: &Path, text: &str) -> Result<Self, InputError> {
        Self::checked(path, text).map_err(|wrong| {
            let remedy =
                "correct the file, or delete it and record it: UPDATE_BASELINE=1 cargo test";
            let wrong = wrong.or_remedy(remedy);
            InputError::in_document(path.display().to_string(), wrong)
        })
    }

    fn checked(path: &Path, text: &str) -> Result<Self, DocumentError> {
        let File { api_version, kind, tolerance, checks } =
            document::typed(document::yaml(text.as_bytes())?)?;
        for (key, value, want) in [("apiVersion", &api_version, API_VERSION), ("kind", &kind, KIND)]
        {
            if value != want {
                return Err(DocumentError::at_key(
                    key,
                    value,
                    "is not known here",
                    format!("write {want}"),
                ));
            }
        }
        let mut accepted = BTreeMap::new();
        for (id, result) in checks {
            let Some(entry) = catalogue::entry(&id) else {
                let problem = catalogue::unknown_id(&id).to_string();
                let value = Value::from(id.as_str());
                return Err(DocumentError::at_key(
                    "checks",
                    &value,
                    &problem,
                    "correct the ID, or remove it",
                ));
            };
            accepted.insert(entry.id, result);
        }
        let tolerance = tolerance.unwrap_or(TOLERANCE);
        if tolerance > 100 {
            let value = Value::from(tolerance);
            let remedy =
                "write the percentage by which the number of calls may differ, at most 100";
            return Err(DocumentError::at_key("tolerance", &value, "is more than 100", remedy));
        }
        Ok(Self { path: path.to_owned(), tolerance, checks: accepted })
    }

    /// Checks that the observed result of the check `id` matches the recorded one. A check that is
    /// recorded as flaky may also pass.
    ///
    /// # Errors
    /// Returns a sentence with the difference. It ends with the command that records the new
    /// result, except for a check that passed before and now does not, or now needs too many calls.
    pub fn judge(&self, id: CheckId, seen: &ObservedResult) -> Result<(), String> {
        let Some(accepted) = self.checks.get(&id) else {
            let word = seen.verdict.as_str();
            return Err(
                self.record(&format!("{id} is not in the baseline, and its verdict is {word}"))
            );
        };
        let (was, is) = (accepted.verdict, seen.verdict);
        match (was, is) {
            (BaselineVerdict::Pass, BaselineVerdict::Pass) => {
                self.within_budget(id, accepted.calls, seen.calls)
            }
            // A flaky check may pass.
            (BaselineVerdict::Flaky, BaselineVerdict::Pass) => Ok(()),
            (was, is) if was == is => self.same_failures(id, accepted, seen),
            (BaselineVerdict::Pass, _) => {
                Err(format!("regression: {id} passed and is {} now: {}", is.as_str(), seen.why))
            }
            (_, BaselineVerdict::Pass) => {
                Err(self.record(&format!("improvement: {id} was {} and passes now", was.as_str())))
            }
            (was, is) => {
                let change =
                    format!("{id} was {} and is {} now: {}", was.as_str(), is.as_str(), seen.why);
                Err(self.record(&change))
            }
        }
    }

    /// Checks that exactly the recorded failures occurred; for a flaky check some of them may be
    /// absent.
    fn same_failures(
        &self,
        id: CheckId,
        accepted: &BaselineEntry,
        seen: &ObservedResult,
    ) -> Result<(), String> {
        if let Some(new) = seen.failures.difference(&accepted.failures).next() {
            return Err(self.record(&format!(
                "regression: {id} fails in a way that is not recorded: {new}: {}",
                seen.why
            )));
        }
        let gone = accepted.failures.difference(&seen.failures).next();
        match gone.filter(|_| accepted.verdict != BaselineVerdict::Flaky) {
            Some(gone) => {
                Err(self.record(&format!("improvement: {id} no longer fails as recorded: {gone}")))
            }
            None => Ok(()),
        }
    }

    fn within_budget(&self, id: CheckId, budget: Option<u64>, calls: u64) -> Result<(), String> {
        let Some(budget) = budget else {
            return Err(self.record(&format!(
                "{id} made {calls} calls, but the baseline has no number of calls for it"
            )));
        };
        let room = (budget * u64::from(self.tolerance) / 100).max(MIN_TOLERANCE);
        if calls > budget + room {
            let why = format!("{calls} calls, {budget} are recorded and {room} more are tolerated");
            return Err(format!("regression: {id} costs more: {why}"));
        }
        if calls + room < budget {
            let why = format!("{calls} calls, {budget} are recorded");
            return Err(self.record(&format!("improvement: {id} costs less: {why}")));
        }
        Ok(())
    }

    fn record(&self, what: &str) -> String {
        format!("{what}; record it in {}: UPDATE_BASELINE=1 cargo test", self.path.display())
    }

    /// Records the results of these checks. An entry that the new result matches, with the same
    /// verdict, stays unchanged. Otherwise a new entry replaces it, and takes over its reason if
    /// the verdict is the same and not `pass`. Other checks keep their entries.
    pub fn update(&mut self, seen: &BTreeMap<CheckId, ObservedResult>) {
        for (&id, seen) in seen {
            let before = self.checks.get(&id);
            let is_same = before.is_some_and(|it| it.verdict == seen.verdict);
            let is_within = is_same && self.judge(id, seen).is_ok();
            // Keeps an entry that still matches, so that small differences in timing do not change
            // the file.
            if is_within {
                continue;
            }
            let reason = before.filter(|_| is_same).map(|it| it.reason.clone()).unwrap_or_default();
            self.checks.insert(id, seen.accepted(&reason));
        }
    }

    /// Returns the content of the baseline's file.
    pub fn text(&self) -> String {
        let mut out = format!(
            "# Accepted results of the provider: recorded with UPDATE_BASELINE=1 cargo test, changed by review.\n\
             apiVersion: {API_VERSION}\nkind: {KIND}\ntolerance: {}\nchecks:{}\n",
            self.tolerance,
            if self.checks.is_empty() { " {}" } else { "" },
        );
        for (id, BaselineEntry { verdict, calls, failures, reason }) in &self.checks {
            let _ = write!(out, "  {id}: {{verdict: {}", verdict.as_str());
            if let Some(calls) = calls {
                let _ = write!(out, ", calls: {calls}");
            }
            if !failures.is_empty() {
                let failures: Vec<String> = failures.iter().map(Failure::flow).collect();
                let _ = write!(out, ", failures: [{}]", failures.join(", "));
            }
            if !reason.is_empty() {
                let _ = write!(out, ", reason: {}", Value::from(reason.as_str()));
            }
            out.push_str("}\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "apiVersion: sim.vsphere/v1alpha1\nkind: Baseline\nchecks:\n  \
        NODE-004: {verdict: pass, calls: 40}\n  LIFE-005: {verdict: fail, reason: \"see issue: 7\"}\n  \
        NODE-015: {verdict: flaky}\n  NODE-ID-003: {verdict: skipped}\n";

    fn baseline() -> Baseline {
        Baseline::read(Path::new("baseline.yaml"), TEXT).unwrap()
    }

    fn observed(verdict: BaselineVerdict, calls: u64) -> ObservedResult {
        ObservedResult { verdict, why: "because".to_owned(), calls, failures: BTreeSet::new() }
    }

    #[test]
    fn a_regression_or_an_unrecorded_improvement_fails_against_the_baseline() {
        use BaselineVerdict::{Fail, Flaky, Inconclusive, Pass, Skipped};
        for (name, id, seen, want) in [
            ("unchanged", "NODE-004", observed(Pass, 40), None),
            ("more calls, within the tolerance", "NODE-004", observed(Pass, 46), None),
            ("fewer calls, within the tolerance", "NODE-004", observed(Pass, 34), None),
            (
                "more calls",
                "NODE-004",
                observed(Pass, 47),
                Some("regression: NODE-004 costs more: 47 calls, 40 are recorded"),
            ),
            (
                "fewer calls",
                "NODE-004",
                observed(Pass, 33),
                Some("improvement: NODE-004 costs less: 33 calls, 40 are recorded; record it"),
            ),
            (
                "it fails",
                "NODE-004",
                observed(Fail, 40),
                Some("regression: NODE-004 passed and is fail now: because"),
            ),
            (
                "the run does not exercise it",
                "NODE-004",
                observed(Inconclusive, 0),
                Some("regression: NODE-004"),
            ),
            ("it is not run", "NODE-004", observed(Skipped, 0), Some("regression: NODE-004")),
            (
                "it fails now and then",
                "NODE-004",
                observed(Flaky, 40),
                Some("regression: NODE-004"),
            ),
            ("it fails as before", "LIFE-005", observed(Fail, 9), None),
            (
                "it is mended",
                "LIFE-005",
                observed(Pass, 9),
                Some(
                    "improvement: LIFE-005 was fail and passes now; record it in baseline.yaml: UPDATE_BASELINE=1",
                ),
            ),
            (
                "another failure",
                "LIFE-005",
                observed(Inconclusive, 9),
                Some("LIFE-005 was fail and is inconclusive now"),
            ),
            ("flaky and lucky", "NODE-015", observed(Pass, 9), None),
            (
                "flaky and worse",
                "NODE-015",
                observed(Fail, 9),
                Some("NODE-015 was flaky and is fail now"),
            ),
            ("still skipped", "NODE-ID-003", observed(Skipped, 0), None),
            (
                "it has no entry",
                "NODE-ID-002",
                observed(Pass, 9),
                Some("NODE-ID-002 is not in the baseline, and its verdict is pass; record it"),
            ),
        ] {
            let judged = baseline().judge(CheckId::new(id), &seen);
            match want {
                None => assert_eq!(judged, Ok(()), "{name}"),
                Some(want) => {
                    let error = judged.unwrap_err();
                    assert!(error.starts_with(want), "{name}: {error}");
                }
            }
        }
    }

    #[test]
    fn a_recorded_failure_accepts_no_other_failure_of_the_same_check() {
        let failure = |case: &str, invariant| Failure { case: case.to_owned(), invariant };
        let seen = |verdict, failures: &[Failure]| ObservedResult {
            failures: failures.iter().cloned().collect(),
            ..observed(verdict, 9)
        };
        let known = failure("power off", None);
        let wrong = failure("power off", Some(Invariant::NoWrongDeletion));
        let other = failure("a: b", Some(Invariant::NoWrongDeletion));
        for word in [BaselineVerdict::Fail, BaselineVerdict::Flaky] {
            let mut baseline = Baseline::empty(Path::new("baseline.yaml"));
            let now = seen(word, &[known.clone(), other.clone()]);
            baseline.update(&[(CheckId::new("LIFE-005"), now.clone())].into());
            let again = Baseline::read(Path::new("baseline.yaml"), &baseline.text()).unwrap();
            assert_eq!(again, baseline, "{}", baseline.text());
            assert_eq!(again.judge(CheckId::new("LIFE-005"), &now), Ok(()));
            let worse = seen(word, &[known.clone(), other.clone(), wrong.clone()]);
            let error = again.judge(CheckId::new("LIFE-005"), &worse).unwrap_err();
            assert!(error.contains("\"power off\" breaks invariant 1: because; record"), "{error}");
            let better =
                again.judge(CheckId::new("LIFE-005"), &seen(word, std::slice::from_ref(&known)));
            assert_eq!(better.is_ok(), word == BaselineVerdict::Flaky, "{better:?}");
            baseline.update(&[(CheckId::new("LIFE-005"), worse.clone())].into());
            assert_eq!(baseline.judge(CheckId::new("LIFE-005"), &worse), Ok(()));
        }
    }

    #[test]
    fn an_updated_baseline_accepts_the_recorded_verdicts_and_keeps_reasons() {
        let mut baseline = baseline();
        let now = BTreeMap::from([
            (CheckId::new("NODE-004"), observed(BaselineVerdict::Pass, 12)),
            (CheckId::new("LIFE-005"), observed(BaselineVerdict::Fail, 3)),
            (CheckId::new("NODE-015"), observed(BaselineVerdict::Fail, 3)),
            (CheckId::new("NODE-ID-002"), observed(BaselineVerdict::Pass, 5)),
        ]);
        baseline.update(&now);
        let again = Baseline::read(Path::new("baseline.yaml"), &baseline.text()).unwrap();
        assert_eq!(again, baseline);
        assert!(now.iter().all(|(&id, seen)| again.judge(id, seen).is_ok()));
        assert_eq!(again.checks[&CheckId::new("LIFE-005")].reason, "see issue: 7");
        assert_eq!(again.checks[&CheckId::new("NODE-004")].calls, Some(12));
        assert_eq!(again.checks[&CheckId::new("NODE-ID-003")].verdict, BaselineVerdict::Skipped);
        // One call more within the tolerance does not change the file.
        baseline.update(&[(CheckId::new("NODE-004"), observed(BaselineVerdict::Pass, 13))].into());
        assert_eq!(baseline, again);
    }

    #[test]
    fn the_error_of_an_invalid_baseline_names_key_and_value() {
        for (from, to, wanted) in [
            (
                "kind: Baseline",
                "kind: Base",
                "kind: \"Base\": is not known here\nremedy: write Baseline",
            ),
            ("NODE-004", "NODE-044", "checks: \"NODE-044\": no check is called"),
            ("verdict: pass", "verdict: passed", "verdict"),
            ("calls: 40", "call: 40", "call"),
            ("checks:", "tolerance: 101\nchecks:", "tolerance: 101: is more than 100"),
        ] {
            let text = TEXT.replacen(from, to, 1);
            let error = Baseline::read(Path::new("mine/baseline.yaml"), &text).unwrap_err();
            let error = error.to_string();
            assert!(
                error.contains(wanted) && error.starts_with("mine/baseline.yaml: "),
                "{to}: {error}"
            );
        }
        let error = Baseline::load(Path::new("no/such.yaml")).unwrap_err().to_string();
        assert!(error.contains("UPDATE_BASELINE=1 cargo test"), "{error}");
    }
}
