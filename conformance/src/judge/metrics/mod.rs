//! Checks that the metrics of a replica agree with the calls in the ledger.
//!
//! The judge compares a scrape with the calls of its replica between the last start and the scrape.
//! A call that had not ended before the scrape may count or not, as may a call that the replica
//! abandoned before its end.

mod families;
mod machines;
mod nodes;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use sim::Face;
use sim::ledger::{Kind, Record};
use sim::world::Command;

use super::{Invariant, Violation};
use crate::lab::{Run, Sample, Scrape, label, sum};
use crate::scenario::{Act, Scenario};

/// Metric of vCenter calls by operation, with their durations. Upstream uses the same name.
const CALLS: &str = "cloudprovider_vsphere_api_request_duration_seconds_count";
/// Maximum number of keys that the workers of a queue hold at once. A higher number is an error of
/// the metrics.
const WORKERS: f64 = 64.0;

/// Returns a violation for each number in a scrape that contradicts the ledger, the world's log or
/// another number of the scrape.
pub(super) fn violations(run: &Run) -> Vec<Violation> {
    let lives = run.scrapes.iter().map(|scrape| ScrapedReplica::new(run, scrape));
    lives.flat_map(|life| life.violations()).collect()
}

/// True if every answer arrives: the scenario has no fault rule, and no command that stops a
/// vCenter, ends sessions or watches, restores the cluster, revokes a right or changes a password.
fn is_calm(scenario: &Scenario) -> bool {
    scenario.timeline.iter().all(|step| match &step.act {
        Act::Fault(_) => false,
        Act::World(command) => !matches!(
            command,
            Command::StopVCenter { .. }
                | Command::ExpireSessions { .. }
                | Command::EndWatches { .. }
                | Command::RestoreCluster
                | Command::RevokePrivilege(_)
                | Command::RotatePassword { .. }
        ),
        _ => true,
    })
}

/// A scrape of a replica, with the calls of this replica since its start.
struct ScrapedReplica<'a> {
    run: &'a Run,
    scrape: &'a Scrape,
    samples: Vec<Sample>,
    calls: Vec<&'a Record>,
    /// True if the scenario suspends a leader. The ledger does not show whether a suspended replica
    /// has received an answer.
    was_suspended: bool,
    /// True if the run has no other replica.
    is_alone: bool,
    /// True if the scenario makes no call fail, so that the replica receives every answer:
    /// [`is_calm`].
    is_calm: bool,
}

