//! A scenario: a world to begin with, what happens in it and when, and how long it lasts.
//!
//! Scenarios are values. Checks build them in Rust, files hold them as YAML, sweeps and property
//! tests change them and shrink them; all run the same.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sim::faults::Rule;
use sim::world::{Command, Topology};

/// A scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// The world it begins with.
    #[serde(default)]
    pub topology: Topology,
    /// How the provider is set up.
    #[serde(default)]
    pub provider: ProviderSetup,
    /// What happens, in order of time. The provider starts at zero unless a step says otherwise.
    #[serde(default)]
    pub timeline: Vec<Step>,
    /// How long it lasts.
    #[serde(with = "sim::world::duration")]
    pub horizon: Duration,
}

/// Something that happens at a point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, after the beginning.
    #[serde(with = "sim::world::duration")]
    pub at: Duration,
    /// What.
    #[serde(rename = "do")]
    pub act: Act,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Act {
    /// Something in the world.
    World(Command),
    /// A fault rule is added.
    Fault(Rule),
    /// Every fault rule is removed.
    Heal,
    /// A new phase begins; the ledger carries its name.
    Phase(String),
    /// A replica starts.
    Start(usize),
    /// A replica is told to stop, as by SIGTERM.
    Stop(usize),
    /// A replica dies, as by SIGKILL.
    Crash(usize),
    /// The replica that leads is told to stop: it gives its lease up. Without an election, the first
    /// that runs.
    StopLeader,
    /// The replica that leads dies: its lease runs out. Without an election, the first that runs.
    CrashLeader,
    /// The replica that leads is stopped where it is, as by SIGSTOP or by a hypervisor that suspends its machine.
    SuspendLeader,
    /// Every suspended replica goes on.
    ResumeAll,
    /// The wall clock of every running replica steps by so many seconds, backwards if negative.
    StepClocks(i64),
    /// The metrics and the health of every replica that runs are read.
    Scrape,
    /// Every replica that does not run starts.
    StartAll,
    /// The provider's token for the Supervisor is another one: it stands in its file at once, and the one before
    /// is refused after a while.
    Token {
        /// How long.
        #[serde(with = "sim::world::duration")]
        grace: Duration,
    },
    /// Another hand initializes nodes that still wait for a cloud provider, from what their machines say now.
    Initialize {
        /// The node; every uninitialized one if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<String>,
        /// The other hand.
        by: Initializer,
    },
    /// One Node gets an annotation of another, as where references are given out anew. Nothing happens if there is none.
    CopyAnnotation {
        /// The annotation.
        key: String,
        /// The Node that has it.
        from: String,
        /// The Node that gets it.
        to: String,
    },
    /// From its next start on, the configuration of the provider names these vCenters alone.
    Vcenters(Vec<String>),
    /// From its next start on, the configuration of the provider names these datacenters alone.
    Datacenters(Vec<String>),
    /// The Secret with the provider's credentials gets another password.
    Secret {
        /// The Secret, in `kube-system`.
        name: String,
        /// The password, the same for every vCenter.
        password: String,
    },
}

impl Act {
    /// Whether it writes Nodes itself, as other controllers and people do.
    pub(crate) fn changes_nodes(&self) -> bool {
        matches!(
            self,
            Self::World(Command::Cluster(_))
                | Self::Initialize { .. }
                | Self::CopyAnnotation { .. }
        )
    }
}

/// Hands other than those of the provider under test that initialize nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initializer {
    /// The upstream provider, in its order of writes: provider ID, labels and taint first, addresses second.
    Upstream,
    /// The upstream provider, which dies between its two writes: the node has no addresses yet.
    UpstreamHalf,
    /// A person with kubectl: a provider ID in upper case, no labels, the taint removed.
    Person,
    /// The in-tree provider of old clusters: as upstream, with beta labels alone.
    InTree,
    /// The in-tree provider of still older clusters, whose provider IDs name a machine by its path in the inventory.
    InTreePath,
}

/// How the provider is set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ProviderSetup {
    /// Replicas, each a process of its own. More than one elect a leader.
    pub replicas: usize,
    /// Whether replica 0 and its fellows start by themselves at time zero.
    pub start: bool,
    /// Whether zones are configured.
    pub zones: bool,
    /// Whether a leader is elected; always, with several replicas.
    pub leader_election: bool,
    /// Whether several replicas run without electing a leader, as no administrator should have it: what
    /// looks for two leaders has to find them then.
    pub anarchy: bool,
    /// `--node-status-update-frequency`.
    #[serde(with = "sim::world::duration")]
    pub status_period: Duration,
    /// `--node-monitor-period`.
    #[serde(with = "sim::world::duration")]
    pub monitor_period: Duration,
    /// Workers of the node controller.
    pub workers: usize,
    /// Requests per second to the cluster, per controller.
    pub kube_qps: u32,
    /// Datacenters as the configuration names them; none stands for all.
    pub datacenters: Vec<String>,
    /// vCenters that the configuration names; every one of the world if empty.
    pub vcenters: Vec<String>,
    /// Lines added to the `nodes:` section of the configuration.
    pub nodes: Vec<(String, String)>,
    /// IP families, in order of priority; `ipv4` if empty.
    pub families: Vec<String>,
    /// Labels that the provider adds to every node that it initializes: `--node-labels`.
    pub node_labels: Vec<(String, String)>,
    /// A Secret in `kube-system` that holds the credentials; they stand in the configuration otherwise.
    pub secret: Option<String>,
    /// Whether its operator has switched the deletion of nodes off.
    pub skip_deletion: bool,
    /// True if a process logs as much as it can, where its manifest has a knob for that. In virtual time everything is
    /// looked through in any case.
    pub verbose: bool,
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
        }
    }
}

impl ProviderSetup {
    /// Whether its replicas elect a leader.
    pub fn elects(&self) -> bool {
        (self.leader_election || self.replicas > 1) && !self.anarchy
    }
}

impl Scenario {
    /// A scenario in which nothing happens but what the provider does.
    pub fn new(name: impl Into<String>, topology: Topology, horizon: Duration) -> Self {
        Self {
            name: name.into(),
            topology,
            provider: ProviderSetup::default(),
            timeline: Vec::new(),
            horizon,
        }
    }

    /// With something that happens at `at`.
    #[must_use]
    pub fn at(mut self, at: Duration, act: impl Into<Act>) -> Self {
        self.timeline.push(Step { at, act: act.into() });
        self.timeline.sort_by_key(|step| step.at);
        self
    }

    /// With a rule in force from the beginning.
    #[must_use]
    pub fn fault(self, rule: Rule) -> Self {
        self.at(Duration::ZERO, Act::Fault(rule))
    }

    /// With another set-up of the provider.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut ProviderSetup)) -> Self {
        change(&mut self.provider);
        self
    }

    /// The ids of all rules that the timeline adds.
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
