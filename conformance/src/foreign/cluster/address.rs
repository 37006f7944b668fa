//! Finds the address of this machine for pods of a cluster.
//!
//! The address cannot be queried from outside. But where this machine reaches the nodes directly, pods reach the source address
//! of that route.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};

use anyhow::{anyhow, bail};

use super::kubectl::Kubectl;
use crate::foreign::manifest;

/// Template that prints the internal addresses of nodes, one per line.
const NODES: &str = "jsonpath={range .items[*].status.addresses[?(@.type==\"InternalIP\")]}{.address}{\"\\n\"}{end}";
const KEY: &str = "spec.run.cluster.address";
const WRITE: &str = "write the address of this machine that pods reach";

/// Returns the address in the manifest, or else the source address of the route to the nodes. The address can be listened on.
///
/// # Errors
/// Returns a sentence with a remedy.
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
        bail!("{KEY}: {address}: this machine cannot listen there: {error}; {WRITE}");
    }
    Ok(address)
}

fn checked(text: &str) -> anyhow::Result<IpAddr> {
    manifest::address(text).map_err(|wrong| anyhow!("{}; {}", wrong.what(), wrong.remedy))
}

/// Returns the source address that all routes to these nodes share. Uses IPv4 if the nodes have both families.
fn towards(nodes: &str, route: impl Fn(IpAddr) -> io::Result<IpAddr>) -> anyhow::Result<IpAddr> {
    let nodes: BTreeSet<IpAddr> = nodes.lines().filter_map(|it| it.trim().parse().ok()).collect();
    let is_v4 = nodes.iter().any(IpAddr::is_ipv4);
    let nodes = nodes.iter().filter(|it| it.is_ipv4() == is_v4);
    let with: BTreeSet<IpAddr> = nodes.filter_map(|node| route(*node).ok()).collect();
    let mut with = with.into_iter();
    match (with.next(), with.next()) {
        (Some(address), None) => Ok(address),
        (None, _) => bail!("{KEY}: no node has an address that is reached from here; {WRITE}"),
        (Some(one), Some(other)) => {
            bail!("{KEY}: nodes are reached with {one} and with {other}; {WRITE}")
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
        assert!(error.contains("with 192.0.2.1 and with 192.0.2.2; write"), "{error}");
        let error = told("\nnode-1\n").unwrap_err();
        assert!(error.contains("no node has an address"), "{error}");
        // Packets to an address of this machine have the same source address.
        assert_eq!(route(Ipv4Addr::LOCALHOST.into()).unwrap(), Ipv4Addr::LOCALHOST);
    }

    #[test]
    fn an_address_that_pods_cannot_reach_is_refused() {
        for (text, why) in [("127.0.0.1", "means the pod itself"), ("auto", "is no IP address")] {
            let error = checked(text).unwrap_err().to_string();
            assert!(error.starts_with("spec.run.cluster.address: "), "{error}");
            assert!(error.contains(why) && error.contains("; write an address"), "{error}");
        }
    }
}
