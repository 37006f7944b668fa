//! Checks the liveness conditions, which must hold once all faults are healed and time has passed.

use std::net::IpAddr;

use sim::ledger::Record;
use sim::world::objects::GroupResource;
use sim::world::vcenter::{Power, Tools};

use super::Invariant::*;
use super::Violation;
use crate::lab::Run;
use crate::lab::facts::{facts, machine_of, means, names_no_uuid, reported};
use crate::scenario::periods::Periods;

pub(super) fn violations(run: &Run) -> Vec<Violation> {
    let at = run.end_time();
    let mut found = Vec::new();
    let mut broken = |invariant, text| found.push(Violation { invariant, at, text });
    for node in run.end.cluster.all(&GroupResource::core("nodes")) {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let node = facts(node);
        if node.provider_id.as_deref().is_some_and(names_no_uuid) {
            continue;
        }
        let Some((_, id, machine)) = machine_of(&run.end, name) else {
            if run.end.kubelets.contains_key(name) && !node.is_ready() {
                broken(GoneNodesGo, format!("node {name} still exists, but its machine is gone"));
            }
            continue;
        };
        let same = node.provider_id.as_deref().is_none_or(|provider_id| {
            machine.config.uuid.is_some_and(|uuid| means(provider_id, uuid))
        });
        if !same {
            broken(
                GoneNodesGo,
                format!(
                    "node {name} still exists, but its kubelet runs on {id}, which does not have the UUID of the provider ID"
                ),
            );
            continue;
        }
        let on = machine.power == Power::PoweredOn && machine.connection.has_config();
        let addresses: Vec<IpAddr> =
            if machine.guest.tools == Tools::Running { reported(machine) } else { Vec::new() };
        if on && !addresses.is_empty() && (node.uninitialized || node.provider_id.is_none()) {
            broken(NodesAreInitialized, format!("node {name} is still not initialized"));
        }
        if on && node.is_ready() && node.shutdown {
            broken(
                ShutdownFollows,
                format!("node {name} still has the shutdown taint, but {id} runs"),
            );
        }
        // In Supervisor mode a suspended machine counts as running.
        let is_off = match machine.power {
            Power::PoweredOn => false,
            Power::Suspended => run.backend().is_vcenter(),
            Power::PoweredOff => true,
        };
        if is_off && !node.is_ready() && !node.shutdown && !node.uninitialized {
            broken(
                ShutdownFollows,
                format!("node {name} has no shutdown taint, but {id} does not run"),
            );
        }
        if on && !node.uninitialized && !addresses.is_empty() {
            let stale: Vec<&str> = node
                .ips()
                .filter(|ip| ip.parse::<IpAddr>().is_ok_and(|ip| !addresses.contains(&ip)))
                .collect();
            if !stale.is_empty() || node.ips().next().is_none() {
                broken(
                    AddressesFollow,
                    format!(
                        "node {name} shows {:?}, but {id} reports {addresses:?}",
                        node.addresses
                    ),
                );
            }
        }
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
        broken(Quiescence, format!("the provider still writes at the end: {write}"));
    }
    found
}
