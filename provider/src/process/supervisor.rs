//! Connection of the process to the Supervisor: reads the mounted files and an environment
//! variable, and makes a client that reads its token again during the run.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use http::HeaderValue;
use provider::{
    InputError, MountPaths, MountedFiles, SupervisorLink, TokenSource, cli::SupervisorArguments,
};

/// Environment variable with the Supervisor's port.
const PORT: &str = "SUPERVISOR_APISERVER_PORT";

/// Reads and checks the mounted files and the environment variable [`PORT`].
pub(super) fn read_mounts(paths: &MountPaths) -> Result<MountedFiles, InputError> {
    let port = std::env::var(PORT).ok();
    let read = |path: &Path| std::fs::read(path);
    provider::read_mounted(paths, port.as_deref(), &read)
}

/// Reads the mounted files and makes the client of the Supervisor, without sending a request. Must
/// run inside a runtime.
pub(super) fn link(arguments: &SupervisorArguments) -> Result<SupervisorLink, InputError> {
    let MountedFiles { server, roots, namespace, owner, warnings } = read_mounts(&arguments.paths)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    tracing::info!(
        server = %server,
        namespace = %namespace,
        owner = %format!("{}/{}", owner.kind, owner.name),
        version = %arguments.settings.version,
        "running in Supervisor mode; connecting to the Supervisor"
    );
    let mut config = ::kube::Config::new(server);
    config.root_cert = Some(roots);
    config.default_namespace.clone_from(&namespace);
    // The provider implements retries and deadlines itself.
    config.default_retry = false;
    config.read_timeout = None;
    let client = ::kube::Client::try_from(config).map_err(|err| {
        let err = InputError::new(format!("cannot make a client for the Supervisor: {err}"));
        err.remedy("check ca.crt in the directory of --supervisor-credentials-dir")
    })?;
    let client = with_token_of(client, arguments.paths.token());
    Ok(SupervisorLink { client, namespace })
}

/// Returns a client that sends the token in this file, which may change.
pub(super) fn with_token_of(client: ::kube::Client, file: PathBuf) -> ::kube::Client {
    let tokens = TokenSource::new(Arc::new(move || {
        std::fs::read(&file).map_err(|err| format!("{}: {err}", file.display()))
    }));
    provider::authenticated(client, Arc::new(tokens), agent())
}

/// Value of `User-Agent`, in the form of Kubernetes clients.
pub(super) fn agent() -> HeaderValue {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    let text = format!("provider/{} ({os}/{arch}) kubernetes", env!("CARGO_PKG_VERSION"));
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("provider"))
}
