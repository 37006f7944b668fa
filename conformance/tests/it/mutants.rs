//! The tests tested: deliberate defects of our provider, each caught by the check that is named.

use conformance::checks;
use conformance::lab::{Mutants, Stage};
use conformance::verdict::Verdict;

/// Which check catches which defect.
const KILLS: &[(Mutants, &str)] = &[];

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
