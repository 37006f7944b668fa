//! Runs the judge (the program `conformance`) and the provider's own tests, with a mutant or
//! without one.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::draw::{PROCESS, Plan};
use crate::end::End;
use crate::tree::Tree;

/// Time limit of a run, as a multiple of its duration without a mutant, and at least
/// [`LEAST_DURATION`].
const PATIENCE: u32 = 3;
const LEAST_DURATION: Duration = Duration::from_secs(60);
/// Limit of the silence of a run, the time without a new line of output: a multiple of the longest
/// silence without a mutant, and at least [`LEAST_SILENCE`]. A provider in a busy loop exceeds this
/// limit long before the time limit of the run.
const SILENCE: u32 = 6;
const LEAST_SILENCE: Duration = Duration::from_secs(45);

/// The quickest checks of a mutant take at most this part of the time of all of its checks, and run
/// before the others.
const QUICK: u32 = 4;

/// The families of checks that are run in mode `v1`: all that have cases, except EFF. Upstream's
/// calls fail most of the EFF checks. With one list of a large fleet per node the EFF checks also
/// take longer than all other checks together.
const V1: [&str; 10] = ["CCM", "ISO", "LIFE", "LIVE", "NODE", "OBS", "ROB", "SEC", "SESS", "ZONE"];

/// Checks that are run with the provider as a process. They execute the provider's code for files,
/// endpoint and signals.
const AS_PROCESS: [&str; 3] = ["NODE-INIT-001", "CCM-007", "CCM-008"];

/// Results of the catalogue without a mutant, in one mode and in one of the ways of
/// [`WAYS`](crate::draw::WAYS).
#[derive(Clone, Debug)]
pub(crate) struct Baseline {
    pub(crate) way: &'static str,
    /// Checks that pass without a mutant; other checks prove nothing about a mutant.
    checks: Vec<PassingCheck>,
}

/// A check that passes without a mutant.
#[derive(Clone, Debug)]
struct PassingCheck {
    id: String,
    /// Numbers of the mutants whose code the check executes.
    reached: BTreeSet<u32>,
    duration: Duration,
    longest_silence: Duration,
}

impl Baseline {
    /// Returns the checks that execute the code of a mutant, with the limits of their runs, as up to
    /// two runs: first the quickest checks, which together take at most one part in [`QUICK`] of the
    /// time, because they catch most mutants, and then the others. The mutant cannot change the result
    /// of any other check.
    pub(crate) fn checks_of(&self, number: u32) -> Vec<(Vec<String>, Bounds)> {
        let mut checks: Vec<&PassingCheck> =
            self.checks.iter().filter(|it| it.reached.contains(&number)).collect();
        checks.sort_by_key(|it| it.duration);
        let all: Duration = checks.iter().map(|it| it.duration).sum();
        let mut total = Duration::ZERO;
        let is_quick = |it: &&PassingCheck| {
            total += it.duration;
            total <= all / QUICK
        };
        let n_quick = checks.iter().copied().take_while(is_quick).count();
        let others = checks.split_off(n_quick);
        let parts = [checks, others].into_iter().filter(|it| !it.is_empty());
        parts.map(|it| (it.iter().map(|it| it.id.clone()).collect(), Bounds::of(&it))).collect()
    }
}

/// Limits of a run: of its duration, and of the time without a line of output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    duration: Duration,
    silence: Duration,
}

impl Bounds {
    /// Limits of a run of these checks: of its duration, [`PATIENCE`] times the sum of their durations
    /// without a mutant, and at least [`LEAST_DURATION`]; of its silence, [`SILENCE`] times their longest
    /// silence without a mutant, and at least [`LEAST_SILENCE`].
    fn of(checks: &[&PassingCheck]) -> Self {
        let duration: Duration = checks.iter().map(|it| it.duration).sum();
        let silence = checks.iter().map(|it| it.longest_silence).max().unwrap_or_default();
        Self {
            duration: (duration * PATIENCE).max(LEAST_DURATION),
            silence: (silence * SILENCE).max(LEAST_SILENCE),
        }
    }

    /// Limits that bound the duration alone.
    pub(crate) fn duration(duration: Duration) -> Self {
        Self { duration, silence: duration }
    }
}

