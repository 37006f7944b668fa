//! The Supervisor: the Kubernetes API inside vSphere that machines of workload clusters are asked from.
//!
//! Its objects are a store as the workload cluster's is; [`DEFINITIONS`] says which kinds it has besides.
//! What makes machines of them is in `vmoperator`.

pub mod conversion;
mod operator;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use crate::vmoperator::OUTAGE;
pub use operator::{Operator, OperatorChange};

use crate::completion::Step;
use crate::objects::{self, GroupResource, Op, Quota};
use crate::reactions::Reaction;
use crate::topology::SupervisorTopology;
use crate::{Ids, Time, vmoperator};

/// The CustomResourceDefinitions that a Supervisor begins with, as a JSON list; `schemas/supervisor.py` makes it.
pub const DEFINITIONS: &str = include_str!("../schemas/supervisor.json");

static PARSED: LazyLock<Vec<Value>> = LazyLock::new(|| {
    serde_json::from_str(DEFINITIONS).expect("schemas/supervisor.json is readable")
});

/// What the Supervisor knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Supervisor {
    /// The namespace in which everything of the workload cluster lives; empty if there is no Supervisor.
    pub namespace: String,
    /// The workload cluster's name.
    pub cluster: String,
    /// The vCenter in which it makes machines.
    pub vcenter: String,
    /// Its objects.
    pub objects: objects::Store,
    /// Whether VM Operator works, and how it tells what it knows.
    #[serde(default)]
    pub operator: Operator,
    /// How many objects there may be, by the quotas' names.
    #[serde(default)]
    pub quotas: BTreeMap<String, Quota>,
    /// What VM Operator does next, by the path of the object: at most one thing each.
    pending: BTreeMap<String, Pending>,
    /// The paths of the objects that machines belong to, by the machine's id.
    machines: BTreeMap<String, String>,
    /// The same by the machine's instance UUID.
    #[serde(default)]
    instances: BTreeMap<String, String>,
}

/// Something that VM Operator is going to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pending {
    pub(crate) step: Step,
    /// When, or `None` if somebody has to tell it to.
    pub(crate) at: Option<Time>,
    pub(crate) id: u64,
}

impl Supervisor {
    /// What there is in a world without one.
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

    /// A Supervisor over `vcenter`, with `namespace` and the kinds that it has, and nothing else.
    pub(crate) fn founded(
        ids: Ids,
        now: Timestamp,
        vcenter: &str,
        with: &SupervisorTopology,
    ) -> Self {
        let SupervisorTopology { namespace, cluster } = with;
        let mut store = objects::Store::founded(ids.part("supervisor"), now);
        let definitions = GroupResource::of("apiextensions.k8s.io", "customresourcedefinitions");
        let all = PARSED.iter().map(|it| (definitions.clone(), it.clone()));
        let room = json!({"metadata": {"name": namespace}});
        equip(&mut store);
        store.founding(|store| {
            for (resource, object) in all.chain([(GroupResource::core("namespaces"), room)]) {
                let command = objects::Command::create(resource, "", object);
                let Ok(decision) = store.decide(now, command) else { continue };
                decision.events.iter().for_each(|event| store.fold(event));
            }
        });
        let none = Self::none(ids);
        Self {
            namespace: namespace.clone(),
            cluster: cluster.clone(),
            vcenter: vcenter.into(),
            objects: store,
            ..none
        }
    }

    /// The same with what no snapshot keeps.
    pub(crate) fn restored(mut self) -> Self {
        equip(&mut self.objects);
        self.settle();
        self
    }

    /// Tells the store what it does not keep itself.
    fn settle(&mut self) {
        self.objects.cut_off_webhooks((!self.operator.webhooks).then_some(OUTAGE));
        self.objects.limit_with(self.quotas.values().cloned().collect());
    }

    /// Makes a change of VM Operator so.
    pub(crate) fn set_operator(&mut self, operator: Operator) {
        self.operator = operator;
        self.settle();
    }

    /// Makes a change of quotas so: one without limits is none.
    pub(crate) fn set_quota(&mut self, quota: &Quota) {
        match quota.hard.is_empty() {
            true => self.quotas.remove(&quota.name),
            false => self.quotas.insert(quota.name.clone(), quota.clone()),
        };
        self.settle();
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        !self.namespace.is_empty()
    }

    /// What VM Operator is going to do about the object at `path`.
    pub(crate) fn pending(&self, path: &str) -> Option<Pending> {
        self.pending.get(path).copied()
    }

    /// The path of the object that a machine belongs to.
    pub(crate) fn object_of(&self, machine: &str) -> Option<&str> {
        self.machines.get(machine).map(String::as_str)
    }

    /// Lets time pass until `now` for the API server.
    pub(crate) fn pass(&mut self, now: Time) {
        self.objects.pass(now);
    }

    /// Makes a change of an object so.
    pub(crate) fn fold(&mut self, event: &objects::Event) {
        if event.key.resource == vmoperator::machines() {
            self.index(event);
        }
        self.objects.fold(event);
    }

    /// Notes which machine an object belongs to now.
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

    /// The path of the object that a machine of this instance UUID belongs to.
    pub(crate) fn object_of_instance(&self, uuid: &str) -> Option<&str> {
        self.instances.get(uuid).map(String::as_str)
    }

    /// The objects of machines, by the machine's id.
    pub(crate) fn indexed(&self) -> &BTreeMap<String, String> {
        &self.machines
    }

    /// What VM Operator is going to do, by the path of the object.
    pub(crate) fn all_pending(&self) -> impl Iterator<Item = (&str, Pending)> {
        self.pending.iter().map(|(path, pending)| (path.as_str(), *pending))
    }

    /// Takes note of a reaction that will happen.
    pub(crate) fn scheduled(&mut self, id: u64, at: Option<Time>, reaction: &Reaction) {
        if let Reaction::VirtualMachine { path, step } = reaction {
            self.pending.insert(path.clone(), Pending { step: *step, at, id });
        }
    }

    /// Takes note of a reaction that will not happen any more.
    pub(crate) fn unscheduled(&mut self, reaction: &Reaction) {
        if let Reaction::VirtualMachine { path, .. } = reaction {
            self.pending.remove(path);
        }
    }
}

/// What the operators of its kinds do within a request.
fn equip(store: &mut objects::Store) {
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
        let mut store = objects::Store::founded(Ids::new(0), Timestamp::UNIX_EPOCH);
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
        assert_eq!(kept(&store), kept(&founded.objects), "looked at or not, they are the same");
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
