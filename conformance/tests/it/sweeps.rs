//! Plays a small fixed sample of each sweep. The stage `sweep` of `.ci/run` plays a larger one,
//! `conformance sweep` all trials.

use std::num::NonZeroUsize;

use conformance::lab::{Mode, Stage};
use conformance::lives::sweep::{self, SweepKind, Trial};
use provider::InstancesMode::{Auto, Poll, V1, Watch};

use super::healthy::Healthy;

/// Plays at most `n` trials of a sweep, and asserts that the sweep has at least `at_least` trials.
fn sweep_a_sample(mode: Mode, kind: SweepKind, at_least: usize, n: usize) {
    let stage = Stage { mode, ..Stage::default() };
    let trials = Healthy::of(mode).trials(kind);
    assert!(trials.len() >= at_least, "only {} trials", trials.len());
    hold(&stage, &sweep::sample(trials, n));
}

/// Plays trials and asserts that each failure happened and broke nothing.
fn hold(stage: &Stage, trials: &[Trial]) {
    let report = sweep::sweep(stage, trials, NonZeroUsize::MIN, |_, _| {});
    let idle: Vec<String> = report.idle.iter().map(ToString::to_string).collect();
    assert_eq!(idle, Vec::<String>::new(), "failures that never happened");
    let broken: Vec<String> = report
        .findings
        .iter()
        .map(|finding| format!("{}: {}", finding.trial, finding.violations[0]))
        .collect();
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn no_single_fault_of_a_sample_with_vcenter_breaks_an_invariant() {
    sweep_a_sample(Mode::VCenter(Auto), SweepKind::Faults, 1000, 40);
}

#[test]
fn no_single_fault_of_a_sample_with_a_supervisor_breaks_an_invariant() {
    sweep_a_sample(Mode::Supervisor(Auto), SweepKind::Faults, 500, 40);
}

#[test]
fn no_crash_around_a_write_of_a_sample_breaks_an_invariant() {
    sweep_a_sample(Mode::VCenter(Auto), SweepKind::Crashes, 100, 15);
    sweep_a_sample(Mode::Supervisor(Auto), SweepKind::Crashes, 100, 15);
}

#[test]
fn no_stale_read_of_a_sample_breaks_an_invariant() {
    for mode in [Mode::VCenter(Auto), Mode::VCenter(Poll), Mode::Supervisor(Auto)] {
        sweep_a_sample(mode, SweepKind::Stale, 100, 12);
    }
}

#[test]
fn no_single_fault_of_a_sample_in_other_instance_modes_breaks_an_invariant() {
    for mode in [
        Mode::VCenter(Poll),
        Mode::VCenter(V1),
        Mode::Supervisor(Watch),
        Mode::Supervisor(Poll),
        Mode::Supervisor(V1),
    ] {
        sweep_a_sample(mode, SweepKind::Faults, 500, 8);
    }
}

/// Trials that once broke an invariant: mode, life, and text of the trial.
const FOUND: [(Mode, &str, &str); 5] = [
    // A machine left the view and came back between two deliveries, so it was never delivered.
    (
        Mode::VCenter(Auto),
        "restored-cluster",
        "restored: soap WaitForUpdatesEx of PropertyCollector: black hole",
    ),
    // The provider took an answer without the session for the end of the session, and never logged
    // out.
    (
        Mode::VCenter(V1),
        "vcenter-upgraded",
        "soap RetrievePropertiesEx of PropertyCollector: empty result",
    ),
    // One controller waited as `Retry-After` asks, while another one read the same object.
    (
        Mode::Supervisor(V1),
        "stepped-clocks",
        "forwards: k8s.supervisor get virtualmachines of VirtualMachine: 429",
    ),
    // Both controllers sent a request at the same instant, so one request crossed the answer to the
    // other.
    (
        Mode::Supervisor(V1),
        "usual",
        "delete: k8s.supervisor list virtualmachines of VirtualMachine: 429",
    ),
    // The provider polled only after the watch alone had failed for three minutes. The judge did
    // not count a Node whose first change was the removal of its taint.
    (Mode::Supervisor(Auto), "watch-refused", "join: k8s.guest patch nodes of Node: black hole"),
];

#[test]
fn no_trial_that_failed_before_breaks_an_invariant_again() {
    for (mode, life, text) in FOUND {
        let stage = Stage { mode, ..Stage::default() };
        let all =
            sweep::trials(&[SweepKind::Faults], &stage, |it| it == life).into_iter().flatten();
        let found: Vec<Trial> = all.filter(|trial| trial.to_string().contains(text)).collect();
        assert!(!found.is_empty(), "no trial of {life} contains {text:?}");
        hold(&stage, &found);
    }
}
