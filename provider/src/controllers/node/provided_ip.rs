//! The annotation `alpha.kubernetes.io/provided-node-ip`: the addresses that kubelet is configured
//! to use.
//!
//! Follows `k8s.io/component-helpers: node/util/ips.go`, `ParseNodeIPAnnotation`, and
//! `k8s.io/cloud-provider: node/helpers/address.go`, `GetNodeAddressesFromNodeIP`.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
};

use crate::model::Address;

/// Returns the addresses to publish for a node with this annotation.
///
/// Matching addresses come first, in the order of the annotation. Other addresses of the matched
/// types are dropped; addresses of all other types follow.
///
/// # Errors
///
/// When the annotation is malformed, or one of its addresses is not among `addresses`.
pub(crate) fn apply(annotation: &str, addresses: &[Address]) -> Result<Vec<Address>, String> {
    let wanted = parse(annotation)?;
    let mut result = Vec::new();
    let mut matched_kinds = BTreeSet::new();
    for ip in wanted {
        let before = result.len();
        for address in addresses {
            if parse_ip(&address.address) == Some(ip) {
                result.push(address.clone());
                matched_kinds.insert(address.kind);
            }
        }
        if result.len() == before {
            return Err(format!(
                "failed to get node address from cloud provider that matches ip: {ip}"
            ));
        }
    }
    result.extend(addresses.iter().filter(|a| !matched_kinds.contains(&a.kind)).cloned());
    Ok(result)
}

fn parse(annotation: &str) -> Result<Vec<IpAddr>, String> {
    let invalid = || format!("the provided node IP {annotation:?} is not valid");
    let ips: Option<Vec<IpAddr>> = annotation.split(',').map(parse_ip).collect();
    let ips = ips.ok_or_else(invalid)?;
    match ips.as_slice() {
        [_] => Ok(ips),
        [a, b] if a.is_ipv4() != b.is_ipv4() && !a.is_unspecified() && !b.is_unspecified() => {
            Ok(ips)
        }
        _ => Err(invalid()),
    }
}

/// Parses an address; leading zeros in IPv4 octets are accepted, spaces are not. Returns an
/// IPv4-mapped IPv6 address as IPv4, and `None` if the text is not an address.
fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(match ip {
            IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
            IpAddr::V4(_) => ip,
        });
    }
    let mut octets = [0u8; 4];
    let parts: Vec<&str> = text.split('.').collect();
    if parts.len() != 4 {
        return None;
    }
    for (octet, part) in octets.iter_mut().zip(parts) {
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse::<u32>().ok()?.try_into().ok()?;
    }
    Some(IpAddr::V4(Ipv4Addr::from(octets)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AddressKind::{ExternalIp, Hostname, InternalIp};

    fn list(items: &[(crate::model::AddressKind, &str)]) -> Vec<Address> {
        items.iter().map(|(kind, text)| Address::new(*kind, *text)).collect()
    }

    #[test]
    fn provided_node_ips_come_first_and_suppress_other_addresses_of_their_type() {
        let cloud = list(&[
            (InternalIp, "10.1.1.1"),
            (InternalIp, "10.1.1.2"),
            (InternalIp, "2600:1:0:0:0:0:0:ba3d"),
            (ExternalIp, "203.0.113.1"),
            (Hostname, "n"),
        ]);
        for (name, annotation, want) in [
            (
                "single",
                "10.1.1.2",
                Some(vec![(InternalIp, "10.1.1.2"), (ExternalIp, "203.0.113.1"), (Hostname, "n")]),
            ),
            (
                "dual, in order of the annotation",
                "2600:1::ba3d,10.1.1.2",
                Some(vec![
                    (InternalIp, "2600:1:0:0:0:0:0:ba3d"),
                    (InternalIp, "10.1.1.2"),
                    (ExternalIp, "203.0.113.1"),
                    (Hostname, "n"),
                ]),
            ),
            (
                "leading zeros",
                "10.001.1.2",
                Some(vec![(InternalIp, "10.1.1.2"), (ExternalIp, "203.0.113.1"), (Hostname, "n")]),
            ),
            ("a sign", "+10.1.1.2", None),
            ("not there", "10.1.1.9", None),
            ("empty", "", None),
            ("a space", "10.1.1.2, 2600:1::ba3d", None),
            ("three", "10.1.1.1,10.1.1.2,2600:1::ba3d", None),
            ("two of one family", "10.1.1.1,10.1.1.2", None),
            ("unspecified of two", "0.0.0.0,2600:1::ba3d", None),
            ("nonsense", "abc", None),
        ] {
            assert_eq!(apply(annotation, &cloud).ok(), want.map(|w| list(&w)), "{name}");
        }
    }
}
