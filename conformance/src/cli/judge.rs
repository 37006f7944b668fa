//! `conformance judge`: judges a provider by what a simulator recorded while others played with it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use jiff::Timestamp;
use provider::InstancesMode;

use super::usage;
use crate::backend::Backend;
use crate::catalogue::{Class, Surface};
use crate::judge::{self, Invariant, Violation};
use crate::lab::{Mode, Recorded, Run};
use crate::scenario::ProviderSetup;

/// Arguments of `conformance judge`.
#[derive(Parser)]
pub(super) struct Arguments {
    /// File of `sim serve --record`.
    #[arg(long, value_name = "FILE")]
    record: PathBuf,
    /// File of `sim serve --ledger`, of the same simulator.
    #[arg(long, value_name = "FILE")]
    ledger: PathBuf,
    /// Log of the provider, to search it for secrets.
    #[arg(long, value_name = "FILE")]
    provider_log: Option<PathBuf>,
    /// File whose content is a secret that no log, event or ledger may have, such as a token; repeatable. The passwords and
    /// sessions of each vCenter are known from the recording.
    #[arg(long, value_name = "FILE")]
    secret: Vec<PathBuf>,
    /// Mode of the provider: vcenter or supervisor.
    #[arg(long, value_parser = backend)]
    mode: Backend,
    /// How the provider looks up machines: auto, watch, poll or v1.
    #[arg(long, value_name = "MODE", default_value = "auto")]
    instances_mode: InstancesMode,
    /// Beginning of the user agent of a client that is not the provider; repeatable.
    #[arg(long, value_name = "PREFIX", default_values = ["kubectl", "curl", "Python-urllib"])]
    other_client: Vec<String>,
    /// Number of replicas of the provider that run side by side.
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// Wall-clock time at which a replica was started; repeatable. A start is a reason to log in.
    #[arg(long, value_name = "TIME")]
    start: Vec<Timestamp>,
    /// The provider was killed or still runs, so its sessions may stay.
    #[arg(long)]
    killed: bool,
    /// The provider had the time to set everything right before the recording ends, and still runs: judge that, too.
    #[arg(long)]
    settled: bool,
    /// `--node-monitor-period` of the provider, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    monitor_period: u64,
    /// The provider is configured without zones.
    #[arg(long)]
    no_zones: bool,
    /// Fail on broken policies too, which go beyond the contract of cloud providers.
    #[arg(long)]
    policies: bool,
    /// Number of an invariant that may be broken, and the reason; repeatable.
    #[arg(long, value_name = "N=REASON", value_parser = exemption)]
    exempt: Vec<(Invariant, String)>,
}

fn backend(text: &str) -> Result<Backend, String> {
    let found = Backend::ALL.into_iter().find(|it| it.as_str() == text);
    found.ok_or_else(|| "expected vcenter or supervisor".to_owned())
}

fn exemption(text: &str) -> Result<(Invariant, String), String> {
    let wrong = "expected the number of an invariant, =, and the reason, such as 25=the zone is moved by hand";
    let (number, reason) = text.split_once('=').ok_or(wrong)?;
    let number: u8 = number.parse().map_err(|_| wrong)?;
    if reason.trim().is_empty() {
        return Err(wrong.to_owned());
    }
    Ok((Invariant::try_from(number)?, reason.to_owned()))
}

