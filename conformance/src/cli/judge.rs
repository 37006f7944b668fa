//! `conformance judge`: judges a provider by the files that a simulator recorded while a provider
//! used it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use jiff::Timestamp;
use sim::ledger::Kind;

use crate::catalogue::{Class, Surface};
use crate::judge::{self, Invariant, Violation};
use crate::lab::ledger_file::OneLedger;
use crate::lab::secrets::SHORTEST;
use crate::lab::{RecordedRun, Run};
use crate::scenario::{Backend, InputError, ProviderSetup};

/// Arguments of `conformance judge`.
#[derive(Parser)]
pub(super) struct Arguments {
    /// File of `sim serve --record`.
    #[arg(long, value_name = "FILE")]
    record: PathBuf,
    /// File of `sim serve --ledger`, of the same simulator.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
    /// Log of the provider, to be searched for secrets.
    #[arg(long, value_name = "FILE")]
    provider_log: Option<PathBuf>,
    /// File with a secret that no log, event or ledger may contain, such as a token; repeatable.
    /// The recording already contains the passwords and sessions of each vCenter.
    #[arg(long, value_name = "FILE")]
    secret: Vec<PathBuf>,
    /// Mode of the provider: vcenter or supervisor.
    #[arg(long)]
    mode: Backend,
    /// Beginning of the user agent of a client that is not the provider; repeatable. kubectl, curl,
    /// govc and Python-urllib never count as the provider.
    #[arg(long, value_name = "PREFIX")]
    other_client: Vec<String>,
    /// Number of replicas of the provider that run at the same time; each may have its own
    /// sessions.
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// Wall-clock time at which a replica started, such as 2026-01-01T00:00:00Z; repeatable. A
    /// start justifies logins.
    #[arg(long, value_name = "TIME")]
    start: Vec<Timestamp>,
    /// States that the provider was killed or still runs, so that its sessions may stay open.
    #[arg(long)]
    killed: bool,
    /// States that the provider still ran at the end of the recording and had time to set
    /// everything right; also checks the invariants for the end of a run.
    #[arg(long)]
    settled: bool,
    /// `--node-monitor-period` of the provider, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    monitor_period: u64,
    /// States that the operator has switched the deletion of Nodes off (SKIP_NODE_DELETION).
    #[arg(long)]
    skip_deletion: bool,
    /// States that the provider is configured without zones.
    #[arg(long)]
    no_zones: bool,
    /// Fails on broken policies, too, which go beyond the contract of cloud providers.
    #[arg(long)]
    policies: bool,
    /// Number of an invariant that may be broken, and the reason; repeatable.
    #[arg(long, value_name = "N=REASON", value_parser = exemption)]
    exempt: Vec<(Invariant, String)>,
}

/// Maximum time from the last record before a gap in the ledger to the end of an unfinished
/// recording. If more time passed, or if the recording is finished, the gap is an error.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Beginnings of the user agents of clients that people use beside a provider.
const OTHERS: [&str; 4] = ["kubectl", "curl", "govc", "Python-urllib"];

fn exemption(text: &str) -> Result<(Invariant, String), String> {
    let wrong = "expected NUMBER=REASON with the number of an invariant, such as 25=the zone is \
                 moved by hand";
    let (number, reason) = text.split_once('=').ok_or(wrong)?;
    let number: u8 = number.parse().map_err(|_| wrong)?;
    if reason.trim().is_empty() {
        return Err(wrong.to_owned());
    }
    Ok((Invariant::try_from(number)?, reason.to_owned()))
}

/// Judges the recording and prints the result. Returns exit code 7, without judging an invariant,
/// if the provider made no call for machines; else 1 if an invariant is broken; else 0. A broken
/// invariant does not count if it is exempt, or if it is a policy and `--policies` is not given.
pub(super) fn run(out: &mut impl Write, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let recorded = recorded(arguments)?;
    let (path, has_ended) = (arguments.record.display(), recorded.recording.has_ended);
    let run = recorded.into_run().map_err(|wrong| wrong.in_source(format!("--record {path}")))?;
    let n_events = run.log.entries().count();
    let (n_cluster, n_backend) = (of_cluster(&run), of_backend(&run));
    writeln!(out, "{path}: {n_events} events until {}", run.end_time())?;
    writeln!(
        out,
        "calls of the provider: {n_cluster} to the cluster, {n_backend} for machines ({} mode)",
        run.backend().name()
    )?;
    if !has_ended {
        writeln!(out, "the simulator still runs or was killed; later events are not judged")?;
    }
    if n_backend == 0 {
        let ledger = arguments.ledger.display();
        writeln!(out, "inconclusive: {ledger} has no call of the provider about machines")?;
        return Ok(ExitCode::from(7));
    }
    let mut found = judge::safety(&run);
    if arguments.settled {
        found.extend(judge::liveness(&run));
    }
    let excluded = excluded(arguments, &run);
    let is_judged = |it: &Invariant| !excluded.iter().any(|(out, _)| out == it);
    // A found secret counts even if not every place could be searched.
    found.retain(|it| it.invariant == Invariant::NoSecretTold || is_judged(&it.invariant));
    let judged: Vec<Invariant> = Invariant::ALL.iter().copied().filter(is_judged).collect();
    tell(out, arguments, &judged, &found, &excluded)
}

