//! Tests the checks: the named check catches each deliberate defect of our provider.

use std::collections::BTreeSet;

use conformance::catalogue::{self, Class};
use conformance::checks::{self, Check};
use conformance::judge::verdict::Verdict;
use conformance::lab::{Mutant, Stage};
use conformance::scenario::Backend;

/// Defects in vCenter mode, with the check that catches each.
const KILLS: &[(Mutant, &str)] = &[
    (Mutant::ErrorIsGone, "NODE-DEL-002"),
    (Mutant::EmptySearchIsGone, "NODE-DEL-003"),
    (Mutant::EmptyClearsAddresses, "NODE-ADDR-001"),
    (Mutant::NoSingleFlight, "SESS-003"),
    (Mutant::TaintBeforeAddresses, "NODE-INIT-002"),
    (Mutant::NoMassGuard, "NODE-DEL-008"),
    (Mutant::ZonesWhenOff, "ZONE-006"),
    (Mutant::IgnoreInvalidCollectorVersion, "LIVE-008"),
    (Mutant::ShutdownOnUnknown, "LIFE-004"),
    (Mutant::ShutdownOnUnknown, "LIFE-009"),
    (Mutant::LoginPerCall, "SESS-001"),
    (Mutant::NoDeadline, "LIVE-005"),
    (Mutant::NoLockout, "SESS-007"),
    (Mutant::GuessDuplicates, "NODE-ID-005"),
    (Mutant::NoUidPrecondition, "LIFE-015"),
    (Mutant::AlwaysWriteAddresses, "NODE-026"),
    (Mutant::NoLogout, "SESS-004"),
    (Mutant::StaleProof, "LIFE-012"),
    (Mutant::GuardSkipped, "NODE-DEL-008"),
    (Mutant::Idle, "NODE-INIT-001"),
];

/// Defects in Supervisor mode, with the check that catches each.
const SUPERVISOR_KILLS: &[(Mutant, &str)] = &[
    (Mutant::CollectionNotFoundIsGone, "NODE-DEL-001"),
    (Mutant::UuidCaseMatters, "NODE-ID-001"),
    (Mutant::EmptyUuidIsGone, "NODE-DEL-003"),
    (Mutant::StaleViewAfterGone, "LIVE-004"),
    (Mutant::TokenNeverReread, "SESS-008"),
    (Mutant::GuardSkipped, "NODE-DEL-008"),
    (Mutant::NeverMatchedSkipped, "NODE-DEL-008"),
    (Mutant::ProofFromView, "NODE-DEL-002"),
    (Mutant::ForeignIdIsGone, "NODE-DEL-003"),
    (Mutant::WatchStallUnnoticed, "LIVE-004"),
    (Mutant::ListPerNode, "EFF-005"),
    (Mutant::EmptyListBelieved, "NODE-DEL-008"),
    (Mutant::EmptyClearsAddresses, "NODE-ADDR-001"),
    (Mutant::AlwaysWriteAddresses, "NODE-026"),
    (Mutant::NoUidPrecondition, "LIFE-015"),
    (Mutant::Idle, "NODE-INIT-001"),
];

/// Returns a line for each mutant that survives its check, and for each mutant in `wanted` without
/// a check.
fn survivors(backend: Backend, kills: &[(Mutant, &str)], wanted: &[Mutant]) -> Vec<String> {
    let all = checks::all(backend);
    let mut survivors = Vec::new();
    for (mutant, id) in kills {
        let check = all.iter().find(|check| check.id.as_str() == *id).expect("the check exists");
        let stage = Stage { mode: backend.into(), mutant: Some(*mutant), ..Stage::default() };
        let killed =
            check.cases.iter().any(|case| matches!(case.run(&stage).verdict, Verdict::Fail(_)));
        if !killed {
            survivors.push(format!("{mutant:?} survives {id}"));
        }
    }
    let spared = wanted.iter().filter(|it| kills.iter().all(|(killed, _)| killed != *it));
    survivors.extend(spared.map(|it| format!("the table names no check that kills {it:?}")));
    survivors
}

#[test]
fn every_mutant_is_killed_by_its_check() {
    assert_eq!(survivors(Backend::VCenter, KILLS, &Mutant::VCENTER), Vec::<String>::new());
}

#[test]
fn every_mutant_of_supervisor_mode_is_killed_by_its_check() {
    let left = survivors(Backend::Supervisor, SUPERVISOR_KILLS, &Mutant::SUPERVISOR);
    assert_eq!(left, Vec::<String>::new());
}

/// Fields of a mutant in `mutants/handwritten.yaml` that concern the catalogue.
#[derive(serde::Deserialize)]
struct Handwritten {
    name: String,
    caught_by: Vec<String>,
}

