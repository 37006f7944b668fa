//! Fields of a Node object, and the machine behind it.

use std::net::IpAddr;

use serde_json::Value;
use sim::world::State;
use sim::world::vcenter::{Machine, MoRef};
use uuid::Uuid;

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// The fields of a Node that concern a cloud provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// `spec.providerID`; `None` if it is missing or empty.
    pub provider_id: Option<String>,
    /// True if the node has the uninitialized taint.
    pub uninitialized: bool,
    /// True if the node has the shutdown taint.
    pub shutdown: bool,
    /// Keys of all taints, in order.
    pub taints: Vec<String>,
    /// Type and value of each address, in order.
    pub addresses: Vec<(String, String)>,
    /// Status of the condition `Ready`; `Unknown` without this condition.
    pub ready: String,
    /// Labels that a cloud provider writes: zone, region and instance type, in this order; `None`
    /// for a missing or empty one.
    pub labels: [Option<String>; 3],
    /// `metadata.creationTimestamp`.
    pub created: String,
    /// `metadata.uid`.
    pub uid: String,
}

impl NodeFacts {
    /// Returns the IP addresses, without host names.
    pub fn ips(&self) -> impl Iterator<Item = &str> {
        self.addresses
            .iter()
            .filter(|(kind, _)| kind.ends_with("IP"))
            .map(|(_, address)| address.as_str())
    }

    /// Returns the addresses of one type.
    pub fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a str> {
        self.addresses.iter().filter(move |(it, _)| it == kind).map(|(_, a)| a.as_str())
    }

    /// True if the node is Ready.
    pub fn is_ready(&self) -> bool {
        self.ready == "True"
    }
}

/// Returns the fields of a Node that concern a cloud provider.
pub fn facts(node: &Value) -> NodeFacts {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let taints: Vec<String> =
        list(&node["spec"]["taints"]).iter().filter_map(|taint| text(&taint["key"])).collect();
    let addresses = list(&node["status"]["addresses"])
        .iter()
        .filter_map(|it| Some((text(&it["type"])?, it["address"].as_str()?.to_owned())))
        .collect();
    let conditions = list(&node["status"]["conditions"]);
    let ready = conditions.iter().find(|it| it["type"] == "Ready");
    let label = |key: &str| text(&node["metadata"]["labels"][key]);
    NodeFacts {
        provider_id: text(&node["spec"]["providerID"]),
        uninitialized: taints.iter().any(|key| key == UNINITIALIZED),
        shutdown: taints.iter().any(|key| key == SHUTDOWN),
        taints,
        addresses,
        ready: ready.and_then(|it| text(&it["status"])).unwrap_or_else(|| "Unknown".to_owned()),
        labels: [
            label("topology.kubernetes.io/zone"),
            label("topology.kubernetes.io/region"),
            label("node.kubernetes.io/instance-type"),
        ],
        created: text(&node["metadata"]["creationTimestamp"]).unwrap_or_default(),
        uid: text(&node["metadata"]["uid"]).unwrap_or_default(),
    }
}

/// Returns the machine on which a node's kubelet runs, with the name of the machine's vCenter and
/// the machine's reference. Returns `None` if the node has no kubelet or the machine does not
/// exist.
pub fn machine_of<'a>(state: &'a State, node: &str) -> Option<(&'a str, MoRef, &'a Machine)> {
    let kubelet = state.kubelets.get(node)?;
    let (name, vcenter) = state.vcenters.get_key_value(&kubelet.vcenter)?;
    let machine = vcenter.inventory.machine(kubelet.machine)?;
    Some((name, kubelet.machine, machine))
}

/// Returns the machine of a Node, with the name of the machine's vCenter and the machine's
/// reference: the machine on which the node's kubelet runs, or else one with the UUID in the
/// provider ID. Returns `None` if no machine is found.
pub(crate) fn machine_for<'a>(
    state: &'a State,
    node: &str,
    provider_id: Option<&str>,
) -> Option<(&'a str, MoRef, &'a Machine)> {
    let named = || {
        let uuids = uuids_of(provider_id?)?;
        state.vcenters.iter().find_map(|(name, vcenter)| {
            let mut ids = uuids.iter().flat_map(|uuid| vcenter.inventory.by_bios_uuid(*uuid));
            let id = ids.next()?;
            Some((name.as_str(), id, vcenter.inventory.machine(id)?))
        })
    };
    machine_of(state, node).or_else(named)
}

/// Returns the two UUIDs that a provider ID may mean: the one as written, and the one in the other
/// byte order. Returns `None` if the provider ID has no UUID.
fn uuids_of(provider_id: &str) -> Option<[Uuid; 2]> {
    let uuid: Uuid = provider_id.strip_prefix("vsphere://")?.parse().ok()?;
    Some([uuid, Uuid::from_bytes_le(uuid.into_bytes())])
}

/// True if a provider ID names a machine with this UUID, in either byte order and any spelling.
pub(crate) fn means(provider_id: &str, uuid: Uuid) -> bool {
    uuids_of(provider_id).is_some_and(|uuids| uuids.contains(&uuid))
}

/// True unless a provider ID consists of `vsphere://` and a UUID. Old in-tree providers and other
/// clouds write different ones. A provider can prove nothing about such a Node, so the Node must
/// stay whatever happens to its machine.
pub(crate) fn names_no_uuid(provider_id: &str) -> bool {
    provider_id.strip_prefix("vsphere://").is_none_or(|it| it.parse::<Uuid>().is_err())
}

/// Returns the addresses that the guest reports on network cards of the machine, except those that
/// a Node must not show: link-local, loopback and unspecified ones.
pub fn reported(machine: &Machine) -> Vec<IpAddr> {
    let usable = |address: &IpAddr| match address {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_loopback() && !v4.is_unspecified(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_loopback() && !v6.is_unspecified(),
    };
    machine
        .guest
        .nics
        .iter()
        .filter(|nic| nic.device >= 0)
        .flat_map(|nic| nic.addresses.iter().copied())
        .filter(usable)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_id_means_its_machine_in_any_spelling_and_byte_order() {
        let uuid: Uuid = "42301ab2-c3d4-e5f6-0011-223344556677".parse().unwrap();
        for (id, want) in [
            ("vsphere://42301ab2-c3d4-e5f6-0011-223344556677", true),
            ("vsphere://42301AB2-C3D4-E5F6-0011-223344556677", true),
            ("vsphere://42301ab2c3d4e5f60011223344556677", true),
            ("vsphere://b21a3042-d4c3-f6e5-0011-223344556677", true),
            ("vsphere://42301ab2-c3d4-e5f6-0011-223344556678", false),
            ("vsphere://DC0/vm/node", false),
            ("aws:///42301ab2-c3d4-e5f6-0011-223344556677", false),
        ] {
            assert_eq!(means(id, uuid), want, "{id}");
        }
    }
}
