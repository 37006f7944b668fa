//! Addresses and ranges as older releases of Go read them: numbers may begin with zeros.
//!
//! Follows `k8s.io/utils: net/ipfamily.go, internal/third_party/forked/golang/net`.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether it is an address of either family.
pub(super) fn is_ip(text: &str) -> bool {
    is_v4(text) || is_v6(text)
}

/// Whether it is a range; bits beyond the prefix do not matter.
pub(super) fn is_cidr(text: &str) -> bool {
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

fn is_v4(text: &str) -> bool {
    text.split('.').map(plain).collect::<Vec<_>>().join(".").parse::<Ipv4Addr>().is_ok()
}

fn is_v6(text: &str) -> bool {
    let (groups, last) = text.rsplit_once(':').unwrap_or(("", text));
    let groups: Vec<&str> = groups.split(':').map(plain).collect();
    let last = last.split('.').map(plain).collect::<Vec<_>>().join(".");
    format!("{}:{last}", groups.join(":")).parse::<Ipv6Addr>().is_ok()
}

/// A number without the zeros before it.
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
    fn zeros_before_a_number_count_for_nothing() {
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
