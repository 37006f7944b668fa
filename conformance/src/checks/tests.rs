//! Tests of the verdict of a case, which combines the judge of the case with the invariants.

use sim::world::Command;
use sim::world::objects::{self, Key};

use super::build::{hidden, machine, s, world};
use super::queries::name;
use super::{Case, Check, Verdict};
use crate::judge::{Invariant, Violation};
use crate::lab::{Mutant, Stage};
use crate::scenario::{Act, Backend, Scenario};

/// Returns a scenario, and a stage with a mutant that breaks an invariant in this scenario. The
/// mutant treats a search without a result as proof that the machine is gone, so it deletes the
/// Node of a running machine that a rule hides in every answer of vCenter.
fn a_wrong_deletion() -> (Scenario, Stage) {
    let scenario = world(3, s(300))
        .at(s(90), Command::StopKubelet(machine(2)))
        .at(s(100), hidden(Backend::VCenter, 2))
        .at(s(100), Act::Crash(0))
        .at(s(101), Act::Start(0));
    (scenario, Stage { mutant: Some(Mutant::EmptySearchIsGone), ..Stage::default() })
}

#[test]
fn a_deletion_by_a_person_does_not_count_against_the_provider() {
    let delete = objects::Command::delete(Key::node(name(2)));
    let scenario = world(3, s(95)).at(s(90), Command::Cluster(delete));
    let case = Case::new(scenario, |_| Verdict::Pass);
    assert_eq!(case.run(&Stage::default()).verdict, Verdict::Pass);
}

#[test]
fn a_wrong_deletion_fails_a_case_whose_own_judge_does_not_look_for_it() {
    let (scenario, stage) = a_wrong_deletion();
    let case = Case::new(scenario, |_| Verdict::Pass);
    let verdict = case.run(&stage).verdict;
    assert!(matches!(verdict, Verdict::Fail(_)), "{verdict}");
}

#[test]
fn a_wrong_deletion_outranks_an_inconclusive_verdict() {
    let (scenario, stage) = a_wrong_deletion();
    let case = Case::new(scenario, |_| Verdict::inconclusive("idle"));
    let verdict = case.run(&stage).verdict;
    assert!(matches!(verdict, Verdict::Fail(_)), "{verdict}");
}

#[test]
fn an_exemption_with_a_reason_lets_a_case_pass() {
    let (scenario, stage) = a_wrong_deletion();
    let case = Case::new(scenario, |_| Verdict::Pass)
        .exempt(Invariant::NoWrongDeletion, "the defect is put in on purpose");
    assert_eq!(case.run(&stage).verdict, Verdict::Pass);
}

#[test]
fn every_exemption_of_the_catalogue_is_needed_and_has_a_reason() {
    for backend in Backend::ALL {
        let stage = Stage { mode: backend.into(), ..Stage::default() };
        for check in super::all(backend) {
            for case in check.cases.iter().filter(|case| !case.exemptions().is_empty()) {
                let broken = case.run(&stage).broken;
                for (invariant, reason) in case.exemptions() {
                    let is_needed = broken.iter().any(|it| it.invariant == *invariant);
                    assert!(
                        is_needed,
                        "{} [{}]: the run does not break {invariant}; remove the exemption",
                        check.id, case.name
                    );
                    assert!(!reason.is_empty(), "{}", check.id);
                }
            }
        }
    }
}

#[test]
fn an_unsound_world_is_a_harness_error_even_if_the_case_fails() {
    let case = Case::new(world(1, s(30)), |_| Verdict::fail("late"));
    let run = crate::lab::run(&case.scenario, &Stage::default());
    let of = |invariant| Violation { invariant, at: run.end_time(), text: String::new() };
    let broken = [of(Invariant::NoWrongDeletion), of(Invariant::WorldIsSound)];
    let verdict = case.verdict(&run, &broken);
    assert!(matches!(verdict, Verdict::HarnessError(_)), "{verdict}");
}

#[test]
fn only_safety_violations_of_the_contract_fail_another_provider_in_unrelated_checks() {
    let mut run = crate::lab::run(&world(1, s(30)), &Stage::default());
    run.hosted = true;
    let verdict = |id, invariant| {
        let check = Check::new(id, [Case::new(world(1, s(30)), |_| Verdict::Pass)]);
        let broken = [Violation { invariant, at: run.end_time(), text: String::new() }];
        check.cases[0].verdict(&run, &broken).word()
    };
    let table = [
        ("NODE-016", Invariant::NoWrongDeletion, "FAIL"),
        ("NODE-016", Invariant::NoLoginStorm, "pass"),
        ("NODE-016", Invariant::NoMassDeletion, "pass"),
        ("NODE-016", Invariant::AddressesFirst, "pass"),
        ("NODE-INIT-001", Invariant::AddressesFirst, "FAIL"),
        ("NODE-DEL-008", Invariant::NoMassDeletion, "FAIL"),
    ];
    for (id, invariant, word) in table {
        assert_eq!(verdict(id, invariant), word, "{id}, {invariant}");
    }
}
