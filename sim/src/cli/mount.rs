//! What a provider mounts to reach the Supervisor, written below a directory: token, authority, namespace, owner.
//!
//! The layout is that of the upstream provider: `/etc/cloud/ccm-provider` and
//! `/etc/kubernetes/guestclusters/cluster`, both below the directory.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::{CliError, files};
use crate::{Endpoint, Endpoints, Sim};

const CREDENTIALS: &str = "etc/cloud/ccm-provider";
const OWNER: &str = "etc/kubernetes/guestclusters/cluster";

/// Writes the files. Nobody else can read the token.
pub(super) fn write(sim: &Sim, endpoints: &Endpoints, below: &Path) -> Result<(), CliError> {
    let Some(supervisor) = sim.supervisor() else { return Ok(()) };
    let failed = |path: &Path, error: &std::io::Error| CliError::file("--supervisor", path, error);
    let write = |directory: &str, name: &str, text: &str| {
        let directory = below.join(directory);
        fs::create_dir_all(&directory).map_err(|error| failed(&directory, &error))?;
        let path = directory.join(name);
        files::replace(&path, text.as_bytes()).map_err(|error| failed(&path, &error))
    };
    let uid = sim.world().read(|world| world.ids().uuid("cluster", "owner"));
    let owner = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Cluster",
        "name": supervisor.cluster_name(),
        "uid": uid.to_string(),
    });
    write(CREDENTIALS, "token", supervisor.provider_token())?;
    write(CREDENTIALS, "ca.crt", endpoints.ca_pem().unwrap_or_default())?;
    write(CREDENTIALS, "namespace", supervisor.namespace())?;
    write(OWNER, "ownerref.json", &owner.to_string())
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
