//! UUIDs, network cards and addresses that depend only on the seed and a path or number.

use std::net::{IpAddr, Ipv4Addr};

use uuid::Uuid;

use super::{FIRST_CARD, MoRef, NetworkCard};
use crate::Ids;

/// A machine's BIOS UUID. Its first byte is 0x42, as in UUIDs that vSphere assigns.
pub(crate) fn bios_uuid(ids: Ids, path: &str) -> Uuid {
    let mut bytes = *ids.uuid("bios", path).as_bytes();
    bytes[0] = 0x42;
    Uuid::from_bytes(bytes)
}

/// Key of network card `n` (from 0).
pub(crate) fn card_key(n: u32) -> i32 {
    FIRST_CARD + i32::try_from(n).unwrap_or(0)
}

/// MAC address of the network card with this key of a machine.
pub(crate) fn mac(key: i32, machine: MoRef) -> String {
    let n = u32::try_from(key - FIRST_CARD).unwrap_or(0);
    // A machine has four addresses in the lower half, and further ones in the upper half.
    let number = if n < 4 { machine.number * 4 + n } else { 0x80_0000 | (machine.number * 8 + n) };
    let [_, high, mid, low] = number.to_be_bytes();
    format!("00:50:56:{high:02x}:{mid:02x}:{low:02x}")
}

/// Network card `n` (from 0) of a machine.
pub(crate) fn card(n: u32, machine: MoRef, network: MoRef) -> NetworkCard {
    let key = card_key(n);
    NetworkCard { key, mac: mac(key, machine), network, device: None }
}

/// An address from `10.192.0.0/10`, for a machine for which the topology plans no addresses.
pub(crate) fn spare_address(vcenter: &str, number: u32) -> IpAddr {
    let vc = vcenter.bytes().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(byte)));
    let [_, high, mid, low] = number.to_be_bytes();
    let second = 192 + u8::try_from((vc + u32::from(high)) % 64).unwrap_or(0);
    IpAddr::V4(Ipv4Addr::new(10, second, mid, low))
}
