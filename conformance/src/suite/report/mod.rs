//! Report of a run: files in the output folder, and tables for the terminal.

mod html;
mod junit;
mod ledgers;

use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;

pub use ledgers::Ledgers;

use crate::cost::Table;
use crate::judge::verdict::Verdict;
use crate::lab::Stage;
use crate::scenario::InputError;
use crate::suite::{Conclusion, Summary};

/// Name of the simulated API server in reports.
pub(crate) const FAKE: &str = "fake@1.36";

/// Content of `results.json`.
#[derive(Debug, Serialize)]
struct Results<'a> {
    suite: &'a str,
    seed: u64,
    stage: &'a str,
    environment: Environment<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a serde_json::Value>,
    #[serde(flatten)]
    tally: Tally,
    checks: Vec<Summary>,
    #[serde(skip_serializing_if = "<[Table]>::is_empty")]
    cost: &'a [Table],
}

#[derive(Debug, Serialize)]
struct Environment<'a> {
    kube: &'a str,
    time: &'a str,
}

/// Circumstances of a run, as its reports state them.
#[derive(Clone, Debug)]
pub struct About {
    /// Seed of all random draws.
    pub seed: u64,
    /// Stage on which the provider ran, in words.
    pub stage: String,
    /// Name of the API server of the workload cluster.
    pub kube: String,
    /// Passage of world time: virtual, or its pace relative to the clock.
    pub time: String,
    /// Description of the provider; `None` for our provider in this process.
    pub provider: Option<serde_json::Value>,
}

impl About {
    /// Describes a run of our provider in this process, in virtual time.
    pub fn ours(stage: &Stage) -> Self {
        let (seed, provider) = (stage.seed, None);
        let (stage, kube) = ("in process, virtual time".to_owned(), FAKE.to_owned());
        Self { seed, stage, kube, time: "virtual".to_owned(), provider }
    }
}

/// Number of checks by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Checks whose promise held.
    pub passed: usize,
    /// Checks whose promise held in the cases that were played, while other cases were not played.
    #[serde(skip_serializing_if = "is_zero")]
    pub partial: usize,
    /// Checks whose promise was broken, whatever their requirement level.
    pub failed: usize,
    /// Checks whose run proves nothing.
    pub inconclusive: usize,
    /// Checks that failed once and passed when repeated.
    #[serde(skip_serializing_if = "is_zero")]
    pub flaky: usize,
    /// Checks without a judgement, because the harness failed or this computer was too slow.
    #[serde(skip_serializing_if = "is_zero")]
    pub harness_errors: usize,
    /// Checks that the provider does not claim to support.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_supported: usize,
    /// Checks that were not run.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Tally {
    /// Counts these checks.
    pub fn count(conclusions: &[Conclusion]) -> Self {
        let mut tally = Self::default();
        for conclusion in conclusions {
            *match &conclusion.verdict {
                Verdict::Pass => &mut tally.passed,
                Verdict::Partial(_) => &mut tally.partial,
                Verdict::Fail(_) => &mut tally.failed,
                Verdict::Inconclusive(_) => &mut tally.inconclusive,
                Verdict::Flaky(_) => &mut tally.flaky,
                Verdict::HarnessError(_) => &mut tally.harness_errors,
                Verdict::NotSupported(_) => &mut tally.not_supported,
                Verdict::Skipped(_) => &mut tally.skipped,
            } += 1;
        }
        tally
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            partial,
            failed,
            inconclusive,
            flaky,
            harness_errors,
            not_supported,
            skipped,
        } = self;
        write!(f, "{passed} passed, {failed} failed, {inconclusive} inconclusive")?;
        for (n, word) in [
            (partial, "partial"),
            (flaky, "flaky"),
            (harness_errors, "harness-error"),
            (not_supported, "not supported"),
            (skipped, "skipped"),
        ] {
            if *n > 0 {
                write!(f, ", {n} {word}")?;
            }
        }
        Ok(())
    }
}

