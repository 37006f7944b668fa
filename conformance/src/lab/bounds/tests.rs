//! Tests of bounds, with readings that the test makes up and with those of this process.

use std::process::Command;

use sim::ledger::Keep;
use sim::world::Topology;

use super::*;
use crate::judge::{Invariant, safety};
use crate::lab::{Run, Stage, run_within};
use crate::scenario::Scenario;

fn scenario(horizon: Duration) -> Scenario {
    Scenario::new("", Topology::zones(1).machines(5), horizon)
}

fn ran_away(change: impl FnOnce(&mut Bounds)) -> Run {
    let scenario = scenario(Duration::from_secs(90 * 24 * 3600));
    let mut bounds = Bounds::for_scenario(&scenario);
    change(&mut bounds);
    run_within(&scenario, &Stage::default(), bounds)
}

#[test]
fn a_provider_that_exceeds_a_bound_ends_its_case_with_a_verdict() {
    type Change = fn(&mut Bounds);
    for (change, said) in [
        ((|it| it.at_once = 10) as Change, "10 calls while no time passed"),
        (|it| it.calls = 40, "more than 40 calls"),
        (|it| it.processor = Duration::ZERO, "0 s of processor time"),
        (|it| it.wall = Duration::ZERO, "0 s of wall time"),
        (|it| (it.memory, it.wall) = (0, Duration::from_secs(60)), "0 MiB of memory"),
    ] {
        let run = ran_away(change);
        let found = safety(&run);
        let told = found.iter().find(|it| it.invariant == Invariant::NoPanic);
        assert!(told.is_some_and(|it| it.text.contains(said)), "{said}: {found:?}");
        assert!(run.calls().next().is_some(), "the transcript is there");
    }
}

#[test]
fn a_provider_within_its_bounds_is_not_disturbed() {
    let scenario = scenario(Duration::from_secs(60));
    let run = run_within(&scenario, &Stage::default(), Bounds::for_scenario(&scenario));
    assert_eq!(run.exceeded_bound, None);
}

#[tokio::test(start_paused = true)]
async fn a_loop_without_a_wait_is_stopped_at_the_bound_of_calls() {
    let bounds = Bounds::for_scenario(&scenario(Duration::from_secs(60)));
    let guard = Guard::new(Bounds { at_once: 1000, ..bounds });
    let echo = tower::service_fn(|n: u32| async move { Ok::<u32, ()>(n) });
    let mut service = guard.around(echo);
    let spin = async {
        loop {
            let _ = service.call(1).await;
        }
    };
    tokio::select! {
        biased;
        () = guard.over() => {}
        () = spin => {}
    }
    assert_eq!(guard.exceeded(), Some(ExceededBound::AtOnce(1000)));
}

/// Returns the bound that a run exceeds, or `None`. `mib` has the sizes of the run's memory in MiB,
/// and `seconds` the processor times of its thread: at its beginning, and then at each tick.
fn passed_with(mib: &[u64], seconds: &[u64]) -> Option<ExceededBound> {
    let bounds = Bounds::for_scenario(&scenario(Duration::from_secs(60)));
    let guard = Guard::new(Bounds { memory: 100 << 20, ..bounds });
    let mut sizes = mib.iter().map(|mib| mib << 20);
    let mut times = seconds.iter().copied().map(Duration::from_secs);
    let mut n_ticks = mib.len().max(seconds.len());
    let tick = || {
        n_ticks -= 1;
        n_ticks > 0
    };
    let read = Readings { processor: || times.next(), resident: || sizes.next() };
    watch(&guard, &Ledger::new(Keep::All), tick, read);
    guard.exceeded()
}

#[test]
fn a_run_whose_memory_grows_beyond_the_bound_is_ended() {
    assert_eq!(passed_with(&[500, 600, 550], &[]), None);
    assert_eq!(passed_with(&[500, 450, 601, 500], &[]), Some(ExceededBound::Memory(100 << 20)));
}

#[test]
fn a_run_whose_thread_computes_beyond_the_bound_is_ended() {
    let bound = Duration::from_secs(300);
    assert_eq!(passed_with(&[], &[70, 370, 370]), None);
    assert_eq!(passed_with(&[], &[70, 200, 371]), Some(ExceededBound::Processor(bound)));
}

/// Environment variable that is set in the process whose run never yields.
const GIVES_UP: &str = "CONFORMANCE_TEST_GIVES_UP";

#[test]
fn a_run_that_never_yields_after_a_bound_ends_the_process_with_its_last_records() {
    if std::env::var_os(GIVES_UP).is_some() {
        let ledger = Ledger::new(Keep::All);
        ledger.note(sim::world::Time::ZERO, sim::ledger::Kind::Note, "the last record");
        let guard = Guard::new(Bounds::for_scenario(&scenario(Duration::from_secs(60))));
        guard.exceed(ExceededBound::Calls(7));
        let mut ticks = 0..1000;
        let read = Readings { processor: || None, resident: || None };
        watch(&guard, &ledger, || ticks.next().is_some(), read);
        // The run is still alive.
        return;
    }
    let this = std::env::current_exe().expect("a test is a program");
    let name = "a_run_that_never_yields_after_a_bound_ends_the_process_with_its_last_records";
    let mut child = Command::new(this);
    let out = child.args([name, "--nocapture"]).env(GIVES_UP, "yes").output().expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("FAIL: the provider ran away: more than 7 calls"), "{said}");
    assert!(said.contains("the last record"), "{said}");
}
