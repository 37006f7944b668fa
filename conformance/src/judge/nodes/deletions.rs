//! Checks deletions of Nodes: the content of each request, and the answers that the provider had
//! before it.

use std::collections::BTreeMap;

use serde_json::Value;
use sim::ledger::Record;
use sim::world::objects::{GroupResource, Op};
use sim::world::vcenter::{Change, MoRef, VcEvent};
use sim::world::{Event, State, Time};

use super::authors;
use crate::judge::Invariant::{self, NoDeletionOnError, PredecessorOnly};
use crate::judge::Violation;
use crate::lab::Run;
use crate::lab::facts::facts;
use crate::scenario::{Act, Backend};

/// Name of a vCenter, and reference of a machine there.
type Machine = (String, MoRef);

/// Checks the requests to delete Nodes, and the times of deletions against the loss of the Nodes'
/// machines.
pub(in crate::judge) struct Judge<'a> {
    run: &'a Run,
    found: Vec<Violation>,
    /// Every request of the provider to delete a Node, in order.
    requests: Vec<&'a Record>,
    /// Calls about machines with an answer other than an error (see [`is_answer`]), with the times
    /// of their ends; `None` for a watch or long poll that is still open.
    answers: Vec<(&'a Record, Option<Time>)>,
    /// Machine on which each node's kubelet ran last, by name of the node.
    owners: BTreeMap<String, Machine>,
    /// Time at which each lost machine was removed or changed its UUID.
    gone: BTreeMap<Machine, Time>,
    /// For each UUID, the last machine that had it.
    had: BTreeMap<uuid::Uuid, Machine>,
    /// Creation time of the Node of each name.
    made: BTreeMap<String, Time>,
}

impl<'a> Judge<'a> {
    /// Creates the judge at the beginning of a run.
    pub(in crate::judge) fn new(run: &'a Run) -> Self {
        let asked = authors::deletions(run);
        let backend = run.backend();
        let heard = run.calls().filter(|call| is_answer(backend, call));
        let mut judge = Self {
            run,
            found: Vec::new(),
            requests: asked.collect(),
            answers: heard.map(|call| (call, call.ended.as_ref().map(|ended| ended.at))).collect(),
            owners: BTreeMap::new(),
            gone: BTreeMap::new(),
            had: BTreeMap::new(),
            made: BTreeMap::new(),
        };
        if let Some(base) = run.log.base() {
            judge.begin(base);
        }
        judge
    }

    /// Returns all violations. For our provider in virtual time, they include requests without the
    /// UID of the Node.
    pub(in crate::judge) fn violations(mut self) -> Vec<Violation> {
        if !self.run.hosted {
            self.without_uid();
        }
        self.found
    }

    fn begin(&mut self, base: &State) {
        for (node, kubelet) in &base.kubelets {
            self.owners.insert(node.clone(), (kubelet.vcenter.clone(), kubelet.machine));
        }
        for (name, vcenter) in &base.vcenters {
            for (id, _, machine) in vcenter.inventory.machines() {
                self.had.extend(machine.config.uuid.map(|uuid| (uuid, (name.clone(), id))));
            }
        }
    }

    /// Examines the next event of the log.
    pub(in crate::judge) fn see(&mut self, at: Time, event: &Event, before: &State, after: &State) {
        match event {
            Event::KubeletSet { node, kubelet: Some(kubelet) } => {
                self.owners.insert(node.clone(), (kubelet.vcenter.clone(), kubelet.machine));
            }
            Event::VCenter { vcenter, event: VcEvent::Object { id, change } } => {
                let uuid = |state: &State| {
                    state.vcenter(vcenter)?.inventory.machine(*id).and_then(|it| it.config.uuid)
                };
                match change {
                    Change::Created(_) | Change::Config(_) | Change::Removed => {}
                    _ => return,
                }
                let (old, new) = (uuid(before), uuid(after));
                if let Some(new) = new {
                    self.had.insert(new, (vcenter.clone(), *id));
                }
                if old.is_some() && old != new {
                    self.gone.insert((vcenter.clone(), *id), at);
                }
            }
            Event::Cluster(event) if event.key.resource == GroupResource::core("nodes") => {
                let name = &event.key.name;
                match event.op {
                    Op::Added => {
                        self.made.insert(name.clone(), at);
                    }
                    Op::Deleted => self.deleted(at, name, &event.object, after),
                    Op::Modified => {}
                }
            }
            _ => {}
        }
    }