/// Creates the output folder of a run and checks that it is writable, before the run begins.
///
/// # Errors
/// Names the folder that cannot be created or written to.
pub fn prepare(dir: &Path) -> Result<(), InputError> {
    // A probe file leaves the files of an earlier run unchanged until this run is done.
    let probe = dir.join(".probe");
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&probe, ""))
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(|error| {
            InputError::in_flag("--out", dir.display(), "cannot write to this folder")
                .remedy(format!("choose a writable one: {error}"))
        })
}

/// Writes every file of a run to `dir` except `ledger.jsonl`, which [`Ledgers`] writes.
///
/// # Errors
/// Names the folder or file that cannot be written. Also fails if the results cannot be written as
/// JSON or XML.
pub fn write(
    dir: &Path,
    about: &About,
    stage: &Stage,
    conclusions: &[Conclusion],
    cost: &[Table],
) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| {
        format!("cannot create the folder {}; choose a writable folder with --out", dir.display())
    })?;
    let save = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| {
            format!("cannot write {}; choose a writable folder with --out", path.display())
        })
    };
    let results = Results {
        suite: env!("CARGO_PKG_VERSION"),
        seed: about.seed,
        stage: &about.stage,
        environment: Environment { kube: &about.kube, time: &about.time },
        provider: about.provider.as_ref(),
        tally: Tally::count(conclusions),
        checks: conclusions.iter().map(Conclusion::summary).collect(),
        cost,
    };
    save("results.json", serde_json::to_string_pretty(&results)? + "\n")?;
    save("junit.xml", junit::document(conclusions)?)?;
    save("summary.md", markdown(about, conclusions, cost))?;
    save("index.html", html::page(about, stage, conclusions, cost))
}

fn markdown(about: &About, conclusions: &[Conclusion], cost: &[Table]) -> String {
    let name = about.provider.as_ref().and_then(|it| it["name"].as_str());
    let mut out = format!(
        "# Conformance{}\n\n{}; seed {}, {}.\n\n",
        name.map(|name| format!(": {name}")).unwrap_or_default(),
        Tally::count(conclusions),
        about.seed,
        about.stage
    );
    out.push_str("| check | mode | verdict | cases | title |\n| --- | --- | --- | --- | --- |\n");
    for conclusion in conclusions {
        let entry = conclusion.entry;
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            entry.id,
            conclusion.part,
            conclusion.verdict.word(),
            conclusion.outcomes.len(),
            entry.title
        );
    }
    if !cost.is_empty() {
        out.push_str("\n## Calls by phase and number of nodes\n");
    }
    for table in cost {
        let _ = write!(out, "\n{}", table.markdown());
    }
    let bad: Vec<&Conclusion> =
        conclusions.iter().filter(|it| it.verdict.reason().is_some()).collect();
    if !bad.is_empty() {
        out.push_str("\n## Checks that did not pass\n\n");
        for conclusion in bad {
            let _ = writeln!(
                out,
                "- **{}**, {}: {}",
                conclusion.entry.id,
                conclusion.part.title(),
                conclusion.verdict
            );
        }
    }
    out
}

/// Returns the table of checks for a terminal; `times` adds the wall time of each check.
pub fn table(conclusions: &[Conclusion], times: bool) -> String {
    let mut out = String::new();
    for conclusion in conclusions {
        let entry = conclusion.entry;
        let took =
            if times { format!("{:>6} ms  ", conclusion.took.as_millis()) } else { String::new() };
        let eased = conclusion.requirement != entry.requirement;
        let word = match &conclusion.verdict {
            Verdict::Fail(_) if eased => "FAIL should",
            other => other.word(),
        };
        let _ = write!(
            out,
            "{:<14} {word:<12} {:>3} cases  {took}{}",
            entry.id,
            conclusion.outcomes.len(),
            entry.title
        );
        let left_out = conclusion.not_run.len();
        let _ = match &conclusion.verdict {
            Verdict::Skipped(why) | Verdict::NotSupported(why) => writeln!(out, " ({why})"),
            _ if left_out > 0 => writeln!(out, " ({left_out} more cases were not run)"),
            _ => writeln!(out),
        };
    }
    out
}

/// Formats a duration as seconds with one decimal.
pub fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
