//! A scenario: a world, the events in it with their times, and a duration.
//!
//! Scenarios are values. Checks build them in Rust, files hold them as YAML, sweeps and property tests change and shrink
//! them. All of them run the same way.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sim::faults::Rule;
use sim::world::{Command, Topology};

/// A world, a provider's set-up and a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    /// Name of the scenario.
    pub name: String,
    /// The world at the beginning.
    #[serde(default)]
    pub topology: Topology,
    /// Set-up of the provider.
    #[serde(default)]
    pub provider: ProviderSetup,
    /// Steps in order of time. The provider starts at zero unless a step says otherwise.
    #[serde(default)]
    pub timeline: Vec<Step>,
    /// Duration of the scenario.
    #[serde(with = "sim::world::duration")]
    pub horizon: Duration,
}

/// An act at a point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Time since the beginning.
    #[serde(with = "sim::world::duration")]
    pub at: Duration,
    /// The act.
    #[serde(rename = "do")]
    pub act: Act,
}

/// An act of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// The world applies a command.
    World(Command),
    /// Adds a fault rule.
    Fault(Rule),
    /// Removes every fault rule.
    Heal,
    /// Begins a new phase; the ledger carries its name.
    Phase(String),
    /// Starts a replica.
    Start(usize),
    /// Tells a replica to stop, as by SIGTERM.
    Stop(usize),
    /// Kills a replica, as by SIGKILL.
    Crash(usize),
    /// Tells the leader to stop, so that it gives its lease up. Without an election, stops the first running replica.
    StopLeader,
    /// Kills the leader, so that its lease runs out. Without an election, kills the first running replica.
    CrashLeader,
    /// Suspends the leader, as by SIGSTOP or by a hypervisor that suspends its machine.
    SuspendLeader,
    /// Resumes every suspended replica.
    ResumeAll,
    /// Steps the wall clock of every running replica by this many seconds; backwards if negative.
    StepClocks(i64),
    /// Reads the metrics and the health of every running replica.
    Scrape,
    /// Asks the HTTPS endpoint of every running replica.
    Get {
        /// Path, with its query.
        path: String,
        /// The client.
        by: Caller,
    },
    /// Writes another serving certificate to the files that the command line names.
    RenewCertificate,
    /// Overwrites the certificate files that the command line names with content that is not a certificate.
    SpoilCertificate,
    /// Starts every replica that does not run.
    StartAll,
    /// Replaces the provider's token for the Supervisor. The file has the new token at once, and the Supervisor refuses
    /// the old one after a grace period.
    Token {
        /// Grace period of the old token.
        #[serde(with = "sim::world::duration")]
        grace: Duration,
    },
    /// Another initializer initializes nodes that still wait for a cloud provider, from the current state of their
    /// machines.
    Initialize {
        /// The node; every uninitialized node if omitted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// The initializer.
        by: Initializer,
    },
    /// Copies an annotation from one Node to another, as when references are given out anew. Does nothing if the first
    /// Node lacks it.
    CopyAnnotation {
        /// Key of the annotation.
        key: String,
        /// The Node that has the annotation.
        from: String,
        /// The Node that gets the annotation.
        to: String,
    },
    /// Limits the provider's configuration to these vCenters, from its next start on.
    Vcenters(Vec<String>),
    /// Limits the provider's configuration to these datacenters, from its next start on.
    Datacenters(Vec<String>),
    /// Changes the password in the Secret with the provider's credentials.
    Secret {
        /// Name of the Secret, in `kube-system`.
        name: String,
        /// The new password, the same for every vCenter.
        password: String,
    },
}

impl Act {
    /// True if the act writes Nodes itself, as other controllers and people do.
    pub(crate) fn changes_nodes(&self) -> bool {
        matches!(
            self,
            Self::World(Command::Cluster(_))
                | Self::Initialize { .. }
                | Self::CopyAnnotation { .. }
        )
    }
}

/// Initializers of nodes other than the provider under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initializer {
    /// The upstream provider, in its order of writes: provider ID, labels and taint first, addresses second.
    Upstream,
    /// The upstream provider, killed between its two writes: the node has no addresses yet.
    UpstreamHalf,
    /// A person with kubectl: a provider ID in upper case, no labels, the taint removed.
    Person,
    /// The in-tree provider of old clusters: as upstream, with beta labels only.
    InTree,
    /// The in-tree provider of still older clusters, whose provider IDs name a machine by its path in the inventory.
    InTreePath,
}

/// A client of the HTTPS endpoint of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Caller {
    /// Sends no token.
    Anonymous,
    /// Sends a token that the cluster does not know.
    Impostor,
    /// Sends a token of an account without roles.
    Stranger,
    /// Sends a token of an account that may read `/metrics`.
    Allowed,
    /// Sends a token of a member of `system:masters`.
    Master,
}

