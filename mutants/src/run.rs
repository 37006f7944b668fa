//! Runs the catalogue against mutants, and the provider's own tests against those that it does not catch.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

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

/// Sample to run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) mode: String,
    pub(crate) seed: u64,
    pub(crate) sample: usize,
    pub(crate) jobs: usize,
    pub(crate) tests: bool,
}

/// Longest duration of a run, as a multiple of that without a mutant, and its least value.
const PATIENCE: u32 = 3;
const LEAST_DURATION: Duration = Duration::from_secs(60);
/// Longest time without the verdict of a check, as a multiple of that without a mutant, and its least value. It ends a run whose
/// provider spins long before the limit of the whole run.
const SILENCE: u32 = 6;
const LEAST_SILENCE: Duration = Duration::from_secs(45);
/// Longest duration of one test program.
const TEST: Duration = Duration::from_secs(300);

/// Code that runs with a Supervisor alone, and code that runs with a vCenter alone.
const SUPERVISOR_ALONE: [&str; 3] = [
    "provider/src/instances/supervisor",
    "provider/src/supervisor",
    "provider/src/telemetry/supervisor.rs",
];
const VCENTER_ALONE: [&str; 15] = [
    "provider/vcenter",
    "provider/src/instances/vcenter",
    "provider/src/instances/addresses",
    "provider/src/instances/datacenters.rs",
    "provider/src/instances/instance_type.rs",
    "provider/src/instances/zones.rs",
    "provider/src/telemetry/vcenter.rs",
    "provider/src/app/credentials.rs",
    "provider/src/controllers/node/record.rs",
    "provider/src/model/reference.rs",
    // A Supervisor's provider checks that the file is YAML or INI, and reads none of its keys.
    "provider/src/config/credentials.rs",
    "provider/src/config/host.rs",
    "provider/src/config/ini.rs",
    "provider/src/config/keys.rs",
    "provider/src/config/validate.rs",
];

/// True if a mode uses the code of this file.
fn is_of(mode: &str, file: &str) -> bool {
    let other: &[&str] = match mode {
        "vcenter" => &SUPERVISOR_ALONE,
        _ => &VCENTER_ALONE,
    };
    !other.iter().any(|it| file.starts_with(it))
}

/// The sample of a mode's mutants, drawn by seed.
pub(crate) fn drawn(built: &[Built], plan: &Plan) -> Vec<Built> {
    let mut all: Vec<Built> =
        built.iter().filter(|it| !it.by_hand && is_of(&plan.mode, &it.file)).cloned().collect();
    // Sorts by a digest of seed and name, so that the sample changes little when sources change.
    all.sort_by_cached_key(|it| Sha256::digest(format!("{} {}", plan.seed, it.name)).to_vec());
    all.truncate(plan.sample);
    all
}

/// The `--instances-mode` that runs the code of this file; each mode is a provider of its own.
fn way(file: &str) -> &'static str {
    // Only upstream's way calls for one machine at a time.
    let is_v1 = ["/v1.rs", "/singly.rs", "/desk.rs"].iter().any(|it| file.ends_with(it));
    if file.contains("/v1/") || is_v1 {
        "v1"
    } else if file.ends_with("/vcenter/poll.rs") {
        "poll"
    } else {
        "auto"
    }
}

/// The families of checks that run with `v1`: all but EFF. Upstream's calls fail most of the EFF checks, and one list of a large
/// fleet per node takes longer than all other checks together.
const V1: [&str; 10] = ["CCM", "ISO", "LIFE", "LIVE", "NODE", "OBS", "ROB", "SEC", "SESS", "ZONE"];

/// Results of the catalogue without a mutant, in one mode and way.
#[derive(Clone, Debug)]
struct Baseline {
    way: &'static str,
    /// Checks that pass; the other checks prove nothing about a mutant.
    ids: Vec<String>,
    /// Mutants whose code is executed.
    reached: BTreeSet<u32>,
    /// Bounds of a run with a mutant: [`PATIENCE`] and [`SILENCE`] times what the baseline took, at least [`LEAST_DURATION`] and
    /// [`LEAST_SILENCE`].
    bounds: Bounds,
}

/// Longest duration of a run, and longest time in it without a verdict.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    duration: Duration,
    silence: Duration,
}

impl Bounds {
    /// Bounds the duration alone.
    fn duration(duration: Duration) -> Self {
        Self { duration, silence: duration }
    }
}

/// One run of the catalogue, or of the checks `ids` if that is not empty.
struct Asked<'a> {
    number: u32,
    mode: &'a str,
    way: &'a str,
    ids: &'a [String],
    bounds: Bounds,
}

