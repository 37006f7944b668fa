//! Chooses the addresses a node reports. Pure: guest information and configuration in, a list out.
//!
//! Selection follows `cloud-provider-vsphere: pkg/cloudprovider/vsphere/nodemanager.go`, `DiscoverNode`, with one
//! difference: candidates are put into an order of their own before anything is picked, so that the result depends
//! on the set of addresses and not on the order in which the guest happened to list them.

mod candidates;
mod cloud_init;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ipnet::IpNet;

use self::candidates::{candidates, pick};
use crate::model::{Address, AddressKind};

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

/// A guest that boots calls itself localhost until it has read its configuration.
fn is_real_name(name: &str) -> bool {
    let first = name.split('.').next().unwrap_or_default();
    !first.is_empty() && !first.eq_ignore_ascii_case("localhost")
}
