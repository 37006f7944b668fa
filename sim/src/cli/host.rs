//! Parsers of names and tokens on the command line.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Remedy in the error for an invalid name or address.
const NAMES: &str = "write a host name or an IP address, such as vc.example or 10.0.0.5";

/// Parses a name or address for the certificates. A name may begin with `*.`; an IPv6 address has
/// no brackets. The error is the remedy.
pub(super) fn name(text: &str) -> Result<String, String> {
    let plain = text.strip_prefix("*.").unwrap_or(text);
    let is_good = text.parse::<Ipv6Addr>().is_ok() || is_host(plain);
    if is_good { Ok(text.to_owned()) } else { Err(NAMES.to_owned()) }
}

/// Parses a name under which clients reach a listener: `HOST[:PORT]`, with IPv6 addresses in
/// brackets. The error is the remedy.
pub(super) fn advertised(text: &str) -> Result<String, String> {
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(format!("write [{text}] or [{text}]:PORT"));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return Err("write a port from 1 to 65535 after the colon, or omit both".to_owned());
    }
    let inner = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_good = match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => is_host(host),
    };
    if is_good { Ok(text.to_owned()) } else { Err(NAMES.to_owned()) }
}

/// Parses the address of a server, `HOST:PORT`. The error is the remedy.
pub(super) fn with_port(text: &str) -> Result<String, String> {
    match advertised(text).map(|it| port(&it)) {
        Ok(Some(_)) => Ok(text.to_owned()),
        Ok(None) => Err("write the port, too, such as 127.0.0.1:8086".to_owned()),
        Err(remedy) => Err(remedy),
    }
}

/// Parses a bearer token: printable ASCII characters without spaces, so that it fits into a header.
/// The error is the remedy.
pub(super) fn token(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => {
            Err("write letters, digits and signs without spaces, or omit the option".to_owned())
        }
    }
}

/// Returns the port of a name that [`advertised`] accepts; `None` if it has no port.
pub(super) fn port(advertised: &str) -> Option<u16> {
    if advertised.ends_with(']') {
        return None;
    }
    advertised.rsplit_once(':').and_then(|(_, port)| port.parse().ok())
}

/// True for an IPv4 address and for a host name: DNS labels separated by dots.
fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_numeric = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if is_numeric {
        return text.parse::<Ipv4Addr>().is_ok();
    }
    let labels = text.strip_suffix('.').unwrap_or(text);
    text.len() <= 253 && labels.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_host_names_and_addresses() {
        for (text, as_name, as_advertised) in [
            ("vc.example", true, true),
            ("localhost", true, true),
            ("10.0.0.5", true, true),
            ("*.example", true, false),
            ("fd00::1", true, false),
            ("[fd00::1]", false, true),
            ("[fd00::1]:443", false, true),
            ("vc.example:443", false, true),
            ("vc.example:0", false, false),
            ("vc.example:https", false, false),
            ("vc:99999", false, false),
            ("[vc]", false, false),
            ("x y", false, false),
            ("https://vc", false, false),
            ("no name é", false, false),
            ("10.0.0.500", false, false),
            ("-vc", false, false),
            ("vc..example", false, false),
            ("", false, false),
        ] {
            assert_eq!(name(text).is_ok(), as_name, "{text} as a name");
            assert_eq!(advertised(text).is_ok(), as_advertised, "{text} as advertised");
        }
    }

    #[test]
    fn an_advertised_host_yields_its_port_if_it_has_one() {
        for (text, want) in
            [("vc", None), ("vc:443", Some(443)), ("[fd00::1]", None), ("[fd00::1]:443", Some(443))]
        {
            assert_eq!(port(text), want, "{text}");
        }
    }
}
