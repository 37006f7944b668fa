//! `conformance cost --provider` and `--ledger`: judges which calls of any provider were needed.
//! The provider plays a life with fleets of several sizes, or a ledger contains its calls.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use sim::Class;
use sim::ledger::Record;
use tokio_util::sync::CancellationToken;

use super::command::{Surroundings, setup, with_setup};
use super::run::Life;
use super::{Settings, Setup, Subject};
use crate::cost::calls::{self, CallReport, Part};
use crate::judge::facts;
use crate::lab::LabEvent;
use crate::scenario::{InputError, ProviderSetup};

/// Maximum number of nodes in a fleet, because sim and provider share this computer.
const MOST_NODES: u32 = 500;
/// Minimum number of nodes in a fleet, because in the life some nodes become NotReady, one is
/// deleted, and some change.
const LEAST_NODES: u32 = 2;

/// Selection of the calls to judge: a provider that makes them, or a ledger that contains them.
#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// Provider to run, whose calls are marked: a `kind: Provider` manifest, or ours-vcenter,
    /// ours-supervisor, stock-ccm, upstream-vcenter, upstream-paravirtual.
    #[arg(long, value_name = "FILE|NAME", conflicts_with_all = ["write", "operations"])]
    pub provider: Option<String>,
    /// Program that replaces $(binary) in the manifest.
    #[arg(long, value_name = "PATH", requires = "provider")]
    pub binary: Option<PathBuf>,
    /// Ledger whose calls are marked: a ledger.jsonl of `sim serve`, `sim ledger` or `conformance
    /// run --out`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["provider", "write", "operations"])]
    pub ledger: Option<PathBuf>,
    /// Fleet sizes, at least two [default: 10,30]; with --ledger, the number of nodes in the
    /// ledger.
    #[arg(long, value_name = "N[,N…]", value_delimiter = ',')]
    pub nodes: Vec<u32>,
    /// Factor by which world time runs faster than the clock; the provider's periods are shortened
    /// by it.
    #[arg(long, value_name = "K", default_value_t = 10, requires = "provider")]
    pub compress: u32,
    /// Seed of all random draws and identifiers.
    #[arg(long, default_value_t = 0, requires = "provider")]
    pub seed: u64,
    /// With --provider or --ledger: directory for cost.json, cost.md and the mark of each call;
    /// with --provider also for one ledger per fleet size.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Judges the calls of a provider or of a ledger, and prints the result.
///
/// # Errors
/// Returns an [`InputError`], or an error of the harness.
pub fn run(
    out: &mut impl Write,
    arguments: &Arguments,
    surroundings: &Surroundings,
) -> anyhow::Result<ExitCode> {
    match (&arguments.provider, &arguments.ledger) {
        (Some(provider), _) => played(out, provider, arguments, surroundings),
        (None, Some(ledger)) => captured(out, ledger, arguments),
        (None, None) => {
            let what = if arguments.out.is_some() { "--out" } else { "--nodes" };
            let missing = InputError::new("no provider and no ledger to judge").in_source(what);
            Err(missing.remedy("name a provider with --provider or a ledger with --ledger").into())
        }
    }
}

/// True if the arguments have `--provider` or `--ledger`, or an option that needs one of them.
pub fn is_asked(arguments: &Arguments) -> bool {
    let Arguments { provider, ledger, nodes, out, .. } = arguments;
    provider.is_some() || ledger.is_some() || !nodes.is_empty() || out.is_some()
}

