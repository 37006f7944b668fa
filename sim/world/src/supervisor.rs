//! The Supervisor: the Kubernetes API inside vSphere that machines of workload clusters are asked from.
//!
//! Its objects are a store as the workload cluster's is; [`DEFINITIONS`] says which kinds it has besides.
//! What makes machines of them is in `vmoperator`.

pub mod conversion;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::completion::Step;
use crate::objects::{self, GroupResource, Op};
use crate::reactions::Reaction;
use crate::topology::SupervisorTopology;
use crate::{Ids, Time, vmoperator};

/// The CustomResourceDefinitions that a Supervisor begins with, as a JSON list; `schemas/supervisor.py` makes it.
pub const DEFINITIONS: &str = include_str!("../schemas/supervisor.json");

static PARSED: LazyLock<Vec<Value>> =
    LazyLock::new(|| serde_json::from_str(DEFINITIONS).unwrap_or_default());

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
    /// What VM Operator does next, by the path of the object: at most one thing each.
    pending: BTreeMap<String, Pending>,
    /// The paths of the objects that machines belong to, by the machine's id.
    machines: BTreeMap<String, String>,
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
            pending: BTreeMap::new(),
            machines: BTreeMap::new(),
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
        for (resource, object) in all.chain([(GroupResource::core("namespaces"), room)]) {
            let command = objects::Command::create(resource, "", object);
            let Ok(decision) = store.decide(now, command) else { continue };
            decision.events.iter().for_each(|event| store.fold(event));
        }
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
        self
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

    /// Makes a change of an object so.
    pub(crate) fn fold(&mut self, event: &objects::Event) {
        self.objects.fold(event);
        if event.key.resource != vmoperator::machines() {
            return;
        }
        let path = event.key.path();
        let id = event.object["status"]["uniqueID"].as_str().filter(|_| event.op != Op::Deleted);
        if id.is_some_and(|id| self.machines.get(id) == Some(&path)) {
            return;
        }
        self.machines.retain(|_, other| *other != path);
        if let Some(id) = id {
            self.machines.insert(id.to_owned(), path);
        }
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
