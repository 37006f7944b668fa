//! Runs the catalogue with mutants, and the provider's own tests with the mutants that the
//! catalogue does not catch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::task::JoinSet;

use crate::bench::{Baseline, Bench, Bounds, JudgeRequest};
use crate::draw::{PROCESS, Plan, WAYS, drawn};
use crate::end::End;
use crate::handwritten::{self, CaughtBy};
use crate::tree::{BuiltMutant, Tree};

/// A mutant and its outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MutantResult {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// True if a run of the catalogue executes the mutated code at all.
    pub(crate) reached: bool,
    /// The ways in which the catalogue was run: instances modes, or [`PROCESS`].
    #[serde(default)]
    pub(crate) ways: Vec<String>,
    pub(crate) end: End,
}

impl MutantResult {
    /// Returns the ways in which the catalogue has yet to be run with a mutant; none if a check or
    /// a test has caught the mutant before. `before` is the stored result of the mutant, if any.
    fn ways_left(before: Option<&Self>, mutant: &BuiltMutant, plan: &Plan) -> Vec<&'static str> {
        if before.is_some_and(|it| it.end.is_caught() || matches!(it.end, End::Test(_))) {
            return Vec::new();
        }
        let is_done = |way: &str, it: &Self| {
            it.ways.iter().any(|done| done == way) || way == PROCESS && it.reached
        };
        let is_left = |way: &&str| before.is_none_or(|it| !is_done(way, it));
        plan.ways(&mutant.file).into_iter().filter(is_left).collect()
    }
}

/// Time limit of one test program.
const TEST: Duration = Duration::from_secs(300);

