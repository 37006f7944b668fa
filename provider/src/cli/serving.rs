//! The flags of the HTTPS endpoint: certificate, TLS, and access.

use std::{path::PathBuf, time::Duration};

use rustls::{CipherSuite, NamedGroup};

use super::{ArgumentsError, Flags, in_flag};
use crate::{AllowedPaths, InputError, ServingTls};

/// Settings of the endpoint from a command line.
#[derive(Clone, Debug)]
pub struct ServingArguments {
    /// `--tls-cert-file` and `--tls-private-key-file`; `None` if the command line has neither.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// `--tls-min-version`, `--tls-cipher-suites` and `--tls-curve-preferences`.
    pub tls: ServingTls,
    /// `--authentication-kubeconfig`: kubeconfig of the cluster that reviews tokens; `None` for the
    /// cluster of this pod.
    pub authentication_kubeconfig: Option<PathBuf>,
    /// `--authorization-kubeconfig`: kubeconfig of the cluster that reviews requests; `None` for
    /// the cluster of this pod.
    pub authorization_kubeconfig: Option<PathBuf>,
    /// `--authorization-always-allow-paths`: paths that need no authorization.
    pub always_allowed: AllowedPaths,
    /// `--authentication-token-webhook-cache-ttl`: time for which the endpoint caches the review of
    /// a token.
    pub token_ttl: Duration,
    /// `--authorization-webhook-cache-authorized-ttl`: time for which the endpoint caches that a
    /// request is allowed.
    pub allowed_ttl: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`: time for which the endpoint caches that a
    /// request is refused.
    pub refused_ttl: Duration,
}

/// Suites of TLS 1.2 that the endpoint can serve, by Go's names.
const SUITES: [(&str, CipherSuite); 8] = [
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// Suites of TLS 1.3. The endpoint always serves them, as in Go.
const SUITES_13: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// Suites that Go supports and this provider does not: they lack forward secrecy or authenticated
/// encryption.
const NOT_SERVED: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Key exchange groups that the endpoint can serve, by Go's numbers.
const GROUPS: [(u16, NamedGroup); 3] =
    [(23, NamedGroup::secp256r1), (24, NamedGroup::secp384r1), (29, NamedGroup::X25519)];

/// Groups that Go supports and this provider does not: P-521 and those with ML-KEM.
const GROUPS_NOT_SERVED: [u16; 4] = [25, 4587, 4588, 4589];

/// Flags that concern only the HTTPS endpoint.
const OF_ENDPOINT: [&str; 12] = [
    "bind-address",
    "tls-cert-file",
    "tls-private-key-file",
    "tls-cipher-suites",
    "tls-min-version",
    "tls-curve-preferences",
    "authentication-kubeconfig",
    "authentication-token-webhook-cache-ttl",
    "authorization-kubeconfig",
    "authorization-always-allow-paths",
    "authorization-webhook-cache-authorized-ttl",
    "authorization-webhook-cache-unauthorized-ttl",
];

/// Returns notes, for `--secure-port=0`, about the given flags of the endpoint.
pub(super) fn notes_without_port(flags: Flags<'_>) -> impl Iterator<Item = String> {
    let given = OF_ENDPOINT.into_iter().filter(move |name| flags.is_given(name));
    given.map(|name| {
        format!(
            "--{name} has no effect with --secure-port=0, which switches the HTTPS endpoint off"
        )
    })
}

/// Parses the flags of the endpoint. Adds notes about versions, suites and groups that the endpoint
/// does not serve to `notes`. Fails if a value is invalid, or if the command line has only one of
/// certificate and key.
pub(super) fn read(
    flags: Flags<'_>,
    notes: &mut Vec<String>,
) -> Result<ServingArguments, ArgumentsError> {
    let path = |name| Some(flags.text(name)).filter(|text| !text.is_empty()).map(PathBuf::from);
    let certificate = match (path("tls-cert-file"), path("tls-private-key-file")) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (Some(_), None) => {
            let err = InputError::new("needs --tls-private-key-file too").remedy("give both");
            return Err(err.in_flag("tls-cert-file").into());
        }
        (None, Some(_)) => {
            let err = InputError::new("needs --tls-cert-file too").remedy("give both");
            return Err(err.in_flag("tls-private-key-file").into());
        }
    };
    let allowed = flags.all("authorization-always-allow-paths").join(",");
    Ok(ServingArguments {
        certificate,
        tls: tls(flags, notes)?,
        authentication_kubeconfig: path("authentication-kubeconfig"),
        authorization_kubeconfig: path("authorization-kubeconfig"),
        always_allowed: allowed.parse().map_err(in_flag("authorization-always-allow-paths"))?,
        token_ttl: flags.duration("authentication-token-webhook-cache-ttl")?,
        allowed_ttl: flags.duration("authorization-webhook-cache-authorized-ttl")?,
        refused_ttl: flags.duration("authorization-webhook-cache-unauthorized-ttl")?,
    })
}

fn tls(flags: Flags<'_>, notes: &mut Vec<String>) -> Result<ServingTls, ArgumentsError> {
    let version = flags.text("tls-min-version");
    let only_13 = match version.as_str() {
        "" | "VersionTLS12" => false,
        "VersionTLS13" => true,
        "VersionTLS10" | "VersionTLS11" => {
            notes.push(format!(
                "--tls-min-version={version}: the HTTPS endpoint serves TLS 1.2 and newer only"
            ));
            false
        }
        other => {
            let err = InputError::unknown("unknown version", other);
            let err = err.remedy("write VersionTLS12 or VersionTLS13");
            return Err(err.in_flag("tls-min-version").into());
        }
    };
    let (suites, has_13) = suites(&items(flags, "tls-cipher-suites"), notes)?;
    // If no suite of TLS 1.2 is selected, the endpoint cannot serve TLS 1.2.
    let only_13 = only_13 || (has_13 && suites.as_ref().is_some_and(Vec::is_empty));
    let groups = groups(&items(flags, "tls-curve-preferences"), notes)?;
    Ok(ServingTls { only_13, suites, groups })
}

/// Returns the items of a flag with a comma-separated list.
fn items(flags: Flags<'_>, name: &str) -> Vec<String> {
    let text = flags.all(name).join(",");
    if text.is_empty() { Vec::new() } else { text.split(',').map(str::to_owned).collect() }
}

type Suites = (Option<Vec<CipherSuite>>, bool);

/// Returns the named suites of TLS 1.2, and true if a suite of TLS 1.3 is named. Returns `None` for
/// the suites if `names` is empty. Adds a note about each suite that the endpoint does not serve to
/// `notes`. Fails if Go does not know a suite, or if the endpoint serves none of them.
fn suites(names: &[String], notes: &mut Vec<String>) -> Result<Suites, ArgumentsError> {
    let flag = "tls-cipher-suites";
    if names.is_empty() {
        return Ok((None, false));
    }
    let (mut suites, mut has_13) = (Vec::new(), false);
    for name in names {
        if let Some((_, suite)) = SUITES.iter().find(|(known, _)| known == name) {
            suites.push(*suite);
        } else if SUITES_13.contains(&name.as_str()) {
            has_13 = true;
        } else if NOT_SERVED.contains(&name.as_str()) {
            notes.push(format!(
                "--{flag}: {name} is ignored, because the HTTPS endpoint never serves it"
            ));
        } else {
            let err = InputError::unknown("unknown suite", name);
            return Err(err.remedy("write the names that Go uses").in_flag(flag).into());
        }
    }
    if suites.is_empty() && !has_13 {
        let names: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
        let err = InputError::new("the HTTPS endpoint serves none of these suites");
        return Err(err.remedy(format!("name one of {}", names.join(", "))).in_flag(flag).into());
    }
    Ok((Some(suites), has_13))
}

fn groups(
    numbers: &[String],
    notes: &mut Vec<String>,
) -> Result<Option<Vec<NamedGroup>>, ArgumentsError> {
    let flag = "tls-curve-preferences";
    if numbers.is_empty() {
        return Ok(None);
    }
    let mut groups = Vec::new();
    for text in numbers {
        let number = text.trim().parse::<u16>().ok();
        match number.and_then(|number| GROUPS.iter().find(|(known, _)| *known == number)) {
            Some((_, group)) if groups.contains(group) => {
                let err = InputError::new(format!("{text} occurs twice"));
                return Err(err.remedy("write it once").in_flag(flag).into());
            }
            Some((_, group)) => groups.push(*group),
            None if number.is_some_and(|number| GROUPS_NOT_SERVED.contains(&number)) => {
                notes.push(format!(
                    "--{flag}: {text} is ignored, because the HTTPS endpoint never serves it"
                ));
            }
            None => {
                let err = InputError::unknown("unknown group", text);
                let err = err.remedy("write 23 (P-256), 24 (P-384) or 29 (X25519)");
                return Err(err.in_flag(flag).into());
            }
        }
    }
    if groups.is_empty() {
        let err = InputError::new("the HTTPS endpoint serves none of these groups");
        let err = err.remedy("name 23 (P-256), 24 (P-384) or 29 (X25519)");
        return Err(err.in_flag(flag).into());
    }
    Ok(Some(groups))
}