impl<'a> ScrapedReplica<'a> {
    fn new(run: &'a Run, scrape: &'a Scrape) -> Self {
        let until = run.ledger.iter().take_while(|it| it.seq < scrape.next_seq);
        let is_its = |replica: usize, seq: u64| replica == scrape.replica && seq < scrape.next_seq;
        let starts = run.starts().filter(|(replica, it)| is_its(*replica, it.seq));
        let since = starts.last().map_or(0, |(_, it)| it.seq);
        let caller = label(scrape.replica);
        let calls = until
            .filter(|it| it.kind == Kind::Call && it.seq > since && it.client.client == caller)
            .collect();
        let was_suspended =
            run.scenario.timeline.iter().any(|step| matches!(step.act, Act::SuspendLeader));
        let samples = scrape.samples();
        let is_alone = run.scenario.provider.replicas < 2;
        let is_calm = is_calm(&run.scenario);
        Self { run, scrape, samples, calls, was_suspended, is_alone, is_calm }
    }

    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        sum(&self.samples, name, labels)
    }

    fn violations(&self) -> Vec<Violation> {
        let mut said = self.vcenter_calls();
        said.extend(self.logins());
        said.extend(self.kubernetes_requests());
        said.extend(self.deletions());
        said.extend(self.queues());
        said.extend(self.supervisor());
        said.extend(self.supervisor_machines());
        said.extend(self.troubles());
        said.extend(self.families());
        said.extend(self.leadership());
        said.extend(self.initialized());
        said.extend(self.sync_failures());
        said.extend(self.node_news());
        said.extend(self.holds());
        said.extend(self.view());
        let to_violation = |text| Violation {
            invariant: Invariant::MetricsAreTrue,
            at: self.scrape.at,
            text: format!("replica {}: {text}", self.scrape.replica),
        };
        said.into_iter().map(to_violation).collect()
    }

    /// True if the replica has certainly received the success of this call before the scrape, and
    /// no fault rule changed the answer.
    fn is_heard(&self, call: &Record) -> bool {
        let is_over = call
            .ended
            .as_ref()
            .is_some_and(|ended| ended.at < self.scrape.at && ended.broken.is_none());
        is_over && call.succeeded() && !call.was_faulted() && !self.was_suspended
    }

    /// Returns two numbers of matching calls: those that certainly ended for the replica before the
    /// scrape, and those that have begun.
    fn counted(&self, is_one: impl Fn(&Record) -> bool) -> (f64, f64) {
        let (mut ended, mut begun) = (0.0, 0.0);
        for call in self.calls.iter().filter(|call| is_one(call)) {
            begun += 1.0;
            let is_over = call.ended.as_ref().is_some_and(|it| {
                it.at < self.scrape.at && it.broken.is_none_or(|why| why != "abandoned")
            });
            if is_over && !self.was_suspended {
                ended += 1.0;
            }
        }
        (ended, begun)
    }

    /// Compares the metric of vCenter calls with the ledger, for each operation of each vCenter:
    /// all calls, successes and failures.
    fn vcenter_calls(&self) -> Vec<String> {
        let mut said = Vec::new();
        let mut operations: BTreeMap<(&str, &str), ()> = BTreeMap::new();
        for call in self.calls.iter().filter(|call| call.is_vcenter_call()) {
            operations.insert((&call.server, &call.op), ());
        }
        for (vcenter, operation) in operations.into_keys() {
            let is_one = |call: &Record| {
                call.is_vcenter_call() && call.server == vcenter && call.op == operation
            };
            let labels = [("vcenter", vcenter), ("request", operation)];
            let all = self.sum(CALLS, &labels);
            let well = self.sum(CALLS, &[labels[0], labels[1], ("code", "ok")]);
            let (ended, _) = self.counted(is_one);
            let (_, may_be_well) =
                self.counted(|call| is_one(call) && (call.succeeded() || call.ended.is_none()));
            let (bad, _) = self.counted(|call| {
                is_one(call)
                    && call.ended.as_ref().is_some_and(|it| it.status.is_some_and(|it| it >= 400))
            });
            if all < ended {
                said.push(format!(
                    "{CALLS} of {operation} at {vcenter} is {all}, but {ended} calls have ended"
                ));
            }
            if well > may_be_well {
                said.push(format!(
                    "{CALLS} of {operation} at {vcenter} with code ok is {well}, but at most {may_be_well} calls succeeded"
                ));
            }
            if all - well < bad {
                said.push(format!(
                    "{CALLS} of {operation} at {vcenter} with codes other than ok is {}, but {bad} calls failed",
                    all - well
                ));
            }
        }
        said
    }

    /// Compares the metric of logins with the metric of calls of the login operations.
    fn logins(&self) -> Vec<String> {
        let apis = [("Login", "soap"), ("cis.session.create", "vapi")];
        let differing = apis.into_iter().filter_map(|(operation, api)| {
            let logins = self.sum("vsphere_logins_total", &[("api", api)]);
            let calls = self.sum(CALLS, &[("request", operation)]);
            (logins != calls).then(|| {
                format!(
                    "vsphere_logins_total of {api} is {logins}, but {CALLS} of {operation} is {calls}"
                )
            })
        });
        differing.collect()
    }

    /// Compares the metric of requests to the workload cluster and to the Supervisor with the
    /// ledger, in total and by status code.
    fn kubernetes_requests(&self) -> Vec<String> {
        const REQUESTS: &str = "rest_client_requests_total";
        let mut said = Vec::new();
        for (server, face) in [("cluster", Face::Cluster), ("supervisor", Face::Supervisor)] {
            let all = self.sum(REQUESTS, &[("server", server)]);
            // Leaves out requests with an outdated token, because the provider repeats them below
            // the layer that counts.
            let is_one = |call: &Record| {
                let status = call.ended.as_ref().and_then(|ended| ended.status);
                call.face == Some(face) && !(face == Face::Supervisor && status == Some(401))
            };
            let (ended, _) = self.counted(is_one);
            let (_, begun) = self.counted(|call| call.face == Some(face));
            // A streamed answer already counts when it begins.
            if all < ended || all > begun {
                said.push(format!(
                    "{REQUESTS} of {server} is {all}, but {begun} calls have begun, and {ended} of them have ended"
                ));
            }
            let codes = self.calls.iter().filter(|call| is_one(call));
            let codes: BTreeSet<u16> =
                codes.filter_map(|call| call.ended.as_ref()?.status).collect();
            for code in codes {
                let text = code.to_string();
                let counted = self.sum(REQUESTS, &[("server", server), ("code", &text)]);
                let (ended, _) = self.counted(|call| {
                    let ended = call.ended.as_ref().filter(|it| it.broken.is_none());
                    is_one(call) && ended.is_some_and(|it| it.status == Some(code))
                });
                if counted < ended {
                    said.push(format!("{REQUESTS} of {server} with code {code} is {counted}, but {ended} calls ended with it"));
                }
            }
        }
        said
    }

    fn deletions(&self) -> Option<String> {
        let counted = self.sum("vsphere_nodes_deleted_total", &[]);
        let is_one = |call: &Record| call.op == "delete nodes" && call.is_cluster_call();
        let (ended, _) = self.counted(|call| is_one(call) && call.succeeded());
        let (_, begun) = self.counted(is_one);
        (counted < ended || counted > begun).then(|| {
            format!(
                "vsphere_nodes_deleted_total is {counted}, but {begun} deletions were sent, and {ended} of them succeeded"
            )
        })
    }

    /// Checks that each added key waits or was taken, that each taken key is in work or was given
    /// back, and that the metrics of unfinished work agree.
    fn queues(&self) -> Vec<String> {
        let names = self.samples.iter().filter(|it| it.name == "workqueue_adds_total");
        let names: Vec<&str> =
            names.filter_map(|it| Some(it.labels.get("name")?.as_str())).collect();
        let mut said = Vec::new();
        for name in names {
            let of = |metric: &str| self.sum(&format!("workqueue_{metric}"), &[("name", name)]);
            let (adds, depth) = (of("adds_total"), of("depth"));
            let (taken, done) =
                (of("queue_duration_seconds_count"), of("work_duration_seconds_count"));
            let at_hand = taken - done;
            if adds != depth + taken {
                said.push(format!(
                    "queue {name}: {adds} keys were added, but {depth} wait and {taken} were taken"
                ));
            }
            if !(0.0..=WORKERS).contains(&at_hand) {
                said.push(format!("queue {name}: {taken} keys were taken and {done} given back, but 0 to {WORKERS} may be in work"));
            }
            let (unfinished, longest) =
                (of("unfinished_work_seconds"), of("longest_running_processor_seconds"));
            if (at_hand == 0.0 && unfinished != 0.0)
                || longest > unfinished
                || (unfinished > 0.0 && longest == 0.0)
            {
                said.push(format!(
                    "queue {name}: contradictory metrics: {at_hand} keys are in work, for {unfinished} s in total, the oldest for {longest} s"
                ));
            }
        }
        said
    }

    /// Compares the metrics of lists and reads of VirtualMachines with the ledger, and the state of
    /// the view with the leadership of the replica. If the replica leads, also checks the age of
    /// the last news of machines. Checks nothing with vCenter or in the instances mode `v1`.
    fn supervisor(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.run.backend().is_vcenter() || self.run.stage.mode.is_v1() {
            return said;
        }
        for (metric, operation) in [
            ("vsphere_supervisor_lists_total", "list virtualmachines"),
            ("vsphere_supervisor_reads_total", "get virtualmachines"),
        ] {
            let counted = self.sum(metric, &[]);
            // The metric counts a list in pages once, even if the provider restarts it because its
            // pages expired. So the comparison takes only first pages.
            let is_first =
                |call: &Record| call.op == operation && !call.req.detail.contains("continue");
            let (_, begun) = self.counted(is_first);
            let (ended, _) = self.counted(|call| {
                is_first(call) && (call.succeeded() || operation == "get virtualmachines")
            });
            if counted < ended || counted > begun {
                said.push(format!("{metric} is {counted}, but {begun} calls have begun, and {ended} of them have ended"));
            }
        }
        let states = self.sum("vsphere_supervisor_view_state", &[]);
        let leads = self.sum("leader_election_master_status", &[]);
        if states != leads {
            said.push(format!("vsphere_supervisor_view_state is 1 for {states} states, but leader_election_master_status is {leads}"));
        }
        if leads == 1.0 {
            said.extend(self.last_contact());
        }
        said
    }

    /// Compares the metric of the age of the last news of machines with the lists in the ledger.
    /// The age must be negative until a list is answered. After that, in a calm scenario without
    /// lists in pages, it must be between zero and the time since the first answered list. Later
    /// news may come by a watch, so the age may be less than that time. The comparison takes the
    /// first list, because a later list that proves an absence need not count as news.
    fn last_contact(&self) -> Option<String> {
        const AGE: &str = "vsphere_supervisor_last_contact_seconds";
        let at = self.scrape.at;
        let age = self.sum(AGE, &[]);
        let lists = || self.calls.iter().filter(|call| call.op == "list virtualmachines");
        let is_answered =
            |call: &Record| call.succeeded() && call.ended.as_ref().is_some_and(|it| it.at <= at);
        if !lists().any(|call| is_answered(call)) {
            return (age >= 0.0).then(|| format!("{AGE} is {age}, but no list was answered yet"));
        }
        // For a list in pages, only the answer to the last page counts, so the comparison is left
        // out.
        let is_paged = lists().any(|call| call.req.detail.contains("continue"));
        let first =
            lists().find(|call| self.is_heard(call)).filter(|_| self.is_calm && !is_paged)?;
        let since = at.since(first.ended.as_ref()?.at).as_secs_f64();
        (age < 0.0 || age > since)
            .then(|| format!("{AGE} is {age}, but the first list was answered {since} s before"))
    }
}
