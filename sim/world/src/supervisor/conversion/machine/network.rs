//! Conversion of a machine's network between the hub and v1alpha1, whose interfaces have no names
//! and whose status has one primary address.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::supervisor::conversion::document::{Document, list, text, value_at};

/// Types of networks in v1alpha1, each with the API version and kind of the network resource to
/// which later versions refer.
const TYPES: [(&str, &str, &str); 4] = [
    ("vsphere-distributed", "netoperator.vmware.com/v1alpha1", "Network"),
    ("nsx-t", "vmware.com/v1alpha1", "VirtualNetwork"),
    ("nsx-t-subnet", "crd.nsx.vmware.com/v1alpha1", "Subnet"),
    ("nsx-t-subnetset", "crd.nsx.vmware.com/v1alpha1", "SubnetSet"),
];

pub(super) fn down(hub: &Value, spoke: &mut Document) {
    let interfaces = list(hub, "/spec/network/interfaces").iter().map(|interface| {
        let Some(network) = value_at(interface, "/network") else { return json!({}) };
        let kind = text(network, "/kind");
        let of = TYPES.iter().find(|(_, _, known)| *known == kind).map_or("", |(of, ..)| *of);
        json!({"networkName": text(network, "/name"), "networkType": of})
    });
    spoke.put("/spec/networkInterfaces", interfaces.collect::<Vec<_>>());

    let status = |field: &str| text(hub, &format!("/status/network/{field}"));
    let address = match status("primaryIP4") {
        "" => status("primaryIP6"),
        address => address,
    };
    spoke.put("/status/vmIp", address);
    spoke.put("/status/hostName", status("hostName"));
    let interfaces = list(hub, "/status/network/interfaces").iter().map(|interface| {
        let addresses = list(interface, "/ip/addresses").iter().map(|it| text(it, "/address"));
        json!({
            "connected": true,
            "macAddress": text(interface, "/ip/macAddr"),
            "ipAddresses": addresses.collect::<Vec<_>>(),
        })
    });
    spoke.put("/status/networkInterfaces", interfaces.collect::<Vec<_>>());
}

pub(super) fn up(spoke: &Value, hub: &mut Document) {
    let interfaces = list(spoke, "/spec/networkInterfaces").iter().enumerate();
    let interfaces: Vec<Value> = interfaces.map(|(at, it)| interface(at, it)).collect();
    if !interfaces.is_empty() {
        hub.put("/spec/network/interfaces", interfaces);
    }
    let (address, interfaces) =
        (text(spoke, "/status/vmIp"), list(spoke, "/status/networkInterfaces"));
    if !address.is_empty() || !interfaces.is_empty() {
        let field = if is_v4(address) { "primaryIP4" } else { "primaryIP6" };
        let interfaces = interfaces.iter().map(|it| {
            let addresses = list(it, "/ipAddresses").iter().map(|ip| json!({"address": ip}));
            let addresses: Vec<Value> = addresses.collect();
            json!({"ip": {"addresses": addresses, "macAddr": text(it, "/macAddress")}})
        });
        let interfaces: Vec<Value> = interfaces.collect();
        hub.put("/status/network", json!({field: address, "interfaces": interfaces}));
    }
    let name = text(spoke, "/status/hostName");
    if !name.is_empty() {
        hub.put("/status/network/hostName", name);
    }
}

fn interface(at: usize, interface: &Value) -> Value {
    let name = format!("eth{at}");
    let (network, of) = (text(interface, "/networkName"), text(interface, "/networkType"));
    if network.is_empty() && of.is_empty() {
        return json!({"name": name});
    }
    let known = TYPES.iter().find(|(known, ..)| *known == of);
    let (version, kind) = known.map_or(("", ""), |(_, version, kind)| (*version, *kind));
    json!({"name": name, "network": {"apiVersion": version, "kind": kind, "name": network}})
}

/// True if Go's `net` package treats the address as IPv4: for IPv4 and IPv4-mapped IPv6 addresses.
fn is_v4(address: &str) -> bool {
    match address.parse() {
        Ok(IpAddr::V4(_)) => true,
        Ok(IpAddr::V6(address)) => address.to_ipv4_mapped().is_some(),
        Err(_) => false,
    }
}

/// Replaces all interfaces by those in the annotation, if the object has at least one and the
/// annotation has a network. Interfaces of v1alpha1 have no names, so that single interfaces cannot
/// be matched.
pub(super) fn restore(object: &mut Document, kept: &Value) {
    const INTERFACES: &str = "/spec/network/interfaces";
    if value_at(kept, "/spec/network").is_some() && !list(&object.0, INTERFACES).is_empty() {
        object.put_found(INTERFACES, value_at(kept, INTERFACES));
    }
}
