//! Validation of the key `server`: its value is a host name or an IP address and nothing else.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::InputError;

/// Returns the host that a value of `server` names, without the brackets of an IPv6 address.
///
/// # Errors
///
/// If the value is not a host alone; the text has the problem and the remedy.
pub(super) fn host(text: &str) -> Result<String, InputError> {
    // This check comes first, because such a value may contain a password, and its error shows no
    // part of the value.
    if text.contains('@') {
        let remedy = "write the host alone, and the login under the keys user and password";
        return Err(InputError::new("contains a user name").remedy(remedy));
    }
    let invalid =
        |predicate, remedy: &'static str| Err(InputError::invalid(text, predicate).remedy(remedy));
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let what = "contains a blank, a line break or a control character";
        return invalid(what, "remove it");
    }
    if !text.is_ascii() {
        return invalid("is not ASCII", "write the name in its ASCII form, xn--…");
    }
    if text.contains(['/', '?', '#']) {
        let remedy = "write the host alone, without https:// and what follows the host";
        return invalid("is a URL or a path", remedy);
    }
    if let Some(rest) = text.strip_prefix('[') {
        return bracketed(text, rest);
    }
    if text.parse::<IpAddr>().is_ok() {
        return Ok(text.to_owned());
    }
    if text.contains('%') {
        return invalid("contains an IPv6 zone", "write the address without %ZONE");
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => {
            invalid("is not an IPv6 address", "write it like fd00::1")
        }
        Some((host, port)) => Err(port_apart(text, host, port)),
        None => name(text),
    }
}

fn bracketed(text: &str, rest: &str) -> Result<String, InputError> {
    let address = |inside: &str| inside.parse::<Ipv6Addr>().is_ok();
    match rest.split_once(']') {
        Some((inside, "")) if address(inside) => Ok(inside.to_owned()),
        Some((inside, port)) if address(inside) && port.starts_with(':') => {
            Err(port_apart(text, inside, &port[1..]))
        }
        _ => {
            let err = InputError::invalid(text, "is not an IPv6 address in brackets");
            Err(err.remedy("write the host without brackets, such as fd00::1 or vc.example"))
        }
    }
}

fn port_apart(text: &str, host: &str, port: &str) -> InputError {
    let err = InputError::invalid(text, "contains a port");
    err.remedy(format!("write {host:?} here, and {port:?} under the key port"))
}

/// Returns the text if it is a host name or an IPv4 address, by the rules of resolvers. Underscores
/// are allowed, because they occur in private zones.
fn name(text: &str) -> Result<String, InputError> {
    let without_root = text.strip_suffix('.').unwrap_or(text);
    let labels = || without_root.split('.');
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if without_root.len() > 253 || !labels().all(is_label) {
        let err = InputError::invalid(text, "is not a host name");
        return Err(err.remedy("write a DNS name or an address"));
    }
    let is_number = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
    if labels().next_back().is_some_and(is_number) && text.parse::<Ipv4Addr>().is_err() {
        let err = InputError::invalid(text, "is not an IPv4 address");
        return Err(err.remedy("write it like 10.0.0.1"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_name_or_an_address_and_nothing_else() {
        for (text, want) in [
            ("vc", Ok("vc")),
            ("vc.example.com", Ok("vc.example.com")),
            ("vc.example.com.", Ok("vc.example.com.")),
            ("vc_1.example", Ok("vc_1.example")),
            ("xn--vc-eka.example", Ok("xn--vc-eka.example")),
            ("10.0.0.1", Ok("10.0.0.1")),
            ("fd00::2", Ok("fd00::2")),
            ("[fd00::2]", Ok("fd00::2")),
            ("https://vc", Err("is a URL")),
            ("vc/sdk", Err("is a URL")),
            ("https://u:hunter2@vc", Err("contains a user name")),
            ("u@vc", Err("contains a user name")),
            ("vc:8443", Err("contains a port; write \"vc\" here, and \"8443\"")),
            ("[fd00::2]:8443", Err("contains a port; write \"fd00::2\" here")),
            ("10.0.0.1:443", Err("contains a port")),
            ("vc:", Err("contains a port")),
            (" vc", Err("contains a blank")),
            ("v c", Err("contains a blank")),
            ("vc\n", Err("contains a blank")),
            ("vc\u{0}", Err("contains a blank")),
            ("vc\u{a0}", Err("contains a blank")),
            ("vç", Err("is not ASCII")),
            ("vc\u{200b}", Err("is not ASCII")),
            ("fd00::2%eth0", Err("contains an IPv6 zone")),
            ("fd00:::2", Err("is not an IPv6 address")),
            ("[fd00::2", Err("is not an IPv6 address in brackets")),
            ("[10.0.0.1]", Err("is not an IPv6 address in brackets")),
            ("fd00::2]", Err("is not an IPv6 address")),
            ("10.0.0.256", Err("is not an IPv4 address")),
            ("10.1", Err("is not an IPv4 address")),
            ("vc..example", Err("is not a host name")),
            ("-vc", Err("is not a host name")),
            ("vc,vd", Err("is not a host name")),
            (".", Err("is not a host name")),
        ] {
            match (host(text), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{text:?}"),
                (Err(err), Err(want)) => {
                    let said = err.to_string();
                    assert!(said.contains(want) && said.contains("; "), "{text:?}: {said}");
                    assert!(!said.contains("hunter2"), "{said}");
                }
                (got, _) => panic!("{text:?}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_host_name_of_more_than_253_characters_is_refused() {
        let labels = |n: usize| vec!["a"; n].join(".");
        let longest = labels(127);
        assert_eq!(longest.len(), 253);
        assert_eq!(name(&longest).as_deref(), Ok(longest.as_str()));
        assert_eq!(name(&format!("{longest}.")).map(|it| it.len()), Ok(254));
        name(&format!("{longest}a.")).unwrap_err();
    }
}
