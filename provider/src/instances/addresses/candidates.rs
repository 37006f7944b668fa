//! Lists, in order of preference, the addresses that the provider may publish, and chooses among
//! them.

use std::{cmp::Reverse, net::IpAddr};

use ipnet::IpNet;

use super::{AddressError, Family, Guest, Nic, Selection, cloud_init};

/// An address that the provider may publish.
pub(super) struct Candidate<'a> {
    ip: IpAddr,
    /// The address as the guest reports it, without blanks around it.
    pub(super) text: &'a str,
    /// Port group of the network card that has the address, if known.
    network: Option<&'a str>,
}

/// Returns all candidates: first those addresses of the guest that cloud-init configures
/// statically, in the order of [`cloud_init::addresses`]. The others follow, those of the network
/// card with the lowest device key first. Of one card, the primary address comes first, addresses
/// with a prefix length of 32 or 128 come last, and the others are ordered by value.
///
/// # Errors
///
/// If both networks are configured and the machine has no card in either, if no address is usable,
/// or if the metadata of cloud-init cannot be decoded.
pub(super) fn candidates<'a>(
    guest: &'a Guest,
    selection: &Selection,
) -> Result<Vec<Candidate<'a>>, AddressError> {
    let mut nics: Vec<&Nic> = guest.nics.iter().filter(|nic| nic.device != -1).collect();
    nics.sort_by(|a, b| (a.device, &a.mac).cmp(&(b.device, &b.mac)));
    if let (Some(internal), Some(external)) =
        (&selection.internal_network, &selection.external_network)
        && !nics.iter().any(|nic| is_network(nic.network.as_deref(), internal))
        && !nics.iter().any(|nic| is_network(nic.network.as_deref(), external))
    {
        return Err(AddressError::NoSuchNetwork);
    }
    let mut candidates = Vec::new();
    for nic in nics {
        let mut of_nic: Vec<_> = nic
            .addresses
            .iter()
            .filter_map(|text| Some((text.trim().parse::<IpAddr>().ok()?, text.trim())))
            .filter(|(ip, _)| is_usable(*ip))
            .collect();
        // The primary address comes first. Addresses with a host route (prefix length 32 or 128),
        // as virtual addresses have them, come last. The others are ordered by value.
        of_nic.sort_by_key(|(ip, text)| {
            let is_primary = guest.primary.as_deref().map(str::trim) == Some(*text);
            let host_length = if ip.is_ipv4() { 32 } else { 128 };
            let is_host_route = nic.prefix_lengths.get(*text) == Some(&host_length);
            (Reverse(is_primary), is_host_route, *ip)
        });
        of_nic.dedup();
        candidates.extend(of_nic.into_iter().map(|(ip, text)| Candidate {
            ip,
            text,
            network: nic.network.as_deref(),
        }));
    }
    if candidates.is_empty() {
        return Err(AddressError::OnlyLocal);
    }
    let configured =
        cloud_init::addresses(guest.cloud_init.as_deref(), guest.cloud_init_encoding.as_deref())
            .map_err(AddressError::CloudInit)?;
    candidates
        .sort_by_key(|c| configured.iter().position(|ip| *ip == c.ip).unwrap_or(configured.len()));
    Ok(candidates)
}

/// Picks the internal and the external address of one family. Each is the first candidate in the
/// first subnet of its rules that contains any, else the first candidate on the network of its
/// rules; excluded candidates do not count. If the rules yield neither address, each is its first
/// candidate that is not excluded. If the rules yield only one, the other is `None`.
pub(super) fn pick<'a, 'b>(
    candidates: &'b [Candidate<'a>],
    selection: &Selection,
    family: Family,
) -> (Option<&'b Candidate<'a>>, Option<&'b Candidate<'a>>) {
    let of_family = |c: &&Candidate<'_>| (family == Family::V4) == c.ip.is_ipv4();
    let without = |excluded: &[IpNet]| -> Vec<&'b Candidate<'a>> {
        candidates
            .iter()
            .filter(of_family)
            .filter(|c| !excluded.iter().any(|net| net.contains(&c.ip)))
            .collect()
    };
    let (internals, externals) =
        (without(&selection.exclude_internal), without(&selection.exclude_external));
    let by_rule = |pool: &[&'b Candidate<'a>], subnets: &[IpNet], network: Option<&str>| {
        let in_subnet =
            subnets.iter().find_map(|net| pool.iter().find(|c| net.contains(&c.ip)).copied());
        let on_network =
            || network.and_then(|n| pool.iter().find(|c| is_network(c.network, n)).copied());
        in_subnet.or_else(on_network)
    };
    let internal =
        by_rule(&internals, &selection.internal_subnets, selection.internal_network.as_deref());
    let external =
        by_rule(&externals, &selection.external_subnets, selection.external_network.as_deref());
    if internal.is_none() && external.is_none() {
        (internals.first().copied(), externals.first().copied())
    } else {
        (internal, external)
    }
}

fn is_network(network: Option<&str>, wanted: &str) -> bool {
    network.is_some_and(|n| n.eq_ignore_ascii_case(wanted))
}

/// True unless the address is loopback, unspecified, link-local or link-local multicast.
fn is_usable(ip: IpAddr) -> bool {
    let local = match ip {
        IpAddr::V4(ip) => {
            let octets = ip.octets();
            ip.is_link_local() || (octets[0] == 224 && octets[1] == 0 && octets[2] == 0)
        }
        IpAddr::V6(ip) => ip.is_unicast_link_local() || (ip.segments()[0] & 0xff0f) == 0xff02,
    };
    !(local || ip.is_loopback() || ip.is_unspecified())
}
