//! Tests that the same seed and build give the same ledger, byte for byte.

use conformance::lab::{Run, Stage, run};
use conformance::lives;
use sim::ledger::Record;

fn ledger(run: &Run) -> Vec<String> {
    run.ledger.iter().map(Record::to_line).collect()
}

#[test]
fn fifty_seeds_from_join_to_delete_give_the_same_ledger_twice() {
    let scenario = lives::usual();
    let mut different = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let stage = Stage { seed, ..Stage::default() };
        let first = ledger(&run(&scenario, &stage));
        let again = {
            let (scenario, stage) = (scenario.clone(), stage.clone());
            // Runs on another thread, which has other memory addresses and another thread ID.
            std::thread::spawn(move || ledger(&run(&scenario, &stage))).join().unwrap()
        };
        if let Some((n, (a, b))) = first.iter().zip(&again).enumerate().find(|(_, (a, b))| a != b) {
            panic!("seed {seed}, record {n}:\n{a}\n{b}");
        }
        assert_eq!(first.len(), again.len(), "seed {seed}");
        different.insert(first);
    }
    assert_eq!(different.len(), 50, "two seeds gave the same ledger");
}

#[test]
fn the_log_of_a_run_replays_to_its_end() {
    let run = run(&lives::usual(), &Stage::default());
    let replayed = run.log.replay(run.end_time()).expect("the log keeps every event");
    assert_eq!(replayed, run.end);
}
