//! Compares the instances modes `v1` and `auto` (here "V2") of Supervisor mode on a few histories;
//! `conformance alike` compares a thousand by default, and the stage `alike` of `.ci/run` sixty.

use conformance::lab::Mutant;
use conformance::lives::mode_comparison::compare;

#[test]
fn v2_reports_the_same_nodes_as_v1_with_under_a_tenth_of_the_calls() {
    let compared = compare(10, 0, None).unwrap_or_else(|difference| panic!("{difference}"));
    assert!(compared.nodes >= 40 && compared.values >= 80, "{compared:?}");
    let (v1, v2) = compared.calls;
    assert!(v2 * 10 < v1, "v1 made {v1} calls, V2 {v2}");
}

#[test]
fn a_defect_of_v2_is_found() {
    let difference = compare(24, 0, Some(Mutant::EmptyClearsAddresses)).unwrap_err();
    assert!(difference.what.contains("addresses"), "{difference}");
}
