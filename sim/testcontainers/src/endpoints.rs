//! Addresses, accounts and certificates of a sim.

use serde::Deserialize;
use serde_json::Value;

/// Answer of the admin port to `GET /endpoints`.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Told {
    /// Certificate authority of the vCenters, the cluster and the Supervisor at the start of sim,
    /// as PEM; empty with `--plain-text`, because sim then omits the field.
    #[serde(default)]
    pub(crate) certificate_authority: String,
    pub(crate) vcenters: Vec<VCenter>,
    pub(crate) cluster: Cluster,
    #[serde(default)]
    pub(crate) supervisor: Option<Supervisor>,
}

/// Endpoint, certificate and accounts of a vCenter.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VCenter {
    /// Name of the vCenter: `vc0`, `vc1` and so on.
    pub name: String,
    /// URL, `https://HOST:PORT`, or `http://…` with `--plain-text`. SOAP is at `/sdk`, REST at
    /// `/api` and `/rest`.
    pub url: String,
    /// SHA-1 of the vCenter's certificate, in upper case with colons; empty with `--plain-text`.
    #[serde(default)]
    pub thumbprint: String,
    /// SHA-256 of the certificate, in upper case with colons; empty with `--plain-text`.
    #[serde(default)]
    pub thumbprint_sha256: String,
    /// Account of the administrator.
    pub administrator: Account,
    /// Account for a cloud provider.
    pub provider: Account,
}

/// User name and password for a vCenter.
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct Account {
    /// User name with domain, such as `administrator@vsphere.local`.
    pub username: String,
    /// Password at the start, or at the last [`refresh`](crate::SimContainer::refresh).
    pub password: String,
}

/// Endpoint and administrator of the workload cluster.
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct Cluster {
    /// URL, `https://HOST:PORT`, or `http://…` with `--plain-text`.
    pub url: String,
    /// Bearer token of the cluster's administrator.
    pub token: String,
}

/// Endpoint, administrator and provider files of the Supervisor.
#[derive(Clone, Deserialize)]
#[non_exhaustive]
pub struct Supervisor {
    /// URL, `https://HOST:PORT`, or `http://…` with `--plain-text`.
    pub url: String,
    /// Namespace that contains the VirtualMachines of the workload cluster.
    pub namespace: String,
    /// Bearer token of the Supervisor's administrator.
    pub token: String,
    /// Files for a provider in the workload cluster.
    pub provider: ProviderFiles,
}

/// Contents of the files that a provider in Supervisor mode mounts.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ProviderFiles {
    /// Contents of the file `ca.crt`: the authority to trust, as PEM; empty with `--plain-text`.
    #[serde(default)]
    pub certificate_authority: String,
    /// Contents of the file `namespace`: the Supervisor namespace of the workload cluster.
    pub namespace: String,
    /// Contents of the file `token`: the bearer token of the provider.
    pub token: String,
    /// Contents of the file `ownerref.json`: the owner of objects that the provider creates.
    pub owner_reference: Value,
}

/// Returns a kubeconfig with one cluster and one user. The cluster has no certificate authority if
/// `ca_pem` is empty.
pub(crate) fn kubeconfig(url: &str, token: &str, ca_pem: &str) -> String {
    // JSON is valid YAML, and serde_json escapes the values.
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

/// Encodes bytes as base64 of RFC 4648, with padding. Avoids a dependency for these few lines.
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

/// Returns a URL with the scheme of `url` and another host and port; drops the path.
pub(crate) fn moved(url: &str, host: &str, port: u16) -> String {
    let (scheme, _) = url.split_once("://").unwrap_or(("https", url));
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    format!("{scheme}://{host}:{port}")
}

/// Returns the port of `https://HOST:PORT`; `None` if the URL has no port.
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
    fn base64_encodes_the_examples_of_the_rfc() {
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
    fn a_moved_url_keeps_its_scheme() {
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
