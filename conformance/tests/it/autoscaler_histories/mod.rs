//! Random histories of our server for the Cluster Autoscaler, over a Supervisor and over a vCenter:
//! changes of two groups in any order, two at once, with failures of the platform, kills of the server
//! and machines that other hands destroy. After each event the invariants P1 to P15 must hold, and
//! after a calm end the machines in vCenter must be those that the groups list.
//!
//! | file | task |
//! | --- | --- |
//! | `draw.rs` | events, and the generator that proptest shrinks |
//! | `play.rs` | plays an event and reads the groups after it |
//! | `judge.rs` | the invariants, as comparisons of what was read before and after an event |
//! | `platform.rs` | the differences between the platforms |

mod draw;
mod judge;
mod platform;
mod play;

use std::cell::RefCell;

use conformance::lab::in_virtual_time;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRng, TestRunner};

use self::draw::{Event, events};
use self::platform::Platform;
use self::play::{Exercised, Play};

/// Plays a history. Returns what it exercised, or the invariant that broke.
fn play(platform: Platform, history: &[Event]) -> Result<Exercised, String> {
    in_virtual_time(async {
        let mut play = Play::start(platform).await?;
        for (n, event) in history.iter().enumerate() {
            play.event(event).await.map_err(|why| format!("event {n}, {event:?}: {why}"))?;
        }
        play.end().await.map_err(|why| format!("after the calm end: {why}"))?;
        Ok(play.exercised)
    })
}

/// Plays 64 histories, or as many as `PROPTEST_CASES` says, each of which a new seed then begins.
fn play_histories(platform: Platform) {
    let asked = Config::default();
    let is_asked = std::env::var_os("PROPTEST_CASES").is_some();
    let cases = if is_asked { asked.cases } else { 64 };
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 400, ..asked };
    // The seed is fixed, so that a failure comes from a code change.
    let rng = TestRng::deterministic_rng(config.rng_algorithm);
    let mut runner =
        if is_asked { TestRunner::new(config) } else { TestRunner::new_with_rng(config, rng) };
    let exercised = RefCell::new(Exercised::default());
    let result = runner.run(&events(), |history| match play(platform, &history) {
        Ok(of_history) => {
            exercised.borrow_mut().add(&of_history);
            Ok(())
        }
        Err(why) => Err(TestCaseError::fail(why)),
    });
    if let Err(err) = result {
        panic!("{err}");
    }
    let exercised = exercised.into_inner();
    let rare = exercised.0.iter().find(|(_, n)| **n < 5);
    assert_eq!(rare, None, "the histories contain too few of these: {exercised:?}");
    assert_eq!(exercised.0.len(), Exercised::KINDS.len(), "{exercised:?}");
}

#[test]
fn sixty_four_random_histories_of_two_groups_break_no_invariant() {
    play_histories(Platform::Supervisor);
}

#[test]
fn sixty_four_random_histories_of_two_groups_over_a_vcenter_break_no_invariant() {
    play_histories(Platform::Vcenter);
}