/// A run of the catalogue with the mutant `number`, or without a mutant if `number` is 0. Runs only
/// the checks `ids`, or all checks if `ids` is empty.
pub(crate) struct JudgeRequest<'a> {
    pub(crate) number: u32,
    pub(crate) mode: &'a str,
    pub(crate) way: &'a str,
    pub(crate) ids: &'a [String],
    pub(crate) bounds: Bounds,
}

/// End of a run of the judge.
struct JudgeRun {
    /// Exit status of the judge; `None` if the run exceeded its limits and was killed.
    status: Option<ExitStatus>,
    /// The `results.json` of the run; `None` if the run wrote none.
    results: Option<serde_json::Value>,
    /// Longest time between two lines of the output.
    longest_silence: Duration,
}

/// The programs that contain all mutants: the judge, and the test programs with the directories in
/// which they run.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    judge: PathBuf,
    tests: Vec<(PathBuf, PathBuf)>,
    dir: PathBuf,
}

impl Bench {
    pub(crate) fn new(tree: &Tree, tests: bool) -> anyhow::Result<Self> {
        let (judge, tests) = tree.programs(tests)?;
        let tests = tests.into_iter().map(|it| (tree.package_of(&it), it)).collect();
        Ok(Self { judge, tests, dir: tree.dir() })
    }

    /// Runs the judge. Returns `None` if every check has a verdict and none failed; otherwise the
    /// first check that failed or has no verdict, or a hang or crash of the judge.
    pub(crate) async fn judge(&self, asked: &JudgeRequest<'_>) -> anyhow::Result<Option<End>> {
        if asked.way == PROCESS {
            return self.judge_one_by_one(asked).await;
        }
        match self.judge_with(asked, &["--fail-fast"]).await? {
            // A check after the first one without a verdict may fail.
            Some(End::Unsure(_)) if asked.ids.len() != 1 => self.judge_with(asked, &[]).await,
            end => Ok(end),
        }
    }

    /// Runs one check after the other, up to the first that catches the mutant, because the judge
    /// has no `--fail-fast` for a provider that is a process. Returns what [`Self::judge`] returns.
    async fn judge_one_by_one(&self, asked: &JudgeRequest<'_>) -> anyhow::Result<Option<End>> {
        let mut first = None;
        for id in asked.ids {
            let asked = JudgeRequest { ids: std::slice::from_ref(id), ..*asked };
            let Some(end) = self.judge_with(&asked, &[]).await? else { continue };
            if end.is_caught() {
                return Ok(Some(end));
            }
            first.get_or_insert(end);
        }
        Ok(first)
    }

    async fn judge_with(
        &self,
        asked: &JudgeRequest<'_>,
        more: &[&str],
    ) -> anyhow::Result<Option<End>> {
        let JudgeRun { status, results: told, .. } = self.run_judge(asked, more, None).await?;
        let Some(status) = status else { return Ok(Some(End::Hung)) };
        let crashed = || End::Crashed(status.to_string());
        let Some(told) = told else {
            let judge = self.judge.display();
            ensure!(
                !status.success(),
                "{judge} exited with 0, but wrote no results.json; build it from the sources of \
                 this program"
            );
            return Ok(Some(crashed()));
        };
        let verdicts = verdicts(&told)?;
        let first = |is_wanted: &dyn Fn(&str) -> bool| {
            verdicts.iter().find(|(_, verdict)| is_wanted(verdict)).map(|(id, _)| id.clone())
        };
        // For a provider that is a process, the exit code does not show the failure of a check of
        // our own policy, because other providers need not pass it.
        if let Some(failed) = first(&|verdict| verdict == "fail") {
            return Ok(Some(End::Check(failed)));
        }
        let has_verdict = |verdict: &str| ["pass", "partial", "skipped"].contains(&verdict);
        let unsure = first(&|verdict| !has_verdict(verdict)).map(End::Unsure);
        if status.success() || asked.way == PROCESS && unsure.is_none() {
            return Ok(None);
        }
        Ok(Some(unsure.unwrap_or_else(crashed)))
    }

    /// Fails if one of these IDs is not the ID of a check in any mode.
    pub(crate) async fn require_checks(&self, ids: &[String]) -> anyhow::Result<()> {
        let known = [self.ids("vcenter", "auto").await?, self.ids("supervisor", "auto").await?];
        for id in ids {
            let is_known = known.iter().any(|it| it.contains(id));
            ensure!(is_known, "--without: unknown check {id}; `conformance list` shows the checks");
        }
        Ok(())
    }

