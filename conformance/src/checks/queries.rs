//! Queries with which judges read Nodes, Events and calls of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use sim::Class;
use sim::ledger::Record;
use sim::world::Time;
use sim::world::objects::{GroupResource, Key, Op};

use crate::judge::verdict::{AboutMoment as _, Verdict};
use crate::judge::{NodeFacts, facts};
use crate::lab::Run;

/// A Kubernetes Event, reduced to the fields that judges compare.
#[derive(Clone, Debug)]
pub(super) struct EventFacts {
    pub(super) kind: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) object: String,
    pub(super) uid: String,
}

impl Run {
    /// Returns the facts of a Node at the end of the run; `None` if the Node does not exist then.
    pub(super) fn node(&self, name: &str) -> Option<NodeFacts> {
        self.end.cluster.get(&Key::node(name)).map(|node| facts(node))
    }

    /// Returns the JSON object of a Node at the end of the run; `None` if the Node does not exist
    /// then.
    pub(super) fn node_object(&self, name: &str) -> Option<&Value> {
        self.end.cluster.get(&Key::node(name)).map(|node| &**node)
    }

    /// Returns every stored version of a Node with its time, from the first one on. `None` marks a
    /// deletion.
    pub(super) fn versions(&self, name: &str) -> Vec<(Time, Option<NodeFacts>)> {
        let key = Key::node(name);
        let mut versions = Vec::new();
        if let Some(node) = self.log.base().and_then(|base| base.cluster.get(&key)) {
            versions.push((Time::ZERO, Some(facts(node))));
        }
        let events = self.node_events(name).iter();
        versions
            .extend(events.map(|(at, op, node)| (*at, (*op != Op::Deleted).then(|| facts(node)))));
        versions
    }

    /// Fails if the provider has more than one view open at vCenter at the end of the scenario, in
    /// all its sessions together. A logout closes the views of its session.
    pub(super) fn keeps_one_view(&self) -> Verdict {
        let before_the_end = |call: &&Record| call.t < self.end_time() && !call.was_faulted();
        let mut open: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for call in self.calls().filter(before_the_end) {
            let views = open.entry(call.session.as_deref()).or_default();
            match call.op.as_str() {
                "CreateContainerView" | "CreateListView" => *views += 1,
                "DestroyView" => *views = views.saturating_sub(1),
                "Logout" => *views = 0,
                _ => {}
            }
        }
        let left: usize = open.values().sum();
        Verdict::pass_if(left <= 1, || {
            format!("the provider left {left} views open at vCenter; at most 1 is allowed")
        })
    }

    /// Returns the time of the first version of a Node that satisfies `wanted`; `None` if no
    /// version does.
    pub(super) fn when(&self, name: &str, wanted: impl Fn(&NodeFacts) -> bool) -> Option<Time> {
        self.versions(name)
            .into_iter()
            .find(|(_, node)| node.as_ref().is_some_and(&wanted))
            .map(|(at, _)| at)
    }

    /// Returns the time of the first version of a Node that was stored at or after `since` and
    /// satisfies `wanted`; `None` if no such version exists.
    pub(super) fn when_after(
        &self,
        name: &str,
        since: Duration,
        wanted: impl Fn(&NodeFacts) -> bool,
    ) -> Option<Time> {
        self.versions(name)
            .into_iter()
            .filter(|(at, _)| at.since_start() >= since)
            .find(|(_, node)| node.as_ref().is_some_and(&wanted))
            .map(|(at, _)| at)
    }

    /// Returns the time at which a Node was first deleted, or `None` if it never was.
    pub(super) fn deleted(&self, name: &str) -> Option<Time> {
        self.versions(name).into_iter().find(|(_, node)| node.is_none()).map(|(at, _)| at)
    }

    /// Returns the uid of the first version of a Node; `None` if the Node never existed.
    pub(super) fn first_uid(&self, name: &str) -> Option<String> {
        self.versions(name).into_iter().find_map(|(_, node)| Some(node?.uid))
    }

    /// Returns the time of the first version of a Node without the uninitialized taint; `None` if
    /// every version has the taint.
    pub(super) fn initialized(&self, name: &str) -> Option<Time> {
        self.when(name, |node| !node.uninitialized)
    }