/// Runs a sample and stores the results. Does not repeat runs of the catalogue whose results are
/// stored; with [`Plan::tests`] runs the tests again with mutants that survived. Calls `done` after
/// each mutant with the number of results so far, the size of the sample and the result. Returns
/// all results of the sample, including the stored ones.
pub(crate) async fn sample(
    tree: &Tree,
    plan: &Plan,
    done: &mut dyn FnMut(usize, usize, &MutantResult),
) -> anyhow::Result<Vec<MutantResult>> {
    let bench = Bench::new(tree, plan.tests)?;
    tree.is_built_for(plan.seed, plan.sample)?;
    let chosen = drawn(&tree.built()?, plan);
    let mut file = results_file(tree, &plan.mode, plan.seed);
    if !plan.without.is_empty() {
        bench.require_checks(&plan.without).await?;
        // Neither `report` nor a run of other checks may use these results.
        let checks: BTreeSet<&str> = plan.without.iter().map(String::as_str).collect();
        let digest = Sha256::digest(checks.into_iter().collect::<Vec<_>>().join(","));
        file.set_extension(format!(
            "without-{:02x}{:02x}{:02x}{:02x}.jsonl",
            digest[0], digest[1], digest[2], digest[3]
        ));
    }
    let mut results: BTreeMap<String, MutantResult> = known(&file)?;
    results.retain(|name, _| chosen.iter().any(|it| it.name == *name));
    let left = |it: &BuiltMutant, results: &BTreeMap<String, MutantResult>| {
        MutantResult::ways_left(results.get(&it.name), it, plan)
    };
    let mut waiting: Vec<BuiltMutant> = chosen.clone();
    waiting.retain(|it| {
        let known = results.get(&it.name);
        let is_for_tests =
            |known: &MutantResult| matches!(known.end, End::Survived | End::Unsure(_));
        let has_runs_left = !left(it, &results).is_empty();
        plan.wants(&it.name) && (has_runs_left || plan.tests && known.is_none_or(is_for_tests))
    });
    let mut baselines: Vec<Arc<Baseline>> = Vec::new();
    for way in WAYS {
        if waiting.iter().any(|it| left(it, &results).contains(&way)) {
            baselines.push(Arc::new(bench.baseline(plan, way).await?));
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
            let of_way = |way| baselines.iter().find(|it| it.way == way).cloned();
            let baselines: Vec<_> =
                left(&mutant, &results).into_iter().filter_map(of_way).collect();
            running.spawn(async move {
                let judged = judge(&bench, &plan.mode, mutant.number, &baselines).await?;
                let mut result = judged.after(before, mutant.name, mutant.line);
                if !result.end.is_caught()
                    && let Some(tests) = &tests
                    && let Some(end) = bench.test(mutant.number, tests, TEST).await?
                {
                    result.end = end;
                }
                anyhow::Ok(result)
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

/// Result of the catalogue for a mutant.
#[derive(Debug, Default)]
struct CatalogueResult {
    /// Ways in which the catalogue was run with the mutant.
    ways: Vec<String>,
    reached: bool,
    end: Option<End>,
}

impl CatalogueResult {
    /// Returns the result of the mutant after this and all earlier runs; `before` is the result of
    /// the earlier ones.
    fn after(self, before: Option<MutantResult>, name: String, line: usize) -> MutantResult {
        let (was_reached, mut ways, earlier) = match before {
            Some(it) => (it.reached, it.ways, it.end),
            None => (false, Vec::new(), End::Survived),
        };
        ways.extend(self.ways);
        let (reached, end) = (self.reached || was_reached, self.end.unwrap_or(earlier));
        MutantResult { name, line, reached, ways, end }
    }
}

/// Runs the checks that execute a mutant, in one way after the other, until a check catches the
/// mutant. Leaves out [`PROCESS`] if an earlier way has executed the mutant.
async fn judge(
    bench: &Bench,
    mode: &str,
    number: u32,
    baselines: &[Arc<Baseline>],
) -> anyhow::Result<CatalogueResult> {
    let mut judged = CatalogueResult::default();
    for baseline in baselines {
        if baseline.way == PROCESS && judged.reached {
            continue;
        }
        judged.ways.push(baseline.way.to_owned());
        for (ids, bounds) in baseline.checks_of(number) {
            judged.reached = true;
            let asked = JudgeRequest { number, mode, way: baseline.way, ids: &ids, bounds };
            let Some(end) = bench.judge(&asked).await? else { continue };
            let is_caught = end.is_caught();
            judged.end = Some(end);
            if is_caught {
                return Ok(judged);
            }
        }
    }
    Ok(judged)
}

fn results_file(tree: &Tree, mode: &str, seed: u64) -> PathBuf {
    tree.dir().join(format!("results-{mode}-{seed}.jsonl"))
}

/// Returns the stored results of the sample of a mode and a seed, without mutants that the last
/// build does not contain.
pub(crate) fn results(tree: &Tree, mode: &str, seed: u64) -> anyhow::Result<Vec<MutantResult>> {
    let built: BTreeSet<String> = tree.built()?.into_iter().map(|it| it.name).collect();
    let mut results = known(&results_file(tree, mode, seed))?;
    results.retain(|name, _| built.contains(name));
    Ok(results.into_values().collect())
}

fn known(file: &Path) -> anyhow::Result<BTreeMap<String, MutantResult>> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let result: MutantResult = serde_json::from_str(line).with_context(|| {
            format!("{}: a line is not a stored result; delete the file", file.display())
        })?;
        all.insert(result.name.clone(), result);
    }
    Ok(all)
}

fn keep(file: &Path, result: &MutantResult) -> anyhow::Result<()> {
    use std::io::Write;
    let mut file = std::fs::File::options().append(true).create(true).open(file)?;
    writeln!(file, "{}", serde_json::to_string(result)?)?;
    Ok(())
}

/// Runs each handwritten mutant against the checks that must catch it, and calls `done` with one
/// line per check. Returns the lines of the misses. A hang or a crash is a miss, too.
pub(crate) async fn by_hand(
    tree: &Tree,
    jobs: usize,
    done: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<String>> {
    let bench = Bench::new(tree, false)?;
    let built = tree.built()?;
    let mut waiting = Vec::new();
    for one in handwritten::read(tree.root())? {
        let name = format!("by hand: {}", one.name);
        let mutant = built.iter().find(|it| it.name.ends_with(&name));
        let number = mutant
            .with_context(|| format!("{name} was not built; run `mutants build` first"))?
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
                let asked = JudgeRequest { number, mode, way, ids: &ids, bounds };
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