    fn deleted(&mut self, at: Time, name: &str, node: &Value, after: &State) {
        // Passes over deletions by a person or the scenario.
        let by = self.requests.iter().find(|call| authors::is_author(self.run, call, name, at));
        let Some(call) = by.copied() else { return };
        if self.made.get(name).is_some_and(|made| *made > call.t) {
            let text = format!(
                "node {name} was deleted by a request sent at {}, before the node was created",
                call.t
            );
            self.found.push(Violation { invariant: PredecessorOnly, at, text });
        }
        self.unheard(at, name, node, call, after);
    }

    /// Reports a deletion if a vCenter that could own the machine, or the Supervisor, answered no
    /// call about machines between the loss of the machine and the request. If the machine was not
    /// lost before the request, every earlier answer counts.
    fn unheard(&mut self, at: Time, name: &str, node: &Value, call: &Record, after: &State) {
        let node = facts(node);
        let uuid = node.provider_id.as_deref().and_then(|it| it.strip_prefix("vsphere://"));
        let named = uuid.and_then(|it| it.parse().ok()).and_then(|uuid| self.had.get(&uuid));
        let machine = self.owners.get(name).or(named);
        let lost = machine.and_then(|machine| self.gone.get(machine)).copied();
        let servers: Vec<Option<&str>> = match self.run.backend() {
            Backend::Supervisor => vec![None],
            Backend::VCenter => asked_for(self.run, machine, after),
        };
        let lost = lost.filter(|lost| *lost <= call.t).unwrap_or(Time::ZERO);
        for server in servers {
            let is_heard = self.answers.iter().any(|(heard, ended)| {
                heard.t <= call.t
                    && server.is_none_or(|server| heard.server == server)
                    && ended.is_none_or(|ended| ended >= lost && ended <= call.t)
            });
            if !is_heard {
                let who = server.unwrap_or("the Supervisor");
                let text = format!(
                    "node {name} was deleted although {who} answered no call about machines since \
                     {lost} (loss of its machine, or start of the world)"
                );
                self.found.push(Violation { invariant: NoDeletionOnError, at, text });
            }
        }
    }

    /// Reports each request without the UID of the Node, because a request by name may delete
    /// another Node of that name.
    fn without_uid(&mut self) {
        let invariant = Invariant::PredecessorOnly;
        for call in self.requests.iter().filter(|call| !names_a_uid(&call.req.detail)) {
            let text = format!("a request to delete a Node does not name its UID: {call}");
            self.found.push(Violation { invariant, at: call.t, text });
        }
    }
}

/// True if the preconditions of a deletion, as the ledger keeps them, contain a UID.
fn names_a_uid(detail: &str) -> bool {
    let preconditions: Value = serde_json::from_str(detail).unwrap_or_default();
    preconditions["uid"].as_str().is_some_and(|uid| !uid.is_empty())
}

/// True if a call is about machines and has an answer other than an error. "Not found" is an
/// answer, and so is a watch or long poll that is still open. A list that omits an existing machine
/// is also an answer: invariant 1 judges a deletion that relies on it.
fn is_answer(backend: Backend, call: &Record) -> bool {
    let is_about_machines = backend.receives(call)
        && backend.operations().iter().any(|op| match op.strip_suffix('*') {
            Some(begin) => call.op.starts_with(begin),
            None => call.op == *op,
        });
    let says_not_there = |fault: &str| match backend {
        Backend::VCenter => fault == "ManagedObjectNotFound",
        Backend::Supervisor => fault == "NotFound" && call.op.starts_with("get "),
    };
    let fault = call.ended.as_ref().and_then(|ended| ended.fault.as_deref());
    let tells = match &call.ended {
        Some(_) => call.succeeded() || fault.is_some_and(says_not_there),
        None => backend.is_wait(call),
    };
    is_about_machines && tells
}

