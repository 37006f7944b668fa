//! Choice of the proxy for each vCenter, from `HTTPS_PROXY` and `NO_PROXY` as Go's `net/http` reads
//! them.
//!
//! The caller reads the environment variables.

use std::net::IpAddr;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, Uri};
use ipnet::IpNet;

use super::Endpoint;

/// An HTTP proxy, through which the client opens a tunnel with `CONNECT`.
#[derive(Clone, Debug)]
pub struct Proxy {
    pub(crate) uri: Uri,
    /// `Proxy-Authorization`, marked as sensitive because it contains a password; `None` if the
    /// proxy's address has no user name.
    pub(crate) authorization: Option<HeaderValue>,
}

/// Reason why a proxy cannot be used. The text does not contain the address, which may hold a
/// password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// The text is not an address, or its user name and password cannot be decoded.
    #[error(
        "is not the address of a proxy; write http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with %XX for special characters of the user and password"
    )]
    NotAnAddress,
    /// The client does not support this kind of proxy.
    #[error(
        "is a proxy over TLS or SOCKS, which the provider does not support; write http://HOST:PORT"
    )]
    Unsupported,
}

/// Rules that decide which vCenters the client reaches through the proxy.
#[derive(Clone, Debug, Default)]
pub struct ProxyRules {
    proxy: Option<Proxy>,
    exceptions: Vec<Exception>,
}

/// Entry of `NO_PROXY`: the vCenters that the client reaches directly.
#[derive(Clone, Debug)]
enum Exception {
    All,
    Network(IpNet),
    Address(IpAddr, Option<u16>),
    Domain {
        /// Domain name with a leading dot.
        suffix: String,
        /// True if the domain name itself, without the dot, matches too.
        is_own: bool,
        port: Option<u16>,
    },
}

impl ProxyRules {
    /// Parses the values of `HTTPS_PROXY` and `NO_PROXY`. An empty value counts as unset.
    ///
    /// # Errors
    ///
    /// See [`ProxyError`]. As in Go, an invalid exception does not cause an error and matches
    /// nothing.
    pub fn parse(https_proxy: &str, no_proxy: &str) -> Result<Self, ProxyError> {
        let https_proxy = https_proxy.trim();
        let proxy = if https_proxy.is_empty() { None } else { Some(Proxy::parse(https_proxy)?) };
        let exceptions = no_proxy.split(',').filter_map(Exception::parse).collect();
        Ok(Self { proxy, exceptions })
    }

    /// Returns the proxy for this vCenter; `None` for a direct connection. The connection to
    /// localhost and to loopback addresses is always direct.
    pub fn proxy_for(&self, endpoint: &Endpoint) -> Option<&Proxy> {
        let proxy = self.proxy.as_ref()?;
        let host = endpoint.host.trim_end_matches('.').to_ascii_lowercase();
        let address = host.parse::<IpAddr>().ok();
        if host == "localhost" || address.is_some_and(|it| it.is_loopback()) {
            return None;
        }
        let is_excepted =
            self.exceptions.iter().any(|it| it.matches(&host, address, endpoint.port));
        (!is_excepted).then_some(proxy)
    }
}

impl Exception {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        if text == "*" {
            return Some(Self::All);
        }
        if let Ok(network) = text.parse() {
            return Some(Self::Network(network));
        }
        if let Ok(address) = text.trim_matches(['[', ']']).parse() {
            return Some(Self::Address(address, None));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (text.as_str(), None),
        };
        if let Ok(address) = host.trim_matches(['[', ']']).parse() {
            return Some(Self::Address(address, port));
        }
        let host = host.strip_prefix('*').filter(|it| it.starts_with('.')).unwrap_or(host);
        if host.trim_start_matches('.').is_empty() {
            return None;
        }
        let is_own = !host.starts_with('.');
        let suffix = if is_own { format!(".{host}") } else { host.to_owned() };
        Some(Self::Domain { suffix, is_own, port })
    }

    fn matches(&self, host: &str, address: Option<IpAddr>, of_endpoint: u16) -> bool {
        let is_port = |port: &Option<u16>| port.is_none_or(|port| port == of_endpoint);
        match self {
            Self::All => true,
            Self::Network(network) => address.is_some_and(|it| network.contains(&it)),
            Self::Address(wanted, port) => address == Some(*wanted) && is_port(port),
            Self::Domain { suffix, is_own, port } => {
                is_port(port) && (host.ends_with(suffix) || (*is_own && suffix[1..] == *host))
            }
        }
    }
}

