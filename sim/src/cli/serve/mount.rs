//! Option `--supervisor`: the files and flags with which a provider reaches the Supervisor.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::cli::CliError;
use crate::cli::files::Lock;
use crate::supervisor::{SupervisorError, credentials, owner_ref};
use crate::{Endpoint, Endpoints, Sim};

/// Creates the directory of `--supervisor` and locks it. No other sim can use it until the lock is
/// dropped. Fails if another sim uses it, or if the directory cannot be created.
pub(super) fn claim(below: &Path) -> Result<Lock, CliError> {
    let lock = fs::create_dir_all(below).and_then(|()| Lock::new(below.join(".lock")));
    lock.map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => CliError::input(
            format!("--supervisor {}: another sim writes to this directory", below.display()),
            "stop the other sim, or choose another directory",
        ),
        _ => CliError::file("--supervisor", below, &error),
    })
}

/// Writes into `below`, the directory of `--supervisor`, the files that a provider mounts, and
/// makes the sim write them again whenever their contents change. Does nothing in a world without a
/// Supervisor. Fails if a file cannot be written.
pub(super) fn write(sim: &Sim, endpoints: &Endpoints, below: &Path) -> Result<(), CliError> {
    let Some(supervisor) = sim.supervisor() else { return Ok(()) };
    match supervisor.mount(below, endpoints.ca_pem().unwrap_or_default()) {
        Ok(()) => Ok(()),
        Err(SupervisorError::Mount(error)) => Err(CliError::file("--supervisor", below, &error)),
        Err(error) => Err(CliError::failed(error.to_string(), "report this as a bug of sim")),
    }
}

/// Returns the flags with which a provider outside a pod reaches the Supervisor: the directory of
/// the credentials, the file of the owner reference, and the URL. `below` is the directory of
/// `--supervisor`.
pub(super) fn flags(endpoint: &Endpoint, below: &Path) -> String {
    let below = fs::canonicalize(below).unwrap_or_else(|_| PathBuf::from(below));
    format!(
        "--supervisor-credentials-dir={} --supervisor-owner-ref={} --supervisor-server={}",
        credentials(&below).display(),
        owner_ref(&below).display(),
        endpoint.url
    )
}
