//! Finds the address at which pods of a cluster reach this computer.
//!
//! The cluster does not report this address. But if this computer reaches the cluster's nodes
//! directly, pods reach this computer at the source address of its route to the nodes.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};

use anyhow::{anyhow, bail};

use super::kubectl::Kubectl;
use crate::foreign::manifest;

/// Output template for `kubectl` that prints the internal addresses of all nodes, one per line.
const NODES: &str = "jsonpath={range .items[*].status.addresses[?(@.type==\"InternalIP\")]}{.address}{\"\\n\"}{end}";
const KEY: &str = "spec.run.cluster.address";
const WRITE: &str = "write the address at which pods reach this computer";

/// Returns the address `written` in the manifest, or else the source address of this computer's
/// route to the nodes.
///
/// # Errors
/// Fails with a remedy if the address cannot be found, if it is loopback or unspecified (inside a
/// pod that means the pod itself), or if this computer cannot listen on it. Does not check that
/// pods reach the address.
pub(super) async fn of_this_machine(
    kubectl: &Kubectl,
    written: Option<&str>,
) -> anyhow::Result<IpAddr> {
    let address = match written {
        Some(text) => checked(text)?,
        None => {
            let told = kubectl.call(&["get", "nodes", "-o", NODES]).await;
            let told = told.map_err(|error| anyhow!("{KEY}: {error:#}; {WRITE}"))?;
            checked(&towards(&told, route)?.to_string())?
        }
    };
    if let Err(error) = TcpListener::bind((address, 0)) {
        bail!("{KEY}: {address}: this computer cannot listen on this address: {error}; {WRITE}");
    }
    Ok(address)
}

fn checked(text: &str) -> anyhow::Result<IpAddr> {
    manifest::address(text).map_err(|wrong| anyhow!("{}; {}", wrong.summary(), wrong.remedy))
}

/// Returns the source address that all routes to the nodes share. `nodes` has one address of a node
/// per line; `route` returns the source address of the route to a node. Ignores IPv6 addresses if
/// any line is an IPv4 address, and addresses without a route.
///
/// # Errors
/// Fails if no address is left, or if the source addresses of the routes differ.
fn towards(nodes: &str, route: impl Fn(IpAddr) -> io::Result<IpAddr>) -> anyhow::Result<IpAddr> {
    let nodes: BTreeSet<IpAddr> = nodes.lines().filter_map(|it| it.trim().parse().ok()).collect();
    let is_v4 = nodes.iter().any(IpAddr::is_ipv4);
    let nodes = nodes.iter().filter(|it| it.is_ipv4() == is_v4);
    let with: BTreeSet<IpAddr> = nodes.filter_map(|node| route(*node).ok()).collect();
    let mut with = with.into_iter();
    match (with.next(), with.next()) {
        (Some(address), None) => Ok(address),
        (None, _) => bail!("{KEY}: no node has an address that this computer reaches; {WRITE}"),
        (Some(one), Some(other)) => {
            bail!(
                "{KEY}: this computer reaches some nodes from its address {one} and others from {other}; {WRITE}"
            )
        }
    }
}

/// Returns the source address of the route to this address, without sending a packet.
fn route(node: IpAddr) -> io::Result<IpAddr> {
    let any = match node {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect((node, 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_for_pods_is_the_source_address_of_the_route_to_the_nodes() {
        let same = |node: IpAddr| Ok(node);
        let told = |nodes: &str| towards(nodes, same).map_err(|error| error.to_string());
        assert_eq!(told("192.0.2.1\nfd00::1\n192.0.2.1\n"), Ok([192, 0, 2, 1].into()));
        assert_eq!(told("fd00::1\n").unwrap().to_string(), "fd00::1");
        let error = told("192.0.2.1\n192.0.2.2\n").unwrap_err();
        assert!(
            error.contains("from its address 192.0.2.1 and others from 192.0.2.2; write"),
            "{error}"
        );
        let error = told("\nnode-1\n").unwrap_err();
        assert!(error.contains("no node has an address"), "{error}");
        // Packets to an address of this computer have the same source address.
        assert_eq!(route(Ipv4Addr::LOCALHOST.into()).unwrap(), Ipv4Addr::LOCALHOST);
    }

    #[test]
    fn an_address_that_pods_cannot_reach_is_refused() {
        for (text, why) in [("127.0.0.1", "means the pod itself"), ("auto", "is not an IP address")]
        {
            let error = checked(text).unwrap_err().to_string();
            assert!(error.starts_with("spec.run.cluster.address: "), "{error}");
            assert!(error.contains(why) && error.contains("; write an address"), "{error}");
        }
    }
}