/// Judges the recording. Exit code 0: no invariant is broken; 1: one is; 2: a file cannot be used; 7: there is nothing to judge.
pub(super) fn run(out: &mut impl Write, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let recorded = match read(arguments) {
        Ok(recorded) => recorded,
        Err(why) => return usage(out, &why),
    };
    let path = arguments.record.display();
    let Some(run) = recorded.into_run() else {
        return usage(out, &format!("--record {path}: it has no state of a world"));
    };
    writeln!(
        out,
        "{path}: {} events, {} calls of the provider, {} Nodes, {}",
        run.log.entries().count(),
        run.ledger.len(),
        run.nodes_by_name().len(),
        run.end_time(),
    )?;
    if run.calls().next().is_none() {
        writeln!(
            out,
            "inconclusive: no call of the provider is in {}",
            arguments.ledger.display()
        )?;
        return Ok(ExitCode::from(7));
    }
    let mut found = judge::safety(&run);
    if arguments.settled {
        found.extend(judge::liveness(&run));
    }
    let excluded = excluded(arguments, &run);
    let is_judged = |it: &Invariant| !excluded.iter().any(|(out, _)| out == it);
    let judged: Vec<Invariant> = Invariant::ALL.iter().copied().filter(is_judged).collect();
    tell(out, arguments, &judged, &found, &excluded)
}

/// Reads the files.
fn read(arguments: &Arguments) -> Result<Recorded, String> {
    let path = arguments.record.display();
    let unusable =
        |error: String| format!("--record {path}: {error}; name a file of `sim serve --record`");
    let file = File::open(&arguments.record).map_err(|error| unusable(error.to_string()))?;
    let log =
        sim::read_recording(BufReader::new(file)).map_err(|error| unusable(error.to_string()))?;
    let mut ledger = crate::captured::records(&arguments.ledger)?;
    let is_other =
        |agent: &str| arguments.other_client.iter().any(|it| agent.starts_with(it.as_str()));
    ledger.retain(|call| !is_other(&call.client.user_agent));
    let provider_log = match &arguments.provider_log {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path).map_err(|error| {
            format!("--provider-log {}: {error}; name the log of the provider", path.display())
        })?,
    };
    let tokens = arguments.secret.iter().map(|path| secret(path)).collect::<Result<_, _>>()?;
    Ok(Recorded {
        log,
        ledger,
        provider_log,
        tokens,
        mode: Mode::of(arguments.mode, arguments.instances_mode),
        provider: ProviderSetup {
            replicas: arguments.replicas,
            zones: !arguments.no_zones,
            monitor_period: Duration::from_secs(arguments.monitor_period),
            ..ProviderSetup::default()
        },
        starts: arguments.start.clone(),
        killed: arguments.killed,
    })
}

/// Reads the file of a secret.
fn secret(path: &Path) -> Result<String, String> {
    let unusable =
        |why: String| format!("--secret {}: {why}; name a file with a token", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| unusable(error.to_string()))?;
    match text.trim() {
        "" => Err(unusable("it is empty".to_owned())),
        token => Ok(token.to_owned()),
    }
}

/// Returns the invariants that these files cannot show, each with the reason.
fn excluded(arguments: &Arguments, run: &Run) -> Vec<(Invariant, &'static str)> {
    let has_nodes = !run.nodes_by_name().is_empty();
    let has_vcenter_calls = run.calls().any(|call| call.is_vcenter_call());
    let why = |it: Invariant| match it {
        Invariant::MetricsAreTrue => Some("the files have no metrics"),
        Invariant::NoPanic => Some("the files do not show how the provider ended"),
        Invariant::RetryAfter => Some("the files do not have the fault rules"),
        Invariant::OnlyLeaderWrites if run.scenario.provider.replicas < 2 => {
            Some("one replica runs")
        }
        Invariant::NoTagsWhenOff if run.scenario.provider.zones => Some("zones are configured"),
        Invariant::NoSessionLeft if arguments.killed => Some("--killed"),
        _ if it.class() == Class::Liveness && !arguments.settled => Some("--settled is not given"),
        _ if matches!(it.surface(), Surface::Node | Surface::Zone) && !has_nodes => {
            Some("the world has no Node; another cluster has them")
        }
        _ if it.surface() == Surface::Session && !has_vcenter_calls => {
            Some("the provider makes no call to a vCenter")
        }
        _ => None,
    };
    Invariant::ALL.iter().filter_map(|it| Some((*it, why(*it)?))).collect()
}

/// Prints the verdicts, and returns the exit code.
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

/// Groups the invariants that are not judged, in the order of their first numbers.
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