/// Returns the checks that handwritten mutants name, each with its mode.
fn caught_by(handwritten: &str) -> Vec<(Backend, String)> {
    let all: Vec<Handwritten> = serde_saphyr::from_str(handwritten).unwrap();
    let read = |name: &str, by: &str| {
        let (mode, id) = by.split_once(' ').unwrap_or_else(|| panic!("{name}: {by}"));
        let mode = mode.split('/').next().unwrap_or_default();
        let backend = Backend::ALL.into_iter().find(|it| it.to_string() == mode);
        (backend.unwrap_or_else(|| panic!("{name}: {by}")), id.to_owned())
    };
    all.iter().flat_map(|it| it.caught_by.iter().map(|by| read(&it.name, by))).collect()
}

/// Returns the safety and liveness checks that are played with this backend and for which neither
/// the tables of this file nor `by_hand` name a mutant.
fn without_mutant(backend: Backend, by_hand: &[(Backend, String)]) -> Vec<&'static str> {
    let listed = if backend.is_vcenter() { KILLS } else { SUPERVISOR_KILLS };
    let kills: BTreeSet<&str> = by_hand
        .iter()
        .filter(|(of, _)| *of == backend)
        .map(|(_, id)| id.as_str())
        .chain(listed.iter().map(|(_, id)| *id))
        .collect();
    let is_final = |id: &&str| {
        let class = catalogue::entry(id).expect("every check is in the catalogue").class;
        matches!(class, Class::Safety | Class::Liveness)
    };
    let played = checks::all(backend).into_iter().map(|check| check.id.as_str());
    played.filter(is_final).filter(|id| !kills.contains(id)).collect()
}

#[test]
fn every_safety_and_liveness_check_kills_a_mutant_with_each_backend() {
    let Some(handwritten) = crate::repository::text("mutants/handwritten.yaml") else { return };
    let by_hand = caught_by(&handwritten);
    for backend in Backend::ALL {
        let without = without_mutant(backend, &by_hand);
        assert_eq!(without, Vec::<&str>::new(), "checks without a mutant: {}", backend.title());
    }
    let is_played = |backend: Backend, id: &str| {
        checks::all(backend).iter().any(|check| check.id.as_str() == id)
    };
    let unknown: Vec<_> = by_hand.iter().filter(|(backend, id)| !is_played(*backend, id)).collect();
    assert!(unknown.is_empty(), "mutants name checks that are not played: {unknown:?}");
}

/// True if every case of the check passes with this mutant; stops at the first that does not.
fn passes(backend: Backend, check: &Check, mutant: Mutant) -> bool {
    let stage = Stage { mode: backend.into(), mutant: Some(mutant), ..Stage::default() };
    check.cases.iter().all(|case| case.run(&stage).verdict == Verdict::Pass)
}

/// Most promises say that something does not happen. A provider that does nothing keeps these
/// promises without proving them, so its verdict must not be a pass.
#[test]
fn a_provider_that_does_nothing_passes_no_check() {
    for backend in Backend::ALL {
        let passed: Vec<&str> = checks::all(backend)
            .iter()
            .filter(|check| passes(backend, check, Mutant::Idle))
            .map(|check| check.id.as_str())
            .collect();
        assert_eq!(passed, Vec::<&str>::new(), "{}", backend.title());
    }
}

/// A provider that logs in for each call still initializes nodes, but judges none of them in time.
#[test]
fn a_provider_that_judges_no_node_in_time_passes_no_check_that_needs_an_act() {
    let mut passed = Vec::new();
    for id in CANARIES {
        let all = checks::all(Backend::VCenter);
        let check = all.iter().find(|check| check.id.as_str() == *id).expect("the check exists");
        if passes(Backend::VCenter, check, Mutant::LoginPerCall) {
            passed.push(*id);
        }
    }
    assert_eq!(passed, Vec::<&str>::new());
}

/// Checks in whose scenarios the provider must act.
const CANARIES: &[&str] = &[
    "NODE-DEL-001",
    "NODE-DEL-003",
    "NODE-DEL-004",
    "NODE-DEL-005",
    "NODE-DEL-006",
    "NODE-DEL-007",
    "NODE-DEL-009",
    "NODE-DEL-011",
    "EFF-001",
    "EFF-002",
    "EFF-003",
    "EFF-004",
    "EFF-005",
    "EFF-007",
    "SESS-006",
    "SESS-007",
    "SESS-008",
    "LIFE-003",
    "LIFE-010",
    "LIFE-014",
    "NODE-031",
    "NODE-034",
    "ROB-006",
    "SEC-001",
];
