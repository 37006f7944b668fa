//! Plays generated histories of requests on both servers. Shrinks the first history with different
//! answers to a shorter one that still has them.
//!
//! The hand-written sequences show that both servers answer the single requests of a history alike,
//! so histories find errors in combinations of requests. Histories do not contain decided
//! differences (`docs/kubernetes-differences.md`): server-side apply, rules in CEL, pods.

mod act;
mod history;
mod kind;

use std::cell::Cell;
use std::io::Write;
use std::process::ExitCode;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::Runtime;

use self::history::History;
use super::target::Target;
use super::{compare, known};

/// Plays up to `runs` histories on both servers, until answers differ, and prints the result.
/// Returns exit code 1 if answers differ or one is missing, even if a repetition finds no
/// difference.
///
/// # Errors
/// Fails if the harness fails.
pub fn run(
    out: &mut impl Write,
    runtime: &Runtime,
    real: &Target,
    runs: u32,
    seed: u64,
) -> anyhow::Result<ExitCode> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config {
        cases: runs,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let (played, requests) = (Cell::new(0_u64), Cell::new(0_usize));
    let play = |history: &History| -> anyhow::Result<Option<String>> {
        let sequence = history.sequence();
        played.set(played.get() + 1);
        requests.set(requests.get() + sequence.steps.len());
        let id = format!("kf-{:x}-{}", std::process::id(), played.get());
        let theirs = runtime.block_on(super::answers(&sequence, real, &id))?;
        let ours = super::simulated(&sequence)?;
        let Some((step, _)) = known::places(&theirs, &ours).pop_first() else { return Ok(None) };
        let (left, right) = (("kube-apiserver", &theirs[step - 1]), ("sim", &ours[step - 1]));
        Ok(Some(compare::report(&sequence, step - 1, left, right)))
    };
    let result = TestRunner::new_with_rng(config, rng).run(&history::any(), |history| {
        match play(&history) {
            Ok(None) => Ok(()),
            Ok(Some(report)) => Err(TestCaseError::fail(report)),
            // A server that does not answer a request also fails the history.
            Err(error) => Err(TestCaseError::fail(format!("{error:#}"))),
        }
    });
    match result {
        Ok(()) => {
            writeln!(
                out,
                "{runs} histories, {} requests to each server, seed {seed}: alike",
                requests.get()
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(TestError::Fail(_, history)) => {
            let report = play(&history)?.unwrap_or_else(|| {
                "no difference when repeated, so an answer of the real API server was only late\n".to_owned()
            });
            print_history(out, &history, &report, seed)?;
            Ok(ExitCode::from(1))
        }
        Err(TestError::Abort(why)) => anyhow::bail!("the generator of histories gave up: {why}"),
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
