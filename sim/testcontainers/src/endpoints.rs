//! Where everything is, and how to be let in.

use serde::Deserialize;
use serde_json::Value;

/// What the admin port tells.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    /// Left out by a sim that speaks plain text.
    #[serde(default)]
    pub(crate) certificate_authority: String,
    pub(crate) vcenters: Vec<VCenter>,
    pub(crate) cluster: Cluster,
    #[serde(default)]
    pub(crate) supervisor: Option<Supervisor>,
}

/// A vCenter.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VCenter {
    /// `vc0`, `vc1` and so on.
    pub name: String,
    /// `https://HOST:PORT`; SOAP is at `/sdk`, REST at `/api` and `/rest`.
    pub url: String,
    /// SHA-1 of its certificate, in upper case with colons; empty in plain text.
    #[serde(default)]
    pub thumbprint: String,
    /// SHA-256 of it, in the same form.
    #[serde(default)]
    pub thumbprint_sha256: String,
    /// Who may do everything.
    pub administrator: Account,
    /// Who may do what a cloud provider has to.
    pub provider: Account,
}

/// Somebody who can log in to a vCenter.
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct Account {
    /// With domain: `administrator@vsphere.local`.
    pub username: String,
    /// As it is since the start, or since the last [`refresh`](crate::SimContainer::refresh).
    pub password: String,
}

/// The workload cluster.
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct Cluster {
    /// `https://HOST:PORT`.
    pub url: String,
    /// The bearer token of its administrator.
    pub token: String,
}

/// The Supervisor.
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct Supervisor {
    /// `https://HOST:PORT`.
    pub url: String,
    /// Where the virtual machines of the workload cluster are.
    pub namespace: String,
    /// The bearer token of its administrator.
    pub token: String,
    /// What a provider in the workload cluster is given.
    pub provider: ProviderFiles,
}

/// What a provider in Supervisor mode mounts, file by file.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProviderFiles {
    /// `ca.crt`, PEM; empty in plain text.
    #[serde(default)]
    pub certificate_authority: String,
    /// `namespace`.
    pub namespace: String,
    /// `token`.
    pub token: String,
    /// `ownerref.json`.
    pub owner_reference: Value,
}

/// A kubeconfig with one cluster and one user.
pub(crate) fn kubeconfig(url: &str, token: &str, ca_pem: &str) -> String {
    // JSON is YAML, and needs no escapes of our own.
    let mut cluster = serde_json::json!({"server": url});
    if !ca_pem.is_empty() {
        cluster["certificate-authority-data"] = base64(ca_pem.as_bytes()).into();
    }
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sim", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "sim", "context": {"cluster": "sim", "user": "admin"}}],
        "current-context": "sim",
    });
    format!("{config:#}\n")
}

/// RFC 4648, with padding. A dependency would cost more than these lines.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let all = chunk.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for n in 0..4 {
            let letter = LETTERS[(all >> (18 - 6 * n) & 63) as usize];
            out.push(if n <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// `url` with another host and port.
pub(crate) fn moved(url: &str, host: &str, port: u16) -> String {
    let (scheme, _) = url.split_once("://").unwrap_or(("https", url));
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("{scheme}://{host}:{port}")
}

/// The port in `https://HOST:PORT`.
pub(crate) fn port(url: &str) -> Option<u16> {
    url.rsplit_once(':')?.1.trim_end_matches('/').parse().ok()
}

macro_rules! without_secrets {
    ($($name:ident: $($field:ident),+;)+) => {$(
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &self.$field))+.finish_non_exhaustive()
            }
        }
    )+};
}
without_secrets! {
    Account: username;
    Cluster: url;
    Supervisor: url, namespace;
    ProviderFiles: namespace, owner_reference;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, want) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
            ("\u{3ff}\u{3ff}", "z7/Pvw=="),
        ] {
            assert_eq!(base64(bytes.as_bytes()), want, "{bytes}");
        }
    }

    #[test]
    fn urls_move_with_their_scheme() {
        assert_eq!(moved("https://127.0.0.1:8989", "localhost", 4711), "https://localhost:4711");
        assert_eq!(moved("http://127.0.0.1:8989", "::1", 80), "http://[::1]:80");
        assert_eq!(port("https://127.0.0.1:8989"), Some(8989));
        assert_eq!(port("https://sim"), None);
    }

    #[test]
    fn the_debug_text_of_an_account_has_no_password() {
        let account = Account { username: "somebody".to_owned(), password: "hush".to_owned() };
        assert_eq!(format!("{account:?}"), r#"Account { username: "somebody", .. }"#);
    }
}
