//! The Supervisor: the Kubernetes API inside vSphere through which workload clusters get their
//! machines.
//!
//! The Supervisor has an object store like the workload cluster, with the additional kinds of
//! [`DEFINITIONS`]. The module `vmoperator` simulates VM Operator, which creates machines from the
//! VirtualMachine objects of the Supervisor.

pub mod conversion;
mod operator;
mod topology;
pub(crate) mod vmoperator;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use operator::{Operator, OperatorChange};
pub use topology::SupervisorTopology;
pub use vmoperator::OUTAGE;

use crate::objects::{self, GroupResource, Op, Quota};
use crate::reactions::{Reaction, Step};
use crate::{Ids, Time};

/// The initial CustomResourceDefinitions of a Supervisor, as a JSON list; `schemas/supervisor.py`
/// generates it.
pub const DEFINITIONS: &str = include_str!("../../schemas/supervisor.json");

static PARSED: LazyLock<Vec<Value>> = LazyLock::new(|| {
    serde_json::from_str(DEFINITIONS).expect("schemas/supervisor.json is valid JSON")
});

/// The state of the Supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Supervisor {
    /// Supervisor namespace of the workload cluster; contains the cluster's VirtualMachine objects.
    /// Empty if the world has no Supervisor.
    pub namespace: String,
    /// Name of the workload cluster; empty if the world has no Supervisor.
    pub cluster: String,
    /// Name of the vCenter in which VM Operator creates machines; empty if the world has no
    /// Supervisor.
    pub vcenter: String,
    /// The Kubernetes objects of the Supervisor.
    pub objects: objects::Store,
    /// The settings of VM Operator.
    #[serde(default)]
    pub operator: Operator,
    /// Quotas on the numbers of objects, by the quotas' names.
    #[serde(default)]
    pub quotas: BTreeMap<String, Quota>,
    /// The pending step of VM Operator for each VirtualMachine that has one, by the object's path.
    pending: BTreeMap<String, Pending>,
    /// Paths of VirtualMachines, by the MoRef of the machine (`status.uniqueID`).
    machines: BTreeMap<String, String>,
    /// Paths of VirtualMachines, by the instance UUID of the machine (`status.instanceUUID`).
    #[serde(default)]
    instances: BTreeMap<String, String>,
}

/// A pending step of VM Operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) step: Step,
    /// World time at which the step is due; `None` if the step waits for
    /// [`Command::Tell`](crate::Command::Tell).
    pub(crate) at: Option<Time>,
    pub(crate) id: u64,
}

/// The last store that [`initial_store`] built, with its arguments.
static LAST_STORE: Mutex<Option<LastStore>> = Mutex::new(None);

struct LastStore {
    ids: Ids,
    now: Timestamp,
    namespace: String,
    store: Arc<objects::Store>,
}

/// Returns the store of a new Supervisor. Installing the definitions takes longer than most worlds
/// live, so the last store is kept for a next world with the same arguments.
///
/// The memory does not break the purity of the crate: a store depends on the arguments alone, so a
/// caller gets the same value whether the memory has it or not, and gets it as a copy. No lock is
/// held while a store is built; threads that need one at the same time build the same store.
fn initial_store(ids: Ids, now: Timestamp, namespace: &str) -> objects::Store {
    let is_same = |it: &&LastStore| (it.ids, it.now, &*it.namespace) == (ids, now, namespace);
    let kept = last_store().as_ref().filter(is_same).map(|last| Arc::clone(&last.store));
    let store = kept.unwrap_or_else(|| {
        let store = Arc::new(build_store(ids, now, namespace));
        let namespace = namespace.to_owned();
        let last = LastStore { ids, now, namespace, store: Arc::clone(&store) };
        // Drops the store that was there before after the lock.
        let _before = last_store().replace(last);
        store
    });
    (*store).clone()
}

