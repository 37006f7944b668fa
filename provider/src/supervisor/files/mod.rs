//! The files mounted for the Supervisor, read and checked before the first call.
//!
//! A function supplies the files, so that no code below `main` opens one. Every error names the file, the problem and the remedy.

use std::{
    io,
    path::{Path, PathBuf},
};

use http::Uri;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use super::{OwnerReference, token::parse_token};

/// The host name that the Supervisor has inside a workload cluster; its certificate carries it.
const HOST: &str = "supervisor.default.svc";
/// Environment variable with the port of the Supervisor.
const PORT_VARIABLE: &str = "SUPERVISOR_APISERVER_PORT";

/// Paths of the mounted files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPaths {
    /// `--supervisor-credentials-dir`: holds `token`, `ca.crt` and `namespace`.
    pub credentials: PathBuf,
    /// `--supervisor-owner-ref`.
    pub owner: PathBuf,
    /// `--supervisor-server`; without it the host is `supervisor.default.svc` and the port comes from the environment.
    pub server: Option<String>,
}

impl Default for MountPaths {
    fn default() -> Self {
        Self {
            credentials: PathBuf::from("/etc/cloud/ccm-provider"),
            owner: PathBuf::from("/etc/kubernetes/guestclusters/cluster/ownerref.json"),
            server: None,
        }
    }
}

impl MountPaths {
    /// The file with the bearer token, which changes while the provider runs.
    pub fn token(&self) -> PathBuf {
        self.credentials.join("token")
    }

    /// The files that must not change while the provider runs.
    pub fn constant(&self) -> [PathBuf; 3] {
        [self.credentials.join("ca.crt"), self.credentials.join("namespace"), self.owner.clone()]
    }
}

/// Content of the mounted files.
#[derive(Clone, Debug)]
pub struct Mounted {
    /// Address of the Supervisor.
    pub server: Uri,
    /// Trusted root certificates of the Supervisor, in DER.
    pub roots: Vec<Vec<u8>>,
    /// The namespace that holds the cluster's machines.
    pub namespace: String,
    /// Owner of the objects that the provider creates.
    pub owner: OwnerReference,
    /// Warnings to log once at start.
    pub warnings: Vec<String>,
}

/// Reason why the Supervisor cannot be reached with the mounted files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// A file cannot be read.
    #[error("{path}: cannot be read: {problem}; {remedy}")]
    Unreadable {
        /// The file.
        path: String,
        /// Error of the operating system.
        problem: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A file with unexpected content.
    #[error("{path}: {problem}; {remedy}")]
    Content {
        /// The file.
        path: String,
        /// The problem.
        problem: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The address is missing or wrong.
    #[error("{origin}: {problem}; {remedy}")]
    Server {
        /// The flag or variable.
        origin: &'static str,
        /// The problem.
        problem: String,
        /// The remedy.
        remedy: &'static str,
    },
}

/// Reads and checks the mounted files. `port` is the value of `SUPERVISOR_APISERVER_PORT`.
///
/// # Errors
///
/// See [`MountError`]; reports the first problem.
pub fn read_mounted(
    paths: &MountPaths,
    port: Option<&str>,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<Mounted, MountError> {
    let open = |path: &Path, remedy: &'static str| {
        read(path).map_err(|err| MountError::Unreadable {
            path: path.display().to_string(),
            problem: err.to_string(),
            remedy,
        })
    };
    let mut warnings = Vec::new();
    let owner = {
        let remedy = "mount the owner reference of the cluster there, or name its file with --supervisor-owner-ref";
        let bytes = open(&paths.owner, remedy)?;
        let owner = OwnerReference::from_json(&bytes)
            .map_err(|err| content(&paths.owner, err.to_string(), remedy))?;
        let missing = owner.missing();
        if !missing.is_empty() {
            let (path, fields) = (paths.owner.display(), missing.join(", "));
            warnings.push(format!(
                "{path}: the owner reference has no {fields}; the Supervisor will refuse what names this owner"
            ));
        }
        owner
    };
    let server = server(paths.server.as_deref(), port)?;
    let remedy = "mount the Supervisor's credentials there, or name their directory with --supervisor-credentials-dir";
    let token = paths.token();
    parse_token(&open(&token, remedy)?).map_err(|err| content(&token, err.to_string(), remedy))?;
    let [ca, namespace, _] = paths.constant();
    let roots = roots(&ca, &open(&ca, remedy)?)?;
    let namespace_bytes = open(&namespace, remedy)?;
    let namespace = self::namespace(&namespace, &namespace_bytes, &mut warnings)?;
    Ok(Mounted { server, roots, namespace, owner, warnings })
}

fn content(path: &Path, problem: String, remedy: &'static str) -> MountError {
    MountError::Content { path: path.display().to_string(), problem, remedy }
}

/// The address of the Supervisor.
fn server(flag: Option<&str>, port: Option<&str>) -> Result<Uri, MountError> {
    if let Some(text) = flag {
        let uri = text.parse::<Uri>().ok().filter(|uri| {
            uri.scheme_str() == Some("https")
                && uri.host().is_some_and(|host| !host.is_empty())
                && matches!(uri.path(), "" | "/")
                && uri.query().is_none()
        });
        return uri.ok_or_else(|| MountError::Server {
            origin: "--supervisor-server",
            problem: format!("{text:?} is not the address of a Supervisor"),
            remedy: "write https://HOST:PORT",
        });
    }
    let fail = |problem: String| MountError::Server {
        origin: PORT_VARIABLE,
        problem,
        remedy: "set it to the port of the Supervisor's API, or name its address with --supervisor-server",
    };
    let text = port.unwrap_or_default();
    if text.is_empty() {
        return Err(fail("is empty or not set".to_owned()));
    }
    let number = text.parse::<u16>().ok().filter(|port| *port > 0);
    let number = number.ok_or_else(|| fail(format!("{text:?} is not a port")))?;
    let address = format!("https://{HOST}:{number}");
    address.parse().map_err(|err| fail(format!("{address}: {err}")))
}

fn roots(path: &Path, pem: &[u8]) -> Result<Vec<Vec<u8>>, MountError> {
    let remedy = "give a PEM file with the certificates that the Supervisor is trusted by";
    let mut roots = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|err| content(path, format!("is not PEM: {err}"), remedy))?;
        roots.push(certificate.to_vec());
    }
    if roots.is_empty() {
        return Err(content(path, "holds no certificate".to_owned(), remedy));
    }
    Ok(roots)
}

/// Returns the namespace without surrounding blanks. Upstream keeps them, and a newline at the end breaks every URL.
fn namespace(path: &Path, bytes: &[u8], warnings: &mut Vec<String>) -> Result<String, MountError> {
    let remedy = "write the name of the Supervisor namespace there, and nothing else";
    let text =
        std::str::from_utf8(bytes).map_err(|_| content(path, "is not text".to_owned(), remedy))?;
    let name = text.trim();
    if name.is_empty() {
        return Err(content(path, "is empty".to_owned(), remedy));
    }
    if !is_namespace(name) {
        return Err(content(path, format!("{name:?} is not the name of a namespace"), remedy));
    }
    if name != text {
        warnings.push(format!("{}: blanks around {name:?} were left out", path.display()));
    }
    Ok(name.to_owned())
}

/// True if the text is a DNS label, as names of namespaces are.
fn is_namespace(name: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= 63 && name.bytes().all(is_inner) && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests;