/// Set-up of the provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ProviderSetup {
    /// Number of replicas, each a process of its own. Several replicas elect a leader.
    pub replicas: usize,
    /// True if all replicas start by themselves at time zero.
    pub start: bool,
    /// True if zones are configured.
    pub zones: bool,
    /// True if the replicas elect a leader; several replicas always do.
    pub leader_election: bool,
    /// True if several replicas run without electing a leader, which no administrator should configure. Checks for two
    /// leaders must then find them.
    pub anarchy: bool,
    /// `--node-status-update-frequency`.
    #[serde(with = "sim::world::duration")]
    pub status_period: Duration,
    /// `--node-monitor-period`.
    #[serde(with = "sim::world::duration")]
    pub monitor_period: Duration,
    /// Number of workers of the node controller.
    pub workers: usize,
    /// Requests per second and controller to the cluster.
    pub kube_qps: u32,
    /// Datacenters in the configuration; empty means all.
    pub datacenters: Vec<String>,
    /// vCenters in the configuration; empty means all of the world.
    pub vcenters: Vec<String>,
    /// Lines added to the `nodes:` section of the configuration.
    pub nodes: Vec<(String, String)>,
    /// IP families, in order of priority; `ipv4` if empty.
    pub families: Vec<String>,
    /// Labels that the provider adds to every node that it initializes: `--node-labels`.
    pub node_labels: Vec<(String, String)>,
    /// A Secret in `kube-system` that holds the credentials; without it the configuration holds them.
    pub secret: Option<String>,
    /// True if the operator has switched the deletion of nodes off.
    pub skip_deletion: bool,
    /// True if a process logs at its highest level, where its manifest has a knob for that. In virtual time every level
    /// is captured in any case.
    pub verbose: bool,
    /// Flags of Kubernetes' cloud controller managers, added to the command line as they are. `$(port)` stands for a free port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Content of `vsphere.conf`, in place of the one that this set-up describes. `$(server)`, `$(port)`, `$(user)` and
    /// `$(password)` stand for those of the first vCenter, `$(trust.yaml)` and `$(trust.ini)` for the setting that lets the
    /// provider trust it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// True if nothing starts the provider again after it has ended by itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
}

impl Default for ProviderSetup {
    fn default() -> Self {
        Self {
            replicas: 1,
            start: true,
            zones: true,
            leader_election: false,
            anarchy: false,
            status_period: Duration::from_secs(300),
            monitor_period: Duration::from_secs(5),
            workers: 1,
            kube_qps: 20,
            datacenters: vec!["DC0".to_owned()],
            vcenters: Vec::new(),
            nodes: Vec::new(),
            families: Vec::new(),
            node_labels: Vec::new(),
            secret: None,
            skip_deletion: false,
            verbose: false,
            flags: Vec::new(),
            config: None,
            once: false,
        }
    }
}

impl ProviderSetup {
    /// True if the replicas elect a leader.
    pub fn elects(&self) -> bool {
        (self.leader_election || self.replicas > 1) && !self.anarchy
    }
}

impl Scenario {
    /// Creates a scenario in which only the provider acts.
    pub fn new(name: impl Into<String>, topology: Topology, horizon: Duration) -> Self {
        Self {
            name: name.into(),
            topology,
            provider: ProviderSetup::default(),
            timeline: Vec::new(),
            horizon,
        }
    }

    /// Adds an act at `at`.
    #[must_use]
    pub fn at(mut self, at: Duration, act: impl Into<Act>) -> Self {
        self.timeline.push(Step { at, act: act.into() });
        self.timeline.sort_by_key(|step| step.at);
        self
    }

    /// Adds a rule that is in force from the beginning.
    #[must_use]
    pub fn fault(self, rule: Rule) -> Self {
        self.at(Duration::ZERO, Act::Fault(rule))
    }

    /// Changes the set-up of the provider.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut ProviderSetup)) -> Self {
        change(&mut self.provider);
        self
    }

    /// True if the scenario asks the HTTPS endpoint of the provider.
    pub(crate) fn asks_endpoint(&self) -> bool {
        self.timeline.iter().any(|step| matches!(step.act, Act::Get { .. }))
    }

    /// Returns the ids of all rules that the timeline adds.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.timeline.iter().filter_map(|step| match &step.act {
            Act::Fault(rule) => Some(rule.id.as_str()),
            _ => None,
        })
    }
}

impl From<Command> for Act {
    fn from(command: Command) -> Self {
        Self::World(command)
    }
}

impl From<Rule> for Act {
    fn from(rule: Rule) -> Self {
        Self::Fault(rule)
    }
}
