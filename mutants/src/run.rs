//! Runs the catalogue against mutants, and the provider's own tests against those that it does not catch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use crate::bench::{Asked, Baseline, Bench, Bounds};
use crate::draw::{Plan, drawn, way};
use crate::handwritten::{self, CaughtBy};
use crate::tree::{Built, Tree};

/// Outcome of a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// A check failed: the first such check.
    Check(String),
    /// No check failed, and one that passes without the mutant had no verdict: the first such check.
    Unsure(String),
    /// The run, or one check of it, took much longer than without the mutant, and was ended.
    Hung,
    /// The judge itself ended without a verdict.
    Crashed(String),
    /// The catalogue passed and a test of the provider failed: the program of the test.
    Test(String),
    /// No check and no test failed.
    Survived,
}

impl End {
    /// True if the catalogue caught the mutant.
    pub(crate) fn is_caught(&self) -> bool {
        matches!(self, Self::Check(_) | Self::Hung | Self::Crashed(_))
    }
}

/// A mutant and its outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Result {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// True if a run of the catalogue executes the mutated code at all.
    pub(crate) reached: bool,
    pub(crate) end: End,
}

/// Longest duration of one test program.
const TEST: Duration = Duration::from_secs(300);

/// Runs a sample; mutants with a stored result are not run again.
pub(crate) async fn sample(
    tree: &Tree,
    plan: &Plan,
    done: &mut dyn FnMut(usize, usize, &Result),
) -> anyhow::Result<Vec<Result>> {
    let bench = Bench::of(tree, plan.tests)?;
    let chosen = drawn(&tree.built()?, plan);
    let file = results_file(tree, &plan.mode, plan.seed);
    let mut results: BTreeMap<String, Result> = known(&file)?;
    results.retain(|name, _| chosen.iter().any(|it| it.name == *name));
    let mut waiting: Vec<Built> = chosen.clone();
    waiting.retain(|it| {
        let known = results.get(&it.name);
        known.is_none_or(|known| plan.tests && matches!(known.end, End::Survived | End::Unsure(_)))
    });
    let mut baselines: Vec<Arc<Baseline>> = Vec::new();
    for wanted in ["auto", "poll", "v1"] {
        // A mutant that the catalogue has judged before needs no baseline.
        let is_new = |it: &Built| !results.contains_key(&it.name);
        if waiting.iter().any(|it| way(&it.file) == wanted && is_new(it)) {
            baselines.push(Arc::new(bench.baseline(&plan.mode, wanted, plan.jobs).await?));
        }
    }
    let tests = if plan.tests { Some(bench.tests_reach().await?) } else { None };
    waiting.reverse();
    let mut running = JoinSet::new();
    loop {
        while running.len() < plan.jobs
            && let Some(mutant) = waiting.pop()
        {
            let (bench, plan, tests) = (bench.clone(), plan.clone(), tests.clone());
            let before = results.get(&mutant.name).cloned();
            let baseline = baselines.iter().find(|it| it.way == way(&mutant.file)).cloned();
            running.spawn(async move {
                let mut end = None;
                let is_reached = match &before {
                    Some(before) => before.reached,
                    None => {
                        let baseline = baseline.context("there is one for each way")?;
                        let (ids, bounds) = baseline.checks_of(mutant.number);
                        if !ids.is_empty() {
                            let (number, mode, way) = (mutant.number, &plan.mode, baseline.way);
                            let asked = Asked { number, mode, way, ids: &ids, bounds };
                            end = bench.judge(&asked).await?;
                        }
                        !ids.is_empty()
                    }
                };
                if end.as_ref().is_none_or(|end| !end.is_caught())
                    && let Some(tests) = &tests
                {
                    end = bench.test(mutant.number, tests, TEST).await?.or(end);
                }
                let end = end.unwrap_or(End::Survived);
                let Built { name, line, .. } = mutant;
                anyhow::Ok(Result { name, line, reached: is_reached, end })
            });
        }
        let Some(ended) = running.join_next().await else { break };
        let result = ended??;
        results.insert(result.name.clone(), result.clone());
        keep(&file, &result)?;
        done(results.len(), chosen.len(), &result);
    }
    Ok(chosen.iter().filter_map(|it| results.get(&it.name).cloned()).collect())
}

fn results_file(tree: &Tree, mode: &str, seed: u64) -> PathBuf {
    tree.dir().join(format!("results-{mode}-{seed}.jsonl"))
}

/// The stored results of the sample of a mode and a seed, without mutants that the last build no longer has.
pub(crate) fn results(tree: &Tree, mode: &str, seed: u64) -> anyhow::Result<Vec<Result>> {
    let built: BTreeSet<String> = tree.built()?.into_iter().map(|it| it.name).collect();
    let mut results = known(&results_file(tree, mode, seed))?;
    results.retain(|name, _| built.contains(name));
    Ok(results.into_values().collect())
}

fn known(file: &Path) -> anyhow::Result<BTreeMap<String, Result>> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let result: Result =
            serde_json::from_str(line).with_context(|| file.display().to_string())?;
        all.insert(result.name.clone(), result);
    }
    Ok(all)
}

fn keep(file: &Path, result: &Result) -> anyhow::Result<()> {
    use std::io::Write;
    let mut file = std::fs::File::options().append(true).create(true).open(file)?;
    writeln!(file, "{}", serde_json::to_string(result)?)?;
    Ok(())
}

/// Runs the handwritten mutants against the checks that must catch them; returns one line for each miss.
pub(crate) async fn by_hand(
    tree: &Tree,
    jobs: usize,
    done: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<String>> {
    let bench = Bench::of(tree, false)?;
    let built = tree.built()?;
    let mut waiting = Vec::new();
    for one in handwritten::read(tree.root())? {
        let name = format!("by hand: {}", one.name);
        let mutant = built.iter().find(|it| it.name.ends_with(&name));
        let number = mutant
            .with_context(|| format!("{name} was not built: `mutants build` does it"))?
            .number;
        for by in one.caught_by {
            waiting.push((one.name.clone(), number, by));
        }
    }
    waiting.reverse();
    let mut missed = Vec::new();
    let mut running = JoinSet::new();
    loop {
        while running.len() < jobs
            && let Some((name, number, by)) = waiting.pop()
        {
            let bench = bench.clone();
            running.spawn(async move {
                let CaughtBy { mode, way, id } = CaughtBy::read(&by)?;
                let ids = [id.to_owned()];
                let bounds = Bounds::duration(Duration::from_secs(900));
                let asked = Asked { number, mode, way, ids: &ids, bounds };
                let end = bench.judge(&asked).await?;
                anyhow::Ok((name, by, end))
            });
        }
        let Some(ended) = running.join_next().await else { break };
        let (name, by, end) = ended??;
        let line = match end {
            Some(End::Check(_)) => format!("caught  {name}: {by}"),
            other => {
                let line = format!("MISSED  {name}: {by}: {other:?}");
                missed.push(line.clone());
                line
            }
        };
        done(&line);
    }
    Ok(missed)
}