/// End of a run of the judge.
struct JudgeRun {
    /// `None` if the run took too long.
    status: Option<ExitStatus>,
    /// The `results.json` of the run, if there is one.
    results: Option<serde_json::Value>,
    /// Longest time between two lines of the output.
    longest_silence: Duration,
}

/// The programs that contain all mutants.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    judge: PathBuf,
    tests: Vec<(PathBuf, PathBuf)>,
    dir: PathBuf,
}

impl Bench {
    pub(crate) fn of(tree: &Tree, tests: bool) -> anyhow::Result<Self> {
        let (judge, tests) = tree.programs(tests)?;
        let tests = tests.into_iter().map(|it| (tree.package_of(&it), it)).collect();
        Ok(Self { judge, tests, dir: tree.dir() })
    }

    /// Runs the judge; returns the first failure, if any.
    async fn judge(&self, asked: &Asked<'_>) -> anyhow::Result<Option<End>> {
        match self.judge_with(asked, &["--fail-fast"]).await? {
            // A check after that one may fail.
            Some(End::Unsure(_)) if asked.ids.len() != 1 => self.judge_with(asked, &[]).await,
            end => Ok(end),
        }
    }

    async fn judge_with(&self, asked: &Asked<'_>, more: &[&str]) -> anyhow::Result<Option<End>> {
        let JudgeRun { status, results: told, .. } = self.run_judge(asked, more, None).await?;
        let Some(status) = status else { return Ok(Some(End::Hung)) };
        if status.success() {
            return Ok(None);
        }
        let Some(told) = told else { return Ok(Some(End::Crashed(status.to_string()))) };
        let verdicts = verdicts(&told)?;
        let first = |is_wanted: &dyn Fn(&str) -> bool| {
            verdicts.iter().find(|(_, verdict)| is_wanted(verdict)).map(|(id, _)| id.clone())
        };
        if let Some(failed) = first(&|verdict| verdict == "fail") {
            return Ok(Some(End::Check(failed)));
        }
        let unsure = first(&|verdict| !["pass", "skipped"].contains(&verdict));
        Ok(Some(unsure.map_or(End::Crashed(status.to_string()), End::Unsure)))
    }

    /// Runs the catalogue without a mutant.
    async fn baseline(&self, mode: &str, way: &'static str) -> anyhow::Result<Baseline> {
        let file = self.dir.join(format!("reached-{mode}-{way}"));
        let _ = std::fs::remove_file(&file);
        let begin = now();
        let bounds = Bounds::duration(Duration::from_secs(1800));
        let ids: Vec<String> = match way {
            "v1" => V1.map(str::to_owned).into(),
            _ => Vec::new(),
        };
        let all = Asked { number: 0, mode, way, ids: &ids, bounds };
        let JudgeRun { results, longest_silence, .. } =
            self.run_judge(&all, &[], Some(&file)).await?;
        let told = results.with_context(|| {
            format!("the catalogue does not end without a mutant, {mode} {way}")
        })?;
        let verdicts = verdicts(&told)?;
        let n = verdicts.len();
        let ids: Vec<String> = verdicts
            .into_iter()
            .filter(|(_, verdict)| verdict == "pass")
            .map(|(id, _)| id)
            .collect();
        ensure!(
            way != "auto" || ids.len() == n,
            "the catalogue does not pass without a mutant, {mode}"
        );
        let bounds = Bounds {
            duration: (begin.elapsed() * PATIENCE).max(LEAST_DURATION),
            silence: (longest_silence * SILENCE).max(LEAST_SILENCE),
        };
        Ok(Baseline { way, ids, reached: numbers(&file), bounds })
    }

    /// Runs the judge.
    async fn run_judge(
        &self,
        asked: &Asked<'_>,
        more: &[&str],
        reached: Option<&Path>,
    ) -> anyhow::Result<JudgeRun> {
        let Asked { number, mode, way, ids, bounds } = *asked;
        // Checks of one mutant run side by side.
        let of = if let [id] = ids { id } else { "all" };
        let out = self.dir.join(format!("out-{mode}-{way}-{number}-{of}"));
        let mut command = Command::new("nice");
        command.arg(&self.judge).args([
            "run",
            "--no-cost",
            "--mode",
            mode,
            "--instances-mode",
            way,
        ]);
        command.args(more).arg("--out").arg(&out).args(ids).env("MUTANT", number.to_string());
        command.current_dir(self.dir.join("tree")).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(reached) = reached {
            command.env("MUTANTS_REACHED", reached);
        }
        let child = command.spawn().with_context(|| self.judge.display().to_string())?;
        let ended = timeout(bounds.duration, read_output(child, bounds.silence)).await;
        let told = std::fs::read(out.join("results.json")).ok();
        // The folder holds the results of this run only.
        let _ = std::fs::remove_dir_all(&out);
        let results = told.map(|told| serde_json::from_slice(&told)).transpose()?;
        let (status, longest_silence) = match ended {
            Ok(read) => read.with_context(|| self.judge.display().to_string())?,
            Err(_) => (None, bounds.duration),
        };
        Ok(JudgeRun { status, results, longest_silence })
    }

