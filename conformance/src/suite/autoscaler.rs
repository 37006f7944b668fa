//! Plays checks of servers for the Cluster Autoscaler against our server, in virtual time.

use std::fmt::Write as _;
use std::time::Duration;

use super::case_result::Calls;
use super::{CaseResult, Conclusion, Filter, Part};
use crate::catalogue;
use crate::checks::autoscaler::{self, AutoscalerCheck, Need};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{Generation, Ours, Transcript};
use crate::lab::{in_virtual_time, memory};

/// MiB that the world of a check takes at most.
const WORLD: u64 = 60;
/// Number of calls in the transcript of a case that did not pass.
const SHOWN: usize = 30;

impl Conclusion {
    /// Plays all cases of a check against our server for the Cluster Autoscaler, in virtual time,
    /// and combines their results. `clock` returns the wall time since any fixed point.
    ///
    /// # Panics
    /// Panics if the system cannot create a runtime.
    pub fn of_our_server(check: &AutoscalerCheck, seed: u64, clock: impl Fn() -> Duration) -> Self {
        let cases = AutoscalerCase::of(std::slice::from_ref(check));
        Self::of_server(check, cases.iter().map(|case| case.play(seed, &clock)).collect())
    }

    /// Combines the results of the cases of a check of a server.
    pub(crate) fn of_server(check: &AutoscalerCheck, outcomes: Vec<CaseResult>) -> Self {
        let entry = catalogue::entry(check.id.as_str());
        let entry = entry.expect("a test verifies that the catalogue has every check");
        let took = outcomes.iter().map(|it| it.took).sum();
        Self::combine(entry, Part::Autoscaler, outcomes, Vec::new(), took)
    }
}

/// One case: a check in one generation of the protocol.
pub(crate) struct AutoscalerCase<'a> {
    pub(crate) check: &'a AutoscalerCheck,
    pub(crate) generation: Generation,
}

impl Filter {
    /// Returns the selected checks of servers for the Cluster Autoscaler.
    pub fn autoscaler_checks(&self) -> Vec<AutoscalerCheck> {
        autoscaler::all().into_iter().filter(|check| self.selects(check.id)).collect()
    }
}

impl<'a> AutoscalerCase<'a> {
    fn new(check: &'a AutoscalerCheck, generation: Generation) -> Self {
        Self { check, generation }
    }

    /// Returns the cases of the checks, in their order.
    pub(crate) fn of(checks: &'a [AutoscalerCheck]) -> Vec<Self> {
        let case = |check, generation: &Generation| Self::new(check, *generation);
        let cases =
            |check: &'a AutoscalerCheck| check.generations.iter().map(move |it| case(check, it));
        checks.iter().flat_map(cases).collect()
    }

    /// Plays the case against our server. `clock` returns the wall time since any fixed point.
    ///
    /// # Panics
    /// If the system cannot create a runtime.
    pub(crate) fn play(&self, seed: u64, clock: impl Fn() -> Duration) -> CaseResult {
        let _memory = memory::reserve(WORLD);
        let begin = clock();
        let (verdict, transcript, calls) = in_virtual_time(self.against_ours(seed));
        let took = clock().saturating_sub(begin);
        CaseResult { calls, ..self.result(verdict, &transcript, took) }
    }

    /// Returns the result of the case.
    pub(crate) fn result(
        &self,
        verdict: Verdict,
        transcript: &Transcript,
        took: Duration,
    ) -> CaseResult {
        let evidence = match &verdict {
            Verdict::Pass => String::new(),
            _ => evidence(transcript),
        };
        let (case, broken, calls) = (self.name(), Vec::new(), Calls::default());
        CaseResult { case, verdict, broken, took, calls, evidence }
    }

    /// Returns the name of the case: the generation, if the check has several.
    fn name(&self) -> String {
        let has_several = self.check.generations.len() > 1;
        if has_several { self.generation.as_str().to_owned() } else { String::new() }
    }

    async fn against_ours(&self, seed: u64) -> (Verdict, Transcript, Calls) {
        let is_tls = self.check.need == Need::Tls;
        let ours = match Ours::for_checks(seed, is_tls).await {
            Ok(ours) => ours,
            Err(why) => {
                let verdict = Verdict::harness_error(format!("our server does not start: {why}"));
                return (verdict, Transcript::default(), Calls::default());
            }
        };
        let before = ours.sim().ledger().next_seq();
        let (verdict, transcript) = self.check.play(&ours.subject(), self.generation).await;
        let after = ours.sim().ledger().next_seq();
        let supervisor = usize::try_from(after - before).unwrap_or(usize::MAX);
        (verdict, transcript, Calls { supervisor, ..Calls::default() })
    }
}

fn evidence(transcript: &Transcript) -> String {
    let lines = transcript.last(SHOWN);
    let mut out = String::new();
    let _ = writeln!(out, "  the last {} of {} calls:", lines.len(), transcript.len());
    for line in lines {
        let _ = writeln!(out, "    {line}");
    }
    out
}
