//! Serving of a started sim: listeners, files, and the wait for a signal.

use std::fs;
use std::path::{Path, PathBuf};

use sim_world::{Command, Named};

use super::{mount, report};
use crate::cli::files::Scratch;
use crate::cli::serve::signals::Signals;
use crate::cli::serve::state::StateDirectory;
use crate::cli::{CliError, Terminal};
use crate::document::file;
use crate::{Endpoints, ListenOptions, Sim};

/// Input of [`serve`], for the work after the start of the world.
pub(super) struct Plan<'a> {
    pub(super) listen: ListenOptions,
    pub(super) kubelets: Vec<Named>,
    pub(super) state: Option<&'a StateDirectory>,
    /// Origin of the world that `state` saves.
    pub(super) origin: report::World,
    pub(super) env: Option<&'a Path>,
    /// Directory of `--supervisor` for the files that a provider mounts; `None` without the option.
    pub(super) mounts: Option<&'a Path>,
}

/// Opens the listeners, starts the kubelets, writes the files, and waits for a signal. Meanwhile
/// saves the world if a state directory is set. After the signal removes the file of `--env`,
/// unless another program has changed it. Fails if a listener cannot open or a file cannot be
/// written.
pub(super) async fn serve(
    sim: &Sim,
    plan: Plan<'_>,
    signals: &mut Signals,
) -> Result<(), CliError> {
    let Plan { listen, kubelets, state, origin, env, mounts } = plan;
    let endpoints = sim.listen(listen).await?;
    start_kubelets(sim, kubelets).await?;
    let scratch = match state {
        Some(_) => None,
        None => Scratch::new().map_err(|error| Terminal.warn(&no_files(&error))).ok(),
    };
    let directory = directory(state, scratch.as_ref())?;
    if let Some(directory) = &directory {
        write_credentials(directory, &endpoints)?;
    }
    if let Some(mounts) = mounts {
        mount::write(sim, &endpoints, mounts)?;
    }
    let changes = sim.world().changes();
    if let Some(state) = state {
        state.keep(&endpoints)?;
        state.keep_world(sim)?;
    }
    let variables = report::variables(sim, &endpoints, directory.as_deref(), mounts);
    let kept = state.map(|state| (state.path(), origin));
    Terminal.say(&report::text(sim, &endpoints, &variables, (env, kept)));
    if let Some(path) = env {
        file::replace(path, variables.as_bytes())
            .map_err(|error| CliError::file("--env", path, &error))?;
    }
    let kept = match state {
        None => {
            signals.next().await;
            Ok(())
        }
        Some(state) => {
            state.keep_until(signals.next(), sim, &endpoints, changes).await;
            // Certificates may have changed since the last save.
            state.keep(&endpoints)
        }
    };
    if let Some(path) = env {
        take_away(path, &variables);
    }
    drop(scratch);
    kept
}

async fn start_kubelets(sim: &Sim, kubelets: Vec<Named>) -> Result<(), CliError> {
    for kubelet in kubelets {
        sim.world()
            .apply(Command::StartKubelet(kubelet))
            .map_err(|error| CliError::failed(error.to_string(), "report this as a bug of sim"))?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Returns the directory for certificates and kubeconfigs: that of `--state`, else the temporary
/// one in `scratch`; `None` without either. Fails if the system cannot resolve the path of
/// `--state`.
fn directory(
    state: Option<&StateDirectory>,
    scratch: Option<&Scratch>,
) -> Result<Option<PathBuf>, CliError> {
    let Some(state) = state else { return Ok(scratch.map(|it| it.path().to_owned())) };
    let full = fs::canonicalize(state.path());
    full.map(Some).map_err(|error| CliError::file("--state", state.path(), &error))
}

/// Writes the certificate of the authority (with TLS) and the kubeconfigs of the cluster and, if
/// any, the Supervisor into `directory`. Fails if a file cannot be written.
fn write_credentials(directory: &Path, endpoints: &Endpoints) -> Result<(), CliError> {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        file::replace(&path, text.as_bytes())
            .map_err(|error| CliError::file("writing", &path, &error))
    };
    if let Some(pem) = endpoints.ca_pem() {
        write("ca.pem", pem)?;
    }
    write("kubeconfig", &endpoints.kubeconfig())?;
    match endpoints.supervisor_kubeconfig() {
        Some(kubeconfig) => write("supervisor.kubeconfig", &kubeconfig),
        None => Ok(()),
    }
}

/// Removes the file of `--env`, so that no client connects to a sim that has ended. Keeps the file
/// if another program has changed it.
fn take_away(path: &Path, variables: &str) {
    let is_ours = fs::read(path).is_ok_and(|text| text == variables.as_bytes());
    if is_ours && let Err(error) = fs::remove_file(path) {
        Terminal.warn(&format!("--env {}: cannot remove the file: {error}", path.display()));
    }
}

/// Returns the warning that the sim has no temporary directory. The sim serves without one, for
/// example in a container with a read-only file system, and `GET /endpoints` returns the contents
/// of the files.
fn no_files(error: &std::io::Error) -> String {
    format!(
        "no temporary directory, so sim writes no certificate and no kubeconfig: {error}\n  \
         remedy: set TMPDIR to a writable directory, or read GET /endpoints of the admin port"
    )
}
