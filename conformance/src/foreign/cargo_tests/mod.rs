//! Runs the catalogue as named tests in a vendor's repository: one per check, under plain `cargo
//! test`.
//!
//! The vendor's repository needs only a test target with `harness = false`:
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     conformance::foreign::Tests::new("provider.yaml").baseline("baseline.yaml").main()
//! }
//! ```
//!
//! The test program starts itself again to become the provider (see [`crate::foreign::launch`]).

pub(super) mod baseline;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::command::{self, Surroundings};
use super::host::launch::{self, SUBCOMMAND};
use super::{Settings, Subject};
use crate::catalogue::CheckId;
use crate::checks::{self, Check};
use crate::lab::Stage;
use crate::scenario::InputError;
use crate::suite::{Conclusion, Filter};
use baseline::{Baseline, ObservedResult};

/// Default of the maximum real time of a case under `cargo test`; longer cases are skipped.
const LONGEST: Duration = Duration::from_secs(120);

/// Tests of a provider, one per check.
#[derive(Clone, Debug)]
pub struct Tests {
    provider: String,
    binary: Option<PathBuf>,
    baseline: Option<PathBuf>,
    filter: Filter,
    longest: Duration,
}

impl Tests {
    /// Creates the tests of a provider. `provider` is the path of its manifest or the name of a
    /// built-in manifest. The environment variable `PROVIDER_BINARY` names the program for
    /// `$(binary)`. If `UPDATE_BASELINE` is set and a baseline is named, the tests record their
    /// results in the baseline and do not compare them. An empty variable counts as not set.
    pub fn new(provider: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            binary: None,
            baseline: None,
            filter: Filter { ids: Vec::new(), surfaces: Vec::new() },
            longest: LONGEST,
        }
    }

    /// Sets the program for `$(binary)` in the manifest, which takes precedence over
    /// `PROVIDER_BINARY`.
    #[must_use]
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = Some(binary.into());
        self
    }

    /// Selects checks by ID or prefix of an ID (default: all).
    #[must_use]
    pub fn checks<S: Into<String>>(mut self, ids: impl IntoIterator<Item = S>) -> Self {
        self.filter.ids = ids.into_iter().map(Into::into).collect();
        self
    }

    /// Compares the results with the baseline in this file. Without a baseline, every case that is
    /// played must pass, or show that the provider lacks a feature or right that the check needs.
    #[must_use]
    pub fn baseline(mut self, path: impl Into<PathBuf>) -> Self {
        self.baseline = Some(path.into());
        self
    }

    /// Skips cases that take longer than this in real time (default: 2 minutes).
    #[must_use]
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Runs the tests with this program's arguments, which are those of `cargo test`.
    ///
    /// Exit codes: 0 all tests passed; 2 the manifest or the baseline is invalid, or something that
    /// the manifest needs is missing; 3 the harness failed outside of a test; 101 a test failed.
    pub fn main(self) -> ExitCode {
        if let Some(code) = run_as_launcher() {
            return code;
        }
        match self.run() {
            Ok(code) => code,
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "error: {error:#}");
                ExitCode::from(if error.is::<InputError>() { 2 } else { 3 })
            }
        }
    }

    fn run(self) -> anyhow::Result<ExitCode> {
        let mut arguments = Arguments::from_args();
        let variable = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty());
        let binary = self.binary.clone().or_else(|| variable("PROVIDER_BINARY").map(PathBuf::from));
        let update = variable("UPDATE_BASELINE").is_some();
        self.filter.validate()?;
        let baseline = self.read_baseline(update)?;
        let surroundings = surroundings()?;
        let setup = command::setup(&self.provider, binary.as_deref(), &surroundings)?;
        let jobs = arguments.test_threads.unwrap_or(4);
        arguments.test_threads = Some(jobs);
        let settings = Settings {
            seed: 0,
            jobs,
            compress: 10,
            longest: self.longest,
            retries: 1,
            now: surroundings.now,
        };
        let setup = Arc::new(setup);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let _inside = runtime.enter();
        if !arguments.list {
            let name = &setup.manifest.name;
            runtime
                .block_on(setup.ready())
                .map_err(|error| InputError::new(format!("{error:#}")).in_source(name.as_str()))?;
        }
        let subject = Arc::new(Subject::new(Arc::clone(&setup), settings));
        let seen = Arc::<Mutex<BTreeMap<CheckId, ObservedResult>>>::default();
        let mode = setup.manifest.spec.mode;
        let wanted = checks::all(mode).into_iter().filter(|check| self.filter.selects(check.id));
        let trials = wanted.map(|check| {
            // With a baseline no check is ignored, because a check that the baseline records as
            // skipped may be playable now.
            let is_ignored = baseline.is_none() && !subject.plays(&check);
            let trial = CheckTest {
                subject: Arc::clone(&subject),
                baseline: baseline.clone(),
                seen: Arc::clone(&seen),
                update,
                runtime: runtime.handle().clone(),
            };
            Trial::test(check.id.as_str(), move || trial.judge(check)).with_ignored_flag(is_ignored)
        });
        let trials: Vec<Trial> = trials.collect();
        let conclusion = libtest_mimic::run(&arguments, trials);
        drop(subject);
        runtime.block_on(setup.finish());
        // A directory that cannot be removed is not a failure of the provider.
        let _ = std::fs::remove_dir_all(&setup.scratch);
        if update && let Some(mut baseline) = baseline {
            baseline.update(&seen.lock().expect("no holder panics"));
            std::fs::write(&baseline.path, baseline.text())?;
            writeln!(std::io::stdout(), "recorded the results in {}", baseline.path.display())?;
        }
        Ok(conclusion.exit_code())
    }

    /// Returns the baseline, if a file is set; an empty one if `update` will make the file.
    fn read_baseline(&self, update: bool) -> anyhow::Result<Option<Baseline>> {
        let Some(path) = &self.baseline else { return Ok(None) };
        if update && !path.exists() {
            return Ok(Some(Baseline::empty(path)));
        }
        Ok(Some(Baseline::load(path)?))
    }
}

