//! Names, addresses and ports of listeners: in URLs and in certificates.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::ListenError;

/// Adds `n` to the port of an address; port 0 stays 0, so that the system picks each port. Fails if
/// the sum is above 65535.
pub(super) fn counted_up(first: SocketAddr, n: usize) -> Result<SocketAddr, ListenError> {
    if first.port() == 0 {
        return Ok(first);
    }
    let port = u16::try_from(n).ok().and_then(|n| first.port().checked_add(n));
    port.map(|port| SocketAddr::new(first.ip(), port)).ok_or(ListenError::TooFewPorts(first.port()))
}

/// Adds `n` to the port of `host:port`, even above 65535; returns a name without a port unchanged.
pub(super) fn count_up(public: &str, n: usize) -> String {
    match split_port(public) {
        (host, Some(port)) => format!("{host}:{}", usize::from(port) + n),
        (host, None) => host.to_owned(),
    }
}

/// Returns the `host:port` for a URL: the advertised name, else the address of the listener. A name
/// without a port gets that of the listener, and an unspecified address becomes loopback.
pub(super) fn host_of(public: Option<&str>, address: SocketAddr) -> String {
    match public.map(split_port) {
        Some((host, Some(port))) => format!("{host}:{port}"),
        Some((host, None)) => format!("{host}:{}", address.port()),
        None => {
            let ip = match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
                IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
                ip => ip,
            };
            SocketAddr::new(ip, address.port()).to_string()
        }
    }
}

/// Splits `host:port`; returns a host without a port whole, with `None`. An IPv6 host has a port
/// only if it is in brackets, and keeps the brackets.
fn split_port(text: &str) -> (&str, Option<u16>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() => match port.parse() {
            Ok(port) if host.ends_with(']') || !host.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
        _ => (text, None),
    }
}

/// Returns the names and addresses that a certificate covers, each once: loopback, the advertised
/// host, the listening address unless it is unspecified, and `more`.
pub(super) fn hosts(host: &str, address: SocketAddr, more: &[String]) -> Vec<String> {
    let (name, _) = split_port(host);
    let mut all: Vec<String> = ["127.0.0.1", "localhost", "::1"].map(str::to_owned).into();
    all.push(name.trim_matches(['[', ']']).to_owned());
    if !address.ip().is_unspecified() {
        all.push(address.ip().to_string());
    }
    all.extend(more.iter().cloned());
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|host| seen.insert(host.clone()));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertised_name_keeps_its_port_or_gets_the_port_of_the_listener() {
        let address: SocketAddr = "0.0.0.0:8989".parse().unwrap();
        for (name, public, want) in [
            ("nothing advertised", None, "127.0.0.1:8989"),
            ("a name", Some("vc.example"), "vc.example:8989"),
            ("a name and a port", Some("vc.example:443"), "vc.example:443"),
            ("IPv6 in brackets", Some("[fd00::1]"), "[fd00::1]:8989"),
            ("IPv6 and a port", Some("[fd00::1]:443"), "[fd00::1]:443"),
        ] {
            assert_eq!(host_of(public, address), want, "{name}");
        }
        assert_eq!(count_up("vc.example:443", 2), "vc.example:445");
        assert_eq!(count_up("vc.example", 2), "vc.example");
    }

    #[test]
    fn a_certificate_covers_loopback_the_advertised_host_and_the_listening_address() {
        let address: SocketAddr = "10.0.0.5:8989".parse().unwrap();
        assert_eq!(
            hosts("[fd00::1]:443", address, &["vc".to_owned(), "localhost".to_owned()]),
            ["127.0.0.1", "localhost", "::1", "fd00::1", "10.0.0.5", "vc"]
        );
    }
}
