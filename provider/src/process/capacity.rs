//! `provider capacity` as a process: kubeconfig, files and signals.

use std::{
    io::{self, Write as _},
    path::Path,
};

use anyhow::Context as _;
use provider::{
    CapacityDeps, CapacityFiles, InputError, NamedText,
    cli::{CapacityArguments, PreviewPaths},
};
use tokio_util::sync::CancellationToken;

use super::{
    files::read_text,
    kube::client_from,
    serve::{runtime, seed},
    signals::{SignalAction, Signals},
};

/// Runs the controller until a signal, or prints what it would write.
///
/// # Errors
///
/// [`CapacityFailure::Input`] before the first connection, for a wrong file or flag.
pub(crate) fn run(arguments: CapacityArguments) -> Result<(), CapacityFailure> {
    if let Some(paths) = &arguments.preview {
        let text = provider::preview(&read(paths)?, &arguments.settings)?;
        let written = io::stdout().write_all(text.as_bytes());
        return Ok(written.context("cannot write to standard output")?);
    }
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = runtime()?;
    let result = runtime.block_on(control(arguments));
    runtime.shutdown_background();
    result
}

/// Reason why the process ends with an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CapacityFailure {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

fn read(paths: &PreviewPaths) -> Result<CapacityFiles, InputError> {
    let file = |flag: &str, path: &Path| {
        let name = format!("--{flag} {}", path.display());
        let text = read_text(path).map_err(|err| err.in_source(name.as_str()))?;
        Ok(NamedText { name, text })
    };
    Ok(CapacityFiles {
        template: file("template", &paths.template)?,
        class: paths.class.as_deref().map(|path| file("class", path)).transpose()?,
        image: paths.image.as_deref().map(|path| file("image", path)).transpose()?,
    })
}

async fn control(arguments: CapacityArguments) -> Result<(), CapacityFailure> {
    let client = client_from(arguments.kubeconfig.as_deref()).await?;
    let stop = CancellationToken::new();
    let deps =
        CapacityDeps { client, settings: arguments.settings, seed: seed(), stop: stop.clone() };
    let mut signals = Signals::new()?;
    let running = deps.run();
    tokio::pin!(running);
    loop {
        tokio::select! {
            biased;
            result = &mut running => return result.map_err(|err| anyhow::Error::new(err).into()),
            request = signals.next() => {
                if request != SignalAction::Stop {
                    return Err(anyhow::anyhow!("ended at once by a second signal").into());
                }
                tracing::info!("received a signal; finishing the current write, then stopping");
                stop.cancel();
            }
        }
    }
}
