//! Scenarios: a world, the set-up of a provider, timed steps and a duration.
//!
//! A scenario is plain data. Checks build scenarios in Rust, regression files contain them as YAML,
//! sweeps add failures to them, and property tests generate and shrink them. The lab plays all of
//! them in the same way.

mod backend;
mod fault_kinds;
mod input;
mod pace;
pub mod periods;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sim::faults::{Rule, RuleId};
use sim::world::{Command, Topology};

pub use backend::Backend;
pub(crate) use backend::virtual_machines;
pub use fault_kinds::{FaultKind, fault_kinds};
pub use input::InputError;
pub use pace::Pace;

/// A world, the set-up of a provider, and a timeline of acts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    /// Name of the life that the scenario plays. Exemptions of lives apply by this name. Other
    /// scenarios may have any name; in most cases of checks the name is empty.
    pub name: String,
    /// World at the beginning of the scenario.
    #[serde(default)]
    pub topology: Topology,
    /// Set-up of the provider.
    #[serde(default)]
    pub provider: ProviderSetup,
    /// Steps in order of time.
    #[serde(default)]
    pub timeline: Vec<ScenarioStep>,
    /// Time from the beginning to the end of the scenario.
    #[serde(with = "sim::world::duration")]
    pub horizon: Duration,
}

/// An act and the time at which the lab carries it out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(rename = "Step")]
pub struct ScenarioStep {
    /// Time since the beginning of the scenario.
    #[serde(with = "sim::world::duration")]
    pub at: Duration,
    /// Act that the lab carries out.
    #[serde(rename = "do")]
    pub act: Act,
}

/// An act of the lab: it changes the world, the fault rules or the provider, reads from the
/// provider, or begins a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// Applies a command to the world. In Supervisor mode, the lab turns a power change, a deletion
    /// or a creation of a machine into a request for its VirtualMachine object.
    World(Command),
    /// Adds a fault rule to the sim.
    Fault(Rule),
    /// Removes every fault rule from the sim.
    RemoveRules,
    /// Begins a new phase. The ledger notes the name of the phase with each call until the next
    /// phase.
    Phase(String),
    /// Starts the replica with this index, unless it runs.
    Start(usize),
    /// Asks the replica with this index to stop, as SIGTERM does, and waits for its end.
    Stop(usize),
    /// Kills the replica with this index, as SIGKILL does.
    Crash(usize),
    /// Asks the leader to stop, so that it releases its lease, and waits for its end. Without an
    /// election, asks the first running replica.
    StopLeader,
    /// Kills the leader, so that its lease expires. Without an election, kills the first running
    /// replica.
    CrashLeader,
    /// Suspends the leader, as SIGSTOP or the suspension of its virtual machine would. Without an
    /// election, suspends the first running replica.
    SuspendLeader,
    /// Resumes every suspended replica.
    ResumeAll,
    /// Steps the wall clock of every running replica by this many seconds, backwards if negative.
    /// The lab cannot do this to a process.
    StepClocks(i64),
    /// Reads the metrics and the health checks of every running replica, and keeps them for the
    /// judges. The lab cannot do this to a process.
    Scrape,
    /// Sends a GET request to the HTTPS endpoint of every running replica.
    GetEndpoint {
        /// Path with query.
        path: String,
        /// Client that sends the request. It decides which token the request carries.
        by: Caller,
    },
    /// Writes a new serving certificate to the files that the command line names.
    RenewCertificate,
    /// Overwrites the certificate files that the command line names with content that is not a
    /// certificate.
    SpoilCertificate,
    /// Starts every replica that does not run.
    StartAll,
    /// Replaces the provider's token for the Supervisor. The provider's token file contains the new
    /// token at once. The Supervisor refuses the old token after a grace period.
    Token {
        /// Time for which the Supervisor still accepts the old token.
        #[serde(with = "sim::world::duration")]
        grace: Duration,
    },
    /// Initializes nodes that have the uninitialized taint, as another initializer would, from the
    /// current state of their machines. Leaves out a node whose machine is missing, has no UUID or
    /// reports no address.
    Initialize {
        /// Name of the node; every uninitialized node if omitted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// Initializer whose writes the lab imitates.
        by: Initializer,
    },
    /// Copies an annotation from one Node to another, so that the second Node carries, for example,
    /// the reference of the first Node's machine. Does nothing if the first Node lacks the
    /// annotation.
    CopyAnnotation {
        /// Key of the annotation.
        key: String,
        /// Name of the Node that has the annotation.
        from: String,
        /// Name of the Node that receives the annotation.
        to: String,
    },
    /// Limits the provider's configuration to these vCenters from the provider's next start on;
    /// empty means all of the world.
    Vcenters(Vec<String>),
    /// Limits the provider's configuration to these datacenters from the provider's next start on;
    /// empty means all.
    Datacenters(Vec<String>),
    /// Changes the password in the Secret that contains the provider's credentials, or creates the
    /// Secret if it does not exist.
    Secret {
        /// Name of the Secret, in `kube-system`.
        name: String,
        /// New password, which the Secret then contains for every vCenter.
        password: String,
    },
}

impl Act {
    /// True if the lab itself may write Nodes in this act, in place of another controller or a
    /// person.
    pub(crate) fn changes_nodes(&self) -> bool {
        matches!(
            self,
            Self::World(Command::Cluster(_))
                | Self::Initialize { .. }
                | Self::CopyAnnotation { .. }
        )
    }
}

