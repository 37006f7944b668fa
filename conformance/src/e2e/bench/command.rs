//! `conformance e2e bench`: counts the calls of providers in a cluster and compares them with
//! virtual time.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use super::in_cluster::{FleetCost, Play};
use super::plan::Plan;
use super::report::{self, Column};
use super::virtual_time;
use crate::cost::CountedMode;
use crate::e2e::engine;
use crate::e2e::interrupt::until_signal;
use crate::e2e::lab::cluster::{Cluster, Machine};
use crate::e2e::lab::deploy::{self, Deployment};
use crate::e2e::lab::peer::{Peer, peer};
use crate::e2e::lab::simulator::Simulator;
use crate::e2e::lab::{LabRecord, LabSpec, kubelet};
use crate::scenario::Backend;

/// Options of the benchmark: fleets, providers and output.
#[derive(Args, Clone, Debug)]
pub struct BenchOptions {
    /// Fleet sizes: numbers of simulated nodes that register in addition to the three real ones.
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "10,100,1000", value_parser = clap::value_parser!(u32).range(1..=5000))]
    nodes: Vec<u32>,
    /// Instances modes to count: vcenter, vcenter-poll, vcenter-v1, supervisor-watch,
    /// supervisor-poll, supervisor-v1 [default without --peer: vcenter, or supervisor-watch in a
    /// lab of Supervisor mode].
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', value_parser = subject)]
    columns: Vec<CountedMode>,
    /// Status period of the provider, in seconds [default: 20; 40 for more than 200 nodes].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(20..=600))]
    period: Option<u64>,
    /// Another provider to count: stock-ccm, upstream-vcenter or upstream-paravirtual, as the path
    /// of a static binary or an image of the Docker engine. Can be repeated.
    #[arg(long = "peer", value_name = "NAME=PATH|IMAGE", value_parser = peer)]
    peers: Vec<Peer>,
    /// Directory for bench.json, bench.md and bench.svg.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn subject(text: &str) -> Result<CountedMode, String> {
    let found = CountedMode::ALL.into_iter().find(|it| it.word() == text);
    found.ok_or_else(|| {
        format!("expected one of {}", CountedMode::ALL.map(CountedMode::word).join(", "))
    })
}

/// Runs the benchmark in a kept lab, or in a cluster that it makes. In a kept lab, removes
/// simulator and provider first and makes new ones at the end, even after a failure. Returns exit
/// code 1 if a count differs from virtual time or our provider exceeds its budget of memory or CPU.
///
/// # Errors
/// Fails if the harness fails, or if the run with a fleet failed before its end.
pub(in crate::e2e) async fn run(
    out: &mut impl Write,
    bench: &BenchOptions,
    wanted: &LabSpec,
) -> anyhow::Result<ExitCode> {
    let was_there = wanted.is_kept();
    if was_there {
        engine::ready(&wanted.project, wanted.start_engine).await?;
    }
    for peer in &bench.peers {
        peer.check().await?;
    }
    let (cluster, made) = match was_there {
        true => wanted.open_cluster().await?,
        false => wanted.cluster_up(out).await?,
    };
    wanted.touch()?;
    deploy::remove(&cluster).await?;
    Simulator::end(&wanted.name, &wanted.directory()).await?;
    let columns = until_signal(count(out, bench, wanted, &cluster, &made)).await;
    if was_there {
        // Restores the kept lab, even after a failure.
        deploy::remove(&cluster).await?;
        kubelet::remove_all(&cluster).await?;
        Simulator::end(&wanted.name, &wanted.directory()).await?;
        wanted.furnish(&cluster, &made).await?;
    }
    wanted.settle()?;
    let columns = columns?;
    let mut differences: Vec<String> = columns.iter().flat_map(Column::differences).collect();
    let n_differ = differences.len();
    differences.extend(columns.iter().flat_map(Column::over_budget));
    writeln!(out, "\n{}", report::markdown(&columns))?;
    if let Some(directory) = &bench.out {
        report::write(directory, &columns)?;
        writeln!(out, "written: {}", directory.display())?;
    }
    for difference in &differences {
        writeln!(out, "not as expected: {difference}")?;
    }
    let errors: usize = columns.iter().map(|it| it.errors.len()).sum();
    let n_plays: usize = columns.iter().map(|it| it.virtual_time.len()).sum();
    writeln!(out, "{n_plays} fleets compared with virtual time, {n_differ} operations differ")?;
    if errors > 0 {
        anyhow::bail!(
            "{errors} fleets of the benchmark failed before their end; the lines above have the \
             errors"
        );
    }
    Ok(ExitCode::from(u8::from(!differences.is_empty())))
}

