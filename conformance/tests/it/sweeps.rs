//! A fixed sample of the single-fault sweep; `conformance sweep` runs all of it.

use conformance::lab::Stage;
use conformance::sweep;

#[test]
fn no_single_fault_of_a_fixed_sample_breaks_an_invariant() {
    let stage = Stage::default();
    let trials = sweep::trials(&stage);
    assert!(trials.len() >= 300, "only {} trials", trials.len());
    let sample = sweep::sample(&trials, 200);
    let report = sweep::sweep(&stage, &sample, |_, _| {});
    let idle: Vec<String> = report.idle.iter().map(ToString::to_string).collect();
    assert_eq!(idle, Vec::<String>::new(), "faults that never fired");
    let broken: Vec<String> = report
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.trial, finding.violations[0]))
        .collect();
    assert_eq!(broken, Vec::<String>::new());
}
