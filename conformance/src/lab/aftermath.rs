//! What a run leaves behind, and what judges ask it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use sim::ledger::{Kind, Record};
use sim::world::objects::{GroupResource, Op};
use sim::world::{Event, Log, State, Time};

use super::{Exit, Passed, Scrape, Stage};
use crate::backend::Backend;
use crate::scenario::{Act, Scenario};

/// What a run leaves behind.
#[derive(Debug)]
pub struct Run {
    /// The scenario as it was run.
    pub scenario: Scenario,
    /// How it was run.
    pub stage: Stage,
    /// Whether the provider was a process, a container or a pod, on the real clock.
    pub hosted: bool,
    /// Whether a real API server answered for the workload cluster: the world hears of a change a moment after the answer.
    pub mirrored: bool,
    /// Changes of Nodes that the scenario itself made.
    pub by_hand: Vec<ByHand>,
    /// Every call, in order.
    pub ledger: Vec<Record>,
    /// Everything that happened in the world.
    pub log: Log,
    /// The world at the end, with the provider still running.
    pub end: State,
    /// The world after the provider was told to stop.
    pub after: State,
    /// How often each rule fired.
    pub fired: Vec<(String, u64)>,
    /// How each replica ended, in order of starts.
    pub exits: Vec<Exit>,
    /// When each of these ended.
    pub ended_at: Vec<Time>,
    /// The bound that the provider has passed, which has ended the run.
    pub passed: Option<Passed>,
    /// What the provider logged.
    pub logs: String,
    /// The words of what it logged below level info; only looked through for secrets.
    pub whispers: String,
    /// Tokens that it was given.
    pub tokens: Vec<String>,
    /// Metrics and health of our replicas: of each when it was told to stop, and whenever the scenario asked.
    pub scrapes: Vec<Scrape>,
    pub(super) nodes: OnceLock<BTreeMap<String, Vec<NodeEvent>>>,
}

/// A change of Nodes that the scenario itself made, in the place of other controllers and people.
#[derive(Clone, Debug)]
pub struct ByHand {
    /// Before the change.
    pub from: Time,
    /// After it: the same moment in virtual time.
    pub to: Time,
    /// What the scenario did.
    pub act: Act,
}

impl ByHand {
    /// Whether what happened at this moment may be its work.
    pub fn covers(&self, at: Time) -> bool {
        (self.from..=self.to).contains(&at)
    }
}

/// When something happened to a Node, what, and the object: as it was, if it was deleted.
pub type NodeEvent = (Time, Op, Arc<Value>);

impl Run {
    /// What happened to a Node. The log is read once for all of them: judges ask for a thousand, one by one.
    pub fn node_events(&self, name: &str) -> &[NodeEvent] {
        self.nodes_by_name().get(name).map_or(&[], Vec::as_slice)
    }

    /// Every Node that there was, by name, with what happened to it.
    pub fn nodes_by_name(&self) -> &BTreeMap<String, Vec<NodeEvent>> {
        self.nodes.get_or_init(|| {
            let mut nodes: BTreeMap<String, Vec<NodeEvent>> = BTreeMap::new();
            for (at, event) in self.log.entries() {
                if let Event::Cluster(event) = event
                    && event.key.resource == GroupResource::core("nodes")
                {
                    let of = nodes.entry(event.key.name.clone()).or_default();
                    of.push((*at, event.op, event.object.clone()));
                }
            }
            nodes
        })
    }

    /// What stands behind the provider.
    pub fn backend(&self) -> Backend {
        self.stage.mode.backend()
    }

    /// How often the rule fired.
    pub fn fired(&self, rule: &str) -> u64 {
        self.fired.iter().filter(|(id, _)| id == rule).map(|(_, n)| n).sum()
    }

    /// Lines that the provider logged after `since`.
    pub fn logged_after(&self, since: Duration) -> impl Iterator<Item = &str> {
        let lines = crate::capture::lines(&self.logs);
        lines.filter(move |(at, _)| *at > since).map(|(_, line)| line)
    }

    /// The highest value of a metric that any replica served, whatever its labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let samples = self.scrapes.iter().flat_map(Scrape::samples);
        samples.filter(|it| it.name == name).map(|it| it.value).reduce(f64::max)
    }

    /// Calls in a phase.
    pub fn calls_in<'a>(&'a self, phase: &'a str) -> impl Iterator<Item = &'a Record> {
        self.calls().filter(move |record| record.phase.as_deref() == Some(phase))
    }

    /// Every call.
    pub fn calls(&self) -> impl Iterator<Item = &Record> {
        self.ledger.iter().filter(|record| record.kind == Kind::Call)
    }
}
