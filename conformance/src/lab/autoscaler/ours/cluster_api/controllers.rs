//! The controllers of Cluster API: MachineDeployments, MachineSets, Machines and their machines.
//!
//! [`Controllers::run`] looks at all objects at an interval, decides by [`plan`] and sends the writes. A
//! write that fails is decided again at the next look.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use sim::Sim;
use sim::world::World;

use super::objects::{
    self, API_VERSION, CLUSTER, CLUSTER_LABEL, INFRASTRUCTURE, collection, has_failed, is_deleted,
    is_marked, is_node, is_owned, name, path, replicas,
};
use crate::lab::capacity::Api;

/// Age at which a machine has a provider ID.
const MADE: SignedDuration = SignedDuration::from_secs(10);
/// Age at which a machine is a Node, and at which a wrong one fails.
const JOINS: SignedDuration = SignedDuration::from_secs(40);
/// Time that a deletion takes.
const DESTROYED: SignedDuration = SignedDuration::from_secs(10);
const FINALIZER: &str = "machine.cluster.x-k8s.io";

/// Properties that acts change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Behavior {
    /// True if new Machines get machines.
    pub(super) provisions: bool,
    /// True if the provision of new Machines fails.
    pub(super) fails: bool,
    /// True if deleted Machines go.
    pub(super) deletes: bool,
}

impl Default for Behavior {
    fn default() -> Self {
        Self { provisions: true, fails: false, deletes: true }
    }
}

/// Content of the management cluster at one time.
struct Content {
    deployments: Vec<Arc<Value>>,
    sets: Vec<Arc<Value>>,
    machines: Vec<Arc<Value>>,
    now: Timestamp,
}

/// A write of a controller.
#[derive(Clone, Debug, PartialEq)]
enum Write {
    Create(String, Value),
    Patch(String, Value),
    Delete(String),
}

pub(super) struct Controllers {
    sim: Arc<Sim>,
    api: Api,
    behavior: Arc<Mutex<Behavior>>,
    /// Interval between two looks.
    interval: Duration,
    /// Number of Machines that were created.
    n_created: usize,
}

impl Controllers {
    pub(super) fn new(
        sim: Arc<Sim>,
        api: Api,
        behavior: Arc<Mutex<Behavior>>,
        interval: Duration,
    ) -> Self {
        Self { sim, api, behavior, interval, n_created: 0 }
    }

    pub(super) async fn run(mut self) {
        loop {
            let behavior = *self.behavior.lock().expect("no holder panics");
            for write in plan(&self.content(), behavior, &mut self.n_created) {
                let sent = match &write {
                    Write::Create(collection, object) => {
                        self.api.create(collection, object).await.map(drop)
                    }
                    Write::Patch(path, patch) => self.api.patch(path, patch).await.map(drop),
                    Write::Delete(path) => self.api.delete(path).await,
                };
                if let Err(err) = sent {
                    tracing::warn!(%err, "a controller of Cluster API writes again later");
                }
            }
            tokio::time::sleep(self.interval).await;
        }
    }

    fn content(&self) -> Content {
        let world = self.sim.world();
        let age = SignedDuration::try_from(world.now().since_start()).unwrap_or_default();
        let now = world.read(|world| World::state(world).epoch()) + age;
        let all = |resource| objects::all(&self.sim, resource);
        Content {
            deployments: all("machinedeployments"),
            sets: all("machinesets"),
            machines: all("machines"),
            now,
        }
    }
}

/// Decides the writes of all controllers.
fn plan(content: &Content, behavior: Behavior, n_created: &mut usize) -> Vec<Write> {
    let mut writes = Vec::new();
    for deployment in &content.deployments {
        writes.extend(plan_deployment(deployment, &content.sets));
    }
    for set in &content.sets {
        let owned: Vec<&Value> =
            content.machines.iter().map(Arc::as_ref).filter(|it| is_owned(it, set)).collect();
        plan_set(set, owned, n_created, &mut writes);
    }
    for machine in &content.machines {
        writes.extend(plan_machine(machine, content.now, behavior));
    }
    writes
}

/// Creates the MachineSet of a MachineDeployment, or gives it its size.
fn plan_deployment(deployment: &Value, sets: &[Arc<Value>]) -> Option<Write> {
    let of_deployment = name(deployment)?;
    let wanted = replicas(deployment);
    match sets.iter().find(|it| is_owned(it, deployment)) {
        Some(set) if replicas(set) == wanted => None,
        Some(set) => {
            let patch = json!({"spec": {"replicas": wanted}});
            Some(Write::Patch(path("machinesets", &name(set)?), patch))
        }
        None => {
            let set = json!({
                "apiVersion": API_VERSION, "kind": "MachineSet",
                "metadata": {"name": format!("{of_deployment}-a"),
                    "labels": {CLUSTER_LABEL: CLUSTER},
                    "ownerReferences": [owner("MachineDeployment", deployment)]},
                "spec": {"clusterName": CLUSTER, "replicas": wanted},
            });
            Some(Write::Create(collection("machinesets"), set))
        }
    }
}

