//! The reference as a program: a reconciler of one of the example kinds, for trying
//! `conformance run --template-crd`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::api::Api;
use super::reference::{Example, Flaw, Reference};
use super::subject::Configuration;

const PERIOD: Duration = Duration::from_millis(200);

/// Reconciles the templates of an example kind until SIGTERM.
///
/// # Errors
/// If the kubeconfig cannot be used, or no flaw has the name.
pub(crate) fn run(
    example: Example,
    kubeconfig: &Path,
    flaw: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let named = |name: &str| Flaw::ALL.iter().copied().find(|it| it.as_str() == name);
    let flaw = flaw.map(|name| named(name).with_context(|| format!("no flaw is called {name}")));
    let reference = Reference { example: Some(example), flaw: flaw.transpose()? };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let read = kube::config::Kubeconfig::read_from(kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(read, &Default::default()).await?;
        let api = Api::new(kube::Client::try_from(config)?);
        let mut terminated = signal(SignalKind::terminate())?;
        let stop = CancellationToken::new();
        let work = reference.work(api, Configuration::Defaults, PERIOD, stop.clone());
        tokio::select! {
            biased;
            _ = terminated.recv() => {}
            () = work => {}
        }
        Ok(ExitCode::SUCCESS)
    })
}
