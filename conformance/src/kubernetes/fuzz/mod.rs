//! Plays generated histories of requests on both servers. Shrinks the first history with different
//! answers to a shorter one whose answers still differ.
//!
//! The hand-written sequences show that both servers answer the single requests of a history alike,
//! so histories find errors in combinations of requests. Histories do not contain decided
//! differences (`docs/kubernetes-differences.md`): server-side apply, rules in CEL, pods.

mod act;
mod history;
mod kind;

use std::cell::{Cell, OnceCell};
use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::Runtime;

use self::history::History;
use super::target::TargetServer;
use super::{compare, known};

/// Plays up to `runs` histories on both servers, until answers differ, and prints the result.
/// Returns exit code 1 if answers differ, even if a repetition finds no difference.
///
/// # Errors
/// Fails if the harness fails, for example because a server cannot be reached or does not answer.
pub fn run(
    out: &mut impl Write,
    runtime: &Runtime,
    real: &TargetServer,
    runs: u32,
    seed: u64,
) -> anyhow::Result<ExitCode> {
    let (played, requests) = (Cell::new(0_u64), Cell::new(0_usize));
    let play = |history: &History| -> anyhow::Result<Option<String>> {
        let sequence = history.sequence();
        played.set(played.get() + 1);
        requests.set(requests.get() + sequence.steps.len());
        let id = format!("kf-{:x}-{}", std::process::id(), played.get());
        let place = || format!("history {} of seed {seed}", played.get());
        let theirs = runtime.block_on(super::answers(&sequence, real, &id)).with_context(place)?;
        let ours = super::simulated(&sequence).with_context(place)?;
        let Some((step, _)) = known::places(&theirs, &ours).pop_first() else { return Ok(None) };
        let (left, right) = (("kube-apiserver", &theirs[step - 1]), ("sim", &ours[step - 1]));
        Ok(Some(compare::report(&sequence, step - 1, left, right)))
    };
    match first_difference(runs, seed, play)? {
        None => {
            writeln!(
                out,
                "{runs} histories, {} requests to each server, seed {seed}: alike",
                requests.get()
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Some((history, report)) => {
            print_history(out, &history, &report, seed)?;
            Ok(ExitCode::from(1))
        }
    }
}

/// Calls `play` with up to `runs` histories until it reports a difference. Returns a shortened
/// history that still has different answers, and its report; `None` if all answers are alike. If
/// the shortened history shows no difference when it is played again, the report says so.
///
/// # Errors
/// Fails with the first error of `play`, which ends the search, or if the generator of histories
/// gives up.
fn first_difference(
    runs: u32,
    seed: u64,
    play: impl Fn(&History) -> anyhow::Result<Option<String>>,
) -> anyhow::Result<Option<(History, String)>> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config {
        cases: runs,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let error = OnceCell::new();
    let result = TestRunner::new_with_rng(config, rng).run(&history::any(), |history| {
        // The runner shortens a history that fails, so after an error it has to find nothing.
        if error.get().is_some() {
            return Ok(());
        }
        match play(&history) {
            Ok(None) => Ok(()),
            Ok(Some(report)) => Err(TestCaseError::fail(report)),
            Err(cause) => {
                let failed = TestCaseError::fail(cause.to_string());
                error.get_or_init(|| cause);
                Err(failed)
            }
        }
    });
    if let Some(error) = error.into_inner() {
        return Err(error);
    }
    match result {
        Ok(()) => Ok(None),
        Err(TestError::Fail(_, history)) => {
            let report = play(&history)?.unwrap_or_else(|| {
                "no difference when repeated, so an answer of the real API server was only late\n".to_owned()
            });
            Ok(Some((history, report)))
        }
        Err(TestError::Abort(why)) => anyhow::bail!(
            "the generator rejected too many random histories and gave up: {why}; use another \
             --seed"
        ),
    }
}

/// Prints a history with different answers, and the sequence that plays it.
fn print_history(
    out: &mut impl Write,
    history: &History,
    report: &str,
    seed: u64,
) -> anyhow::Result<()> {
    writeln!(out, "the shortest history with different answers (seed {seed}):")?;
    let sequence = history.sequence();
    for step in &sequence.steps {
        writeln!(out, "  {}", compare::request(step))?;
    }
    writeln!(out, "{report}\nas a sequence for conformance/kubernetes:")?;
    writeln!(out, "- {}", serde_json::to_string(&sequence)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_broken_connection_is_a_failure_of_the_harness_and_not_a_difference() {
        let n = Cell::new(0);
        let play = |_: &History| {
            n.set(n.get() + 1);
            if n.get() == 3 { Err(anyhow!("connection refused")) } else { Ok(None) }
        };
        let error = first_difference(10, 0, play).unwrap_err();
        assert!(format!("{error:#}").contains("connection refused"), "{error:#}");
        assert_eq!(n.get(), 3, "the search ends at once");
    }

    #[test]
    fn a_difference_is_reported_with_a_history_that_shows_it() {
        let play = |history: &History| {
            let n = history.sequence().steps.len();
            Ok((n > 2).then(|| format!("{n} steps differ")))
        };
        let (history, report) = first_difference(50, 0, play).unwrap().unwrap();
        let n = history.sequence().steps.len();
        assert_eq!(report, format!("{n} steps differ"));
    }
}
