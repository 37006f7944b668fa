//! Chooses the addresses a node reports. Pure: guest information and configuration in, a list out.
//!
//! Selection follows `cloud-provider-vsphere: pkg/cloudprovider/vsphere/nodemanager.go`, `DiscoverNode`, with one
//! difference: candidates are put into an order of their own before anything is picked, so that the result depends
//! on the set of addresses and not on the order in which the guest happened to list them.

use std::{cmp::Reverse, collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;

use crate::model::{Address, AddressKind};

use super::cloud_init;

/// An IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Which addresses to choose. Empty lists and names mean "no rule".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Subnets of internal addresses, in order of preference.
    pub internal_subnets: Vec<IpNet>,
    /// Subnets of external addresses, in order of preference.
    pub external_subnets: Vec<IpNet>,
    /// Network whose addresses are internal.
    pub internal_network: Option<String>,
    /// Network whose addresses are external.
    pub external_network: Option<String>,
    /// Never internal.
    pub exclude_internal: Vec<IpNet>,
    /// Never external.
    pub exclude_external: Vec<IpNet>,
}

/// One network card as VMware Tools reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// Port group, when known.
    pub network: Option<String>,
    /// All addresses of the card.
    pub addresses: Vec<String>,
    /// Prefix lengths by address, when reported.
    pub prefix_lengths: BTreeMap<String, u8>,
    /// Key of the virtual device; -1 for interfaces that only the guest knows.
    pub device: i32,
    /// MAC address.
    pub mac: String,
}

/// What the guest reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Host name.
    pub host_name: Option<String>,
    /// The address that VMware Tools call the primary one.
    pub primary: Option<String>,
    /// Network cards in the order reported.
    pub nics: Vec<Nic>,
    /// `guestinfo.metadata` of the machine.
    pub cloud_init: Option<String>,
    /// `guestinfo.metadata.encoding` of the machine.
    pub cloud_init_encoding: Option<String>,
}

/// Why no addresses can be reported. None of these takes a published address away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Tools not up yet, or stopped.
    #[error("the guest reports no host name")]
    NoHostName,
    /// Tools not up yet, or stopped.
    #[error("the guest reports no network cards")]
    NoNics,
    /// Both network names are configured and neither is there.
    #[error("neither the internal nor the external network is among the machine's networks")]
    NoSuchNetwork,
    /// Only loopback, link-local and the like.
    #[error("no usable address after leaving out local ones")]
    OnlyLocal,
    /// A family that is configured has no address.
    #[error("no suitable {0:?} address")]
    NoneOfFamily(Family),
    /// The network configuration given to cloud-init cannot be read.
    #[error("guestinfo.metadata cannot be read: {0}")]
    CloudInit(String),
}

struct Candidate<'a> {
    ip: IpAddr,
    text: &'a str,
    network: Option<&'a str>,
}

/// The addresses to publish: the host name, then per family internal before external.
///
/// # Errors
///
/// When any configured family has no address, or the guest has not reported enough; see [`AddressError`].
pub fn select(
    guest: &Guest,
    selection: &Selection,
    families: &[Family],
) -> Result<Vec<Address>, AddressError> {
    let host_name = guest.host_name.as_deref().filter(|name| is_real_name(name));
    let host_name = host_name.ok_or(AddressError::NoHostName)?;
    if guest.nics.is_empty() {
        return Err(AddressError::NoNics);
    }
    let candidates = candidates(guest, selection)?;
    let mut result = vec![Address::new(AddressKind::Hostname, host_name)];
    for family in families {
        let (internal, external) = pick(&candidates, selection, *family);
        if internal.is_none() && external.is_none() {
            return Err(AddressError::NoneOfFamily(*family));
        }
        for (kind, found) in
            [(AddressKind::InternalIp, internal), (AddressKind::ExternalIp, external)]
        {
            let Some(found) = found else { continue };
            let address = Address::new(kind, found.text);
            if !result.contains(&address) {
                result.push(address);
            }
        }
    }
    Ok(result)
}

fn candidates<'a>(
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
        // The primary address first; a host route (as virtual addresses have) last; the rest by value.
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