    /// Runs each check of the plan's mode in one way without a mutant, in a separate process. Returns
    /// the checks that pass. Fails if a check does not pass in the way `auto` or [`PROCESS`].
    pub(crate) async fn baseline(
        &self,
        plan: &Plan,
        way: &'static str,
    ) -> anyhow::Result<Baseline> {
        let Plan { mode, jobs, without, .. } = plan;
        let dir = self.dir.join(format!("reached-{mode}-{way}"));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir)
            .with_context(|| format!("cannot create the folder {}", dir.display()))?;
        let mut waiting = self.ids(mode, way).await?;
        waiting.retain(|id| !without.contains(id));
        waiting.reverse();
        let mut checks = Vec::new();
        let mut running = JoinSet::new();
        loop {
            while running.len() < *jobs
                && let Some(id) = waiting.pop()
            {
                let (bench, mode, file) = (self.clone(), mode.to_owned(), dir.join(&id));
                running.spawn(async move { bench.baseline_of(&mode, way, id, &file).await });
            }
            let Some(ended) = running.join_next().await else { break };
            checks.extend(ended??);
        }
        Ok(Baseline { way, checks })
    }

    /// Runs one check without a mutant. The run writes the numbers of the mutants that it executes
    /// to `file`. If the check does not pass, returns an error in the ways `auto` and [`PROCESS`],
    /// and `None` in the other ways. With [`PROCESS`] a partial check passes.
    async fn baseline_of(
        &self,
        mode: &str,
        way: &'static str,
        id: String,
        file: &Path,
    ) -> anyhow::Result<Option<PassingCheck>> {
        let begin = now();
        let bounds = Bounds::duration(Duration::from_secs(1800));
        let ids = [id];
        let asked = JudgeRequest { number: 0, mode, way, ids: &ids, bounds };
        let JudgeRun { results, longest_silence, .. } =
            self.run_judge(&asked, &[], Some(file)).await?;
        let [id] = ids;
        let told = results.with_context(|| {
            format!(
                "the check {id} wrote no results without a mutant (--mode {mode} --instances-mode \
                 {way}); run it with conformance to see the reason"
            )
        })?;
        // A check is partial as a process if some of its cases need virtual time.
        let holds = |verdict: &str| verdict == "pass" || way == PROCESS && verdict == "partial";
        let passes = verdicts(&told)?.iter().all(|(_, verdict)| holds(verdict));
        // Not every check must pass with polling or with upstream's calls. With `auto` all must
        // pass, and as a process those that were chosen for it.
        ensure!(
            passes || !["auto", PROCESS].contains(&way),
            "the check {id} does not pass without a mutant (--mode {mode} --instances-mode \
             {way}); correct the provider or the check first"
        );
        let duration = begin.elapsed();
        let passed = PassingCheck { id, reached: numbers(file), duration, longest_silence };
        Ok(passes.then_some(passed))
    }

    /// Returns the IDs of the checks that are run in this mode and way.
    async fn ids(&self, mode: &str, way: &str) -> anyhow::Result<Vec<String>> {
        if way == PROCESS {
            return Ok(AS_PROCESS.map(str::to_owned).into());
        }
        let mut command = Command::new(&self.judge);
        command.arg("list").current_dir(self.dir.join("tree")).kill_on_drop(true);
        if way == "v1" {
            command.args(V1);
        }
        let told = command.output().await.with_context(|| {
            format!("cannot start {}; run `mutants build` first", self.judge.display())
        })?;
        ensure!(told.status.success(), "`{} list` failed: {}", self.judge.display(), told.status);
        let ids = listed(mode, &String::from_utf8_lossy(&told.stdout));
        ensure!(
            !ids.is_empty(),
            "{} lists no check of mode {mode}; build it from the sources of this program",
            self.judge.display()
        );
        Ok(ids)
    }

    /// Writes a script that starts the provider with a mutant. The script sets the environment
    /// variables, because the judge does not pass its own ones to the provider.
    fn write_launcher(
        &self,
        path: &Path,
        number: u32,
        reached: Option<&Path>,
    ) -> anyhow::Result<()> {
        let provider = self.dir.join("build/debug/provider");
        let program = provider.display();
        ensure!(provider.is_file(), "{program} is missing; run `mutants build --tests` first");
        let reached = reached.map(|it| format!("MUTANTS_REACHED='{}' ", it.display()));
        let reached = reached.unwrap_or_default();
        let text = format!("#!/bin/sh\n{reached}MUTANT={number} exec '{program}' \"$@\"\n");
        std::fs::write(path, text)
            .with_context(|| format!("cannot write the script {}", path.display()))?;
        std::fs::set_permissions(path, Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// Runs the judge once. `more` are further arguments, which have no effect in the way
    /// [`PROCESS`]. With `reached`, the process that contains the provider writes the numbers of
    /// the executed mutants to this file.
    async fn run_judge(
        &self,
        asked: &JudgeRequest<'_>,
        more: &[&str],
        reached: Option<&Path>,
    ) -> anyhow::Result<JudgeRun> {
        let JudgeRequest { number, mode, way, ids, bounds } = *asked;
        // Runs with the same mutant and different checks may run at the same time, so each has a
        // separate directory.
        let of = if let [id] = ids { id } else { "all" };
        let out = self.dir.join(format!("out-{mode}-{way}-{number}-{of}"));
        let launcher = out.with_extension("sh");
        let mut command = Command::new("nice");
        command.arg(&self.judge).arg("run");
        if way == PROCESS {
            self.write_launcher(&launcher, number, reached)?;
            command.arg("--provider").arg(format!("ours-{mode}")).arg("--binary").arg(&launcher);
            command.args(["--no-calibration", "--longest", "61s"]);
        } else {
            command.args(["--no-cost", "--mode", mode, "--instances-mode", way]).args(more);
        }
        command.arg("--out").arg(&out).args(ids).env("MUTANT", number.to_string());
        command.current_dir(self.dir.join("tree")).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        if let Some(reached) = reached {
            command.env("MUTANTS_REACHED", reached);
        }
        // A run that was killed may have left its results there.
        let _ = std::fs::remove_dir_all(&out);
        let child = command.spawn().with_context(|| {
            format!("cannot start {}; run `mutants build` first", self.judge.display())
        })?;
        let ended = timeout(bounds.duration, read_output(child, bounds.silence)).await;
        let told = std::fs::read(out.join("results.json")).ok();
        // These files belong to this run only.
        let _ = std::fs::remove_dir_all(&out);
        let _ = std::fs::remove_file(&launcher);
        let results = told.map(|told| serde_json::from_slice(&told)).transpose()?;
        let (status, longest_silence) = match ended {
            Ok(read) => read.with_context(|| {
                format!("cannot read the output of {}; try again", self.judge.display())
            })?,
            Err(_) => (None, bounds.duration),
        };
        Ok(JudgeRun { status, results, longest_silence })
    }

    /// Runs the test programs that execute a mutant. Returns the first one that fails or takes
    /// longer than `limit`; `None` if all pass. `reached` has the mutants that each test program
    /// executes.
    pub(crate) async fn test(
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
            let name = program.file_stem().unwrap_or_default().to_string_lossy();
            let name = name.rsplit_once('-').map_or(&*name, |(name, _)| name);
            let package = package.file_name().unwrap_or_default().to_string_lossy();
            let Ok(status) = timeout(limit, async { command.spawn()?.wait().await }).await else {
                return Ok(Some(End::Test(format!("{package} {name} hung"))));
            };
            if !status?.success() {
                return Ok(Some(End::Test(format!("{package} {name}"))));
            }
        }
        Ok(None)
    }

    /// Returns the mutants that the tests execute, one set per test program. Fails if a test fails
    /// without a mutant.
    pub(crate) async fn tests_reach(&self) -> anyhow::Result<Vec<BTreeSet<u32>>> {
        let mut all = Vec::new();
        for (i, (package, program)) in self.tests.iter().enumerate() {
            let file = self.dir.join(format!("reached-test-{i}"));
            let _ = std::fs::remove_file(&file);
            let mut command = Command::new(program);
            command.current_dir(package).env("MUTANTS_REACHED", &file).env("INSTA_UPDATE", "no");
            command.env("CARGO_MANIFEST_DIR", package).stdout(Stdio::null()).stderr(Stdio::null());
            ensure!(
                command.status().await?.success(),
                "the tests of {} fail without a mutant; correct them first",
                program.display()
            );
            all.push(numbers(&file));
        }
        Ok(all)
    }
}