fn owner(kind: &str, object: &Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": kind, "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": true})
}

/// Creates the missing Machines of a MachineSet, or deletes those that are too many. Of these, Machines
/// in deletion count first, then marked ones, failed ones, those without Node, and then the others.
fn plan_set(set: &Value, mut owned: Vec<&Value>, n_created: &mut usize, writes: &mut Vec<Write>) {
    owned.sort_by_key(|it| match () {
        () if is_deleted(it) => 0,
        () if is_marked(it) => 1,
        () if has_failed(it) => 2,
        () if !is_node(it) => 3,
        () => 4,
    });
    let wanted = replicas(set);
    for machine in owned.iter().take(owned.len().saturating_sub(wanted)) {
        if let (false, Some(name)) = (is_deleted(machine), name(machine)) {
            writes.push(Write::Delete(path("machines", &name)));
        }
    }
    for _ in owned.len()..wanted {
        writes.push(Write::Create(collection("machines"), machine(set, *n_created)));
        *n_created += 1;
    }
}

/// Returns the `n`-th Machine.
fn machine(set: &Value, n: usize) -> Value {
    let name = format!("m-{n:04}");
    json!({
        "apiVersion": API_VERSION, "kind": "Machine",
        "metadata": {"name": name, "finalizers": [FINALIZER],
            "labels": {CLUSTER_LABEL: CLUSTER},
            "ownerReferences": [owner("MachineSet", set)]},
        "spec": {"clusterName": CLUSTER, "infrastructureRef":
            {"apiGroup": INFRASTRUCTURE, "kind": "VSphereMachine", "name": name}},
    })
}

/// Makes, joins or fails the machine of a Machine, or ends its deletion.
fn plan_machine(machine: &Value, now: Timestamp, behavior: Behavior) -> Option<Write> {
    let name = name(machine)?;
    let age = |of: &str| {
        let since = machine["metadata"][of].as_str()?.parse::<Timestamp>().ok()?;
        Some(now.duration_since(since))
    };
    if is_deleted(machine) {
        let is_over = behavior.deletes && age("deletionTimestamp")? >= DESTROYED;
        let patch = json!({"metadata": {"finalizers": null}});
        return is_over.then(|| Write::Patch(path("machines", &name), patch));
    }
    if is_node(machine) || has_failed(machine) || !behavior.provisions {
        return None;
    }
    let age = age("creationTimestamp")?;
    let status = |status: Value| {
        let path = format!("{}/status", path("machines", &name));
        Some(Write::Patch(path, json!({"status": status})))
    };
    match machine["spec"]["providerID"].as_str() {
        _ if behavior.fails && age >= JOINS => status(json!({"phase": "Failed"})),
        _ if behavior.fails => None,
        None if age >= MADE => {
            let number = name.trim_start_matches("m-");
            let id = format!("vsphere://42290000-0000-4000-8000-{number:0>12}");
            Some(Write::Patch(path("machines", &name), json!({"spec": {"providerID": id}})))
        }
        Some(_) if age >= JOINS => status(json!({"phase": "Running", "nodeRef": {"name": name}})),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine_of(name: &str, more: &Value) -> Value {
        let mut machine = json!({"metadata": {"name": name, "annotations": {}}});
        crate::lab::capacity::merge(&mut machine, more);
        machine
    }

    #[test]
    fn a_smaller_set_deletes_marked_machines_before_others() {
        let node = json!({"status": {"nodeRef": {"name": "n"}}});
        let mark = json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}},
            "status": {"nodeRef": {"name": "n"}}});
        let gone = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let machines = [("a", &node), ("b", &mark), ("c", &gone), ("d", &json!({}))]
            .map(|(name, it)| machine_of(name, it));
        let deleted = |replicas: usize| {
            let set = json!({"metadata": {"name": "s"}, "spec": {"replicas": replicas}});
            let (mut n, mut writes) = (0, Vec::new());
            plan_set(&set, machines.iter().collect(), &mut n, &mut writes);
            writes
        };
        let delete = |name| Write::Delete(path("machines", name));
        assert_eq!(deleted(4), []);
        assert_eq!(deleted(3), []);
        assert_eq!(deleted(2), [delete("b")]);
        assert_eq!(deleted(1), [delete("b"), delete("d")]);
        assert_eq!(deleted(5).len(), 1);
    }
}
