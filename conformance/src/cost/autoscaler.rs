//! Counts the calls of our server for the Cluster Autoscaler to its Supervisor, and the calls of the
//! autoscaler to the server, and compares both with `budgets.yaml`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Deserialize;
use sim::ledger::Kind;
use sim::world::Command;
use sim::world::supervisor::OperatorChange;

use crate::lab::autoscaler::{
    Asked, CallError, Credentials, Endpoint as _, Generation, IdleAutoscaler, Options, Ours,
    SentNode, Session, Times, Transcript,
};
use crate::lab::in_virtual_time;

/// Groups and machines whose calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fleet {
    /// Number of groups.
    pub groups: u32,
    /// Number of machines, all in the first group.
    pub machines: u32,
}

impl Fleet {
    /// Fleets that are small enough for each test run.
    pub const SMALL: [Self; 2] =
        [Self { groups: 1, machines: 10 }, Self { groups: 1000, machines: 10 }];
    /// Every fleet.
    pub const ALL: [Self; 3] =
        [Self::SMALL[0], Self::SMALL[1], Self { groups: 1, machines: 10_000 }];

    /// Returns the name of the fleet in `budgets.yaml`.
    fn name(self) -> String {
        let groups = if self.groups == 1 { "group" } else { "groups" };
        format!("{} {groups}, {} machines", self.groups, self.machines)
    }

    /// ID of the group that has the machines.
    pub const GROUP: &'static str = GROUP;

    /// Starts a sim and a server with these groups and machines. VM Operator does not destroy or make
    /// machines, so that only the server changes objects.
    ///
    /// # Errors
    ///
    /// If the server cannot be started, or a call fails.
    pub async fn serve(self) -> Result<Ours, CallError> {
        let ours = Ours::start_later(self.file(), 0, false).await.map_err(CallError::local)?;
        let change = OperatorChange { reconciles: Some(false), ..OperatorChange::default() };
        let applied = ours.sim().apply(Command::SetVmOperator(change));
        applied.map_err(|err| CallError::local(format!("{err:?}")))?;
        ours.run(0).await.map_err(CallError::local)?;
        let session = Self::session(&ours, Transcript::default()).await?;
        let mut left = self.machines;
        while left > 0 {
            let now = left.min(AT_ONCE);
            session.increase(GROUP, i32::try_from(now).unwrap_or(i32::MAX)).await?;
            left -= now;
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        // The events about the machines follow at a rate of 50 per second.
        let events = Duration::from_secs(u64::from(self.machines / 40 + 10));
        tokio::time::sleep(events).await;
        Ok(ours)
    }

    /// Connects an autoscaler, which notes its calls in `transcript`.
    ///
    /// # Errors
    ///
    /// If the server does not accept the connection.
    pub async fn session(ours: &Ours, transcript: Transcript) -> Result<Session, CallError> {
        let channel = ours.connect(Credentials::Expected).await?.channel;
        let deadline = Duration::from_secs(5);
        Ok(Session::new(channel, Generation::G3, deadline, transcript, Asked::default()))
    }

    /// Returns an autoscaler without work, for one Node per machine and a foreign one.
    ///
    /// # Errors
    ///
    /// If the server does not list the machines.
    pub async fn idle_autoscaler(session: &Session) -> Result<IdleAutoscaler, CallError> {
        let ids = session.live(GROUP).await?;
        let mut nodes: Vec<SentNode> = ids.iter().map(|id| SentNode::new(id, id)).collect();
        nodes.push(SentNode::new("kind://foreign", "foreign"));
        let time = |minutes: u64| Duration::from_secs(60 * minutes);
        let times = Times { unneeded: time(10), unready: time(20), provision: time(15) };
        let defaults = Options::defaults(Generation::G3, (0.5, 0.5), times);
        Ok(IdleAutoscaler::new(session.clone(), nodes, defaults))
    }

    /// Returns the file with the groups.
    fn file(self) -> String {
        let mut file = "groups:\n".to_owned();
        for n in 0..self.groups {
            let _ = writeln!(
                file,
                "- {{name: group-{n}, max: 20000, machine: {{className: best-effort-small, \
                 imageName: vmi-0123456789abcdef0, storageClass: gold, \
                 bootstrap: {{secretName: workers-bootstrap}}}}}}"
            );
        }
        file
    }
}

/// Numbers of calls by fleet, by operation, by phase.
type Counts = BTreeMap<String, BTreeMap<String, BTreeMap<String, u64>>>;

/// The part of `budgets.yaml` about the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerBudgets {
    /// Calls of the server to the Supervisor.
    supervisor: Counts,
    /// Calls of the autoscaler to the server.
    server: Counts,
}