fn last_store() -> MutexGuard<'static, Option<LastStore>> {
    LAST_STORE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn build_store(ids: Ids, now: Timestamp, namespace: &str) -> objects::Store {
    let mut store = objects::Store::new_at(ids.part("supervisor"), now);
    let definitions = GroupResource::of("apiextensions.k8s.io", "customresourcedefinitions");
    let all = PARSED.iter().map(|it| (definitions.clone(), it.clone()));
    let room = json!({"metadata": {"name": namespace}});
    add_webhooks(&mut store);
    store.with_light_validation(|store| {
        for (resource, object) in all.chain([(GroupResource::core("namespaces"), room)]) {
            let command = objects::Command::create(resource, "", object);
            let Ok(decision) = store.decide(now, command) else { continue };
            decision.events.iter().for_each(|event| store.fold(event));
        }
    });
    store
}

impl Supervisor {
    /// Creates the empty value for a world without a Supervisor.
    pub(crate) fn none(ids: Ids) -> Self {
        let objects = objects::Store::empty(ids.part("supervisor"), Vec::new());
        Self {
            namespace: String::new(),
            cluster: String::new(),
            vcenter: String::new(),
            objects,
            operator: Operator::default(),
            quotas: BTreeMap::new(),
            pending: BTreeMap::new(),
            machines: BTreeMap::new(),
            instances: BTreeMap::new(),
        }
    }

    /// Creates a Supervisor of `vcenter`. Its store has the initial objects that every cluster has,
    /// the definitions of the Supervisor's kinds, and the namespace.
    pub(crate) fn founded(
        ids: Ids,
        now: Timestamp,
        vcenter: &str,
        with: &SupervisorTopology,
    ) -> Self {
        let SupervisorTopology { namespace, cluster } = with;
        let store = initial_store(ids, now, namespace);
        let none = Self::none(ids);
        Self {
            namespace: namespace.clone(),
            cluster: cluster.clone(),
            vcenter: vcenter.into(),
            objects: store,
            ..none
        }
    }

    /// Restores those parts of the store that a snapshot does not contain: the webhooks, their
    /// state, and the quotas.
    pub(crate) fn restored(mut self) -> Self {
        add_webhooks(&mut self.objects);
        self.apply_settings_to_store();
        self
    }

    /// Copies the quotas and the state of the webhooks (whether they answer) to the store.
    fn apply_settings_to_store(&mut self) {
        self.objects.set_webhook_outage((!self.operator.webhooks).then_some(OUTAGE));
        self.objects.limit_with(self.quotas.values().cloned().collect());
    }

    /// Replaces VM Operator's settings.
    pub(crate) fn set_operator(&mut self, operator: Operator) {
        self.operator = operator;
        self.apply_settings_to_store();
    }

    /// Sets the quota of this name, or removes it if `quota` has no limits.
    pub(crate) fn set_quota(&mut self, quota: &Quota) {
        match quota.hard.is_empty() {
            true => self.quotas.remove(&quota.name),
            false => self.quotas.insert(quota.name.clone(), quota.clone()),
        };
        self.apply_settings_to_store();
    }

    /// True if the world has a Supervisor.
    pub fn exists(&self) -> bool {
        !self.namespace.is_empty()
    }

    /// The pending step of VM Operator for the VirtualMachine at `path`, if any.
    pub(crate) fn pending(&self, path: &str) -> Option<Pending> {
        self.pending.get(path).copied()
    }

    /// The path of the VirtualMachine whose status has this MoRef; `None` if none has it.
    pub(crate) fn object_of(&self, machine: &str) -> Option<&str> {
        self.machines.get(machine).map(String::as_str)
    }

    /// Advances the clock of the object store to `now`.
    pub(crate) fn pass(&mut self, now: Time) {
        self.objects.run_compactions(now);
    }

    /// Applies a change of an object to the store and the indexes.
    pub(crate) fn fold(&mut self, event: &objects::Event) {
        if event.key.resource == vmoperator::machines() {
            self.index(event);
        }
        self.objects.fold(event);
    }

