//! Plays the phases in a cluster made by kind, in real time.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use sim_world::{Command, Completion, Step};
use tokio::time::{Instant, sleep, sleep_until};

use super::fleet::{self, Fleet};
use super::plan::{FIRST, Phase, Plan, SERVICE_START};
use super::virtual_time::restart;
use crate::e2e::lab::cluster::{Cluster, Machine};
use crate::e2e::lab::deploy::{self, Deployment};
use crate::e2e::lab::kubelet;
use crate::e2e::lab::simulator::{Simulator, addresses_of};
use crate::e2e::tally::{AuditEntry, LedgerPosition, Tally};
use crate::e2e::until;

/// Cost of a provider with one fleet in a cluster.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FleetCost {
    /// Calls by phase.
    pub(super) tallies: BTreeMap<String, Tally>,
    /// Seconds from the beginning of the provider's deployment until every node was initialized.
    pub(super) join_seconds: f64,
    /// Share of one core that the leader used in the steady phase, in percent.
    pub(super) steady_cpu_percent: f64,
    /// Peak resident memory of a leader in any phase, in MiB.
    pub(super) peak_memory_mib: f64,
}

/// A benchmark run of one provider with one fleet.
pub(super) struct Play<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) simulator: &'a Simulator,
    pub(super) machines: &'a [Machine],
    pub(super) provider: &'a Deployment,
    pub(super) project: &'a std::path::Path,
    pub(super) plan: Plan,
}

/// Start of a count: the position in the ledger, and the length of the audit log in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    record: LedgerPosition,
    audited: u64,
}