/// ID of the group that has the machines of a fleet.
const GROUP: &str = "VirtualMachine/workloads/group-0";
/// Number of calls of `Refresh` in the phase `refresh`, one every ten seconds.
const REFRESHES: u32 = 60;
/// Largest increase of one call. The server refuses one that it cannot complete in time.
const AT_ONCE: u32 = 200;

/// A server whose calls are counted.
struct Counted {
    ours: Ours,
    transcript: Transcript,
    fleet: Fleet,
    budgets: ServerBudgets,
    /// Numbers of records and of calls that belong to earlier phases.
    seen: (usize, usize),
}

/// Counts the calls for these fleets, in virtual time.
///
/// # Errors
///
/// If the server cannot be started, or a call fails.
pub fn measure_server(fleets: &[Fleet]) -> Result<ServerBudgets, String> {
    let mut all = ServerBudgets::default();
    for fleet in fleets {
        let counted = in_virtual_time(Counted::play(*fleet));
        let counted = counted.map_err(|err| format!("{}: {err}", fleet.name()))?;
        for (into, of) in
            [(&mut all.supervisor, counted.supervisor), (&mut all.server, counted.server)]
        {
            for (phase, operations) in of {
                for (operation, counts) in operations {
                    into.entry(phase.clone())
                        .or_default()
                        .entry(operation)
                        .or_default()
                        .extend(counts);
                }
            }
        }
    }
    Ok(all)
}

impl Counted {
    async fn play(fleet: Fleet) -> Result<ServerBudgets, CallError> {
        let ours = fleet.serve().await?;
        let transcript = Transcript::default();
        let mut it =
            Self { ours, transcript, fleet, budgets: ServerBudgets::default(), seen: (0, 0) };
        it.phases().await?;
        Ok(it.budgets)
    }

    async fn phases(&mut self) -> Result<(), CallError> {
        let wait = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        self.ours.kill();
        self.forget();
        self.ours.run(1).await.map_err(CallError::local)?;
        wait(1).await;
        self.count("start");
        let session = Fleet::session(&self.ours, self.transcript.clone()).await?;
        if self.fleet.machines <= 10 {
            self.loops(&session).await?;
        }
        for _ in 0..REFRESHES {
            session.refresh().await?;
            wait(10).await;
        }
        self.count("refresh");
        for k in [1, 10] {
            let before = session.live(GROUP).await?;
            session.increase(GROUP, k).await?;
            wait(2).await;
            self.count(&format!("increase by {k}"));
            let now = session.live(GROUP).await?;
            self.forget();
            let new = now.difference(&before).map(|id| SentNode::fake(id, "unregistered"));
            session.delete(GROUP, new).await?;
            wait(2).await;
            self.count(&format!("delete of {k}"));
        }
        Ok(())
    }

    /// Counts the calls of an autoscaler without work.
    async fn loops(&mut self, session: &Session) -> Result<(), CallError> {
        let mut autoscaler = Fleet::idle_autoscaler(session).await?;
        self.forget();
        autoscaler.turn().await?;
        self.count("first loop");
        autoscaler.turn().await?;
        self.count("loop");
        autoscaler.list_instances().await?;
        self.count("listing");
        Ok(())
    }

    /// Leaves the calls until now out of the next phase.
    fn forget(&mut self) {
        self.seen = (self.ours.sim().ledger().records().len(), self.transcript.len());
    }