/// Judges the calls in the ledger at `path`.
fn captured(out: &mut impl Write, path: &Path, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let nodes = match arguments.nodes.as_slice() {
        [] => None,
        [0] => {
            let zero = InputError::wrong_flag("--nodes", 0);
            return Err(zero.remedy("write the number of nodes in the ledger").into());
        }
        [n] => Some(*n),
        _ => {
            let list: Vec<String> = arguments.nodes.iter().map(u32::to_string).collect();
            let problem = "--ledger permits only one number";
            let several = InputError::in_flag("--nodes", list.join(","), problem);
            return Err(several.remedy("write the number of nodes in the ledger").into());
        }
    };
    let name = path.display();
    let records = crate::lab::ledger_file::records(path)?;
    arguments.out.as_deref().map_or(Ok(()), crate::suite::report::prepare)?;
    let bill = CallReport::of_ledger(&name.to_string(), nodes, &records);
    if bill.calls.is_empty() {
        let empty = InputError::in_flag("--ledger", name, "contains no call");
        return Err(empty.remedy("capture a ledger with calls").into());
    }
    write!(out, "{}", bill.text())?;
    if records.iter().all(|it| it.ended.as_ref().is_none_or(|it| it.digest.is_none())) {
        writeln!(
            out,
            "no record has a digest of its answer (ended.digest), so re-reads cannot be detected: capture the ledger with this version of sim"
        )?;
    }
    save(arguments.out.as_deref(), &bill)?;
    if let Some(dir) = &arguments.out {
        write(dir, "marks.jsonl", &marked(&records)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Plays a life with the provider for each fleet size, and judges the provider's calls.
fn played(
    out: &mut impl Write,
    provider: &str,
    arguments: &Arguments,
    surroundings: &Surroundings,
) -> anyhow::Result<ExitCode> {
    let sizes = sizes(&arguments.nodes)?;
    if arguments.compress == 0 {
        return Err(InputError::wrong_flag("--compress", 0).remedy("write 1 or more").into());
    }
    arguments.out.as_deref().map_or(Ok(()), crate::suite::report::prepare)?;
    let setup = setup(provider, arguments.binary.as_deref(), surroundings)?;
    let settings = Settings {
        seed: arguments.seed,
        jobs: sizes.len(),
        compress: arguments.compress,
        longest: Duration::MAX,
        retries: 0,
        now: surroundings.now,
    };
    with_setup(setup, async |setup, stop| {
        let lives = lives(setup, settings, &sizes, stop).await?;
        let parts: Vec<Part<'_>> = lives
            .iter()
            .map(|it| Part { nodes: Some(it.nodes), records: &it.run.ledger })
            .collect();
        let period = ProviderSetup::default().status_period.as_secs();
        let period = u32::try_from(period).unwrap_or(u32::MAX);
        let bill = CallReport::of_phases(&setup.manifest.name, period, &parts);
        write!(out, "{}", bill.text())?;
        for doubt in lives.iter().flat_map(doubts) {
            writeln!(out, "{doubt}")?;
        }
        save(arguments.out.as_deref(), &bill)?;
        if let Some(dir) = &arguments.out {
            for Life { nodes, run, .. } in &lives {
                let lines: String = run.ledger.iter().map(|it| it.to_line() + "\n").collect();
                write(dir, &format!("ledger-{nodes}.jsonl"), &lines)?;
                write(dir, &format!("marks-{nodes}.jsonl"), &marked(&run.ledger)?)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Plays the lives of all fleet sizes at the same time, because they wait more than they compute.
///
/// # Errors
/// Fails if a life cannot be played, or if `stop` is canceled.
async fn lives(
    setup: &Arc<Setup>,
    settings: Settings,
    sizes: &[u32],
    stop: &CancellationToken,
) -> anyhow::Result<Vec<Life>> {
    let subject = Subject::new(Arc::clone(setup), settings);
    let all = futures::future::try_join_all(sizes.iter().map(|n| subject.live_with(*n)));
    tokio::select! {
        biased;
        () = stop.cancelled() => anyhow::bail!(
            "interrupted by SIGINT or SIGTERM; the run is not complete, so play it again"
        ),
        lives = all => lives,
    }
}

/// Returns the reasons why the figures of a life may be wrong, as lines for the report.
fn doubts(life: &Life) -> Vec<String> {
    let mut doubts = Vec::new();
    let n = life.nodes;
    if let Some(late) = life.late {
        doubts.push(format!("N={n}: {late}; the counts may be wrong, try again"));
    }
    let nodes = sim::world::objects::GroupResource::core("nodes");
    let left = life.run.end.cluster.all(&nodes).filter(|it| facts(it).uninitialized).count();
    if left > 0 {
        doubts.push(format!(
            "N={n}: {left} nodes were never initialized; a join costs more than this report says"
        ));
    }
    let joined: BTreeSet<&str> = life
        .run
        .calls_in("join")
        .filter(|it| it.is_cluster_call() && it.class == Some(Class::Write))
        .filter(|it| it.target.kind.as_deref() == Some("Node"))
        .filter_map(|it| it.target.name.as_deref())
        .collect();
    if joined.len() < n as usize {
        let joined = joined.len();
        doubts.push(format!("N={n}: the provider wrote only {joined} nodes in the phase join; a join costs more than this report says"));
    }
    for it in &life.run.happened {
        if let LabEvent::Refused(_) | LabEvent::EndedByItself(..) = it.what {
            doubts.push(format!("N={n}: at {}: {}", it.at, it.what));
        }
    }
    doubts
}

/// Returns the fleet sizes to play, sorted and without duplicates, or the default sizes if `wanted`
/// is empty. At least two sizes are needed, so that a line can be fitted.
///
/// # Errors
/// Fails for a single size, or for one below 2 or above 500.
fn sizes(wanted: &[u32]) -> Result<Vec<u32>, InputError> {
    if wanted.is_empty() {
        return Ok(calls::SIZES.to_vec());
    }
    let mut sizes = wanted.to_vec();
    sizes.sort_unstable();
    sizes.dedup();
    if let Some(n) = sizes.iter().find(|n| !(LEAST_NODES..=MOST_NODES).contains(*n)) {
        let remedy = format!("write sizes from {LEAST_NODES} to {MOST_NODES}");
        return Err(InputError::wrong_flag("--nodes", n).remedy(remedy));
    }
    match sizes.as_slice() {
        [n] => {
            let remedy = format!("write at least two, such as {n},{}", n + 20);
            Err(InputError::in_flag("--nodes", n, "one size gives no slope").remedy(remedy))
        }
        _ => Ok(sizes),
    }
}

fn save(dir: Option<&Path>, bill: &CallReport) -> anyhow::Result<()> {
    let Some(dir) = dir else { return Ok(()) };
    write(dir, "cost.json", &(serde_json::to_string_pretty(bill)? + "\n"))?;
    write(dir, "cost.md", &bill.markdown())
}

/// Returns the marks of the calls as JSON lines, in the order of the ledger. A mark says whether a
/// call was needed, and what triggered it.
fn marked(records: &[Record]) -> anyhow::Result<String> {
    let mut lines = String::new();
    for mark in calls::marks(records) {
        lines.push_str(&serde_json::to_string(&mark)?);
        lines.push('\n');
    }
    Ok(lines)
}

fn write(dir: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| {
        format!("cannot write {}; choose a writable folder with --out", path.display())
    })
}