    /// Updates the indexes of machines for a changed VirtualMachine.
    fn index(&mut self, event: &objects::Event) {
        let path = event.key.path();
        let before = self.objects.get(&event.key).cloned();
        let now = Some(&event.object).filter(|_| event.op != Op::Deleted);
        for (index, field) in
            [(&mut self.machines, "uniqueID"), (&mut self.instances, "instanceUUID")]
        {
            let of = |object: &Arc<Value>| object["status"][field].as_str().map(str::to_owned);
            let (before, now) = (before.as_ref().and_then(of), now.and_then(of));
            if let Some(before) = before.filter(|before| now.as_ref() != Some(before))
                && index.get(&before) == Some(&path)
            {
                index.remove(&before);
            }
            if let Some(now) = now.filter(|now| index.get(now) != Some(&path)) {
                index.insert(now, path.clone());
            }
        }
    }

    /// The path of the VirtualMachine whose status has this instance UUID; `None` if none has it.
    pub(crate) fn object_of_instance(&self, uuid: &str) -> Option<&str> {
        self.instances.get(uuid).map(String::as_str)
    }

    /// Paths of VirtualMachines, by the MoRef of the machine.
    pub(crate) fn indexed(&self) -> &BTreeMap<String, String> {
        &self.machines
    }

    /// All pending steps of VM Operator, each with the path of its object.
    pub(crate) fn all_pending(&self) -> impl Iterator<Item = (&str, Pending)> {
        self.pending.iter().map(|(path, pending)| (path.as_str(), *pending))
    }

    /// Records the step of VM Operator that a newly scheduled or held reaction carries out. Ignores
    /// reactions without such a step.
    pub(crate) fn record_pending(&mut self, id: u64, at: Option<Time>, reaction: &Reaction) {
        if let Reaction::VirtualMachine { path, step } = reaction {
            self.pending.insert(path.clone(), Pending { step: *step, at, id });
        }
    }

    /// Removes the record of the step whose reaction left the queue.
    pub(crate) fn clear_pending(&mut self, reaction: &Reaction) {
        if let Reaction::VirtualMachine { path, .. } = reaction {
            self.pending.remove(path);
        }
    }
}

/// Adds the admission and the conversion webhooks of VM Operator to the store.
fn add_webhooks(store: &mut objects::Store) {
    store.admit_with(vmoperator::machines(), vmoperator::ADMISSION);
    for resource in [
        "clustervirtualmachineimages",
        "virtualmachineclasses",
        "virtualmachinegroups",
        "virtualmachineimages",
        "virtualmachines",
        "virtualmachineservices",
        "virtualmachinesetresourcepolicies",
    ] {
        store.convert_with(GroupResource::of(vmoperator::GROUP, resource), conversion::convert);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_valid() {
        let mut store = objects::Store::new_at(Ids::new(0), Timestamp::UNIX_EPOCH);
        let definitions = GroupResource::of("apiextensions.k8s.io", "customresourcedefinitions");
        for definition in PARSED.iter() {
            let create = objects::Command::create(definitions.clone(), "", definition.clone());
            let decision = store.decide(Timestamp::UNIX_EPOCH, create).unwrap();
            decision.events.iter().for_each(|event| store.fold(event));
        }
        let with = SupervisorTopology::default();
        let founded = Supervisor::founded(Ids::new(0), Timestamp::UNIX_EPOCH, "vc0", &with);
        let kept = |store: &objects::Store| {
            store.all(&definitions).map(|it| it["spec"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(kept(&store), kept(&founded.objects), "with and without validation");
    }

    #[test]
    fn every_definition_is_served_in_all_its_versions() {
        let with = SupervisorTopology::default();
        let founded = Supervisor::founded(Ids::new(0), Timestamp::UNIX_EPOCH, "vc0", &with);
        assert!(PARSED.len() > 20, "{} definitions", PARSED.len());
        for definition in PARSED.iter() {
            let text = |pointer: &str| {
                definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let id = GroupResource {
                group: text("/spec/group").into(),
                resource: text("/spec/names/plural").into(),
            };
            let def = founded.objects.resource(&id);
            for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
                let name = version["name"].as_str().unwrap_or_default();
                assert!(def.is_some_and(|def| def.serves(name)), "{id} {name}");
            }
        }
    }
}
