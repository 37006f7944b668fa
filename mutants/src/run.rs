//! Which mutants the catalogue catches, and which of the others the provider's own tests do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::tree::{Built, Tree};

/// What a mutant came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// A check failed, or was inconclusive where it passes without the mutant: the first that was.
    Check(String),
    /// It took much longer than without the mutant, and was ended.
    Hung,
    /// The judge itself ended otherwise than with a verdict.
    Crashed(String),
    /// The catalogue passed; a test of the provider failed: the program of the test.
    Test(String),
    /// Nothing noticed.
    Survived,
}

/// A mutant and what it came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Result {
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Whether a run of the catalogue comes by its place at all.
    pub(crate) reached: bool,
    pub(crate) end: End,
}

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) mode: String,
    pub(crate) seed: u64,
    pub(crate) sample: usize,
    pub(crate) jobs: usize,
    pub(crate) tests: bool,
}

/// How much longer than without a mutant a run may take.
const PATIENCE: u32 = 8;

/// Whether code of this file is part of a mode at all.
fn is_of(mode: &str, file: &str) -> bool {
    let other: &[&str] = match mode {
        "vcenter" => &["provider/src/instances/supervisor", "provider/src/supervisor"],
        _ => &["provider/vcenter", "provider/src/instances/vcenter"],
    };
    !other.iter().any(|it| file.starts_with(it))
}

/// So many of a mode's mutants, drawn by seed.
pub(crate) fn drawn(built: &[Built], plan: &Plan) -> Vec<Built> {
    let mut all: Vec<Built> =
        built.iter().filter(|it| !it.by_hand && is_of(&plan.mode, &it.file)).cloned().collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.shuffle(&mut ChaCha8Rng::seed_from_u64(plan.seed));
    all.truncate(plan.sample);
    all
}

/// The programs with all mutants in them.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    judge: PathBuf,
    tests: Vec<(PathBuf, PathBuf)>,
    dir: PathBuf,
}

impl Bench {
    pub(crate) fn of(tree: &Tree) -> anyhow::Result<Self> {
        let (judge, tests) = tree.programs()?;
        let tests = tests.into_iter().map(|it| (tree.package_of(&it), it)).collect();
        Ok(Self { judge, tests, dir: tree.dir() })
    }

    /// Runs the catalogue, or these checks of it. The first failure and what the program says of itself.
    async fn judge(
        &self,
        number: u32,
        mode: &str,
        ids: &[String],
        limit: Duration,
        reached: Option<&Path>,
    ) -> anyhow::Result<Option<End>> {
        let out = self.dir.join(format!("out-{mode}-{number}"));
        let mut command = Command::new("nice");
        command.arg(&self.judge).args(["run", "--no-cost", "--fail-fast", "--mode", mode, "--out"]);
        command.arg(&out).args(ids).env("MUTANT", number.to_string());
        command.current_dir(self.dir.join("tree")).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(reached) = reached {
            command.env("MUTANTS_REACHED", reached);
        }
        let ended = timeout(limit, async { command.spawn()?.wait().await }).await;
        let told = std::fs::read(out.join("results.json"));
        // What is there is of this run: the folder goes with it.
        let _ = std::fs::remove_dir_all(&out);
        let Ok(status) = ended else { return Ok(Some(End::Hung)) };
        let status = status.with_context(|| self.judge.display().to_string())?;
        if status.success() {
            return Ok(None);
        }
        let Ok(told) = told else { return Ok(Some(End::Crashed(status.to_string()))) };
        let told: serde_json::Value = serde_json::from_slice(&told)?;
        let checks = told["checks"].as_array().context("results.json has no checks")?;
        let bad = checks.iter().find(|it| !["pass", "skipped"].map(Some).contains(&it["verdict"].as_str()));
        let id = bad.and_then(|it| it["id"].as_str());
        Ok(Some(id.map_or(End::Crashed(status.to_string()), |id| End::Check(id.to_owned()))))
    }

    /// Runs the tests that come by a mutant. The first program of which one fails.
    async fn test(&self, number: u32, reached: &[BTreeSet<u32>], limit: Duration) -> anyhow::Result<Option<End>> {
        for (i, (package, program)) in self.tests.iter().enumerate() {
            if !reached[i].contains(&number) {
                continue;
            }
            let mut command = Command::new("nice");
            command.arg(program).arg("--test-threads=2").env("MUTANT", number.to_string());
            command.current_dir(package).kill_on_drop(true).env("CARGO_MANIFEST_DIR", package);
            command.env("INSTA_UPDATE", "no").env("INSTA_FORCE_PASS", "0").env("PROPTEST_CASES", "64");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let Ok(status) = timeout(limit, async { command.spawn()?.wait().await }).await else {
                return Ok(Some(End::Hung));
            };
            if !status?.success() {
                let name = program.file_stem().unwrap_or_default().to_string_lossy();
                let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name).to_owned();
                let package = package.file_name().unwrap_or_default().to_string_lossy();
                return Ok(Some(End::Test(format!("{package} {name}"))));
            }
        }
        Ok(None)
    }

    /// What the tests come by, one set per program; they have to pass.
    async fn tests_reach(&self) -> anyhow::Result<Vec<BTreeSet<u32>>> {
        let mut all = Vec::new();
        for (i, (package, program)) in self.tests.iter().enumerate() {
            let file = self.dir.join(format!("reached-test-{i}"));
            let _ = std::fs::remove_file(&file);
            let mut command = Command::new(program);
            command.current_dir(package).env("MUTANTS_REACHED", &file).env("INSTA_UPDATE", "no");
            command.env("CARGO_MANIFEST_DIR", package).stdout(Stdio::null()).stderr(Stdio::null());
            ensure!(command.status().await?.success(), "{} fails without a mutant", program.display());
            all.push(numbers(&file));
        }
        Ok(all)
    }
}

