//! Checks the safety conditions of Nodes, which must hold at every moment, with or without faults.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use sim::world::objects::{Action, GroupResource, Key, Op, Subresource};
use sim::world::vcenter::{Change, MoRef, Power, Service, VcEvent};
use sim::world::{Command, Event, State, Time};
use uuid::Uuid;

use super::authors::WriteTimes;
use crate::judge::Invariant::{self, *};
use crate::judge::Violation;
use crate::lab::facts::{
    NodeFacts, facts, machine_for, machine_of, means, names_no_uuid, reported,
};
use crate::lab::{ByHand, Run};
use crate::scenario::{Act, virtual_machines};

/// Time after a power change within which the provider must learn the new state.
const NOTICED: Duration = Duration::from_secs(30);
/// Age below which the provider must not delete a Node that it has never matched to a machine.
const YOUNG: Duration = Duration::from_secs(60);

/// Prefix of the taints and labels that other controllers write in scenarios. No scenario removes
/// them, so every removal is the provider's.
const FOREIGN: &str = "example.com/";
/// Prefix of the taints of the cluster's own controllers. These taints may change while the
/// provider writes the Node.
const OF_CLUSTER: &str = "node.kubernetes.io/";
/// Prefix of the taints that a cloud provider adds and removes.
const OF_PROVIDER: &str = "node.cloudprovider.kubernetes.io/";
/// Labels that a cloud provider sets.
const PROVIDED: [&str; 6] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
];

/// Checks each change of a Node against the machines at that time.
#[derive(Default)]
pub(in crate::judge) struct Judge {
    found: Vec<Violation>,
    /// True if the operator has switched the deletion of Nodes off.
    keeps_all: bool,
    zones: bool,
    /// Number of placement labels that the cloud provides: two with vCenter (zone and region), one
    /// with a Supervisor (zone).
    placed: usize,
    monitor: Duration,
    /// Addresses that each node's machine has reported up to the current event.
    ever_reported: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Last UUID of each machine, by vCenter. The entry stays while vCenter shows no UUID, because
    /// a missing UUID means only that vCenter has not loaded it.
    uuids: BTreeMap<(String, MoRef), Uuid>,
    /// Time of the last power change of each node's machine.
    power_changed: BTreeMap<String, Time>,
    /// Time of each deletion that the scenario did not make itself, with the number of nodes before
    /// it.
    deletions: Vec<(Time, usize)>,
    /// UIDs of Nodes that have lost the uninitialized taint, since the last restore of the cluster
    /// if any.
    opened: BTreeSet<String>,
    /// UIDs of Nodes that have or had a provider ID.
    matched: BTreeSet<String>,
    /// Changes of Nodes by the scenario itself; in a recorded run, deletions of Nodes by other
    /// clients.
    by_hand: Vec<ByHand>,
    /// Times at which the provider was writing Nodes.
    written: WriteTimes,
    /// Keys of the labels in the flag `--node-labels`.
    node_labels: BTreeSet<String>,
}

impl Judge {
    /// Creates the judge at the beginning of a run.
    pub(in crate::judge) fn new(run: &Run) -> Self {
        let mut judge = Self {
            monitor: run.scenario.provider.monitor_period,
            keeps_all: run.scenario.provider.skip_deletion,
            zones: run.scenario.provider.zones && run.scenario.topology.zones > 0,
            placed: if run.backend().is_vcenter() { 2 } else { 1 },
            by_hand: run.by_hand.clone(),
            written: WriteTimes::in_run(run),
            node_labels: run.scenario.provider.node_labels.iter().map(|it| it.0.clone()).collect(),
            ..Self::default()
        };
        if let Some(base) = run.log.base() {
            judge.begin(base);
        }
        judge
    }

    /// Returns all violations.
    pub(in crate::judge) fn violations(self) -> Vec<Violation> {
        self.found
    }

    fn begin(&mut self, base: &State) {
        for node in base.kubelets.keys() {
            self.note_addresses(base, node);
        }
        for (name, vcenter) in &base.vcenters {
            for (id, _, machine) in vcenter.inventory.machines() {
                self.uuids.extend(machine.config.uuid.map(|uuid| ((name.clone(), id), uuid)));
            }
        }
    }