/// The test of one check.
struct CheckTest {
    subject: Arc<Subject>,
    baseline: Option<Baseline>,
    seen: Arc<Mutex<BTreeMap<CheckId, ObservedResult>>>,
    update: bool,
    runtime: Handle,
}

impl CheckTest {
    fn judge(&self, check: Check) -> Result<(), Failed> {
        let id = check.id;
        let never = CancellationToken::new();
        let judged = self.subject.judge(vec![check], &never, |_| Ok(()));
        let conclusions = self.runtime.block_on(judged).map_err(|it| format!("{it:#}"))?;
        let Some(conclusion) = conclusions.first() else { return Ok(()) };
        let Some(baseline) = &self.baseline else { return passed(conclusion) };
        let seen = ObservedResult::from_conclusion(conclusion)
            .map_err(|why| format!("{id}: the harness failed, not the provider: {why}"))?;
        if self.update {
            self.seen.lock().expect("no holder panics").insert(id, seen);
            return Ok(());
        }
        baseline.judge(id, &seen).map_err(|what| {
            let evidence = conclusion.evidence(&Stage::default()).unwrap_or_default();
            Failed::from(format!("{what}\n{evidence}"))
        })
    }
}

fn passed(conclusion: &Conclusion) -> Result<(), Failed> {
    let is_run = conclusion.verdict.is_run();
    match conclusion.evidence(&Stage::default()).filter(|_| is_run) {
        None => Ok(()),
        Some(evidence) => Err(Failed::from(evidence)),
    }
}

/// Replaces this process by a provider if the driver has started this process to become one. Then
/// this function returns only if the replacement fails, with an exit code. In every other process
/// it returns `None`. [`Tests::main`] calls this function first. A test program that does other
/// work must call this function before that work.
pub fn run_as_launcher() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let is_launch = arguments.next().is_some_and(|it| it == SUBCOMMAND);
    let parent = arguments.next()?.to_str()?.parse().ok().filter(|_| is_launch)?;
    let command: Vec<OsString> = arguments.skip_while(|it| it == "--").collect();
    let failed = launch::become_program(parent, &command).err()?;
    let _ = writeln!(std::io::stderr(), "error: {failed:#}");
    Some(ExitCode::from(3))
}

fn surroundings() -> anyhow::Result<Surroundings> {
    #[expect(clippy::disallowed_methods, reason = "the wall time at which the tests begin")]
    let now = jiff::Timestamp::now();
    let program = std::env::current_exe()?;
    Ok(Surroundings {
        now,
        variables: std::env::vars().collect(),
        // Test programs are one folder below other programs.
        beside: program.ancestors().nth(2).map(Path::to_owned),
        launcher: program,
        temporary: std::env::temp_dir(),
    })
}
