//! `conformance run --provider`: judges a provider that runs as a process, container or pod.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cluster::Cluster;
use super::host::container;
use super::host::launch::Launcher;
use super::interruption::Interruptions;
use super::manifest::template::{self, Values};
use super::manifest::{Driver, builtin};
use super::{ApiServer, Calibration, Manifest, RealApiServer, Settings, Setup, Subject};
use super::{autoscaler, capacity};
use crate::catalogue::Requirement;
use crate::lab::Stage;
use crate::scenario::InputError;
use crate::suite::report::{self, About, Ledgers};
use crate::suite::{Conclusion, Filter};

/// Default number of parallel cases.
const JOBS: usize = 4;
/// Default of `--compress`.
const COMPRESS: u32 = 10;
/// Default of `--compress` for pods. The network of a cluster may lose a packet, and TCP sends the
/// first packet of a connection again after a second. At this pace that takes four seconds of world
/// time, less than the bounds of checks.
const COMPRESS_IN_PODS: u32 = 4;
/// Default of `--longest`.
const LONGEST: Duration = Duration::from_secs(300);
/// Default of `--retries`.
const RETRIES: u32 = 3;

/// Options for judging a provider that runs as a process, container or pod.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Provider to judge on the real clock: the file of a `kind: Provider` manifest, or a built-in
    /// manifest: ours-vcenter, ours-supervisor, stock-ccm, upstream-vcenter, upstream-paravirtual.
    #[arg(long, value_name = "FILE|NAME", conflicts_with = "mode")]
    pub provider: Option<String>,
    /// Definition of the machine templates that the reconciler of a `mode: capacity` manifest serves.
    #[arg(long, value_name = "FILE", requires = "provider")]
    pub template_crd: Option<String>,
    /// Program that replaces $(binary) in the manifest.
    #[arg(long, value_name = "PATH", requires = "provider")]
    pub binary: Option<PathBuf>,
    /// API server of the workload cluster. `real` takes etcd and kube-apiserver from the folder
    /// KUBEBUILDER_ASSETS, or builds them with Go.
    #[arg(long, value_enum, value_name = "SERVER", default_value_t, requires = "provider")]
    pub apiserver: ApiServer,
    /// Number of parallel cases, each with its own sim and provider [default: 4; 1 with --apiserver
    /// real].
    #[arg(long, value_name = "N", requires = "provider")]
    pub jobs: Option<usize>,
    /// Factor by which world time runs faster than the clock in cases without failures and
    /// elections; the provider's periods are shortened by it [default: 10; 4 for pods].
    #[arg(long, value_name = "K", requires = "provider")]
    pub compress: Option<u32>,
    /// Skips cases that take longer than this in real time.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = sim::world::duration::parse, requires = "provider")]
    pub longest: Duration,
    /// Maximum number of repetitions of a failed case; safety failures are not repeated.
    #[arg(long, value_name = "N", default_value_t = RETRIES, requires = "provider")]
    pub retries: u32,
    /// Skips the calibration, which measures the provider's delays before the checks.
    #[arg(long, requires = "provider")]
    pub no_calibration: bool,
}

impl Arguments {
    /// Returns the first flag with another value than the default one that concerns only providers
    /// that a run starts itself.
    fn only_for_processes(&self) -> Option<&'static str> {
        let Self { binary, apiserver, jobs, compress, longest, retries, no_calibration, .. } = self;
        [
            ("--binary", binary.is_some()),
            ("--apiserver", *apiserver != ApiServer::default()),
            ("--jobs", jobs.is_some()),
            ("--compress", compress.is_some()),
            ("--longest", *longest != LONGEST),
            ("--retries", *retries != RETRIES),
            ("--no-calibration", *no_calibration),
        ]
        .into_iter()
        .find_map(|(flag, is_set)| is_set.then_some(flag))
    }
}

/// Inputs from the environment of this process: the time, variables, and paths.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Current time.
    pub now: Timestamp,
    /// Environment variables.
    pub variables: BTreeMap<String, String>,
    /// Folder in which the binary `provider` is expected: that of the program `conformance`, or the
    /// parent of a test program's folder.
    pub beside: Option<PathBuf>,
    /// Path of this program itself, through which a [`Launcher`] starts other programs.
    pub launcher: PathBuf,
    /// Folder in which the run creates its scratch directory; the run removes the directory at its
    /// end.
    pub temporary: PathBuf,
}