/// Returns the number of calls of the provider to the workload cluster.
fn of_cluster(run: &Run) -> usize {
    run.calls().filter(|call| call.is_cluster_call()).count()
}

/// Returns the number of calls of the provider to the vCenters or the Supervisor.
fn of_backend(run: &Run) -> usize {
    run.calls().filter(|call| run.backend().receives(call)).count()
}

/// Reads the recording, the ledger and the other files that the arguments name.
///
/// # Errors
/// Returns a message for the user if a file cannot be read, if its content cannot be used, if
/// ledger and recording are of different simulators, or if the ledger lacks a record.
fn recorded(arguments: &Arguments) -> Result<RecordedRun, InputError> {
    let (path, ledger_path) = (arguments.record.display(), arguments.ledger.display());
    let unusable = |error: String| {
        let remedy = "name a file of `sim serve --record`";
        InputError::in_flag("--record", &path, error).remedy(remedy)
    };
    let wrong_ledger = |problem: String| InputError::in_flag("--ledger", &ledger_path, problem);
    let file = File::open(&arguments.record).map_err(|error| unusable(error.to_string()))?;
    let recording = sim::read_recording(BufReader::new(file));
    let recording = recording.map_err(|error| unusable(error.to_string()))?;
    let OneLedger { records: ledger, gap } = crate::lab::ledger_file::read_one(&arguments.ledger)?;
    let note = recording.log.base().map(sim::Recording::note).unwrap_or_default();
    if !ledger.iter().any(|record| record.kind == Kind::Note && record.op == note) {
        let other =
            wrong_ledger(format!("another simulator than that of {path} wrote this ledger"));
        return Err(other.remedy("name the two files of one `sim serve`"));
    }
    let recording = match gap {
        None => recording,
        // A sim writes a call when it ends, or after a second. So the last calls may not be written
        // yet, or were lost when the sim was killed.
        Some((_, at)) if !recording.has_ended && recording.until.since(at) < AT_ONCE => {
            recording.cut(at)
        }
        Some((missing, _)) => {
            let remedy = "name a file of `sim serve --ledger`, which has every record";
            return Err(wrong_ledger(format!("record {missing} is missing")).remedy(remedy));
        }
    };
    let is_other = |agent: &str| {
        let mut others = arguments.other_client.iter().map(String::as_str).chain(OTHERS);
        others.any(|it| agent.starts_with(it))
    };
    let (of_others, ledger) = ledger.into_iter().partition(|it| is_other(&it.client.user_agent));
    let provider_log = match &arguments.provider_log {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            InputError::in_flag("--provider-log", path.display(), error.to_string())
                .remedy("name the log of the provider")
        })?,
    };
    let tokens = arguments.secret.iter().map(|path| secret(path)).collect::<Result<_, _>>()?;
    Ok(RecordedRun {
        recording,
        ledger,
        of_others,
        provider_log,
        tokens,
        mode: arguments.mode.into(),
        provider: ProviderSetup {
            replicas: arguments.replicas,
            zones: !arguments.no_zones,
            skip_deletion: arguments.skip_deletion,
            monitor_period: Duration::from_secs(arguments.monitor_period),
            ..ProviderSetup::default()
        },
        starts: arguments.start.clone(),
        killed: arguments.killed,
    })
}

