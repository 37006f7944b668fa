//! The tests tested: deliberate defects of our provider, each caught by the check that is named.

use conformance::checks;
use conformance::lab::{Mutants, Stage};
use conformance::verdict::Verdict;

/// Which check catches which defect.
const KILLS: &[(Mutants, &str)] = &[
    (Mutants::ErrorIsGone, "NODE-DEL-002"),
    (Mutants::EmptySearchIsGone, "NODE-DEL-003"),
    (Mutants::EmptyClearsAddresses, "NODE-ADDR-001"),
    (Mutants::NoSingleFlight, "SESS-003"),
    (Mutants::TaintBeforeAddresses, "NODE-INIT-002"),
    (Mutants::NoMassGuard, "NODE-DEL-008"),
    (Mutants::ZonesWhenOff, "ZONE-006"),
    (Mutants::IgnoreInvalidCollectorVersion, "LIVE-008"),
    (Mutants::ShutdownOnUnknown, "LIFE-004"),
    (Mutants::ShutdownOnUnknown, "LIFE-009"),
    (Mutants::LoginPerCall, "SESS-001"),
    (Mutants::NoDeadline, "LIVE-005"),
    (Mutants::NoLockout, "SESS-007"),
    (Mutants::GuessDuplicates, "NODE-ID-005"),
    (Mutants::NoUidPrecondition, "LIFE-015"),
    (Mutants::AlwaysWriteAddresses, "NODE-026"),
    (Mutants::NoLogout, "SESS-004"),
    (Mutants::StaleProof, "LIFE-012"),
];

#[test]
fn every_mutant_is_killed_by_its_check() {
    let all = checks::all();
    let mut survivors = Vec::new();
    for (mutant, id) in KILLS {
        let check = all.iter().find(|check| check.id == *id).expect("the check exists");
        let stage = Stage { mutant: Some(*mutant), ..Stage::default() };
        let killed =
            check.cases.iter().any(|case| matches!(case.run(&stage).verdict, Verdict::Fail(_)));
        if !killed {
            survivors.push(format!("{mutant:?} survives {id}"));
        }
    }
    assert_eq!(survivors, Vec::<String>::new());
    assert!(KILLS.len() >= 8);
}
