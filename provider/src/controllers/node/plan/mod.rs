//! Decisions about one node. Pure: a node and the lookup of its machine in, writes out.

mod addresses;
mod labels;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use self::addresses::{published, refresh_addresses, status_patch};
use super::provided_ip;
use crate::{
    controllers::{UNINITIALIZED_TAINT, taints::taints_json},
    instances::LateZone,
    model::{Lookup, MACHINE_ANNOTATION, MachineReference, Metadata, Node, Unknown},
    mutant::{Active, mutant},
};

pub(crate) use labels::{reconcile_labels, valid_label};

/// Decision about a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    /// Nothing to do.
    Nothing,
    /// Wait, for this reason.
    Wait(Unknown),
    /// Write only the reference, which is not urgent.
    Record(MachineReference),
    /// Make these writes, in order.
    Write(Writes),
}

/// Writes to one node, in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Writes {
    /// Strategic merge patch of the status: addresses first, so that no initialized node lacks them.
    pub status: Option<Value>,
    /// Strategic merge patch of the node: provider ID, labels, reference and taints in one version.
    pub node: Option<Value>,
}

/// Decides about an uninitialized node.
pub(crate) fn initialize(
    node: &Node,
    lookup: &Lookup<Metadata>,
    extra_labels: &BTreeMap<String, String>,
    active: Active,
) -> Plan {
    let metadata = match lookup {
        Lookup::Found(metadata) => metadata,
        // A machine that is gone initializes nothing; another controller decides about its node.
        Lookup::Gone { .. } => return Plan::Wait(Unknown::NotSeen),
        Lookup::Unknown(why) => return Plan::Wait(why.clone()),
    };
    let hurry = mutant!(active, TaintBeforeAddresses);
    let addresses = match &metadata.addresses {
        Ok(addresses) => addresses.as_slice(),
        Err(_) if hurry => &[],
        Err(why) => return Plan::Wait(why.clone()),
    };
    let zone = match &metadata.zone {
        Ok(zone) => zone.as_ref(),
        Err(_) if hurry => None,
        Err(why) => return Plan::Wait(why.clone()),
    };
    // During initialization the annotation is checked against the cloud's addresses alone.
    if let Some(annotation) = &node.provided_node_ip
        && let Err(text) = provided_ip::apply(annotation, addresses)
        && !hurry
    {
        return Plan::Wait(Unknown::Incomplete(format!(
            "provided node ip for node {:?} is not valid: {text}",
            node.name
        )));
    }
    let status = match published(node, addresses) {
        Ok(published) => status_patch(node, &published, metadata.order, None, active),
        Err(text) if !hurry => return Plan::Wait(Unknown::Incomplete(text)),
        Err(_) => None,
    };
    let labels = labels::at_initialization(node, zone, metadata, extra_labels);
    let taints = node.taints_without(|taint| taint.key() == UNINITIALIZED_TAINT);
    let mut body = json!({"spec": {"taints": taints_json(&taints)}});
    body["metadata"] = metadata_json(node, &labels, news(node, metadata));
    if node.provider_id.is_none() {
        body["spec"]["providerID"] = Value::String(metadata.provider_id.clone());
    }
    Plan::Write(Writes { status, node: Some(body) })
}

/// Decides about the addresses of an initialized node, and about a missing or old reference: another provider initialized
/// the node, or its machine has moved. Without a reference the provider could not prove after a restart that the machine is
/// gone, so the reference is recorded at once, in its own write if no other one is due.
pub(crate) fn refresh(
    node: &Node,
    lookup: &Lookup<Metadata>,
    late_zone: LateZone,
    active: Active,
) -> Plan {
    let labels = match late_zone {
        LateZone::LeftOut => BTreeMap::new(),
        LateZone::Added => labels::of_late_zone(node, lookup),
    };
    let moved = match lookup {
        Lookup::Found(metadata) => news(node, metadata),
        _ => None,
    };
    let body = |reference| json!({"metadata": metadata_json(node, &labels, reference)});
    match (refresh_addresses(node, lookup, active), moved) {
        (Plan::Nothing | Plan::Wait(_), Some(moved)) if labels.is_empty() => {
            Plan::Record(moved.clone())
        }
        (Plan::Nothing | Plan::Wait(_), moved) if !labels.is_empty() => {
            Plan::Write(Writes { node: Some(body(moved)), ..Writes::default() })
        }
        // The status carries the reference, but no labels.
        (Plan::Write(writes), _) if !labels.is_empty() => {
            Plan::Write(Writes { node: Some(body(None)), ..writes })
        }
        (plan, _) => plan,
    }
}

/// The machine's reference, if the node does not have it yet.
fn news<'a>(node: &Node, metadata: &'a Metadata) -> Option<&'a MachineReference> {
    metadata.reference.as_ref().filter(|reference| node.reference.as_ref() != Some(reference))
}

/// A patch that records the reference of a node's machine. It needs no version: no one else writes this annotation.
pub(super) fn reference_patch(node: &Node, reference: &MachineReference) -> Value {
    json!({"metadata": {"uid": node.uid, "annotations": annotations(reference)}})
}

fn annotations(reference: &MachineReference) -> Value {
    json!({ MACHINE_ANNOTATION: reference.to_string() })
}

fn metadata_json(
    node: &Node,
    labels: &BTreeMap<String, String>,
    reference: Option<&MachineReference>,
) -> Value {
    let mut metadata = Map::new();
    metadata.insert("uid".to_owned(), Value::String(node.uid.clone()));
    metadata.insert("resourceVersion".to_owned(), Value::String(node.resource_version.clone()));
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), json!(labels));
    }
    if let Some(reference) = reference {
        metadata.insert("annotations".to_owned(), annotations(reference));
    }
    Value::Object(metadata)
}