    /// Runs the test programs that execute a mutant; returns the first one that fails.
    async fn test(
        &self,
        number: u32,
        reached: &[BTreeSet<u32>],
        limit: Duration,
    ) -> anyhow::Result<Option<End>> {
        for (i, (package, program)) in self.tests.iter().enumerate() {
            if !reached[i].contains(&number) {
                continue;
            }
            let mut command = Command::new("nice");
            command.arg(program).arg("--test-threads=2").env("MUTANT", number.to_string());
            command.current_dir(package).kill_on_drop(true).env("CARGO_MANIFEST_DIR", package);
            command
                .env("INSTA_UPDATE", "no")
                .env("INSTA_FORCE_PASS", "0")
                .env("PROPTEST_CASES", "64");
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

    /// Mutants that the tests execute, one set per program. All tests must pass.
    async fn tests_reach(&self) -> anyhow::Result<Vec<BTreeSet<u32>>> {
        let mut all = Vec::new();
        for (i, (package, program)) in self.tests.iter().enumerate() {
            let file = self.dir.join(format!("reached-test-{i}"));
            let _ = std::fs::remove_file(&file);
            let mut command = Command::new(program);
            command.current_dir(package).env("MUTANTS_REACHED", &file).env("INSTA_UPDATE", "no");
            command.env("CARGO_MANIFEST_DIR", package).stdout(Stdio::null()).stderr(Stdio::null());
            ensure!(
                command.status().await?.success(),
                "{} fails without a mutant",
                program.display()
            );
            all.push(numbers(&file));
        }
        Ok(all)
    }
}

/// Reads the output of a program to its end. Returns the exit status and the longest time between two lines; no status if the
/// program prints nothing for as long as `silence`. That ends the program.
async fn read_output(
    mut child: Child,
    silence: Duration,
) -> std::io::Result<(Option<ExitStatus>, Duration)> {
    let mut longest = Duration::ZERO;
    if let Some(out) = child.stdout.take() {
        let mut lines = BufReader::new(out).lines();
        loop {
            let since = now();
            let Ok(line) = timeout(silence, lines.next_line()).await else {
                return Ok((None, silence));
            };
            longest = longest.max(since.elapsed());
            if line?.is_none() {
                break;
            }
        }
    }
    Ok((Some(child.wait().await?), longest))
}

/// Every check of a `results.json` and its verdict.
fn verdicts(told: &serde_json::Value) -> anyhow::Result<Vec<(String, String)>> {
    let checks = told["checks"].as_array().context("results.json has no checks")?;
    let text = |it: &serde_json::Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    Ok(checks.iter().map(|it| (text(it, "id"), text(it, "verdict"))).collect())
}

fn now() -> Instant {
    Instant::now()
}

fn numbers(file: &Path) -> BTreeSet<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|it| it.parse().ok()).collect()
}

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
            baselines.push(Arc::new(bench.baseline(&plan.mode, wanted).await?));
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
                        let is_reached = baseline.reached.contains(&mutant.number);
                        if is_reached {
                            let Baseline { way, ids, bounds, .. } = &*baseline;
                            let (number, mode) = (mutant.number, &plan.mode);
                            let asked = Asked { number, mode, way, ids, bounds: *bounds };
                            end = bench.judge(&asked).await?;
                        }
                        is_reached
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).kill_on_drop(true);
        command.spawn().unwrap()
    }

    #[tokio::test]
    async fn a_program_that_prints_nothing_is_ended() {
        let (status, _) =
            read_output(shell("echo 1; exec sleep 600"), Duration::from_millis(50)).await.unwrap();
        assert_eq!(status, None);
        let (status, longest) =
            read_output(shell("echo 1; exit 3"), Duration::from_secs(60)).await.unwrap();
        assert_eq!(status.unwrap().code(), Some(3));
        assert!(longest < Duration::from_secs(60));
    }
}
