//! Checks the liveness conditions, which must hold at the end of a run whose faults are healed.

use std::net::IpAddr;

use sim::ledger::Record;
use sim::world::objects::GroupResource;
use sim::world::vcenter::{Power, Tools};

use super::Invariant::{self, *};
use super::Violation;
use crate::lab::Run;
use crate::lab::facts::{NodeFacts, facts, machine_of, means, names_no_uuid, reported};
use crate::scenario::periods::Periods;

pub(super) fn violations(run: &Run) -> Vec<Violation> {
    let at = run.end_time();
    let mut found = Vec::new();
    for node in run.end.cluster.all(&GroupResource::core("nodes")) {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let wrong = wrong_node(run, name, &facts(node)).into_iter();
        found.extend(wrong.map(|(invariant, text)| Violation { invariant, at, text }));
    }
    let late = |call: &&Record| {
        call.is_cluster_call()
            && call.class == Some(sim::Class::Write)
            && !call.op.contains("leases")
            && !call.op.contains("events")
            && at.since(call.t) < Periods::quiet()
            && call.phase.as_deref() != Some("stop")
    };
    let mut writes = run.calls().filter(late);
    if let Some(write) = writes.next() {
        let text = format!("the provider still writes at the end: {write}");
        found.push(Violation { invariant: Quiescence, at, text });
    }
    found
}

/// Returns a sentence for each way in which a Node is wrong at the end of the run, with the broken
/// invariant. Returns none for a Node whose provider ID names no UUID.
fn wrong_node(run: &Run, name: &str, node: &NodeFacts) -> Vec<(Invariant, String)> {
    if node.provider_id.as_deref().is_some_and(names_no_uuid) {
        return Vec::new();
    }
    let Some((_, id, machine)) = machine_of(&run.end, name) else {
        let is_left = run.end.kubelets.contains_key(name) && !node.is_ready();
        let text = || format!("node {name} still exists, but its machine is gone");
        return is_left.then(|| (GoneNodesGo, text())).into_iter().collect();
    };
    let same = node
        .provider_id
        .as_deref()
        .is_none_or(|provider_id| machine.config.uuid.is_some_and(|uuid| means(provider_id, uuid)));
    if !same {
        let text = format!(
            "node {name} still exists, but its kubelet runs on {id}, which does not have the UUID of the provider ID"
        );
        return vec![(GoneNodesGo, text)];
    }
    let on = machine.power == Power::PoweredOn && machine.connection.has_config();
    let addresses: Vec<IpAddr> =
        if machine.guest.tools == Tools::Running { reported(machine) } else { Vec::new() };
    let mut found = Vec::new();
    if on && !addresses.is_empty() && (node.uninitialized || node.provider_id.is_none()) {
        found.push((NodesAreInitialized, format!("node {name} is still not initialized")));
    }
    if on && node.is_ready() && node.shutdown {
        let text = format!("node {name} still has the shutdown taint, but {id} runs");
        found.push((ShutdownFollows, text));
    }
    // In Supervisor mode a suspended machine counts as running.
    let is_off = match machine.power {
        Power::PoweredOn => false,
        Power::Suspended => run.backend().is_vcenter(),
        Power::PoweredOff => true,
    };
    if is_off && !node.is_ready() && !node.shutdown && !node.uninitialized {
        let text = format!("node {name} has no shutdown taint, but {id} does not run");
        found.push((ShutdownFollows, text));
    }
    if on && !node.uninitialized && !addresses.is_empty() {
        let is_stale = |ip: &str| ip.parse::<IpAddr>().is_ok_and(|ip| !addresses.contains(&ip));
        if node.ips().any(is_stale) || node.ips().next().is_none() {
            let shown = &node.addresses;
            let text = format!("node {name} shows {shown:?}, but {id} reports {addresses:?}");
            found.push((AddressesFollow, text));
        }
    }
    found
}