async fn count(
    out: &mut impl Write,
    bench: &BenchOptions,
    wanted: &LabSpec,
    cluster: &Cluster,
    made: &LabRecord,
) -> anyhow::Result<Vec<Column>> {
    let machines = cluster.machines().await?;
    let providers = providers(bench, cluster, made).await?;
    let mut columns = Vec::new();
    for provider in &providers {
        let mut column = Column::named(provider.name);
        for nodes in &bench.nodes {
            let period =
                bench.period.map_or_else(|| Plan::usual_period(*nodes), Duration::from_secs);
            let plan = Plan { nodes: *nodes, period };
            writeln!(out, "{}, {nodes} nodes, periods of {} s", provider.name, period.as_secs())?;
            let made = LabRecord { backend: provider.backend, ..made.clone() };
            let simulator = wanted.simulator_up(cluster, &made, *nodes).await?;
            let place = FleetLab { cluster, simulator: &simulator, machines: &machines };
            let played = provider.play(out, &place, wanted, plan).await;
            Simulator::end(&wanted.name, &wanted.directory()).await?;
            match played {
                Ok(played) => column.kind.insert(*nodes, played),
                Err(error) => {
                    // Continues with the next fleet, to keep the results of the other fleets.
                    writeln!(out, "    error: {error:#}")?;
                    column.errors.push(format!("{nodes} nodes: {error:#}"));
                    continue;
                }
            };
            column.periods.insert(*nodes, period.as_secs());
            if let Some(of) = provider.subject {
                // A run in virtual time has its own runtime, so it needs a thread outside this
                // runtime.
                let imagined =
                    tokio::task::spawn_blocking(move || virtual_time::tallies(of, &plan));
                column.virtual_time.insert(*nodes, imagined.await?);
            }
        }
        columns.push(column);
    }
    Ok(columns)
}

/// Returns the providers to count: our provider in each mode that the options name, else in the
/// usual mode unless they name peers, and then the peers.
async fn providers(
    bench: &BenchOptions,
    cluster: &Cluster,
    made: &LabRecord,
) -> anyhow::Result<Vec<CountedProvider>> {
    let ours = |it: &CountedMode| CountedProvider {
        name: it.word(),
        backend: it.backend(),
        subject: Some(*it),
        deployment: Deployment {
            image: made.provider_image.clone(),
            flags: vec![format!("--instances-mode={}", it.instances())],
            second: true,
            program: None,
        },
    };
    let usual = match made.backend {
        Backend::VCenter => [CountedMode::Vcenter],
        Backend::Supervisor => [CountedMode::SupervisorWatch],
    };
    let is_asked = !bench.columns.is_empty() || !bench.peers.is_empty();
    let subjects: &[CountedMode] = if is_asked { &bench.columns } else { &usual };
    let mut providers: Vec<CountedProvider> = subjects.iter().map(ours).collect();
    for peer in &bench.peers {
        let (program, image) = (peer.program, peer.image(cluster).await?);
        let deployment =
            Deployment { image, flags: Vec::new(), second: true, program: Some(program) };
        let (name, backend) = (program.name(), program.backend());
        providers.push(CountedProvider { name, backend, subject: None, deployment });
    }
    Ok(providers)
}

/// A provider whose calls are counted.
struct CountedProvider {
    name: &'static str,
    backend: Backend,
    /// Instances mode to play in virtual time; `None` for providers of other vendors.
    subject: Option<CountedMode>,
    deployment: Deployment,
}

/// Environment in which the benchmark counts calls.
struct FleetLab<'a> {
    cluster: &'a Cluster,
    simulator: &'a Simulator,
    machines: &'a [Machine],
}

impl CountedProvider {
    async fn play(
        &self,
        out: &mut impl Write,
        place: &FleetLab<'_>,
        wanted: &LabSpec,
        plan: Plan,
    ) -> anyhow::Result<FleetCost> {
        let mut deployment = self.deployment.clone();
        deployment.flags.extend(plan.flags());
        let FleetLab { cluster, simulator, machines } = *place;
        let (provider, project) = (&deployment, wanted.project.as_path());
        let play = Play { cluster, simulator, machines, provider, project, plan };
        play.play(out).await
    }
}