fn pick<'a, 'b>(
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

/// A guest that boots calls itself localhost until it has read its configuration.
fn is_real_name(name: &str) -> bool {
    let first = name.split('.').next().unwrap_or_default();
    !first.is_empty() && !first.eq_ignore_ascii_case("localhost")
}

fn is_network(network: Option<&str>, wanted: &str) -> bool {
    network.is_some_and(|n| n.eq_ignore_ascii_case(wanted))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(device: i32, network: &str, addresses: &[&str]) -> Nic {
        Nic {
            network: Some(network.to_owned()).filter(|n| !n.is_empty()),
            addresses: addresses.iter().map(|a| (*a).to_owned()).collect(),
            device,
            ..Nic::default()
        }
    }

    fn guest(nics: Vec<Nic>) -> Guest {
        Guest { host_name: Some("n1".into()), nics, ..Guest::default() }
    }

    fn text(result: Result<Vec<Address>, AddressError>) -> String {
        match result {
            Ok(list) => list
                .iter()
                .map(|a| format!("{}={}", a.kind.as_str(), a.address))
                .collect::<Vec<_>>()
                .join(" "),
            Err(err) => format!("error: {err}"),
        }
    }

    fn nets(list: &[&str]) -> Vec<IpNet> {
        list.iter().map(|n| n.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_are_chosen_as_upstream_chooses_them() {
        let two = || {
            guest(vec![
                nic(4000, "lan", &["10.0.0.5", "fd00::5", "fe80::1"]),
                nic(4001, "wan", &["203.0.113.7"]),
                nic(-1, "", &["172.17.0.1"]),
            ])
        };
        let none = Selection::default();
        let v4 = [Family::V4];
        for (name, guest, selection, families, want) in [
            (
                "no rules: first of each",
                two(),
                none.clone(),
                &v4[..],
                "Hostname=n1 InternalIP=10.0.0.5 ExternalIP=10.0.0.5",
            ),
            (
                "by subnet",
                two(),
                Selection {
                    internal_subnets: nets(&["10.0.0.0/8"]),
                    external_subnets: nets(&["203.0.113.0/24"]),
                    ..none.clone()
                },
                &v4[..],
                "Hostname=n1 InternalIP=10.0.0.5 ExternalIP=203.0.113.7",
            ),
            (
                "only one rule matches: only that one",
                two(),
                Selection {
                    internal_subnets: nets(&["192.168.0.0/16"]),
                    external_subnets: nets(&["203.0.113.0/24"]),
                    ..none.clone()
                },
                &v4[..],
                "Hostname=n1 ExternalIP=203.0.113.7",
            ),
            (
                "subnets in configured order",
                two(),
                Selection {
                    internal_subnets: nets(&["203.0.113.0/24", "10.0.0.0/8"]),
                    ..none.clone()
                },
                &v4[..],
                "Hostname=n1 InternalIP=203.0.113.7",
            ),
            (
                "by network name, any case",
                two(),
                Selection {
                    internal_network: Some("WAN".into()),
                    external_network: Some("lan".into()),
                    ..none.clone()
                },
                &v4[..],
                "Hostname=n1 InternalIP=203.0.113.7 ExternalIP=10.0.0.5",
            ),
            (
                "neither network there",
                two(),
                Selection {
                    internal_network: Some("x".into()),
                    external_network: Some("y".into()),
                    ..none.clone()
                },
                &v4[..],
                "error: neither the internal nor the external network is among the machine's networks",
            ),
            (
                "one network missing is no error",
                two(),
                Selection { internal_network: Some("x".into()), ..none.clone() },
                &v4[..],
                "Hostname=n1 InternalIP=10.0.0.5 ExternalIP=10.0.0.5",
            ),
            (
                "excluded",
                two(),
                Selection { exclude_internal: nets(&["10.0.0.0/8"]), ..none.clone() },
                &v4[..],
                "Hostname=n1 InternalIP=203.0.113.7 ExternalIP=10.0.0.5",
            ),
            (
                "both families in order of priority",
                two(),
                none.clone(),
                &[Family::V6, Family::V4][..],
                "Hostname=n1 InternalIP=fd00::5 ExternalIP=fd00::5 InternalIP=10.0.0.5 ExternalIP=10.0.0.5",
            ),
            (
                "every family must have one",
                guest(vec![nic(4000, "", &["10.0.0.5"])]),
                none.clone(),
                &[Family::V4, Family::V6][..],
                "error: no suitable V6 address",
            ),
            (
                "only local ones",
                guest(vec![nic(
                    4000,
                    "",
                    &["127.0.0.1", "169.254.3.4", "fe80::1", "ff02::1", "::", "nonsense"],
                )]),
                none.clone(),
                &v4[..],
                "error: no usable address after leaving out local ones",
            ),
            (
                "only guest-internal cards",
                guest(vec![nic(-1, "", &["10.0.0.5"])]),
                none.clone(),
                &v4[..],
                "error: no usable address after leaving out local ones",
            ),
            (
                "tools not up",
                guest(vec![]),
                none.clone(),
                &v4[..],
                "error: the guest reports no network cards",
            ),
        ] {
            assert_eq!(text(select(&guest, &selection, families)), want, "{name}");
        }
        for early in ["", "localhost", "localhost.localdomain"] {
            let guest = Guest { host_name: Some(early.into()), ..two() };
            assert_eq!(select(&guest, &none, &v4), Err(AddressError::NoHostName), "{early:?}");
        }
        let nameless = Guest { host_name: None, ..two() };
        assert_eq!(select(&nameless, &none, &v4), Err(AddressError::NoHostName));
    }

    #[test]
    fn the_order_of_cards_and_addresses_does_not_matter() {
        let mut guest = guest(vec![
            nic(4000, "lan", &["10.0.0.9", "10.0.0.5"]),
            nic(4001, "lan", &["10.0.0.1"]),
        ]);
        guest.primary = Some("10.0.0.9".into());
        let first = select(&guest, &Selection::default(), &[Family::V4]).unwrap();
        guest.nics.reverse();
        guest.nics[1].addresses.reverse();
        assert_eq!(select(&guest, &Selection::default(), &[Family::V4]).unwrap(), first);
        assert_eq!(first[1].address, "10.0.0.9");
    }

    #[test]
    fn a_virtual_address_is_not_preferred() {
        let mut card = nic(4000, "lan", &["10.0.0.5", "10.0.0.9"]);
        card.prefix_lengths = [("10.0.0.5".to_owned(), 32), ("10.0.0.9".to_owned(), 24)].into();
        let chosen = select(&guest(vec![card]), &Selection::default(), &[Family::V4]).unwrap();
        assert_eq!(chosen[1].address, "10.0.0.9");
    }
}
