//! Chooses the addresses that the provider publishes on a Node in Supervisor mode. Pure: a machine
//! object in, a list out.
//!
//! The selection gives exactly the texts of
//! `cloud-provider-vsphere: pkg/cloudprovider/vsphereparavirtual/instances.go`,
//! `createNodeAddresses`. Two quirks of upstream are options.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv6Addr},
};

use super::MachineObject;
use crate::{
    model::{Address, AddressKind, Family},
    supervisor::ClusterFamily,
};

/// Host name entry at the end of the published addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostnameEntry {
    /// An empty host name, as upstream publishes it. It replaces the host name that kubelet has
    /// set.
    #[default]
    Empty,
    /// No entry, so that the Node keeps kubelet's host name.
    Omitted,
}

/// List to publish for a machine that has addresses, but none to choose: all have the wrong family,
/// are link-local or are unreadable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoneWanted {
    /// An empty list, so that the Node keeps its addresses.
    #[default]
    Nothing,
    /// Only the entry of [`AddressPolicy::hostname`], as upstream publishes it. An empty host name
    /// replaces all addresses of the Node; with [`HostnameEntry::Omitted`] the list is empty.
    HostnameEntry,
}

/// Rules for the addresses that the provider publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// IP families of the cluster, the preferred one first.
    pub family: ClusterFamily,
    /// Entry at the end of the list.
    pub hostname: HostnameEntry,
    /// List for a machine that has addresses, but none to choose.
    pub none_wanted: NoneWanted,
}

/// Returns the addresses in publishing order: an empty list if the machine has none, and the list
/// of [`NoneWanted`] if it has none to choose.
pub(in crate::instances::supervisor) fn node_addresses(
    machine: &MachineObject,
    policy: AddressPolicy,
) -> Vec<Address> {
    let MachineObject { primary4, primary6, interface_addresses, .. } = machine;
    if primary4.is_none() && primary6.is_none() && interface_addresses.is_empty() {
        return Vec::new();
    }
    let mut chosen: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    // Primary addresses are published without a check.
    for family in policy.family.families() {
        let primary = match family {
            Family::V4 => primary4,
            Family::V6 => primary6,
        };
        if let Some(primary) = primary {
            chosen.push(primary);
            seen.extend(parse(primary));
        }
    }
    for text in interface_addresses {
        let Some(address) = parse(text) else { continue };
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        let is_wanted = policy.family.has(family) && !is_link_local(address);
        if is_wanted && seen.insert(address) {
            chosen.push(text);
        }
    }
    if chosen.is_empty() && policy.none_wanted == NoneWanted::Nothing {
        return Vec::new();
    }
    let internal = |text: &str| Address::new(AddressKind::InternalIp, text);
    let mut addresses: Vec<Address> = chosen.into_iter().map(internal).collect();
    if policy.hostname == HostnameEntry::Empty {
        addresses.push(Address::new(AddressKind::Hostname, ""));
    }
    addresses
}

/// Parses an address as Go does: an IPv4 address written as IPv6 counts as IPv4. `None` if the text
/// is not an address.
fn parse(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => is_unicast_link_local(address),
    }
}

/// True if the address is in fe80::/10.
fn is_unicast_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

#[cfg(test)]
mod tests;
