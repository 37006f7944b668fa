//! Addresses of nodes: the list to publish, and the patch that publishes it.

use serde_json::{Value, json};

use super::{Plan, Writes, annotations, new_reference};
use crate::{
    controllers::node::provided_ip,
    model::{
        Address, AddressKind, AddressOrder, Lookup, MachineReference, Metadata, Node, Unknown,
    },
    mutant::{Active, mutant},
};

/// Decides about the addresses of an initialized node. Returns [`Plan::Wait`] if the machine is
/// gone or unknown, or if its addresses are unknown or do not fit the annotation with the node IP;
/// the published ones stay then.
pub(super) fn refresh_addresses(node: &Node, lookup: &Lookup<Metadata>, active: Active) -> Plan {
    let (addresses, order, reference) = match lookup {
        Lookup::Found(metadata) => match &metadata.addresses {
            Ok(addresses) => (addresses, metadata.order, new_reference(node, metadata)),
            Err(why) => return Plan::Wait(why.clone()),
        },
        Lookup::Gone { .. } => return Plan::Wait(Unknown::NotSeen),
        Lookup::Unknown(why) => return Plan::Wait(why.clone()),
    };
    match published(node, addresses) {
        Ok(published) => match status_patch(node, &published, order, reference, active) {
            Some(status) => Plan::Write(Writes { status: Some(status), ..Writes::default() }),
            None if mutant!(active, EmptyClearsAddresses) && published.is_empty() => {
                let status = json!({"status": {"addresses": [{"$patch": "replace"}]}});
                Plan::Write(Writes { status: Some(status), ..Writes::default() })
            }
            None => Plan::Nothing,
        },
        Err(text) => Plan::Wait(Unknown::Incomplete(text)),
    }
}

/// Returns the addresses to publish: those of the machine (`addresses`) and, if these are not empty
/// and have no host name, the Node's own host names. The Node's annotation with the kubelet's node
/// IP restricts and orders the result. An empty result stays empty, whatever the annotation.
///
/// # Errors
///
/// If the machine has addresses, and the annotation is malformed or names an address that is not
/// among the addresses to publish.
pub(super) fn published(node: &Node, addresses: &[Address]) -> Result<Vec<Address>, String> {
    let mut addresses = addresses.to_vec();
    if !addresses.is_empty() && !addresses.iter().any(|a| a.kind == AddressKind::Hostname) {
        let own = node.addresses.iter().filter(|a| a.kind == AddressKind::Hostname);
        addresses.extend(own.cloned());
    }
    match &node.provided_node_ip {
        Some(annotation) if !addresses.is_empty() => provided_ip::apply(annotation, &addresses),
        _ => Ok(addresses),
    }
}

/// Returns a patch of the status with the addresses; `None` if they are unchanged or empty. A
/// different order is a change only with [`AddressOrder::Kept`].
///
/// The status subresource of nodes also accepts annotations (kubelet uses that), so the reference
/// needs no separate write.
pub(super) fn status_patch(
    node: &Node,
    addresses: &[Address],
    order: AddressOrder,
    reference: Option<&MachineReference>,
    active: Active,
) -> Option<Value> {
    if addresses.is_empty() {
        return None;
    }
    let sorted = |list: &[Address]| {
        let mut list = list.to_vec();
        list.sort();
        list
    };
    let is_same = match order {
        AddressOrder::Any => sorted(addresses) == sorted(&node.addresses),
        AddressOrder::Kept => addresses == node.addresses,
    };
    if is_same && !mutant!(active, AlwaysWriteAddresses) {
        return None;
    }
    let mut list: Vec<Value> = addresses.iter().map(Address::to_json).collect();
    // Without this entry the API server merges the lists by type, and a type with two addresses
    // would lose one. The patch has it even if the Node has no addresses in our store, because the
    // Node may have some by now.
    list.push(json!({"$patch": "replace"}));
    let mut patch = json!({"metadata": {"uid": node.uid}, "status": {"addresses": list}});
    if let Some(reference) = reference {
        patch["metadata"]["annotations"] = annotations(reference);
    }
    Some(patch)
}
