//! Reads and checks the files that are mounted for the Supervisor, before the first call.
//!
//! The caller passes a function that reads files, so that no code below `main` opens one. Every
//! error names the file, flag or environment variable, the problem and the remedy.

use std::{
    borrow::Cow,
    io,
    path::{Path, PathBuf},
};

use http::Uri;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use super::{OwnerReference, token::parse_token};
use crate::InputError;

/// The host name of the Supervisor inside a workload cluster; the Supervisor's certificate contains
/// it.
const HOST: &str = "supervisor.default.svc";
/// Environment variable with the port of the Supervisor's API.
const PORT_VARIABLE: &str = "SUPERVISOR_APISERVER_PORT";

/// Paths of the mounted files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPaths {
    /// `--supervisor-credentials-dir`: the directory with `token`, `ca.crt` and `namespace`.
    pub credentials: PathBuf,
    /// `--supervisor-owner-ref`: the file with the owner reference.
    pub owner: PathBuf,
    /// `--supervisor-server`: address of the Supervisor. Without it the host is
    /// `supervisor.default.svc` and the port comes from the environment.
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
    /// Path of the file with the bearer token. The token changes while the provider runs.
    pub fn token(&self) -> PathBuf {
        self.credentials.join("token")
    }

    /// Paths of the mounted files whose change requires a restart of the provider: `ca.crt`,
    /// `namespace` and the owner reference.
    pub fn constant(&self) -> [PathBuf; 3] {
        [self.credentials.join("ca.crt"), self.credentials.join("namespace"), self.owner.clone()]
    }
}

/// Address of the Supervisor, and content of the mounted files without the token.
#[derive(Clone, Debug)]
pub struct MountedFiles {
    /// Address of the Supervisor.
    pub server: Uri,
    /// Trusted root certificates of the Supervisor, in DER.
    pub roots: Vec<Vec<u8>>,
    /// The namespace that holds the cluster's machines.
    pub namespace: String,
    /// Owner reference, which the provider only checks and logs.
    pub owner: OwnerReference,
    /// Warnings to log once at start.
    pub warnings: Vec<String>,
}

/// Reads and checks the mounted files. `port` is the value of `SUPERVISOR_APISERVER_PORT`; it
/// counts only without [`MountPaths::server`].
///
/// # Errors
///
/// The first problem; the error names the file, flag or environment variable, and the remedy.
pub fn read_mounted(
    paths: &MountPaths,
    port: Option<&str>,
    read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
) -> Result<MountedFiles, InputError> {
    let open = |path: &Path, remedy: &'static str| {
        read(path).map_err(|err| content(path, format!("cannot be read: {err}"), remedy))
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
                "{path}: the owner reference has no {fields}; the Supervisor would refuse objects with this owner, but this version creates none"
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
    Ok(MountedFiles { server, roots, namespace, owner, warnings })
}

fn content(path: &Path, problem: impl Into<Cow<'static, str>>, remedy: &'static str) -> InputError {
    InputError::new(problem).remedy(remedy).in_source(path.display().to_string())
}

/// Returns the address of the Supervisor, from the flag or else from the port in the environment.
/// An invalid value is an error, and so is the absence of both.
fn server(flag: Option<&str>, port: Option<&str>) -> Result<Uri, InputError> {
    if let Some(text) = flag {
        let uri = text.parse::<Uri>().ok().filter(|uri| {
            uri.scheme_str() == Some("https")
                && uri.host().is_some_and(|host| !host.is_empty())
                && matches!(uri.path(), "" | "/")
                && uri.query().is_none()
        });
        return uri.ok_or_else(|| {
            let err = InputError::invalid(text, "is not the address of a Supervisor");
            err.remedy("write https://HOST:PORT").in_flag("supervisor-server")
        });
    }
    let fail = |err: InputError| {
        let remedy = "set it to the port of the Supervisor's API, or name its address with --supervisor-server";
        err.remedy(remedy).in_source(PORT_VARIABLE)
    };
    let text = port.unwrap_or_default();
    if text.is_empty() {
        return Err(fail(InputError::new("is empty or not set")));
    }
    let number = text.parse::<u16>().ok().filter(|port| *port > 0);
    let number = number.ok_or_else(|| fail(InputError::invalid(text, "is not a port")))?;
    let address = format!("https://{HOST}:{number}");
    address.parse().map_err(|err| fail(InputError::new(format!("{address}: {err}"))))
}

fn roots(path: &Path, pem: &[u8]) -> Result<Vec<Vec<u8>>, InputError> {
    let remedy = "give a PEM file with the root certificates of the Supervisor";
    let mut roots = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate =
            certificate.map_err(|err| content(path, format!("is not PEM: {err}"), remedy))?;
        roots.push(certificate.to_vec());
    }
    if roots.is_empty() {
        return Err(content(path, "holds no certificate", remedy));
    }
    Ok(roots)
}

/// Returns the namespace without surrounding blanks, and adds a warning to `warnings` if the file
/// has such blanks. Upstream keeps the blanks, so that a newline at the end breaks every URL.
fn namespace(path: &Path, bytes: &[u8], warnings: &mut Vec<String>) -> Result<String, InputError> {
    let remedy = "write the name of the Supervisor namespace there, and nothing else";
    let text = std::str::from_utf8(bytes).map_err(|_| content(path, "is not UTF-8", remedy))?;
    let name = text.trim();
    if name.is_empty() {
        return Err(content(path, "is empty", remedy));
    }
    if !is_namespace(name) {
        let err = InputError::invalid(name, "is not the name of a namespace");
        return Err(err.remedy(remedy).in_source(path.display().to_string()));
    }
    if name != text {
        warnings.push(format!("{}: ignoring the blanks around {name:?}", path.display()));
    }
    Ok(name.to_owned())
}

/// True if `name`, which must not be empty, is a DNS label in lower case, of at most 63 characters:
/// the form of names of namespaces.
fn is_namespace(name: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= 63 && name.bytes().all(is_inner) && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests;
