//! Chooses the addresses that the provider publishes on a Node in vCenter mode. Pure: guest
//! information and configuration in, a list out.
//!
//! The selection follows `cloud-provider-vsphere: pkg/cloudprovider/vsphere/nodemanager.go`,
//! `DiscoverNode`, with one difference: it sorts the candidates before the choice, so that the
//! result depends on the set of addresses and not on the order in which the guest lists them.

mod candidates;
mod cloud_init;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ipnet::IpNet;

use self::candidates::{candidates, pick};
use crate::model::{Address, AddressKind, Family};

/// Rules of the configuration for the choice of addresses. An empty list or a missing name means
/// that the configuration has no such rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Subnets of internal addresses, in order of preference.
    pub internal_subnets: Vec<IpNet>,
    /// Subnets of external addresses, in order of preference.
    pub external_subnets: Vec<IpNet>,
    /// Name of the network whose addresses are internal; `None` for no such rule.
    pub internal_network: Option<String>,
    /// Name of the network whose addresses are external; `None` for no such rule.
    pub external_network: Option<String>,
    /// Subnets of addresses that are never internal.
    pub exclude_internal: Vec<IpNet>,
    /// Subnets of addresses that are never external.
    pub exclude_external: Vec<IpNet>,
}

/// One network card as VMware Tools reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nic {
    /// Port group that the card is connected to, if known.
    pub network: Option<String>,
    /// All addresses of the card.
    pub addresses: Vec<String>,
    /// Prefix length of each address for which VMware Tools report one.
    pub prefix_lengths: BTreeMap<String, u8>,
    /// Key of the virtual device; -1 for interfaces that exist only inside the guest, such as
    /// bridges.
    pub device: i32,
    /// MAC address of the card.
    pub mac: String,
}

/// Guest information as VMware Tools reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Host name of the guest; `None` if VMware Tools report none.
    pub host_name: Option<String>,
    /// Primary address according to VMware Tools; `None` if they report none.
    pub primary: Option<String>,
    /// Network cards in the order of the report.
    pub nics: Vec<Nic>,
    /// Value of `guestinfo.metadata` of the machine, the input of cloud-init; `None` if it is not
    /// set.
    pub cloud_init: Option<String>,
    /// Value of `guestinfo.metadata.encoding` of the machine; `None` if it is not set.
    pub cloud_init_encoding: Option<String>,
}

/// Reason why the provider has no addresses to publish for a node. The addresses that the Node
/// already has stay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// VMware Tools report no host name, because they are not up yet or are stopped, or they report
    /// `localhost`, because the guest still boots.
    #[error("VMware Tools report no host name of the guest, or localhost")]
    NoHostName,
    /// VMware Tools report no network cards: they are not up yet, or stopped.
    #[error("VMware Tools report no network cards; check that they run in the guest")]
    NoNics,
    /// Both networks are configured, and the machine is connected to neither of them.
    #[error(
        "the machine has no network card in internal-vm-network-name or external-vm-network-name; \
         correct these names in the configuration, or connect the machine to one of these networks"
    )]
    NoSuchNetwork,
    /// No address is usable: each one is loopback, unspecified, link-local, not an IP address, or
    /// on a card that exists only inside the guest. Also if the cards report no address at all.
    #[error(
        "the guest reports no usable address: loopback and link-local addresses and those of \
         guest-internal cards do not count"
    )]
    OnlyLocal,
    /// The guest reports no address of a configured family, or the configuration excludes all of
    /// them.
    #[error(
        "the guest reports no address of IP family {0:?} that the configuration does not exclude"
    )]
    NoneOfFamily(Family),
    /// The `guestinfo.metadata` of the machine cannot be decoded.
    #[error("the provider cannot read guestinfo.metadata of the machine: {0}")]
    CloudInit(String),
}

/// Returns the addresses to publish: the host name, then for each of `families` the internal
/// address and the external one, as far as the rules yield them.
///
/// # Errors
///
/// If the guest has not reported enough, or a configured family has no address; see
/// [`AddressError`].
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

/// True if the name is neither empty nor `localhost`, with or without a domain. A booting guest is
/// called localhost until it has read its configuration.
fn is_real_name(name: &str) -> bool {
    let first = name.split('.').next().unwrap_or_default();
    !first.is_empty() && !first.eq_ignore_ascii_case("localhost")
}