impl Play<'_> {
    /// Plays every phase, then removes the provider and the fleet, even if a phase fails.
    pub(super) async fn play(&self, out: &mut impl Write) -> anyhow::Result<FleetCost> {
        fleet::avoid(self.cluster).await?;
        self.set_timing().await?;
        self.simulator.create_machines(self.machines).await?;
        let fleet = Fleet::new(&self.plan, self.cluster)?;
        let played = self.phases(&fleet, out).await;
        deploy::remove(self.cluster).await?;
        kubelet::remove_all(self.cluster).await?;
        played
    }

    /// Lets the machines of the real nodes boot immediately, like those of the fleet, and sets the
    /// time for which a starting vCenter answers 503.
    async fn set_timing(&self) -> anyhow::Result<()> {
        let boot = [Step::Tools, Step::Interface, Step::Address, Step::HostName];
        let deploy = [Step::VmAccepted, Step::VmPrerequisites, Step::VmCreated, Step::VmIdentified];
        let at_once = boot.into_iter().chain(deploy).chain([Step::VmPower, Step::VmStatus]);
        let mut steps: Vec<_> = at_once.map(|step| (step, Completion::Immediately)).collect();
        steps.push((Step::ServiceStart, Completion::After(SERVICE_START)));
        let set = |(step, completion)| Command::SetTiming { step, completion };
        self.simulator.events(&steps.into_iter().map(set).collect::<Vec<_>>()).await
    }

    async fn phases(&self, fleet: &Fleet, out: &mut impl Write) -> anyhow::Result<FleetCost> {
        let mut played = FleetCost::default();
        for phase in Phase::ALL {
            // Before the first phase no provider runs.
            let mut mark = match phase {
                Phase::Join => self.prepare(fleet).await?,
                _ => self.quiet().await?,
            };
            let begin = Instant::now();
            match phase {
                Phase::Join => played.join_seconds = self.join().await?,
                Phase::Steady => self.steady(&mut played).await?,
                _ => self.disturbed(phase, begin).await?,
            }
            // Reads the counts of calls first, because the provider may make more calls every
            // second.
            let tally = self.tally(&mut mark).await?;
            // Measures the process that leads now; after the failover it is another one.
            played.peak_memory_mib = played.peak_memory_mib.max(self.peak_memory().await?);
            let (name, calls, writes) = (phase.name(), tally.total(), tally.writes());
            let took = begin.elapsed().as_secs_f64();
            writeln!(
                out,
                "    {name:<9} {calls:>6} calls, {writes:>5} writes to the cluster, {took:.0} s"
            )?;
            out.flush()?;
            played.tallies.insert(name.to_owned(), tally);
        }
        Ok(played)
    }

    /// Runs the provider until it has initialized the real nodes, at most 60 s, removes it, and
    /// registers the fleet. Returns the mark from which the phase `join` counts.
    async fn prepare(&self, fleet: &Fleet) -> anyhow::Result<Mark> {
        self.deploy().await?;
        let none = async || Ok(Fleet::waiting(self.cluster).await?.is_empty().then_some(()));
        if until(Duration::from_secs(60), none).await?.is_none() {
            bail!(
                "the provider has not initialized the nodes of the kind cluster within 60 s; read \
                 its logs in namespace kube-system"
            );
        }
        // Waits for the pass over the addresses that is among the provider's first actions.
        sleep(self.plan.period / 4).await;
        deploy::remove(self.cluster).await?;
        fleet.register(self.cluster).await?;
        self.untouched().await?;
        self.now().await
    }

    /// Waits up to 120 s until the Nodes of the fleet have not changed for two seconds. The
    /// cluster's own controllers assign a range of addresses to each Node, and a write of the
    /// provider at the same moment would end in a conflict.
    async fn untouched(&self) -> anyhow::Result<()> {
        let mut last = BTreeSet::new();
        let same = async || {
            sleep(Duration::from_secs(2)).await;
            let versions = Fleet::versions(self.cluster).await?;
            let is_same = versions == last;
            last = versions;
            Ok(is_same.then_some(()))
        };
        match until(Duration::from_secs(120), same).await? {
            Some(()) => Ok(()),
            None => bail!(
                "the simulated Nodes of the benchmark still change after 120 s, although no \
                 provider runs; find the client that writes them in the audit log"
            ),
        }
    }

    /// Deploys the provider, and waits until every node is initialized and the provider has written
    /// its events. Returns the seconds until every node was initialized; fails if they exceed one
    /// status period.
    async fn join(&self) -> anyhow::Result<f64> {
        let begin = Instant::now();
        self.deploy().await?;
        let mut waiting = Vec::new();
        let done = until(self.plan.period, async || {
            waiting = Fleet::waiting(self.cluster).await?;
            Ok(waiting.is_empty().then_some(()))
        });
        let is_done = done.await?.is_some();
        let took = begin.elapsed();
        if !is_done || took > self.plan.period {
            let (n, first) = (waiting.len(), waiting.first().cloned().unwrap_or_default());
            bail!(
                "join: the provider has not initialized {n} nodes after {took:?} ({first}); set a \
                 longer --period"
            );
        }
        self.written().await?;
        Ok(took.as_secs_f64())
    }

    /// Waits until the cluster gets no new requests for two seconds, apart from watches and
    /// requests for leases, because the provider writes events later than the changes that they
    /// report.
    async fn written(&self) -> anyhow::Result<()> {
        let begin = self.now().await?;
        let mut last = None;
        loop {
            sleep(Duration::from_secs(2)).await;
            let asked = Tally::default().with_audit(&self.audited_since(begin).await?).cluster;
            if last.as_ref() == Some(&asked) {
                return Ok(());
            }
            last = Some(asked);
        }
    }

    async fn deploy(&self) -> anyhow::Result<()> {
        self.provider
            .deploy(self.cluster, self.project, self.simulator, self.simulator.backend())
            .await
    }

    async fn steady(&self, played: &mut FleetCost) -> anyhow::Result<()> {
        let (begin, before) = (Instant::now(), self.processor_seconds().await?);
        sleep_until(begin + self.plan.length(Phase::Steady)).await;
        let used = self.processor_seconds().await? - before;
        played.steady_cpu_percent = 100.0 * used / begin.elapsed().as_secs_f64();
        Ok(())
    }

    async fn disturbed(&self, phase: Phase, begin: Instant) -> anyhow::Result<()> {
        sleep_until(begin + FIRST).await;
        match phase {
            Phase::Change => {
                let to = |(name, address): (String, _)| addresses_of(&name, vec![address]);
                let commands: Vec<_> = self.plan.changes().map(to).collect();
                self.simulator.events(&commands).await?;
            }
            Phase::Restart => {
                for (after, command) in restart(self.simulator.backend()) {
                    sleep_until(begin + after).await;
                    self.simulator.event(&command).await?;
                }
            }
            Phase::Failover => self.kill_leader().await?,
            Phase::Join | Phase::Steady => {}
        }
        sleep_until(begin + self.plan.length(phase)).await;
        Ok(())
    }

    /// Waits until a quarter of a period after the provider's last pass over the nodes, or until a
    /// pass has certainly happened without a call. Returns the mark from which the next phase
    /// counts. Fails if the provider still makes calls after six periods.
    async fn quiet(&self) -> anyhow::Result<Mark> {
        let mut mark = self.now().await?;
        let (period, begin) = (self.plan.period, Instant::now());
        let mut last_call = None;
        loop {
            sleep(Duration::from_millis(250)).await;
            if mark.record.calls(self.simulator).await?.total() > 0 {
                last_call = Some(Instant::now());
            }
            let is_quiet = match last_call {
                Some(at) => at.elapsed() >= period / 4,
                None => begin.elapsed() >= period + period / 4,
            };
            if is_quiet {
                return self.now().await;
            }
            if begin.elapsed() > period * 6 {
                bail!(
                    "the provider makes calls without a pause of a quarter of --period, so its \
                     phases cannot be told apart; set a longer --period"
                );
            }
        }
    }

    async fn now(&self) -> anyhow::Result<Mark> {
        let record = LedgerPosition::now(self.simulator).await?;
        let size = self.cluster.on_control_plane(&format!("wc -c <{AUDIT}")).await?;
        let audited = size.trim().parse().with_context(|| {
            format!("{AUDIT}: wc prints no size of this audit log of the API server, but {size:?}")
        })?;
        Ok(Mark { record, audited })
    }

    /// Returns the calls since the mark, and moves the mark's position in the ledger behind them.
    async fn tally(&self, mark: &mut Mark) -> anyhow::Result<Tally> {
        let tally = mark.record.calls(self.simulator).await?;
        Ok(tally.with_audit(&self.audited_since(*mark).await?))
    }

    async fn audited_since(&self, mark: Mark) -> anyhow::Result<Vec<AuditEntry>> {
        let tail = format!("tail -c +{} {AUDIT}", mark.audited + 1);
        let text = self.cluster.on_control_plane(&tail).await?;
        let read = |line: &str| {
            serde_json::from_str(line).with_context(|| {
                format!("{AUDIT}: a line of this audit log of the API server is not JSON: {line}")
            })
        };
        text.lines().map(read).collect()
    }

    /// Kills the replica that leads.
    async fn kill_leader(&self) -> anyhow::Result<()> {
        let leader = deploy::leader(self.cluster).await?;
        let kill = format!("kill -9 {}", leader);
        self.cluster.on_control_plane(&kill).await.map(drop)
    }

    /// Returns the processor seconds that the leader has used since its start.
    async fn processor_seconds(&self) -> anyhow::Result<f64> {
        let leader = deploy::leader(self.cluster).await?;
        // Reads the fields 14 and 15, in hundredths of a second. `sed` deletes the first two
        // fields, of which the name in parentheses may contain blanks.
        let line = format!("sed 's/.*) //' /proc/{}/stat", leader);
        let text = self.cluster.on_control_plane(&line).await?;
        let fields: Vec<&str> = text.split(' ').collect();
        let ticks = |n: usize| -> anyhow::Result<f64> {
            Ok(fields
                .get(n)
                .context("the file /proc/PID/stat of the provider has too few fields")?
                .parse()?)
        };
        Ok((ticks(11)? + ticks(12)?) / 100.0)
    }

    /// Returns the peak resident memory of the leader, in MiB.
    async fn peak_memory(&self) -> anyhow::Result<f64> {
        let leader = deploy::leader(self.cluster).await?;
        let line = format!("sed -n 's/VmHWM:[^0-9]*\\([0-9]*\\).*/\\1/p' /proc/{}/status", leader);
        let kib: f64 = self.cluster.on_control_plane(&line).await?.trim().parse()?;
        Ok(kib / 1024.0)
    }
}

/// Path of the API server's audit log in the container of the control plane's node.
const AUDIT: &str = "/var/log/kubernetes/audit.log";