    /// Counts the calls since the last phase.
    fn count(&mut self, phase: &str) {
        let fleet = self.fleet.name();
        let add = |into: &mut Counts, operation: &str| {
            let counts = into.entry(phase.to_owned()).or_default();
            *counts.entry(operation.to_owned()).or_default().entry(fleet.clone()).or_default() += 1;
        };
        for record in self.ours.sim().ledger().records().iter().skip(self.seen.0) {
            if record.kind == Kind::Call && record.client.user_agent == Ours::AGENT {
                add(&mut self.budgets.supervisor, &record.op);
            }
        }
        let n = self.transcript.len() - self.seen.1;
        for line in self.transcript.last(n) {
            let method = line.split_whitespace().nth(1).unwrap_or_default();
            add(&mut self.budgets.server, method);
        }
        self.budgets.supervisor.entry(phase.to_owned()).or_default();
        self.forget();
    }
}

impl ServerBudgets {
    /// Returns a text for each difference from the committed budgets, for the fleets that were
    /// measured.
    pub fn deviations(&self, fleets: &[Fleet]) -> Vec<String> {
        let committed = super::committed().autoscaler;
        let names: Vec<String> = fleets.iter().map(|it| it.name()).collect();
        let flat = |of: &ServerBudgets| {
            let mut flat = BTreeMap::new();
            for (what, counts) in [("supervisor", &of.supervisor), ("server", &of.server)] {
                for (phase, operations) in counts {
                    for (operation, by_fleet) in operations {
                        for (fleet, n) in by_fleet.iter().filter(|(it, _)| names.contains(it)) {
                            flat.insert(
                                format!("autoscaler.{what}.{phase}.{operation}.{fleet}"),
                                *n,
                            );
                        }
                    }
                }
            }
            flat
        };
        let (wanted, seen) = (flat(&committed), flat(self));
        let keys: std::collections::BTreeSet<&String> = wanted.keys().chain(seen.keys()).collect();
        let text = |n: Option<&u64>| n.map_or("missing".to_owned(), u64::to_string);
        keys.into_iter()
            .filter(|key| wanted.get(*key) != seen.get(*key))
            .map(|key| {
                let (wanted, seen) = (text(wanted.get(key)), text(seen.get(key)));
                format!("budgets.yaml: {key} is {wanted}, measured {seen}")
            })
            .collect()
    }

    /// Formats the numbers of calls by phase and fleet for a terminal.
    pub fn table(&self, fleets: &[Fleet]) -> String {
        let mut out =
            format!("Server for the Cluster Autoscaler\n{:<14} {:<11}", "phase", "calls to");
        for fleet in fleets {
            let _ = write!(out, " {:>25}", fleet.name());
        }
        out.push('\n');
        for (to, counts) in [("Supervisor", &self.supervisor), ("server", &self.server)] {
            for (phase, operations) in counts {
                let _ = write!(out, "{phase:<14} {to:<11}");
                for fleet in fleets {
                    let name = fleet.name();
                    let n: u64 = operations.values().filter_map(|it| it.get(&name)).sum();
                    let _ = write!(out, " {n:>25}");
                }
                out.push('\n');
            }
        }
        out
    }

    /// Returns this part of `budgets.yaml` with the measured counts.
    pub(super) fn text(&self) -> String {
        let mut out = "autoscaler:\n".to_owned();
        for (what, counts) in [("supervisor", &self.supervisor), ("server", &self.server)] {
            let _ = writeln!(out, "  {what}:");
            for (phase, operations) in counts {
                let nothing = if operations.is_empty() { " {}" } else { "" };
                let _ = writeln!(out, "    {phase}:{nothing}");
                for (operation, by_fleet) in operations {
                    let cells: Vec<String> =
                        by_fleet.iter().map(|(fleet, n)| format!("\"{fleet}\": {n}")).collect();
                    let _ = writeln!(out, "      {operation}: {{{}}}", cells.join(", "));
                }
            }
        }
        out
    }
}
