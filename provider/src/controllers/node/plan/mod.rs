//! Decisions about one node. Pure functions: they take a Node and the lookup of its machine, and
//! return writes.

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

pub(crate) use labels::{reconcile_labels, valid_label, without_reserved};

/// Decision about a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    /// The node needs no write.
    Nothing,
    /// The controller cannot write yet, for this reason.
    Wait(Unknown),
    /// Only the reference is to be written, which is not urgent. The addresses are unchanged or
    /// unknown.
    Record(MachineReference),
    /// The controller makes these writes now.
    Write(Writes),
}

/// Writes to one node; the controller sends them in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Writes {
    /// Strategic merge patch of the status with the addresses; `None` if they do not change. The
    /// controller sends it before the patch that removes the taint, so that an initialized node has
    /// the addresses of its machine.
    pub status: Option<Value>,
    /// Strategic merge patch of the node: provider ID, labels, reference and taints, as far as they
    /// change, in one request; `None` if none of them changes.
    pub node: Option<Value>,
}

/// Decides how to initialize a node. Returns [`Plan::Wait`] if the machine is unknown or gone, if
/// its addresses or its zone is unknown, or if the annotation with the node IP does not fit the
/// addresses.
pub(crate) fn initialize(
    node: &Node,
    lookup: &Lookup<Metadata>,
    extra_labels: &BTreeMap<String, String>,
    active: Active,
) -> Plan {
    let metadata = match lookup {
        Lookup::Found(metadata) => metadata,
        // Without a machine the node cannot be initialized. The lifecycle controller decides if the
        // Node is deleted.
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
    // During initialization only addresses of the machine may match the annotation, not a host name
    // of the node.
    if let Some(annotation) = &node.provided_node_ip
        && let Err(text) = provided_ip::apply(annotation, addresses)
        && !hurry
    {
        return Plan::Wait(Unknown::Incomplete(format!(
            "provided node ip for node {:?} is not valid: {text}",
            node.name.as_str()
        )));
    }
    let status = match published(node, addresses) {
        Ok(published) => status_patch(node, &published, metadata.order, None, active),
        Err(text) if !hurry => return Plan::Wait(Unknown::Incomplete(text)),
        Err(_) => None,
    };
    let labels = labels::initial_labels(node, zone, metadata, extra_labels);
    let taints = node.taints_without(|taint| taint.key() == UNINITIALIZED_TAINT);
    let mut body = json!({"spec": {"taints": taints_json(&taints)}});
    body["metadata"] = metadata_json(node, &labels, new_reference(node, metadata));
    if node.provider_id.is_none() {
        body["spec"]["providerID"] = Value::String(metadata.provider_id.clone());
    }
    Plan::Write(Writes { status, node: Some(body) })
}

/// Decides about the addresses, the late zone labels and the reference of an initialized node.
///
/// The Node has no reference if another provider initialized it, and an old one if its machine has
/// moved. Without the right reference the provider could not prove after a restart that the machine
/// is gone. So the reference goes into any write that is due; if none is due, it is recorded in a
/// separate write.
pub(crate) fn refresh(
    node: &Node,
    lookup: &Lookup<Metadata>,
    late_zone: LateZone,
    active: Active,
) -> Plan {
    let labels = match late_zone {
        LateZone::LeftOut => BTreeMap::new(),
        LateZone::Added => labels::late_zone_labels(node, lookup),
    };
    let moved = match lookup {
        Lookup::Found(metadata) => new_reference(node, metadata),
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
        // The patch of the status carries the reference, but no labels.
        (Plan::Write(writes), _) if !labels.is_empty() => {
            Plan::Write(Writes { node: Some(body(None)), ..writes })
        }
        (plan, _) => plan,
    }
}

/// Returns the machine's reference; `None` if the Node has it already, or if it is unknown.
fn new_reference<'a>(node: &Node, metadata: &'a Metadata) -> Option<&'a MachineReference> {
    metadata.reference.as_ref().filter(|reference| node.reference.as_ref() != Some(reference))
}

/// Returns a patch that writes the reference of a node's machine. The patch carries no version,
/// because no other client writes this annotation.
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
    metadata.insert("uid".to_owned(), Value::String(node.uid.to_string()));
    metadata.insert("resourceVersion".to_owned(), Value::String(node.resource_version.clone()));
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), json!(labels));
    }
    if let Some(reference) = reference {
        metadata.insert("annotations".to_owned(), annotations(reference));
    }
    Value::Object(metadata)
}