/// Parameters of `conformance run --provider`.
#[derive(Debug)]
pub struct JudgeOptions<'a> {
    /// Selection of checks.
    pub filter: Filter,
    /// Seed of all random draws.
    pub seed: u64,
    /// Folder for the report; `None` to write no report.
    pub out: Option<&'a Path>,
    /// Arguments of the command line.
    pub arguments: &'a Arguments,
}

/// Judges the provider of a manifest, prints the results, and writes the report if the request
/// names a folder. Returns the exit code.
///
/// # Errors
/// Returns an [`InputError`] if an option or the manifest is invalid, or if something that the
/// manifest needs is missing. Returns an `Interruption` if a signal ended the run, and another
/// error if the harness fails.
pub fn run(
    out: &mut impl Write,
    request: &JudgeOptions<'_>,
    surroundings: &Surroundings,
) -> anyhow::Result<ExitCode> {
    let Arguments { provider, apiserver, compress, longest, retries, .. } = request.arguments;
    let jobs = jobs(request.arguments)?;
    for (option, value) in [("--jobs", Some(jobs)), ("--compress", compress.map(|it| it as usize))]
    {
        if value == Some(0) {
            return Err(InputError::wrong_flag(option, 0).remedy("write 1 or more").into());
        }
    }
    let name = provider.as_deref().unwrap_or_default();
    let unused_definition = || match &request.arguments.template_crd {
        None => Ok(()),
        Some(_) => {
            let needs = "needs a manifest with mode: capacity";
            let unused = InputError::invalid("--template-crd", needs).in_source(name);
            Err(unused.remedy("correct the manifest, or leave it out"))
        }
    };
    if let Some(manifest) = autoscaler::Manifest::load(name)? {
        unused_definition()?;
        if let Some(flag) = request.arguments.only_for_processes() {
            let unused = InputError::invalid(flag, "has no effect with a server at an address");
            return Err(unused.condition(format!("leave {flag} out")).into());
        }
        return autoscaler::run(out, request, &manifest);
    }
    if let Some(manifest) = capacity::Manifest::load(name)? {
        if let Some(flag) = request.arguments.only_for_processes() {
            let unused = InputError::invalid(flag, "has no effect with a reconciler of templates");
            return Err(unused.condition(format!("leave {flag} out")).into());
        }
        return capacity::run(out, request, &manifest, surroundings);
    }
    unused_definition()?;
    let mut setup = setup(name, request.arguments.binary.as_deref(), surroundings)?;
    if request.filter.checks(setup.manifest.spec.mode).is_empty() {
        let none =
            InputError::new(format!("no check of {} matches", setup.manifest.spec.mode.title()));
        return Err(none.remedy("`conformance list` shows the modes of each check").into());
    }
    if *apiserver == ApiServer::Real {
        setup.apiserver = Some(real()?);
    }
    let settings = Settings {
        seed: request.seed,
        jobs,
        compress: compress.unwrap_or(match setup.manifest.driver() {
            Driver::Cluster(_) => COMPRESS_IN_PODS,
            Driver::Process(_) | Driver::Container(_) => COMPRESS,
        }),
        longest: *longest,
        retries: *retries,
        now: surroundings.now,
    };
    with_setup(setup, async |setup, stop| work(out, request, setup, settings, stop).await)
}

/// Returns the number of parallel cases: `--jobs` (default: 4) with the built-in API server; always
/// 1 with a real one.
///
/// # Errors
/// Fails for another `--jobs` with a real API server.
fn jobs(arguments: &Arguments) -> Result<usize, InputError> {
    match (arguments.apiserver, arguments.jobs) {
        (ApiServer::Builtin, jobs) => Ok(jobs.unwrap_or(JOBS)),
        (ApiServer::Real, None | Some(1)) => Ok(1),
        (ApiServer::Real, Some(jobs)) => {
            let problem = "a real API server serves only one case at a time";
            Err(InputError::in_flag("--jobs", jobs, problem).remedy("leave --jobs out"))
        }
    }
}

/// Starts the real API server.
fn real() -> Result<RealApiServer, InputError> {
    RealApiServer::start().map_err(|error| {
        let remedy = "set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver, or install Go to have them built";
        InputError::in_flag("--apiserver", "real", format!("{error:#}")).remedy(remedy)
    })
}

