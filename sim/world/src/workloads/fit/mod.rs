//! The filters of the scheduler: whether a pod fits on a Node, and why not.
//!
//! Follows the filter plugins of kube-scheduler 1.36 in their order, without those for volumes,
//! devices, other pods and topology spread, which [`unsupported`] refuses.

pub(super) mod requests;

use std::collections::BTreeSet;

use serde_json::Value;

use requests::{Amounts, add};

use super::{affinity, list, name, number, taints, text};

/// A Node with the room that its pods leave.
pub(super) struct Room<'a> {
    pub(super) node: &'a Value,
    offers: Amounts,
    used: Amounts,
    n_pods: i128,
    ports: BTreeSet<String>,
}

/// The reasons why a pod does not fit on a Node.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) reasons: Vec<String>,
    /// True if the pod could fit after the removal of other pods.
    pub(super) is_for_lack_of_room: bool,
}

impl<'a> Room<'a> {
    pub(super) fn of(node: &'a Value) -> Self {
        let offers = match requests::amounts(node, "/status/allocatable") {
            none if none.is_empty() => requests::amounts(node, "/status/capacity"),
            offers => offers,
        };
        Self { node, offers, used: Amounts::new(), n_pods: 0, ports: BTreeSet::new() }
    }

    /// Adds a pod that runs on the Node or is about to.
    pub(super) fn take(&mut self, pod: &Value) {
        add(&mut self.used, &requests::of_pod(pod));
        self.ports.extend(host_ports(pod));
        self.n_pods += 1;
    }

    fn free(&self, resource: &str) -> i128 {
        let amount = |of: &Amounts| of.get(resource).copied().unwrap_or_default();
        amount(&self.offers) - amount(&self.used)
    }

    /// Share of processors and memory that would stay free, in thousandths, less the number of
    /// pods; the scheduler prefers Nodes with large scores.
    pub(super) fn score(&self, wanted: &Amounts) -> i128 {
        let share = |resource: &str| {
            let offered = self.offers.get(resource).copied().unwrap_or_default().max(1);
            let wanted = wanted.get(resource).copied().unwrap_or_default();
            (self.free(resource) - wanted) * 1000 / offered
        };
        share("cpu") + share("memory") - self.n_pods
    }

    /// Decides if the pod, which requests `wanted`, fits.
    pub(super) fn admits(&self, pod: &Value, wanted: &Amounts) -> Result<(), Misfit> {
        let tolerations = list(pod, "/spec/tolerations");
        let never =
            |why: &str| Err(Misfit { reasons: vec![why.to_owned()], is_for_lack_of_room: false });
        if !taints::is_open(tolerations, self.node) {
            return never("node(s) were unschedulable");
        }
        if !taints::tolerates(tolerations, self.node, &["NoSchedule", "NoExecute"]) {
            return never("node(s) had untolerated taint(s)");
        }
        if !affinity::selects(pod, self.node) {
            return never("node(s) didn't match Pod's node affinity/selector");
        }
        if host_ports(pod).iter().any(|port| self.ports.contains(port)) {
            let why = "node(s) didn't have free ports for the requested pod ports";
            return Err(Misfit { reasons: vec![why.to_owned()], is_for_lack_of_room: true });
        }
        self.has_room(wanted)
    }

    fn has_room(&self, wanted: &Amounts) -> Result<(), Misfit> {
        const NANO: i128 = 1_000_000_000;
        let mut misfit = Misfit { reasons: Vec::new(), is_for_lack_of_room: true };
        if self.n_pods + 1 > self.offers.get("pods").copied().unwrap_or_default() / NANO {
            misfit.reasons.push("Too many pods".to_owned());
        }
        for (resource, wanted) in wanted.iter().filter(|(_, wanted)| **wanted > 0) {
            if *wanted > self.free(resource) {
                misfit.reasons.push(format!("Insufficient {resource}"));
                let offered = self.offers.get(resource).copied().unwrap_or_default();
                misfit.is_for_lack_of_room &= *wanted <= offered;
            }
        }
        if misfit.reasons.is_empty() { Ok(()) } else { Err(misfit) }
    }
}

fn host_ports(pod: &Value) -> Vec<String> {
    let containers = ["/spec/containers", "/spec/initContainers"];
    let containers = containers.into_iter().flat_map(|pointer| list(pod, pointer));
    let ports = containers.flat_map(|container| list(container, "/ports"));
    let taken = |port: &Value| {
        let number = number(port, "/hostPort").filter(|it| *it > 0)?;
        Some(format!("{number}/{}", text(port, "/protocol")))
    };
    ports.filter_map(taken).collect()
}

/// Names the first field of a pod that this scheduler would have to heed and does not know; `None`
/// if it knows all.
pub(super) fn unsupported(pod: &Value) -> Option<&'static str> {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    let affinity = &pod["spec"]["affinity"];
    let needs = |kind: &str| !list(&affinity[kind], &format!("/{REQUIRED}")).is_empty();
    let is_hard = |it: &Value| text(it, "/whenUnsatisfiable") == "DoNotSchedule";
    let has_volume = |kind: &str| list(pod, "/spec/volumes").iter().any(|it| it[kind].is_object());
    let fields = [
        (needs("podAffinity"), "spec.affinity.podAffinity"),
        (needs("podAntiAffinity"), "spec.affinity.podAntiAffinity"),
        (
            list(pod, "/spec/topologySpreadConstraints").iter().any(is_hard),
            "spec.topologySpreadConstraints",
        ),
        (has_volume("persistentVolumeClaim"), "spec.volumes.persistentVolumeClaim"),
        (has_volume("ephemeral"), "spec.volumes.ephemeral"),
        (!list(pod, "/spec/resourceClaims").is_empty(), "spec.resourceClaims"),
    ];
    fields.iter().find(|(is_set, _)| *is_set).map(|(_, field)| *field)
}

/// True if the pod occupies its Node.
pub(super) fn occupies(pod: &Value) -> bool {
    !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// Rooms of all Nodes, by the order of their names, with the pods in them.
pub(super) fn rooms<'a>(nodes: impl Iterator<Item = &'a Value>, pods: &[&Value]) -> Vec<Room<'a>> {
    let mut rooms: Vec<Room<'a>> = nodes.map(Room::of).collect();
    for pod in pods.iter().filter(|pod| occupies(pod)) {
        let node = text(pod, "/spec/nodeName");
        if let Some(room) = rooms.iter_mut().find(|room| name(room.node) == node) {
            room.take(pod);
        }
    }
    rooms
}
