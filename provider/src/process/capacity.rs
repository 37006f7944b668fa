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
    Failure,
    files::read_text,
    kube::client_from,
    serve::{seed, until_done, until_signal},
};

/// Runs the controller until a signal, or prints what it would write.
///
/// # Errors
///
/// [`Failure::Input`] before the first connection, for a wrong file or flag.
pub(crate) fn run(arguments: CapacityArguments) -> Result<(), Failure> {
    if let Some(paths) = &arguments.preview {
        let text = provider::preview(&read(paths)?, &arguments.settings)?;
        let written = io::stdout().write_all(text.as_bytes());
        return Ok(written.context("cannot write to standard output")?);
    }
    until_done(control(arguments))
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

async fn control(arguments: CapacityArguments) -> Result<(), Failure> {
    let client = client_from(arguments.kubeconfig.as_deref()).await?;
    let stop = CancellationToken::new();
    let deps =
        CapacityDeps { client, settings: arguments.settings, seed: seed(), stop: stop.clone() };
    until_signal(deps.run(), &stop, "finishing the current write").await
}
