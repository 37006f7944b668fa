//! Checks of IP addresses and ranges by the rules of older Go releases, in which numbers may begin
//! with zeros.
//!
//! Follows `k8s.io/utils: net/ipfamily.go, internal/third_party/forked/golang/net`. For fields that
//! the real server checks by newer, stricter rules, follows
//! `apimachinery: pkg/util/validation/ip.go`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The real server's error text for an invalid range of addresses.
pub(crate) const NO_CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
/// The real server's error text for an invalid address.
pub(crate) const NO_ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// True for an IPv4 or an IPv6 address.
pub(crate) fn is_ip(text: &str) -> bool {
    is_v4(text) || is_v6(text)
}

/// True for an address range such as `10.0.0.0/8`. Bits beyond the prefix may be set.
pub(crate) fn is_cidr(text: &str) -> bool {
    text.split_once('/').is_some_and(|(ip, n_bits)| {
        let max = match (is_v4(ip), is_v6(ip)) {
            (true, _) => 32,
            (_, true) => 128,
            (false, false) => return false,
        };
        let is_plain = n_bits.bytes().all(|c| c.is_ascii_digit());
        is_plain && plain(n_bits).parse::<u8>().is_ok_and(|n_bits| n_bits <= max)
    })
}

/// Returns the first problem of an address range by the stricter rules, in the real server's words;
/// `None` for a valid range.
pub(crate) fn range_problem(text: &str) -> Option<&'static str> {
    const ZEROS: &str = "must not have leading 0s in IP or prefix length";
    if !is_cidr(text) {
        return Some(NO_CIDR);
    }
    let (ip, bits) = text.split_once('/')?;
    let n_bits: u32 = bits.parse().unwrap_or_default();
    let rest = match ip.parse::<IpAddr>() {
        _ if bits != plain(bits) => return Some(ZEROS),
        Err(_) => return Some(ZEROS),
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            return Some("must not have an IPv4-mapped IPv6 address");
        }
        Ok(IpAddr::V4(ip)) => u128::from(ip.to_bits()).checked_shl(96 + n_bits).unwrap_or(0),
        Ok(IpAddr::V6(ip)) => ip.to_bits().checked_shl(n_bits).unwrap_or(0),
    };
    (rest != 0).then_some("must not have bits set beyond the prefix length")
}

fn is_v4(text: &str) -> bool {
    text.split('.').map(plain).collect::<Vec<_>>().join(".").parse::<Ipv4Addr>().is_ok()
}

fn is_v6(text: &str) -> bool {
    let (groups, last) = text.rsplit_once(':').unwrap_or(("", text));
    let groups: Vec<&str> = groups.split(':').map(plain).collect();
    let last = last.split('.').map(plain).collect::<Vec<_>>().join(".");
    format!("{}:{last}", groups.join(":")).parse::<Ipv6Addr>().is_ok()
}

/// Returns a number without its leading zeros; `0` for a number of zeros only.
fn plain(number: &str) -> &str {
    let rest = number.trim_start_matches('0');
    if rest.len() < number.len() && !rest.starts_with(|c: char| c.is_ascii_hexdigit()) {
        &number[number.len() - rest.len() - 1..]
    } else {
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::{is_cidr, is_ip};

    #[test]
    fn ip_addresses_and_cidrs_may_have_leading_zeros() {
        for good in [
            "1.2.3.4",
            "001.2.3.010",
            "0.00.000.0",
            "::",
            "::1",
            "1::",
            "::00001",
            "::0",
            "0::0.0.0.09",
        ] {
            assert!(is_ip(good), "{good}");
        }
        for bad in [
            "",
            ".",
            "1.2.3",
            "1.2.3.4.5",
            "1.2..4",
            "1.2.3.256",
            "a.2.3.4",
            ":",
            ":::",
            "1:2",
            "::12345",
        ] {
            assert!(!is_ip(bad), "{bad}");
        }
        for good in ["10.0.0.0/8", "010.0.0.1/08", "::/0", "::ffff:1.2.3.4/33"] {
            assert!(is_cidr(good), "{good}");
        }
        for bad in ["10.0.0.0", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/33", "::/129", "10.0.0.0/8/8"]
        {
            assert!(!is_cidr(bad), "{bad}");
        }
    }
}
