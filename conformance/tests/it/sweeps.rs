//! A fixed sample of the single-fault sweep; `conformance sweep` runs all of it.

use conformance::backend::Backend;
use conformance::lab::Stage;
use conformance::sweep;

fn sweep_a_sample(backend: Backend, at_least: usize, n: usize) {
    let stage = Stage { mode: backend.into(), ..Stage::default() };
    let trials = sweep::trials(&stage);
    assert!(trials.len() >= at_least, "only {} trials", trials.len());
    let sample = sweep::sample(&trials, n);
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

#[test]
fn no_single_fault_of_a_fixed_sample_breaks_an_invariant() {
    sweep_a_sample(Backend::VCenter, 300, 200);
}

#[test]
fn nor_in_supervisor_mode() {
    sweep_a_sample(Backend::Supervisor, 100, 100);
}