/// Returns the secret in a file, without the whitespace around it. Fails if the file cannot be read
/// or is empty, or if the secret has fewer than [`SHORTEST`] bytes.
fn secret(path: &Path) -> Result<String, InputError> {
    let unusable = |why: String| {
        let remedy = "name a file with a token";
        InputError::in_flag("--secret", path.display(), why).remedy(remedy)
    };
    let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    match text.trim() {
        "" => Err(unusable("the file is empty".to_owned())),
        token if token.len() < SHORTEST => Err(unusable(format!(
            "the secret has less than {SHORTEST} bytes, so a search would match other text"
        ))),
        token => Ok(token.to_owned()),
    }
}

/// Returns the invariants that are not judged, each with the reason: the files cannot show the
/// invariant, or show only a part of it, or an argument is given or missing.
fn excluded(arguments: &Arguments, run: &Run) -> Vec<(Invariant, &'static str)> {
    let has_cluster_calls = of_cluster(run) > 0;
    let is_supervisor = !run.backend().is_vcenter();
    let why = |it: Invariant| match it {
        Invariant::MetricsAreTrue => Some("the files contain no metrics"),
        Invariant::NoPanic => Some("the files do not show how the provider ended"),
        Invariant::RetryAfter => Some("the files do not have the fault rules"),
        Invariant::OnlyLeaderWrites => Some("the simulator cannot tell replicas apart"),
        Invariant::OptOutIsAbsolute if !arguments.skip_deletion => Some("deletion is switched on"),
        Invariant::NoTagsWhenOff if run.scenario.provider.zones => Some("zones are configured"),
        Invariant::NoSessionLeft if arguments.killed => Some("--killed is given"),
        Invariant::NoSessionLeft if arguments.settled => Some("--settled is given"),
        Invariant::NoSecretTold if is_supervisor && arguments.secret.is_empty() => {
            Some("--secret is not given, and the token of a Supervisor is in no recording")
        }
        Invariant::NoSecretTold if arguments.provider_log.is_none() => {
            Some("--provider-log is not given (events and ledger were searched)")
        }
        _ if it.class() == Class::Liveness && !arguments.settled => Some("--settled is not given"),
        _ if matches!(it.surface(), Surface::Node | Surface::Zone) && !has_cluster_calls => {
            Some("the provider makes no call to this cluster; its Nodes are in another one")
        }
        _ if it.surface() == Surface::Session && is_supervisor => {
            Some("the provider makes no call to a vCenter")
        }
        _ => None,
    };
    Invariant::ALL.iter().filter_map(|it| Some((*it, why(*it)?))).collect()
}

/// Prints the violations, and the invariants that were not judged. Returns exit code 1 if a
/// violation counts, else 0.
fn tell(
    out: &mut impl Write,
    arguments: &Arguments,
    judged: &[Invariant],
    found: &[Violation],
    excluded: &[(Invariant, &str)],
) -> anyhow::Result<ExitCode> {
    let mut is_broken = false;
    for violation in found {
        let invariant = violation.invariant;
        let exempt = arguments.exempt.iter().find(|(it, _)| *it == invariant);
        match exempt {
            Some((_, reason)) => writeln!(out, "exempt: {violation} ({reason})")?,
            None if invariant.is_policy() && !arguments.policies => {
                writeln!(out, "policy: {violation}")?;
            }
            None => {
                is_broken = true;
                writeln!(out, "FAIL {violation}")?;
                writeln!(out, "     {}", invariant.title())?;
            }
        }
    }
    let broken: BTreeSet<Invariant> = found.iter().map(|it| it.invariant).collect();
    for (invariant, _) in arguments.exempt.iter().filter(|(it, _)| !broken.contains(it)) {
        writeln!(out, "{invariant} is exempt and not broken: remove --exempt")?;
    }
    for (reason, of_reason) in by_reason(excluded) {
        let numbers: Vec<String> = of_reason.iter().map(|it| it.number().to_string()).collect();
        writeln!(out, "not judged, because {reason}: {}", numbers.join(", "))?;
    }
    let n_held = judged.iter().filter(|it| !broken.contains(it)).count();
    writeln!(out, "{n_held} of {} judged invariants held", judged.len())?;
    Ok(if is_broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Groups by their reasons the invariants that are not judged. The groups are in the order of their
/// first invariants.
fn by_reason<'a>(excluded: &[(Invariant, &'a str)]) -> Vec<(&'a str, Vec<Invariant>)> {
    let mut groups: Vec<(&str, Vec<Invariant>)> = Vec::new();
    for (invariant, reason) in excluded {
        match groups.iter_mut().find(|(it, _)| it == reason) {
            Some((_, group)) => group.push(*invariant),
            None => groups.push((reason, vec![*invariant])),
        }
    }
    groups
}