/// An initializer of nodes other than the provider under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initializer {
    /// The upstream provider, in its order of writes: first provider ID, labels and removal of the
    /// taint, then addresses.
    Upstream,
    /// The upstream provider, killed between its two writes, so that the node has no addresses.
    UpstreamHalf,
    /// A person with kubectl: writes as [`Self::Upstream`], but the UUID in the provider ID is in
    /// upper case, and no labels are written.
    Person,
    /// The in-tree provider of old clusters: writes as [`Self::Upstream`], but only beta labels.
    InTree,
    /// The in-tree provider of still older clusters: writes as [`Self::InTree`], but the provider
    /// ID has the inventory path of the machine instead of its UUID.
    InTreePath,
}

/// A client of a provider's HTTPS endpoint, by the token that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Caller {
    /// Sends no token.
    Anonymous,
    /// Sends a token that the cluster did not issue and therefore rejects.
    InvalidToken,
    /// Sends a valid token of an account without roles.
    NoRoles,
    /// Sends a valid token of an account that may read `/metrics`.
    Allowed,
    /// Sends a valid token of a member of `system:masters`.
    SystemMasters,
}

/// Set-up of the provider: replicas, flags and configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ProviderSetup {
    /// Number of replicas. Several replicas elect a leader unless [`Self::without_election`] is
    /// true.
    pub replicas: usize,
    /// True if the lab starts all replicas at time zero; otherwise a step has to start them.
    pub start: bool,
    /// True if the configuration names the tag categories of zone and region.
    pub zones: bool,
    /// True if the provider elects a leader even with a single replica.
    pub leader_election: bool,
    /// True if the replicas run without leader election although they are several. Administrators
    /// must not configure this. Tests use it to prove that the judges detect two leaders.
    pub without_election: bool,
    /// Period between reads of all addresses: `--node-status-update-frequency`.
    #[serde(with = "sim::world::duration")]
    pub status_period: Duration,
    /// Period between checks of nodes that are not Ready: `--node-monitor-period`.
    #[serde(with = "sim::world::duration")]
    pub monitor_period: Duration,
    /// Number of nodes that the node controller handles at the same time:
    /// `--concurrent-node-syncs`.
    pub workers: usize,
    /// Requests per second that each controller may send to the cluster: `--kube-api-qps`.
    pub kube_qps: u32,
    /// Datacenters in the configuration; empty means all.
    pub datacenters: Vec<String>,
    /// vCenters in the configuration; empty means all of the world.
    pub vcenters: Vec<String>,
    /// Keys and values that the lab adds to the section `nodes` of the configuration.
    pub nodes: Vec<(String, String)>,
    /// IP families, in order of priority; `ipv4` if empty.
    pub families: Vec<String>,
    /// Labels that the provider adds to every node that it initializes: `--node-labels`.
    pub node_labels: Vec<(String, String)>,
    /// Name of a Secret in `kube-system` that contains the credentials; if `None`, the
    /// configuration contains them.
    pub secret: Option<String>,
    /// True if the operator forbids the provider to delete Nodes: `SKIP_NODE_DELETION`.
    pub skip_deletion: bool,
    /// True if a provider that is a process logs at its highest level, provided that its manifest
    /// has a knob for the level. In virtual time the lab always captures every level.
    pub verbose: bool,
    /// Flags that the lab adds to the command line unchanged, in the spelling of Kubernetes' cloud
    /// controller managers. `$(port)` stands for a free port.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Content of `vsphere.conf`; if `None`, the lab writes the file from the other fields.
    /// `$(server)`, `$(port)`, `$(user)` and `$(password)` stand for the values of the first
    /// vCenter. `$(trust.yaml)` and `$(trust.ini)` stand for the setting that makes the provider
    /// trust the certificate of this vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// True if the lab does not restart a provider that has exited by itself.
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
            without_election: false,
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
    /// True if the replicas elect a leader: with several replicas, or with leader election turned
    /// on, unless the scenario switches the election off.
    pub fn elects(&self) -> bool {
        (self.leader_election || self.replicas > 1) && !self.without_election
    }
}

impl Scenario {
    /// Creates a scenario without steps, with the default set-up of the provider.
    pub fn new(name: impl Into<String>, topology: Topology, horizon: Duration) -> Self {
        Self {
            name: name.into(),
            topology,
            provider: ProviderSetup::default(),
            timeline: Vec::new(),
            horizon,
        }
    }

    /// Adds an act that the lab carries out at `at`.
    #[must_use]
    pub fn at(mut self, at: Duration, act: impl Into<Act>) -> Self {
        self.timeline.push(ScenarioStep { at, act: act.into() });
        self.timeline.sort_by_key(|step| step.at);
        self
    }

    /// Adds a fault rule that is in force from the beginning.
    #[must_use]
    pub fn fault(self, rule: Rule) -> Self {
        self.at(Duration::ZERO, Act::Fault(rule))
    }

    /// Applies `change` to the set-up of the provider.
    #[must_use]
    pub fn with_provider(mut self, change: impl FnOnce(&mut ProviderSetup)) -> Self {
        change(&mut self.provider);
        self
    }

    /// True if a step sends a request to the HTTPS endpoint of the provider.
    pub(crate) fn reads_endpoint(&self) -> bool {
        self.timeline.iter().any(|step| matches!(step.act, Act::GetEndpoint { .. }))
    }

    /// Returns the IDs of all fault rules that the timeline adds.
    pub fn rules(&self) -> impl Iterator<Item = &RuleId> {
        self.timeline.iter().filter_map(|step| match &step.act {
            Act::Fault(rule) => Some(&rule.id),
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
