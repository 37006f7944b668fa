//! Result of a run, with queries for judges.

pub(super) mod happening;
pub(crate) mod ledger_file;
pub(super) mod recorded;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use sim::faults::RuleId;
use sim::ledger::{Kind, Record};
use sim::world::objects::{GroupResource, Op};
use sim::world::{Event, Log, State, Time};

use super::{EndpointAnswer, ExceededBound, Exit, LabEvent, RecordedLabEvent, Scrape, Stage};
use crate::scenario::{Act, Backend, Scenario};

/// Result of a run.
#[derive(Debug)]
pub struct Run {
    /// Scenario that was run.
    pub scenario: Scenario,
    /// Stage of the run.
    pub stage: Stage,
    /// True if the provider was a process, a container or a pod, on the real clock.
    pub hosted: bool,
    /// True if a real API server served the workload cluster. A change on that server then reaches
    /// the world after the server's answer; judges allow 30 s.
    pub mirrored: bool,
    /// Changes of Nodes that the scenario itself made, without the provider; in a recorded run,
    /// deletions of Nodes by other clients.
    pub by_hand: Vec<ByHand>,
    /// Events of the lab, in order: starts, suspensions and ends of replicas, and acts that failed.
    pub happened: Vec<RecordedLabEvent>,
    /// Every record of the ledger, in order: calls and notes.
    pub ledger: Vec<Record>,
    /// Log of the world.
    pub log: Log,
    /// State of the world at the end, with the provider still running.
    pub end: State,
    /// State of the world after the lab has stopped the provider.
    pub after: State,
    /// Number of times that each fault rule fired, by ID of the rule.
    pub fired: Vec<(RuleId, u64)>,
    /// End of each replica, in the order in which they ended.
    pub exits: Vec<Exit>,
    /// Time of each end in `exits`.
    pub ended_at: Vec<Time>,
    /// Bound that the provider exceeded, if the run ended for this reason.
    pub exceeded_bound: Option<ExceededBound>,
    /// Log of the provider, of level info and above in virtual time.
    pub logs: String,
    /// Number of lines of the provider's log that no judge sees, because the log is too long.
    pub n_lines_dropped: usize,
    /// Words of the provider's log below level info, only for the search for secrets.
    pub debug_words: String,
    /// Every token of the provider, for the Supervisor and, if it is a process, for the workload
    /// cluster.
    pub tokens: Vec<String>,
    /// Metrics and health of replicas in this process: of each replica when the lab asked it to
    /// stop, and of all at each [`Act::Scrape`].
    pub scrapes: Vec<Scrape>,
    /// Answers of the replicas' HTTPS endpoints to the requests of the scenario.
    pub answers: Vec<EndpointAnswer>,
    /// SHA-256 of each serving certificate that the files contained.
    pub certificates: Vec<[u8; 32]>,
    pub(super) nodes: OnceLock<BTreeMap<String, Vec<NodeEvent>>>,
}

/// A change of Nodes by another client than the provider: an act of the scenario, in the place of
/// a controller or a person, or, in a recorded run, a deletion of a Node by another client.
#[derive(Clone, Debug)]
pub struct ByHand {
    /// Time before the change.
    pub from: Time,
    /// Time after the change; equal to `from` in virtual time, because the change takes no time.
    pub to: Time,
    /// Act of the scenario, or the act that corresponds to the recorded call.
    pub act: Act,
}

impl ByHand {
    /// True if an event at this time may be part of this change.
    pub fn covers(&self, at: Time) -> bool {
        (self.from..=self.to).contains(&at)
    }
}

/// Time and kind of a change to a Node, and the Node after it; for a deletion, its last state.
pub type NodeEvent = (Time, Op, Arc<Value>);

impl Run {
    /// Returns the changes of all Nodes that had this name, in order; empty if the world's log has
    /// none. The first query reads the log for all Nodes at once, because judges query a thousand
    /// Nodes one by one.
    pub fn node_events(&self, name: &str) -> &[NodeEvent] {
        self.nodes_by_name().get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the changes of all Nodes in the world's log, by name. A Node that never changed has
    /// no entry.
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

    /// Returns, for each act that the lab could not carry out, the reason.
    pub fn refusals(&self) -> impl Iterator<Item = &str> {
        self.happened.iter().filter_map(|it| match &it.what {
            LabEvent::Refused(why) => Some(why.as_str()),
            _ => None,
        })
    }

    /// Returns the starts of replicas: the index of each replica, with the event of its start.
    pub fn starts(&self) -> impl Iterator<Item = (usize, &RecordedLabEvent)> {
        self.happened.iter().filter_map(|it| match it.what {
            LabEvent::Starts(replica) => Some((replica, it)),
            _ => None,
        })
    }

    /// Returns the backend of the provider.
    pub fn backend(&self) -> Backend {
        self.stage.mode.backend()
    }

    /// Returns the number of times that the fault rule with this ID fired.
    pub fn fired(&self, rule: &RuleId) -> u64 {
        self.fired.iter().filter(|(id, _)| id == rule).map(|(_, n)| n).sum()
    }

    /// Returns the fault rules of the scenario that never fired. Rules whose IDs agree before the
    /// slash form a group, of which only one has to fire, for example `faults/reads` and
    /// `faults/updates`.
    pub fn idle_rules(&self) -> Vec<&RuleId> {
        let subject =
            |rule: &RuleId| rule.as_str().split('/').next().unwrap_or_default().to_owned();
        let has_fired = |rule: &RuleId| {
            self.scenario.rules().any(|it| subject(it) == subject(rule) && self.fired(it) > 0)
        };
        self.scenario.rules().filter(|rule| !has_fired(rule)).collect()
    }

    /// Returns the lines that the provider logged more than `since` after the beginning of the run.
    pub fn logged_after(&self, since: Duration) -> impl Iterator<Item = &str> {
        let lines = super::capture::lines(&self.logs);
        lines.filter(move |(at, _)| *at > since).map(|(_, line)| line)
    }

    /// Returns the highest value of a metric in all scrapes of all replicas, whatever its labels,
    /// or `None` if no scrape has the metric.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let samples = self.scrapes.iter().flat_map(Scrape::samples);
        samples.filter(|it| it.name == name).map(|it| it.value).reduce(f64::max)
    }

    /// Returns the calls in a phase.
    pub fn calls_in<'a>(&'a self, phase: &'a str) -> impl Iterator<Item = &'a Record> {
        self.calls().filter(move |record| record.phase.as_deref() == Some(phase))
    }

    /// Returns every call in the ledger.
    pub fn calls(&self) -> impl Iterator<Item = &Record> {
        self.ledger.iter().filter(|record| record.kind == Kind::Call)
    }
}
