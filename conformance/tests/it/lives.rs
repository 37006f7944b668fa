//! Plays every life without injected failures: apart from exemptions, no invariant is broken, and
//! everything is right at the end.

use conformance::judge::{self, Invariant};
use conformance::lab::{Mode, Stage, run};
use conformance::lives;
use conformance::scenario::Backend;

use super::healthy::Healthy;

#[test]
fn no_life_with_vcenter_breaks_an_invariant() {
    assert_eq!(Healthy::of(Backend::VCenter.into()).violations, Vec::<String>::new());
}

#[test]
fn no_life_with_a_supervisor_breaks_an_invariant() {
    assert_eq!(Healthy::of(Backend::Supervisor.into()).violations, Vec::<String>::new());
}

#[test]
fn no_life_breaks_an_invariant_in_the_other_instance_modes() {
    use provider::InstancesMode::{Poll, V1, Watch};
    // With a vCenter, `watch` and `auto` are the same.
    let modes = [
        Mode::VCenter(Poll),
        Mode::VCenter(V1),
        Mode::Supervisor(Watch),
        Mode::Supervisor(Poll),
        Mode::Supervisor(V1),
    ];
    let found: Vec<_> =
        modes.into_iter().map(|mode| (mode, &Healthy::of(mode).violations)).collect();
    assert!(found.iter().all(|(_, violations)| violations.is_empty()), "{found:#?}");
}

/// Plays the lives without injected failures, so it leaves out the exemption of `slow-reads`, which
/// only a crash makes necessary.
#[test]
fn every_exemption_of_a_life_is_needed() {
    let spare: Vec<String> = lives::EXEMPTIONS
        .iter()
        .filter(|it| it.invariant != Invariant::GoneNodesGo)
        .filter(|it| {
            let stage = Stage { mode: it.mode, ..Stage::default() };
            let lives = lives::all(it.mode.backend()).into_iter();
            let mut named = lives.filter(|life| it.life.is_none_or(|name| name == life.name));
            !named.any(|life| {
                let run = run(&life.scenario, &stage);
                judge::all(&run).iter().any(|broken| broken.invariant == it.invariant)
            })
        })
        .map(|it| format!("{it:?}"))
        .collect();
    assert_eq!(spare, Vec::<String>::new());
}