/// Reads the output of a program to its end. Returns the exit status and the longest time between
/// two lines. If the program prints nothing for as long as `silence`, kills it and returns no
/// status.
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

/// Returns the IDs of the checks with cases in a mode from the output of `conformance list`, whose
/// lines have the form `ID LEVEL vcenter 1, supervisor 2  TITLE`.
fn listed(mode: &str, table: &str) -> Vec<String> {
    let has_cases = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().skip(2).take(4).collect();
        // Titles come after the counts, and no title begins with the name of a mode and a number.
        let counts = words
            .chunks_exact(2)
            .take_while(|pair| pair[1].trim_end_matches(',').parse::<usize>().is_ok());
        counts.into_iter().any(|pair| pair[0] == mode)
    };
    let id = |line: &str| line.split_whitespace().next().map(str::to_owned);
    table.lines().filter(has_cases).filter_map(id).collect()
}

/// Returns every check of a `results.json` with its verdict.
fn verdicts(told: &serde_json::Value) -> anyhow::Result<Vec<(String, String)>> {
    let checks = told["checks"].as_array().context(
        "results.json has no list `checks`; build conformance from the sources of this program",
    )?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped()).kill_on_drop(true);
        command.spawn().unwrap()
    }

    #[test]
    fn a_mutant_is_judged_by_the_checks_that_execute_it() {
        let passed = |id: &str, numbers: &[u32], seconds| PassingCheck {
            id: id.to_owned(),
            reached: numbers.iter().copied().collect(),
            duration: Duration::from_secs(seconds),
            longest_silence: Duration::from_secs(seconds),
        };
        let baseline = Baseline {
            way: "auto",
            checks: vec![passed("A-001", &[1, 2], 40), passed("B-001", &[2], 30)],
        };
        let ids = |number| {
            let runs = baseline.checks_of(number);
            runs.into_iter().map(|(ids, _)| ids.join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(ids(2), ["B-001 A-001"]);
        let (_, bounds) = baseline.checks_of(2).remove(0);
        assert_eq!(bounds.duration, Duration::from_secs(210));
        assert_eq!(bounds.silence, Duration::from_secs(240));
        assert_eq!(ids(1), ["A-001"]);
        assert!(ids(3).is_empty());
    }

    #[test]
    fn the_quickest_checks_of_a_mutant_are_a_run_of_their_own() {
        let passed = |(id, seconds): (&str, u64)| PassingCheck {
            id: id.to_owned(),
            reached: BTreeSet::from([1]),
            duration: Duration::from_secs(seconds),
            longest_silence: Duration::ZERO,
        };
        let durations = [("A-001", 40), ("B-001", 9), ("C-001", 40), ("D-001", 11), ("E-001", 10)];
        let baseline = Baseline { way: "auto", checks: durations.map(passed).into() };
        let runs = baseline.checks_of(1);
        let ids: Vec<String> = runs.iter().map(|(ids, _)| ids.join(" ")).collect();
        assert_eq!(ids, ["B-001 E-001", "D-001 A-001 C-001"]);
        assert_eq!(runs[1].1.duration, Duration::from_secs(273));
    }

    #[test]
    fn the_checks_of_a_mode_are_those_with_cases_in_it() {
        let table = "\
A-001       MUST    vcenter 1, supervisor 12  A title
B-002       SHOULD  vcenter 2                 supervisor mode has none
C-003       MUST    supervisor 3              A title
";
        assert_eq!(listed("vcenter", table), ["A-001", "B-002"]);
        assert_eq!(listed("supervisor", table), ["A-001", "C-003"]);
    }

    #[tokio::test]
    async fn a_program_that_prints_nothing_is_killed() {
        let (status, _) =
            read_output(shell("echo 1; exec sleep 600"), Duration::from_millis(50)).await.unwrap();
        assert_eq!(status, None);
        let (status, longest) =
            read_output(shell("echo 1; exit 3"), Duration::from_secs(60)).await.unwrap();
        assert_eq!(status.unwrap().code(), Some(3));
        assert!(longest < Duration::from_secs(60));
    }
}