    /// Examines the next event of the log.
    pub(in crate::judge) fn see(&mut self, at: Time, event: &Event, before: &State, after: &State) {
        match event {
            Event::VCenter { vcenter, event: VcEvent::Object { id, change } } => {
                self.note_uuid(vcenter, *id, change, after);
                let owner = after
                    .kubelets
                    .iter()
                    .find(|(_, kubelet)| kubelet.vcenter == *vcenter && kubelet.machine == *id);
                let Some((node, _)) = owner else { return };
                let node = node.clone();
                match change {
                    Change::Guest(_) | Change::Created(_) => self.note_addresses(after, &node),
                    Change::Power { .. } => {
                        self.power_changed.insert(node, at);
                    }
                    _ => {}
                }
            }
            Event::KubeletSet { node, .. } => self.note_addresses(after, node),
            // After a restore the Nodes are those of the backup, so a Node may have the
            // uninitialized taint again.
            Event::ClusterRestored => self.opened.clear(),
            Event::Cluster(event) if event.key.resource == GroupResource::core("nodes") => {
                let name = &event.key.name;
                let old = before.cluster.get(&event.key).map(|node| facts(node));
                match (event.op, old) {
                    (Op::Deleted, Some(old)) => self.deleted(at, name, &old, after),
                    (Op::Modified, Some(old)) => {
                        let new = facts(&event.object);
                        self.relabelled(at, name, before.cluster.get(&event.key), &event.object);
                        self.modified(at, name, &old, &new, &event.object, after);
                    }
                    (Op::Added, _) => {
                        let new = facts(&event.object);
                        if new.provider_id.is_some() {
                            self.matched.insert(new.uid);
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Notes the UUID that a machine has now, if it has one. Without a UUID, keeps the last one,
    /// unless a machine was removed or created under this reference: another machine may get the
    /// same reference later.
    fn note_uuid(&mut self, vcenter: &str, id: MoRef, change: &Change, after: &State) {
        let inventory = after.vcenter(vcenter).map(|vc| &vc.inventory);
        let key = (vcenter.to_owned(), id);
        match inventory.and_then(|it| it.machine(id)?.config.uuid) {
            Some(uuid) => drop(self.uuids.insert(key, uuid)),
            None if matches!(change, Change::Created(_) | Change::Removed) => {
                self.uuids.remove(&key);
            }
            None => {}
        }
    }

    fn note_addresses(&mut self, state: &State, node: &str) {
        if let Some((_, _, machine)) = machine_of(state, node) {
            self.ever_reported.entry(node.to_owned()).or_default().extend(reported(machine));
        }
    }

    fn broken(&mut self, invariant: Invariant, at: Time, text: String) {
        self.found.push(Violation { invariant, at, text });
    }

    fn deleted(&mut self, at: Time, name: &str, old: &NodeFacts, after: &State) {
        let is_deletion = |act: &Act| match act {
            Act::World(Command::Cluster(it)) => {
                it.key == Key::node(name) && matches!(it.action, Action::Delete { .. })
            }
            _ => false,
        };
        if self.is_by_hand(at, is_deletion) {
            return;
        }
        if self.keeps_all {
            let text = format!("node {name} was deleted although deletion is switched off");
            self.broken(OptOutIsAbsolute, at, text);
        }
        if let Some((vcenter, id, machine)) = machine_for(after, name, old.provider_id.as_deref()) {
            let same = old.provider_id.as_deref().is_none_or(|provider_id| {
                names_no_uuid(provider_id)
                    || machine.config.uuid.is_none_or(|uuid| means(provider_id, uuid))
            });
            if same {
                let state = machine.connection.as_str();
                let text =
                    format!("node {name} was deleted while {id} of {vcenter} exists ({state})");
                self.broken(NoWrongDeletion, at, text);
            }
        }
        for (vcenter, it) in &after.vcenters {
            if it.service != Service::Running {
                let text = format!("node {name} was deleted while {vcenter} did not run");
                self.broken(NoDeletionInOutage, at, text);
            }
        }
        let n_nodes = after.cluster.count(&GroupResource::core("nodes")) + 1;
        self.deletions.push((at, n_nodes));
        let recent: Vec<&(Time, usize)> =
            self.deletions.iter().filter(|(then, _)| at.since(*then) < self.monitor).collect();
        let most = recent.iter().map(|(_, n)| *n).max().unwrap_or(0);
        let allowed = (most / 10).max(1);
        let n_recent = recent.len();
        if n_recent > allowed {
            let text = format!(
                "{n_recent} of {most} nodes were deleted within one monitor period; at most {allowed} are allowed"
            );
            self.broken(NoMassDeletion, at, text);
        }
        let created: Option<Timestamp> = old.created.parse().ok();
        let age = created.map(|created| {
            let now = at.timestamp(after.epoch());
            Duration::try_from(now.duration_since(created)).unwrap_or_default()
        });
        if age.is_some_and(|age| age < YOUNG) && !self.matched.contains(&old.uid) {
            let text =
                format!("node {name} was deleted at age {age:?}, but never had a provider ID");
            self.broken(YoungNodeStays, at, text);
        }
    }

    /// Checks that labels of other writers keep their values. No scenario changes the label of the
    /// host name or a label with the prefix [`FOREIGN`], so these must never change. While the
    /// provider writes the Node, every label must stay except those that cloud providers or the
    /// flag `--node-labels` set.
    fn relabelled(
        &mut self,
        at: Time,
        name: &str,
        old: Option<&std::sync::Arc<Value>>,
        new: &Value,
    ) {
        let labels = |node: &Value| node["metadata"]["labels"].as_object().cloned();
        let old = old.and_then(|it| labels(it)).unwrap_or_default();
        let new = labels(new).unwrap_or_default();
        let is_writing = self.written.covers(name, at);
        let is_provided = |key: &str| PROVIDED.contains(&key) || self.node_labels.contains(key);
        let is_of_others = |key: &str| {
            key == "kubernetes.io/hostname"
                || key.starts_with(FOREIGN)
                || is_writing && !is_provided(key)
        };
        let changed: Vec<String> = old
            .iter()
            .filter(|(key, value)| is_of_others(key) && new.get(*key) != Some(value))
            .map(|(key, value)| {
                format!("node {name}: label {key} changed from {value} to {:?}", new.get(key))
            })
            .collect();
        for text in changed {
            self.broken(ForeignLabelStays, at, text);
        }
    }

    fn modified(
        &mut self,
        at: Time,
        name: &str,
        old: &NodeFacts,
        new: &NodeFacts,
        node: &Value,
        after: &State,
    ) {
        let is_writing = self.written.covers(name, at);
        let is_of_others = |key: &str| {
            key.starts_with(FOREIGN)
                || is_writing && !key.starts_with(OF_CLUSTER) && !key.starts_with(OF_PROVIDER)
        };
        for lost in old.taints.iter().filter(|key| is_of_others(key)) {
            if !new.taints.contains(lost) {
                self.broken(
                    ForeignTaintStays,
                    at,
                    format!("node {name} lost the taint {lost}, which others wrote"),
                );
            }
        }
        let is_initialized = |act: &Act| matches!(act, Act::Initialize { .. });
        if self.is_by_hand(at, is_initialized) {
            return;
        }
        self.identity(at, name, old, new, after);
        if old.uninitialized && !new.uninitialized {
            self.opened(at, name, new, after);
        }
        if !old.shutdown && new.shutdown {
            self.marked_shut_down(at, name, new, after);
        }
        let is_status = |act: &Act| match act {
            Act::World(Command::Cluster(it)) => {
                it.subresource == Some(Subresource::Status) && it.key.name == name
            }
            _ => false,
        };
        if old.addresses != new.addresses && !self.is_by_hand(at, is_status) {
            self.addresses(at, name, old, new, after);
        }
        let twins = [
            ("failure-domain.beta.kubernetes.io/zone", 0),
            ("failure-domain.beta.kubernetes.io/region", 1),
            ("beta.kubernetes.io/instance-type", 2),
        ];
        for (beta, index) in twins {
            let beta_value = node["metadata"]["labels"][beta].as_str();
            if old.uninitialized && !new.uninitialized && beta_value != new.labels[index].as_deref()
            {
                let text = format!(
                    "node {name}: label {beta} is {beta_value:?}, but its new name has {:?}",
                    new.labels[index]
                );
                self.broken(LabelsAgree, at, text);
            }
        }
    }

    /// True if the scenario itself carried out a matching act at this moment.
    fn is_by_hand(&self, at: Time, wanted: impl Fn(&Act) -> bool) -> bool {
        self.by_hand.iter().any(|it| it.covers(at) && wanted(&it.act))
    }

    fn identity(&mut self, at: Time, name: &str, old: &NodeFacts, new: &NodeFacts, after: &State) {
        if old.provider_id == new.provider_id {
            return;
        }
        let Some(provider_id) = &new.provider_id else {
            return self.broken(ProviderIdStays, at, format!("node {name} lost its provider ID"));
        };
        self.matched.insert(new.uid.clone());
        if let Some(before) = &old.provider_id {
            let text = format!("provider ID of node {name} changed from {before} to {provider_id}");
            self.broken(ProviderIdStays, at, text);
        }
        let uuid = provider_id.strip_prefix("vsphere://").and_then(|it| it.parse::<Uuid>().ok());
        let Some(uuid) = uuid else {
            return self.broken(
                ProviderIdStays,
                at,
                format!("node {name} has the malformed provider ID {provider_id:?}"),
            );
        };
        let shared = after
            .cluster
            .all(&GroupResource::core("nodes"))
            .filter(|other| other["spec"]["providerID"] == provider_id.as_str())
            .count();
        if shared > 1 {
            self.broken(
                ProviderIdStays,
                at,
                format!("{shared} nodes have provider ID {provider_id}"),
            );
        }
        // A Node that a person registered has no kubelet, so any machine with that UUID is right.
        let holders: usize =
            after.vcenters.values().map(|vc| vc.inventory.by_bios_uuid(uuid).count()).sum();
        let untrue = match machine_for(after, name, Some(provider_id)) {
            Some((vcenter, id, machine)) => {
                // The last UUID of a machine counts as its UUID as long as no other machine shows
                // it.
                let last = || self.uuids.get(&(vcenter.to_owned(), id)).copied();
                let last = last().filter(|_| holders == 0);
                let own = machine.config.uuid.or(last);
                (own != Some(uuid)).then(|| format!("{id} of {vcenter} has the UUID {own:?}"))
            }
            None => Some("no machine has this UUID".to_owned()),
        };
        if let Some(why) = untrue {
            self.broken(ProviderIdIsTrue, at, format!("node {name} got {provider_id}, but {why}"));
        }
        if holders > 1 {
            let text = format!("node {name} got {provider_id}, whose UUID {holders} machines have");
            self.broken(NoGuess, at, text);
        }
    }

    fn opened(&mut self, at: Time, name: &str, new: &NodeFacts, after: &State) {
        if !self.opened.insert(new.uid.clone()) {
            self.broken(
                TaintLeavesOnceAndLast,
                at,
                format!("node {name} lost the uninitialized taint for the second time"),
            );
        }
        if new.provider_id.is_none() {
            self.broken(
                TaintLeavesOnceAndLast,
                at,
                format!("node {name} lost the uninitialized taint without a provider ID"),
            );
        }
        let Some((_, _, machine)) = machine_of(after, name) else { return };
        if !reported(machine).is_empty() && new.ips().next().is_none() {
            let text = format!(
                "node {name} lost the uninitialized taint, but has no IP address, although its machine reports some"
            );
            self.broken(AddressesFirst, at, text);
        }
        if self.zones && has_zone(after, name) && new.labels[..self.placed].contains(&None) {
            let text = format!(
                "node {name} was initialized without the zone or region of its machine; zone and region are {:?}",
                &new.labels[..2]
            );
            self.broken(TaintLeavesOnceAndLast, at, text);
        }
    }

    fn marked_shut_down(&mut self, at: Time, name: &str, new: &NodeFacts, after: &State) {
        let Some((_, id, machine)) = machine_for(after, name, new.provider_id.as_deref()) else {
            return self.broken(
                ShutdownIsTrue,
                at,
                format!("node {name} got the shutdown taint, but has no machine"),
            );
        };
        let since = self.power_changed.get(name).copied().unwrap_or(Time::ZERO);
        if machine.power == Power::PoweredOn && at.since(since) > NOTICED {
            let text = format!("node {name} got the shutdown taint while {id} runs");
            self.broken(ShutdownIsTrue, at, text);
        }
    }

    fn addresses(&mut self, at: Time, name: &str, old: &NodeFacts, new: &NodeFacts, after: &State) {
        let Some((_, _, machine)) = machine_of(after, name) else { return };
        let now = reported(machine);
        let ever = self.ever_reported.get(name).cloned().unwrap_or_default();
        let kept: BTreeSet<&str> = new.ips().collect();
        for gone in old.ips().filter(|address| !kept.contains(address)) {
            let still = gone.parse::<IpAddr>().is_ok_and(|address| now.contains(&address));
            if now.is_empty() || (still && new.ips().next().is_none()) {
                let text = format!("node {name} lost address {gone}; its machine reports {now:?}");
                self.broken(AddressesStay, at, text);
            }
        }
        for address in new.ips() {
            match address.parse::<IpAddr>() {
                Ok(address) if ever.contains(&address) => {}
                Ok(address) => {
                    let local = match address {
                        IpAddr::V4(v4) => v4.is_link_local() || v4.is_loopback(),
                        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_loopback(),
                    };
                    let invariant = if local { NoLocalAddress } else { NoForeignAddress };
                    let text =
                        format!("node {name} shows {address}, which its machine never reported");
                    self.broken(invariant, at, text);
                }
                Err(_) => {
                    let text = format!("node {name} shows {address:?}, which is not an IP address");
                    self.broken(NoForeignAddress, at, text);
                }
            }
        }
        if old.of_type("Hostname").next().is_some() && new.of_type("Hostname").next().is_none() {
            self.broken(HostNameStays, at, format!("node {name} lost its host name"));
        }
    }
}

/// True if the VirtualMachine object of a node has a zone label, or if the node has no such object,
/// as in vCenter mode.
fn has_zone(state: &State, node: &str) -> bool {
    let key = Key::new(virtual_machines(), state.supervisor.namespace.clone(), node);
    let object = state.supervisor.objects.get(&key);
    object.is_none_or(|it| it["metadata"]["labels"]["topology.kubernetes.io/zone"].is_string())
}