/// Returns the vCenters that could own a machine: those in the provider's configuration, or all if
/// the scenario names none. If the configuration changes during the run, returns only the vCenter
/// of the machine, or nothing without a machine.
fn asked_for<'b>(
    run: &Run,
    machine: Option<&'b Machine>,
    after: &'b State,
) -> Vec<Option<&'b str>> {
    let owner = machine.map(|(vcenter, _)| vcenter.as_str());
    let changes = run.scenario.timeline.iter().any(|step| matches!(step.act, Act::Vcenters(_)));
    if changes {
        return owner.map(Some).into_iter().collect();
    }
    let named = &run.scenario.provider.vcenters;
    let could_own = after.vcenters.keys().filter(|it| named.is_empty() || named.contains(it));
    could_own.map(|it| Some(it.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sim::world::{Command, Topology};

    use super::*;
    use crate::checks::build::create_joining_machine;
    use crate::judge::safety;
    use crate::lab::{self, Stage};
    use crate::scenario::Scenario;

    /// Returns a run in which a node joins and its machine is deleted at 120 s, so that the
    /// provider deletes the Node.
    fn a_deletion(mutant: Option<::provider::Mutant>, backend: Backend) -> Run {
        let gone = Duration::from_secs(120);
        let topology = Topology::zones(1).machines(3);
        let scenario = Scenario::new("", topology, Duration::from_secs(300))
            .at(Duration::from_secs(30), create_joining_machine("late", None))
            .at(gone, Command::DeleteMachine("late".into()));
        lab::run(&scenario, &Stage { mode: backend.into(), mutant, ..Stage::default() })
    }

    fn broken(run: &Run) -> Vec<Violation> {
        let is_here = |it: &Violation| matches!(it.invariant, PredecessorOnly | NoDeletionOnError);
        safety(run).into_iter().filter(is_here).collect()
    }

    #[test]
    fn a_deletion_without_uid_breaks_the_invariant_and_one_with_it_does_not() {
        for backend in Backend::ALL {
            assert_eq!(broken(&a_deletion(None, backend)), []);
            let found = broken(&a_deletion(Some(::provider::Mutant::NoUidPrecondition), backend));
            assert!(found.iter().any(|it| it.invariant == PredecessorOnly), "{found:?}");
        }
    }

    #[test]
    fn another_provider_may_leave_the_uid_out_unless_it_hits_a_younger_node() {
        let mut run = a_deletion(Some(::provider::Mutant::NoUidPrecondition), Backend::VCenter);
        run.hosted = true;
        assert_eq!(broken(&run), []);
        let call = run.ledger.iter_mut().find(|call| call.op == "delete nodes").unwrap();
        call.t = Time::after_start(Duration::from_secs(20));
        let found = broken(&run);
        assert!(found.iter().any(|it| it.invariant == PredecessorOnly), "{found:?}");
    }

    #[test]
    fn a_deletion_after_nothing_but_errors_breaks_the_invariant() {
        for backend in Backend::ALL {
            let mut run = a_deletion(None, backend);
            for call in run.ledger.iter_mut().filter(|call| backend.receives(call)) {
                let ended = call.ended.get_or_insert_default();
                if ended.at >= Time::after_start(Duration::from_secs(120)) {
                    (ended.status, ended.fault) = (Some(503), Some("Unavailable".to_owned()));
                }
            }
            let found = broken(&run);
            assert!(found.iter().any(|it| it.invariant == NoDeletionOnError), "{found:?}");
        }
    }
}