/// Returns the set-up that all runs of one provider share. `name` is the name of a built-in
/// manifest or the path of a manifest. `binary` replaces `$(binary)` in the manifest; `None` stands
/// for the program `provider` in [`Surroundings::beside`] if the manifest is a built-in one of
/// ours.
///
/// # Errors
/// Returns an [`InputError`] if the manifest is invalid, or if it needs a program, an environment
/// variable or root rights that are missing. Returns another error if the harness fails.
pub fn setup(
    name: &str,
    binary: Option<&Path>,
    surroundings: &Surroundings,
) -> anyhow::Result<Setup> {
    let today = surroundings.now.to_zoned(TimeZone::UTC).date();
    let manifest = Manifest::load(name, today)?;
    let wanted = manifest.placeholders();
    let ours = surroundings.beside.as_deref().map(|it| it.join("provider"));
    let binary = match binary {
        Some(path) => Some(path.to_owned()),
        None if name.starts_with("ours-") => ours,
        None => None,
    };
    let binary = match binary {
        Some(path) if path.is_file() => Some(std::fs::canonicalize(path)?),
        Some(path) => {
            let wrong = InputError::in_flag("--binary", path.display(), "no file has this path");
            return Err(wrong.remedy("build it, or name another file").into());
        }
        None if wanted.contains("binary") => {
            let missing = InputError::missing().in_source(name);
            return Err(missing.remedy("add --binary PATH, the program to judge").into());
        }
        None => None,
    };
    let mut variables = BTreeMap::new();
    for (key, value) in &surroundings.variables {
        if ["PATH", "HOME", "TMPDIR"].contains(&key.as_str())
            || container::VARIABLES.contains(&key.as_str())
            || wanted.contains(&format!("env.{key}"))
        {
            variables.insert(key.clone(), value.clone());
        }
    }
    let missing = wanted.iter().filter_map(|it| template::variable(it));
    if let Some(missing) = missing.into_iter().find(|it| !variables.contains_key(*it)) {
        let unset = InputError::new(format!("{missing} is not set in the environment"));
        let unset = unset.in_source(name).at_key(format!("$(env.{missing})"));
        return Err(unset.remedy("set it").into());
    }
    if let Driver::Process(process) = manifest.driver()
        && process.is_mounted()
        && !rustix::process::geteuid().is_root()
    {
        let problem = "binds and hosts need a mount namespace, and that needs root";
        let denied = InputError::new(problem).in_source(name).at_key("spec.run.process");
        return Err(denied.remedy("run this as root").into());
    }
    let scratch = surroundings.temporary.join(format!("conformance-{}", std::process::id()));
    let launcher = Launcher::new(surroundings.launcher.clone())?;
    let cluster = cluster(&manifest, &launcher, surroundings)
        .map_err(|error| InputError::new(format!("{error:#}")).in_source(name))?;
    let (apiserver, tasks) = (None, TaskTracker::new());
    Ok(Setup { manifest, binary, apiserver, launcher, cluster, variables, tasks, scratch })
}

/// Returns the cluster that the manifest selects, or `None` if its driver is not `cluster`.
fn cluster(
    manifest: &Manifest,
    launcher: &Launcher,
    surroundings: &Surroundings,
) -> anyhow::Result<Option<Cluster>> {
    let Driver::Cluster(_) = manifest.driver() else { return Ok(None) };
    let environment = surroundings.variables.clone();
    let mut values: Values =
        environment.iter().map(|(name, value)| (format!("env.{name}"), value.clone())).collect();
    let directory = manifest.directory.as_ref().map(|it| it.display().to_string());
    values.insert("manifest.dir".to_owned(), directory.unwrap_or_default());
    let place = manifest.place(&values).map_err(|name| {
        anyhow!(
            "spec.run.cluster contains the placeholder $({name}), which has no value there; remove \
             it, or set the environment variable if it is of the form $(env.NAME)"
        )
    })?;
    Cluster::new(launcher.clone(), environment, &place).map(Some)
}

/// Prepares the driver, runs `work` and returns its result. SIGINT and SIGTERM cancel the token
/// that `work` gets; if `work` then fails, the error is the
/// [`Interruption`](super::interruption::Interruption). At the end, waits until every provider that
/// this program started has ended, and removes the scratch directory.
pub(super) fn with_setup<T>(
    setup: Setup,
    work: impl AsyncFnOnce(&Arc<Setup>, &CancellationToken) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let scratch = setup.scratch.clone();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let setup = Arc::new(setup);
        let stop = CancellationToken::new();
        let interruption = Arc::new(OnceLock::new());
        let (interrupted, first) = (stop.clone(), Arc::clone(&interruption));
        let mut signals = Interruptions::listen()?;
        setup.tasks.spawn(stop.clone().run_until_cancelled_owned(async move {
            let _ = first.set(signals.next().await);
            interrupted.cancel();
        }));
        let worked = match setup.ready().await {
            Ok(()) => work(&setup, &stop).await,
            Err(error) => {
                let wrong = InputError::new(format!("{error:#}"));
                Err(wrong.in_source(setup.manifest.name.as_str()).into())
            }
        };
        stop.cancel();
        setup.finish().await;
        // After a signal, every error is a consequence of it.
        match interruption.get() {
            Some(signal) if worked.is_err() => Err(anyhow::Error::from(*signal)),
            _ => worked,
        }
    });
    // Removes the directory because it contains credentials, although the worlds that accept them
    // have ended.
    let _ = std::fs::remove_dir_all(&scratch);
    done
}

