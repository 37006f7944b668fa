//! The machines of all groups, as lists and watches of VirtualMachine objects tell them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    super::{
        instance::{Instance, InstanceId, exact_provider_id},
        plan::{Cause, Membership, NamedNode},
    },
    machine::Machine,
};
use crate::{cluster::is_earlier, model::ProviderId};

/// Time for which the server remembers a deleted instance. The autoscaler repeats a deletion within
/// seconds; a restart of the server forgets it.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// The known machines by UID, and the deleted ones.
#[derive(Debug, Default)]
pub(super) struct View {
    machines: BTreeMap<String, Machine>,
    /// Deleted machines by UID.
    deleted: BTreeMap<String, Deleted>,
    /// Resource version of the last list or event.
    pub(super) seen_at: String,
    /// Names of the groups that adopt machines that others created.
    pub(super) adopting: BTreeSet<String>,
    /// Machines of an increase that failed. They do not count, and a task deletes them.
    pub(super) undone: BTreeMap<ProviderId, Undone>,
    /// Time at which the server last proved the view to be current; `None` before the first list.
    pub(super) current_at: Option<Instant>,
}

/// A machine of an increase that failed.
#[derive(Clone, Debug)]
pub(super) struct Undone {
    pub(super) name: String,
    /// Time of the failure.
    pub(super) since: Instant,
    /// The call that failed.
    pub(super) cause: Cause,
}

/// A machine that left the view.
#[derive(Debug)]
struct Deleted {
    id: ProviderId,
    at: Instant,
    /// Resource version at which the object was gone or had lost its label; `None` if this server
    /// deleted it. A later state brings an object back whose label was removed and added again.
    version: Option<String>,
}

impl View {
    /// Puts a machine into the view, unless the view has a newer state of it or its end.
    pub(super) fn apply(&mut self, machine: Machine) {
        let known = self.machines.get(&machine.uid);
        if known.is_some_and(|known| is_earlier(&machine.resource_version, &known.resource_version))
        {
            return;
        }
        if let Some(deleted) = self.deleted.get(&machine.uid) {
            let version = deleted.version.as_deref();
            if !version.is_some_and(|version| is_earlier(version, &machine.resource_version)) {
                return;
            }
            self.deleted.remove(&machine.uid);
        }
        let machine = match known {
            Some(known) => machine.after(known),
            None => machine,
        };
        self.machines.insert(machine.uid.clone(), machine);
    }

    /// Removes a machine whose object is gone, or has lost its label, at this version; `None` if this
    /// server deleted it.
    pub(super) fn remove(&mut self, uid: &str, version: Option<&str>) {
        if let Some(machine) = self.machines.remove(uid) {
            let version = version.map(str::to_owned);
            let deleted = Deleted { id: machine.id, at: Instant::now(), version };
            self.deleted.insert(uid.to_owned(), deleted);
        }
        self.deleted.retain(|_, it| it.at.elapsed() < REMEMBERED);
    }

    /// Replaces the content by a list: removes the machines that it lacks, except those that were
    /// created after the list began.
    pub(super) fn replace(&mut self, listed: Vec<Machine>, known_before: &[String], version: &str) {
        if is_earlier(version, &self.seen_at) {
            tracing::warn!(from = %self.seen_at, to = %version, "the list of VirtualMachines is older than the view, as after a restore of the Supervisor; taking it as it is");
            self.machines.clear();
            self.deleted.clear();
        }
        version.clone_into(&mut self.seen_at);
        let gone: Vec<String> = known_before
            .iter()
            .filter(|uid| listed.iter().all(|it| it.uid != **uid))
            .cloned()
            .collect();
        gone.iter().for_each(|uid| self.remove(uid, Some(version)));
        listed.into_iter().for_each(|machine| self.apply(machine));
        self.current_at = Some(Instant::now());
    }

    pub(super) fn uids(&self) -> Vec<String> {
        self.machines.keys().cloned().collect()
    }

    /// All machines, also those that do not count.
    pub(super) fn all(&self) -> impl Iterator<Item = &Machine> {
        self.machines.values()
    }

    /// Provider IDs of machines that were deleted, or left their group, while this server ran.
    pub(super) fn deleted_ids(&self) -> impl Iterator<Item = ProviderId> {
        self.deleted.values().map(|it| it.id)
    }

    /// The machines that count for a group.
    pub(super) fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.machines.values().filter(|it| {
            (it.is_own || self.adopting.contains(&it.group)) && !self.undone.contains_key(&it.id)
        })
    }

    /// True if a machine, also one that does not count, has this provider ID or name now, or a
    /// deleted one had the provider ID.
    pub(super) fn knows(&self, id: ProviderId, name: &str) -> bool {
        self.machines.values().any(|it| it.id == id || it.name == name)
            || self.deleted.values().any(|it| it.id == id)
            || self.undone.contains_key(&id)
    }

    /// The machine of this instance, if it has not been undone.
    pub(super) fn by_instance(&self, id: &InstanceId) -> Option<&Machine> {
        self.by_id(id.as_str().parse().ok()?)
    }

    /// The machine with this provider ID, if it has not been undone.
    pub(super) fn by_id(&self, id: ProviderId) -> Option<&Machine> {
        only(self.machines().filter(|it| it.id == id))
    }

    /// Returns the instances of a group, oldest first.
    pub(super) fn instances(&self, group: &str, now: Timestamp) -> Vec<Instance> {
        let mut machines: Vec<&Machine> = self.machines().filter(|it| it.group == group).collect();
        machines.sort_by_key(|it| (it.created, &it.name));
        machines.into_iter().map(|it| it.instance(now)).collect()
    }

    /// Says whether a node is an instance of the group: by its provider ID, and by its name only if
    /// it has no provider ID.
    pub(super) fn membership(&self, group: &str, node: &NamedNode, now: Timestamp) -> Membership {
        match self.find(&node.id, &node.name) {
            Some(machine) if machine.group == group => {
                Membership::Here(Box::new(machine.instance(now)))
            }
            Some(machine) => Membership::Elsewhere(machine.group.clone()),
            None => {
                let id = exact_provider_id(&node.id);
                let is_deleted = id.is_some_and(|id| self.deleted.values().any(|it| it.id == id));
                if is_deleted { Membership::Deleted } else { Membership::Unknown }
            }
        }
    }

    /// The machine of a node. The provider ID decides, byte for byte, because the autoscaler
    /// compares it so; the name decides only for a node without provider ID.
    pub(super) fn find(&self, id: &str, name: &str) -> Option<&Machine> {
        if id.is_empty() {
            return only(self.machines().filter(|it| it.name == name && !name.is_empty()));
        }
        self.by_id(exact_provider_id(id)?)
    }
}

/// Returns the only item; `None` if there is none, or more than one. A request that could mean two
/// machines must mean none of them.
fn only<'a>(mut machines: impl Iterator<Item = &'a Machine>) -> Option<&'a Machine> {
    let first = machines.next();
    first.filter(|_| machines.next().is_none())
}
