//! What a sync costs, gated by equality.

use conformance::cost;
use conformance::lab::Stage;

#[test]
fn calls_per_phase_are_the_committed_ones() {
    // A thousand nodes are counted by the main job, in release.
    let table = cost::measure_sizes(&Stage::default(), &[10, 100]);
    assert_eq!(table.deviations(), Vec::<String>::new());
}

#[test]
fn counts_do_not_depend_on_the_seed() {
    let count = |seed| {
        let stage = Stage { seed, ..Stage::default() };
        let table = cost::measure_sizes(&stage, &[10]);
        table.rows.into_iter().map(|row| (row.phase, row.calls)).collect::<Vec<_>>()
    };
    assert_eq!(count(1), count(2));
}