async fn work(
    out: &mut impl Write,
    request: &JudgeOptions<'_>,
    setup: &Arc<Setup>,
    settings: Settings,
    stop: &CancellationToken,
) -> anyhow::Result<ExitCode> {
    let begin = tokio::time::Instant::now();
    let mut subject = Subject::new(Arc::clone(setup), settings);
    let manifest = &setup.manifest;
    let name = &manifest.name;
    let mut calibration = None;
    if !request.arguments.no_calibration {
        let measured = tokio::select! {
            biased;
            () = stop.cancelled() => anyhow::bail!(
                "interrupted by SIGINT or SIGTERM; the run is not complete, so play it again"
            ),
            measured = subject.calibrate() => measured?,
        };
        writeln!(out, "{name}: {}", measured.text(manifest.spec.mode))?;
        calibration = Some(measured);
    }
    let ledgers = request.out.map(Ledgers::begin).transpose()?.map(Arc::new);
    if let Some(ledgers) = &ledgers {
        subject.keep_ledgers(Arc::clone(ledgers));
    }
    let subject = Arc::new(subject);
    let checks = request.filter.checks(manifest.spec.mode);
    let conclusions = subject
        .judge(checks, stop, |conclusion| {
            write!(out, "{}", report::table(std::slice::from_ref(conclusion), true))?;
            Ok(out.flush()?)
        })
        .await?;
    let stage = Stage { seed: settings.seed, ..Stage::default() };
    for conclusion in conclusions.iter().filter(|it| it.verdict.is_run()) {
        if let Some(evidence) = conclusion.evidence(&stage) {
            writeln!(out, "\n{evidence}")?;
        }
    }
    if let Some(dir) = request.out {
        let about = about(setup, settings, calibration.as_ref());
        report::write(dir, &about, &stage, &conclusions, &[])?;
        ledgers.map_or(Ok(()), |ledgers| ledgers.join())?;
    }
    let tally = report::Tally::count(&conclusions);
    writeln!(
        out,
        "{name}: {tally}; seed {}, {} of wall time",
        settings.seed,
        report::seconds(begin.elapsed())
    )?;
    Ok(ExitCode::from(code(&conclusions)))
}

/// Describes the provider and the circumstances of the run for the reports.
fn about(setup: &Setup, settings: Settings, calibration: Option<&Calibration>) -> About {
    let Setup { manifest, .. } = setup;
    let (driver, k) = (manifest.driver(), settings.compress);
    let provider = serde_json::json!({
        "name": manifest.name,
        "implementation": manifest.spec.implementation,
        "mode": manifest.spec.mode,
        "manifest": manifest.origin,
        "driver": driver.name(),
        "apiserver": setup.apiserver().to_string(),
        "program": driver.program(),
        "command": driver.arguments().1,
        "features": manifest.spec.features,
        "calibration": calibration,
    });
    About {
        seed: settings.seed,
        stage: match setup.apiserver() {
            ApiServer::Builtin => format!("{}, real clock", driver.name()),
            real => format!("{}, real clock, {}", driver.name(), real.environment()),
        },
        time: format!("compressed x{k}; x1 where something fails or a leader is elected"),
        provider: Some(provider),
        kube: setup.apiserver().environment(),
    }
}

/// Returns the exit code, the first that applies: 1 if a required check failed, 3 for a harness
/// error, 5 for a flaky check, 7 for an inconclusive check or if no check was run, else 0.
pub(super) fn code(conclusions: &[Conclusion]) -> u8 {
    let is = |word: &str| conclusions.iter().any(|it| it.verdict.word() == word);
    let failed =
        |it: &Conclusion| it.verdict.word() == "FAIL" && it.requirement == Requirement::Must;
    if conclusions.iter().any(failed) {
        1
    } else if is("harness-error") {
        3
    } else if is("flaky") {
        5
    } else if is("inconclusive") || conclusions.iter().all(|it| !it.verdict.is_run()) {
        7
    } else {
        0
    }
}

/// Returns the names of the built-in manifests, for help texts and tests.
pub fn built_in() -> Vec<&'static str> {
    builtin::names().collect()
}