impl Proxy {
    fn parse(text: &str) -> Result<Self, ProxyError> {
        let rest = match text.split_once("://") {
            None => text,
            Some((scheme, rest)) => match scheme.to_ascii_lowercase().as_str() {
                "http" => rest,
                "https" | "socks5" | "socks5h" => return Err(ProxyError::Unsupported),
                _ => return Err(ProxyError::NotAnAddress),
            },
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (login, host) = match authority.rsplit_once('@') {
            Some((login, host)) => (Some(login), host),
            None => (None, authority),
        };
        let uri: Uri = format!("http://{host}").parse().map_err(|_| ProxyError::NotAnAddress)?;
        let after_address = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
        let is_port = after_address.contains(':') == uri.port_u16().is_some();
        if uri.host().is_none_or(str::is_empty) || !is_port {
            return Err(ProxyError::NotAnAddress);
        }
        let authorization = login.map(authorization).transpose()?;
        Ok(Self { uri, authorization })
    }
}

/// Returns the value of `Proxy-Authorization` for a percent-encoded `user:password`.
fn authorization(login: &str) -> Result<HeaderValue, ProxyError> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let mut plain = percent_decode(user)?;
    plain.push(b':');
    plain.extend(percent_decode(password)?);
    let text = format!("Basic {}", STANDARD.encode(plain));
    let mut value = HeaderValue::from_str(&text).map_err(|_| ProxyError::NotAnAddress)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Decodes percent-encoding.
fn percent_decode(text: &str) -> Result<Vec<u8>, ProxyError> {
    let mut bytes = text.bytes();
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let pair = digit().zip(digit()).ok_or(ProxyError::NotAnAddress)?;
                u8::try_from(pair.0 * 16 + pair.1).map_err(|_| ProxyError::NotAnAddress)?
            }
            other => other,
        });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_proxied(no_proxy: &str, host: &str, port: u16) -> bool {
        let rules = ProxyRules::parse("proxy:3128", no_proxy).unwrap();
        rules.proxy_for(&Endpoint { name: "vc".into(), host: host.to_owned(), port }).is_some()
    }

    #[test]
    fn no_proxy_exceptions_match_as_in_go() {
        for (no_proxy, host, port, want) in [
            ("", "vc.example", 443, true),
            ("", "localhost", 443, false),
            ("", "127.0.0.9", 443, false),
            ("", "::1", 443, false),
            ("*", "vc.example", 443, false),
            ("vc.example", "vc.example", 443, false),
            ("VC.example", "vc.EXAMPLE", 443, false),
            ("example", "vc.example", 443, false),
            (".example", "vc.example", 443, false),
            ("*.example", "vc.example", 443, false),
            (".vc.example", "vc.example", 443, true),
            ("c.example", "vc.example", 443, true),
            ("a, vc.example ,b", "vc.example", 443, false),
            ("vc.example:443", "vc.example", 443, false),
            ("vc.example:8443", "vc.example", 443, true),
            ("10.0.0.1", "10.0.0.1", 443, false),
            ("10.0.0.1:8443", "10.0.0.1", 443, true),
            ("10.0.0.0/8", "10.9.9.9", 443, false),
            ("10.0.0.0/8", "11.0.0.1", 443, true),
            ("fd00::/8", "fd00::2", 443, false),
            ("fd00::2", "fd00::2", 443, false),
            ("[fd00::2]:443", "fd00::2", 443, false),
            (".", "vc.example", 443, true),
            (",,", "vc.example", 443, true),
        ] {
            assert_eq!(is_proxied(no_proxy, host, port), want, "{no_proxy:?} {host} {port}");
        }
    }

    #[test]
    fn addresses_of_proxies_are_read_as_in_go() {
        for (text, want) in [
            ("proxy:3128", Ok("http://proxy:3128/")),
            ("proxy", Ok("http://proxy/")),
            ("http://proxy:3128/x", Ok("http://proxy:3128/")),
            ("HTTP://u:p@[fd00::1]:1", Ok("http://[fd00::1]:1/")),
            ("https://proxy", Err(ProxyError::Unsupported)),
            ("socks5://proxy", Err(ProxyError::Unsupported)),
            ("ftp://proxy", Err(ProxyError::NotAnAddress)),
            ("http://", Err(ProxyError::NotAnAddress)),
            ("http://a b", Err(ProxyError::NotAnAddress)),
            ("http://proxy:", Err(ProxyError::NotAnAddress)),
            ("http://proxy:x", Err(ProxyError::NotAnAddress)),
            ("http://u:%zz@proxy", Err(ProxyError::NotAnAddress)),
        ] {
            let got = ProxyRules::parse(text, "").map(|it| it.proxy.unwrap().uri.to_string());
            assert_eq!(got.as_deref(), want.as_ref().map(|it| *it), "{text}");
        }
        assert!(ProxyRules::parse(" ", "").unwrap().proxy.is_none());
    }

    #[test]
    fn the_login_of_a_proxy_is_decoded_and_not_shown() {
        let proxy = Proxy::parse("http://us%40er:hunter%3a2@proxy:1").unwrap();
        let wanted = format!("Basic {}", STANDARD.encode("us@er:hunter:2"));
        assert_eq!(proxy.authorization.as_ref().unwrap(), &wanted);
        let shown = format!("{proxy:?}");
        assert!(!shown.contains("hunter") && !shown.contains(&wanted), "{shown}");
    }
}
