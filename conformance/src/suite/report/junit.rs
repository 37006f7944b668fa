//! Builds `junit.xml`: one test case per case of a check. A played case has its time, and its
//! evidence if it did not pass.
//!
//! Programs that display this format color `failure` and `error` red. A failed case is a `failure`
//! if the check is a MUST for this provider, else it is `skipped`. An inconclusive case or a
//! harness error is an `error`, because it is not a pass. A flaky case is a success with a rerun. A
//! case that is not supported or was not played is `skipped`.

use anyhow::Context;
use quick_junit::{
    NonSuccessKind, Report, TestCase, TestCaseStatus, TestRerun, TestSuite, XmlString,
};

use crate::catalogue::Requirement;
use crate::judge::verdict::Verdict;
use crate::suite::{CaseResult, Conclusion, Part};

/// Returns the JUnit report as XML.
pub(super) fn document(conclusions: &[Conclusion]) -> anyhow::Result<String> {
    let mut report = Report::new("conformance");
    for part in Part::ALL {
        let mut suite = TestSuite::new(format!("catalogue, {}", part.title()));
        for conclusion in conclusions.iter().filter(|it| it.part == part) {
            suite.add_test_cases(cases(conclusion));
        }
        if !suite.test_cases.is_empty() {
            report.add_test_suite(suite);
        }
    }
    report.to_string().context("cannot write the results as JUnit XML")
}

fn cases(conclusion: &Conclusion) -> Vec<TestCase> {
    let played = conclusion.outcomes.iter().map(|it| played(conclusion, it));
    let not_run = conclusion
        .not_run
        .iter()
        .map(|(name, verdict)| case(conclusion, name, status(verdict, conclusion.requirement, "")));
    played.chain(not_run).collect()
}

fn played(conclusion: &Conclusion, judged: &CaseResult) -> TestCase {
    let status = status(&judged.verdict, conclusion.requirement, &judged.evidence);
    let mut case = case(conclusion, &judged.case, status);
    case.set_time(judged.took);
    if !judged.evidence.is_empty() {
        case.set_system_out(judged.evidence.as_str());
    }
    case
}

fn case(conclusion: &Conclusion, name: &str, status: TestCaseStatus) -> TestCase {
    let id = conclusion.entry.id;
    let name = if name.is_empty() { id.to_string() } else { format!("{id} [{name}]") };
    let mut case = TestCase::new(name, status);
    case.set_classname(conclusion.entry.surface.as_str());
    case
}

fn status(verdict: &Verdict, requirement: Requirement, evidence: &str) -> TestCaseStatus {
    let (mut status, why) = match verdict {
        Verdict::Pass | Verdict::Partial(_) => return TestCaseStatus::success(),
        Verdict::Flaky(why) => {
            let mut rerun = TestRerun::new(NonSuccessKind::Failure);
            rerun.set_message(why.to_string()).set_system_out(XmlString::new(evidence));
            let mut status = TestCaseStatus::success();
            status.add_rerun(rerun);
            return status;
        }
        Verdict::Fail(why) if requirement == Requirement::Must => {
            (TestCaseStatus::non_success(NonSuccessKind::Failure), why.to_string())
        }
        Verdict::Fail(why) => {
            let why = format!("failed; not an error, because it is only a {requirement:?}: {why}");
            (TestCaseStatus::skipped(), why)
        }
        Verdict::Inconclusive(why) | Verdict::HarnessError(why) => {
            let why = format!("{}: {why}", verdict.word());
            (TestCaseStatus::non_success(NonSuccessKind::Error), why)
        }
        Verdict::NotSupported(why) | Verdict::Skipped(why) => {
            (TestCaseStatus::skipped(), why.to_string())
        }
    };
    status.set_message(why);
    status
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::catalogue;
    use crate::scenario::Backend;
    use crate::suite::Calls;

    fn judged(case: &str, verdict: Verdict) -> CaseResult {
        let evidence =
            if verdict == Verdict::Pass { String::new() } else { format!("seen in {case}") };
        let (case, took) = (case.to_owned(), Duration::from_millis(1500));
        CaseResult { case, verdict, broken: Vec::new(), took, calls: Calls::default(), evidence }
    }

    fn one(verdict: Verdict, requirement: Requirement) -> String {
        let entry = catalogue::entry("NODE-INIT-001").unwrap();
        let cases = vec![judged("cold", verdict), judged("warm", Verdict::Pass)];
        let left_out = vec![("long".to_owned(), Verdict::skipped("takes an hour"))];
        let conclusion = Conclusion::combine(
            entry,
            Backend::VCenter.into(),
            cases,
            left_out,
            Duration::from_secs(3),
        );
        document(&[Conclusion { requirement, ..conclusion }]).unwrap()
    }

    #[test]
    fn every_case_becomes_a_test_case_with_its_time_and_evidence() {
        let text = one(Verdict::fail("late"), Requirement::Must);
        for wanted in [
            "name=\"NODE-INIT-001 [cold]\" classname=\"node\" time=\"1.500\"",
            "name=\"NODE-INIT-001 [warm]\" classname=\"node\" time=\"1.500\"",
            "name=\"NODE-INIT-001 [long]\"",
            "<system-out>seen in cold</system-out>",
        ] {
            assert!(text.contains(wanted), "{wanted} in {text}");
        }
    }

    #[test]
    fn a_verdict_and_its_requirement_determine_the_junit_element() {
        let counts = |text: &str, words: &[&str]| -> Vec<usize> {
            words.iter().map(|word| text.matches(word).count()).collect()
        };
        let words = ["<failure", "<error", "<skipped", "<flakyFailure"];
        for (verdict, requirement, wanted) in [
            (Verdict::fail("late"), Requirement::Must, [1, 0, 1, 0]),
            (Verdict::fail("late"), Requirement::Should, [0, 0, 2, 0]),
            (Verdict::inconclusive("idle"), Requirement::Must, [0, 1, 1, 0]),
            (Verdict::harness_error("slow"), Requirement::Must, [0, 1, 1, 0]),
            (Verdict::Flaky("late once".into()), Requirement::Must, [0, 0, 1, 1]),
            (Verdict::Pass, Requirement::Must, [0, 0, 1, 0]),
        ] {
            let text = one(verdict.clone(), requirement);
            assert_eq!(counts(&text, &words), wanted, "{verdict}: {text}");
        }
    }
}