    /// Returns the names of all Nodes at the end of the run.
    pub(super) fn nodes(&self) -> Vec<String> {
        let nodes = GroupResource::core("nodes");
        self.end
            .cluster
            .all(&nodes)
            .filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned))
            .collect()
    }

    /// Returns the Events in the workload cluster at the end of the run.
    pub(super) fn events(&self) -> Vec<EventFacts> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.end
            .cluster
            .all(&GroupResource::core("events"))
            .map(|event| EventFacts {
                kind: text(&event["type"]),
                reason: text(&event["reason"]),
                message: text(&event["message"]),
                object: text(&event["involvedObject"]["name"]),
                uid: text(&event["involvedObject"]["uid"]),
            })
            .collect()
    }

    /// Returns the provider's calls that change or delete a Node, or change its status, including
    /// unanswered ones.
    pub(super) fn writes_on<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Record> {
        self.calls().filter(move |call| {
            call.is_cluster_call()
                && call.class == Some(Class::Write)
                && call.op.contains("nodes")
                && call.target.name.as_deref() == Some(name)
        })
    }

    /// Returns the provider's calls to its backend, vCenter or Supervisor.
    pub(super) fn machine_calls(&self) -> impl Iterator<Item = &Record> {
        self.calls().filter(|call| self.backend().receives(call))
    }

    /// Returns the provider's calls to its backend except long polls and watches, which wait for
    /// changes.
    pub(super) fn lookups(&self) -> impl Iterator<Item = &Record> {
        self.machine_calls().filter(|call| !self.backend().is_wait(call))
    }

    /// Fails unless each of these nodes lost its uninitialized taint by `since + bound`.
    pub(super) fn initializes(
        &self,
        names: &[String],
        since: Duration,
        bound: Duration,
    ) -> Verdict {
        for name in names {
            match self.initialized(name) {
                None => {
                    return Verdict::fail(
                        format!("node {name} was never initialized").late(None::<Time>),
                    );
                }
                Some(at) if at.since_start() > since + bound => {
                    return Verdict::fail(
                        format!(
                            "node {name} was initialized at {at}; the limit is {:?} after {since:?}",
                            bound
                        )
                        .late(at),
                    );
                }
                Some(_) => {}
            }
        }
        Verdict::Pass
    }

    /// Inconclusive unless a Node has several addresses at the end, because a single address has no
    /// order.
    pub(super) fn shows_several(&self, name: &str) -> Verdict {
        let node = self.node(name);
        let shown: BTreeSet<&str> = node.iter().flat_map(NodeFacts::ips).collect();
        if shown.len() > 1 {
            return Verdict::Pass;
        }
        Verdict::inconclusive(format!(
            "node {name} has fewer than two different addresses: {shown:?}"
        ))
    }

    /// Judges the start of a case in which the provider may not list machines. `did` is true if the
    /// provider did the work that the case requires first. Passes if `did` is true. Otherwise the
    /// case is not supported if the provider tried a list or read a machine, and inconclusive if it
    /// did neither.
    pub(super) fn supports_missing_list(&self, did: bool) -> Verdict {
        let asked = |op: &str| self.calls().any(|call| call.op == op && !call.was_faulted());
        match did {
            true => Verdict::Pass,
            false
                if self.calls().any(|call| call.op == "list virtualmachines")
                    || asked("get virtualmachines") =>
            {
                Verdict::not_supported("the provider needs the right to list machines".to_owned())
            }
            false => {
                Verdict::inconclusive("the provider neither listed nor read a machine".to_owned())
            }
        }
    }

    /// Passes if the condition Ready of a Node had a value other than `True` at some time, and is
    /// inconclusive otherwise.
    pub(super) fn was_not_ready(&self, name: &str) -> Verdict {
        match self.when(name, |node| node.ready != "True") {
            Some(_) => Verdict::Pass,
            None => Verdict::inconclusive(format!(
                "node {name} was never NotReady, so the case tested nothing"
            )),
        }
    }
}

/// Returns the names `node-0001` to `node-<n>`.
pub(super) fn names(n: u32) -> Vec<String> {
    (1..=n).map(name).collect()
}

/// Returns the name of the `n`-th machine and node.
pub(super) fn name(n: u32) -> String {
    format!("node-{n:04}")
}
