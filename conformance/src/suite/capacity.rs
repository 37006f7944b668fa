//! Plays checks of reconcilers of machine templates against ours, in virtual time.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use super::case_result::Calls;
use super::{CaseResult, Conclusion, Filter, Part};
use crate::catalogue;
use crate::checks::capacity::{self, CapacityCheck};
use crate::judge::verdict::Verdict;
use crate::lab::capacity::{OurReader, Ours, Pace, Subject, TemplateKind};
use crate::lab::{in_virtual_time, memory};

/// MiB that the world of a check takes at most.
const WORLD: u64 = 60;

impl Filter {
    /// Returns the selected checks of reconcilers of machine templates.
    pub fn capacity_checks(&self) -> Vec<CapacityCheck> {
        capacity::all().into_iter().filter(|check| self.selects(check.id)).collect()
    }
}

impl Conclusion {
    /// Plays a check against our reconciler or reader, in virtual time. `clock` returns the wall time
    /// since any fixed point.
    ///
    /// # Panics
    /// Panics if the system cannot create a runtime.
    pub fn of_our_reconciler(
        check: &CapacityCheck,
        seed: u64,
        clock: impl Fn() -> Duration,
    ) -> Self {
        Self::of_reconciler(check, play(check, seed, clock))
    }

    /// Makes a conclusion of the result of a check of a reconciler. A check that was not run has no
    /// case.
    pub(crate) fn of_reconciler(check: &CapacityCheck, outcome: CaseResult) -> Self {
        let entry = catalogue::entry(check.id.as_str());
        let entry = entry.expect("a test verifies that the catalogue has every check");
        let took = outcome.took;
        let (outcomes, not_run) = match outcome.verdict {
            Verdict::Skipped(_) => (Vec::new(), vec![(String::new(), outcome.verdict)]),
            _ => (vec![outcome], Vec::new()),
        };
        Self::combine(entry, Part::Capacity, outcomes, not_run, took)
    }
}

/// Plays a check against ours.
///
/// # Panics
/// Panics if the system cannot create a runtime.
pub(crate) fn play(check: &CapacityCheck, seed: u64, clock: impl Fn() -> Duration) -> CaseResult {
    let _memory = memory::reserve(WORLD);
    let begin = clock();
    let (verdict, transcript, n_calls) = in_virtual_time(check.play(&ours(seed), seed));
    let calls = Calls { supervisor: n_calls, ..Calls::default() };
    CaseResult { calls, ..result(verdict, &transcript, clock().saturating_sub(begin)) }
}

/// Returns our reconciler and reader as a subject of checks.
fn ours(seed: u64) -> Subject {
    Subject {
        reconciler: Arc::new(Ours { seed }),
        reader: Some(Arc::new(OurReader)),
        kind: TemplateKind::of_supervisor(),
        is_vsphere: true,
        pace: Pace::VIRTUAL,
    }
}

/// Returns the result of a check.
pub(crate) fn result(verdict: Verdict, transcript: &[String], took: Duration) -> CaseResult {
    let mut evidence = String::new();
    if verdict != Verdict::Pass {
        for line in transcript {
            let _ = writeln!(evidence, "  {line}");
        }
    }
    let (case, broken, calls) = (String::new(), Vec::new(), Calls::default());
    CaseResult { case, verdict, broken, took, calls, evidence }
}
