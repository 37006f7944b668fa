//! What a provider mounts to reach the Supervisor, written below a directory: token, authority, namespace, owner.

use std::fs;
use std::path::{Path, PathBuf};

use super::{CliError, files};
use crate::{CREDENTIALS, Endpoint, Endpoints, OWNER, Sim};

/// Writes the files. Nobody else can read the token.
pub(super) fn write(sim: &Sim, endpoints: &Endpoints, below: &Path) -> Result<(), CliError> {
    let Some(supervisor) = sim.supervisor() else { return Ok(()) };
    let failed = |path: &Path, error: &std::io::Error| CliError::file("--supervisor", path, error);
    for (name, text) in supervisor.mounts(endpoints.ca_pem().unwrap_or_default()) {
        let path = below.join(name);
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        }
        files::replace(&path, text.as_bytes()).map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

/// The flags of a provider that runs outside a pod.
pub(super) fn flags(endpoint: &Endpoint, below: &Path) -> String {
    let below = fs::canonicalize(below).unwrap_or_else(|_| PathBuf::from(below));
    format!(
        "--supervisor-credentials-dir={} --supervisor-owner-ref={} --supervisor-server={}",
        below.join(CREDENTIALS).display(),
        below.join(OWNER).join("ownerref.json").display(),
        endpoint.url
    )
}