fn numbers(file: &Path) -> BTreeSet<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|it| it.parse().ok()).collect()
}

/// Runs a sample; what was found out already is not run again.
pub(crate) async fn sample(
    tree: &Tree,
    plan: &Plan,
    done: &mut dyn FnMut(usize, usize, &Result),
) -> anyhow::Result<Vec<Result>> {
    let bench = Bench::of(tree)?;
    let chosen = drawn(&tree.built()?, plan);
    let file = tree.dir().join(format!("results-{}-{}.jsonl", plan.mode, plan.seed));
    let mut results: BTreeMap<String, Result> = known(&file)?;
    results.retain(|name, _| chosen.iter().any(|it| it.name == *name));
    let (reached, limit) = reached_by_catalogue(&bench, &plan.mode).await?;
    let tests = if plan.tests { Some(bench.tests_reach().await?) } else { None };
    let mut waiting: Vec<Built> = chosen.clone();
    waiting.retain(|it| {
        let known = results.get(&it.name);
        known.is_none_or(|known| plan.tests && known.end == End::Survived)
    });
    waiting.reverse();
    let mut running = JoinSet::new();
    loop {
        while running.len() < plan.jobs
            && let Some(mutant) = waiting.pop()
        {
            let (bench, plan, tests) = (bench.clone(), plan.clone(), tests.clone());
            let before = results.get(&mutant.name).cloned();
            let is_reached = reached.contains(&mutant.number);
            running.spawn(async move {
                let mut end = None;
                if before.is_none() && is_reached {
                    end = bench.judge(mutant.number, &plan.mode, &[], limit, None).await?;
                }
                if end.is_none()
                    && let Some(tests) = &tests
                {
                    end = bench.test(mutant.number, tests, limit.max(Duration::from_secs(240))).await?;
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

/// Which mutants the catalogue comes by in a mode, and how long one may take.
async fn reached_by_catalogue(bench: &Bench, mode: &str) -> anyhow::Result<(BTreeSet<u32>, Duration)> {
    let file = bench.dir.join(format!("reached-{mode}"));
    let _ = std::fs::remove_file(&file);
    #[expect(clippy::disallowed_methods, reason = "how long a run takes on this machine")]
    let begin = Instant::now();
    let end = bench.judge(0, mode, &[], Duration::from_secs(900), Some(&file)).await?;
    if let Some(end) = end {
        bail!("the catalogue does not pass without a mutant: {end:?}");
    }
    Ok((numbers(&file), (begin.elapsed() * PATIENCE).max(Duration::from_secs(60))))
}

fn known(file: &Path) -> anyhow::Result<BTreeMap<String, Result>> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let result: Result = serde_json::from_str(line).with_context(|| file.display().to_string())?;
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

/// Runs the mutants that somebody wrote against the checks that have to catch them. What is not caught, one line each.
pub(crate) async fn by_hand(tree: &Tree, jobs: usize, done: &mut dyn FnMut(&str)) -> anyhow::Result<Vec<String>> {
    let bench = Bench::of(tree)?;
    let built = tree.built()?;
    let mut waiting = Vec::new();
    for one in crate::handwritten::read(tree.root())? {
        let name = format!("by hand: {}", one.name);
        let mutant = built.iter().find(|it| it.name.ends_with(&name));
        let number = mutant.with_context(|| format!("{name} was not built: `mutants build` does it"))?.number;
        for by in one.caught_by {
            let (mode, id) = by.split_once(' ').context("it was checked when it was read")?;
            waiting.push((one.name.clone(), number, mode.to_owned(), id.to_owned()));
        }
    }
    waiting.reverse();
    let mut missed = Vec::new();
    let mut running = JoinSet::new();
    loop {
        while running.len() < jobs
            && let Some((name, number, mode, id)) = waiting.pop()
        {
            let bench = bench.clone();
            running.spawn(async move {
                let limit = Duration::from_secs(300);
                let end = bench.judge(number, &mode, std::slice::from_ref(&id), limit, None).await?;
                anyhow::Ok((name, mode, id, end))
            });
        }
        let Some(ended) = running.join_next().await else { break };
        let (name, mode, id, end) = ended??;
        let line = match end {
            Some(End::Check(_)) => format!("caught  {name}: {mode} {id}"),
            other => {
                let line = format!("MISSED  {name}: {mode} {id}: {other:?}");
                missed.push(line.clone());
                line
            }
        };
        done(&line);
    }
    Ok(missed)
}
