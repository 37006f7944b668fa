//! Compares a few of the histories that `conformance alike` compares by the thousand.

use conformance::alike::compare;
use conformance::lab::Mutants;

#[test]
fn v1_and_v2_say_the_same_of_nodes() {
    let compared = compare(24, 0, None).unwrap_or_else(|difference| panic!("{difference}"));
    assert!(compared.nodes >= 100 && compared.values >= 200, "{compared:?}");
    let (v1, v2) = compared.calls;
    assert!(v2 * 10 < v1, "v1 {v1} calls, V2 {v2}");
}

#[test]
fn a_defect_of_v2_is_found() {
    let difference = compare(24, 0, Some(Mutants::EmptyClearsAddresses)).unwrap_err();
    assert!(difference.what.contains("addresses"), "{difference}");
}
