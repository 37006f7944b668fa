//! The server for Cluster Autoscalers beside the controllers of a provider, which runs while the replica
//! leads.

use std::sync::Arc;

use anyhow::Context as _;
use provider::{
    Clock, InputError, SideServer, SupervisorLink, Telemetry, check_autoscaler_files,
    cli::{AutoscalerArguments, AutoscalerBackendName},
};

use super::{Parts, groups_file, open, tls};
use crate::process::Failure;

/// Checks the files of the server before the replica leads, without sending a request. The server reads
/// them again when it starts.
///
/// # Errors
///
/// If a file cannot be read or used.
pub(crate) fn check_beside(arguments: &AutoscalerArguments) -> Result<(), InputError> {
    let groups = arguments.groups.clone().map(groups_file);
    let is_vcenter = arguments.backend == AutoscalerBackendName::Vcenter;
    check_autoscaler_files(groups, tls(arguments), is_vcenter)
        .map_err(|err| InputError::new(err.to_string()).in_flag("autoscaler"))
}

/// Returns the function that starts the server when the replica leads.
pub(crate) fn side_server(
    arguments: AutoscalerArguments,
    (clock, seed): (Clock, u64),
    telemetry: Arc<Telemetry>,
    supervisor: Option<SupervisorLink>,
) -> SideServer {
    let (arguments, parts) = (Arc::new(arguments), Parts { clock, seed, telemetry, supervisor });
    Arc::new(move |stop| {
        let (arguments, parts) = (Arc::clone(&arguments), parts.clone());
        Box::pin(async move {
            let serve = async {
                let opened = open(&arguments, parts, stop).await;
                let (ready, listener) = opened.map_err(|failure| match failure {
                    Failure::Input(err) => anyhow::Error::new(err).context("--autoscaler"),
                    Failure::Other(err) => err,
                })?;
                ready.serve(listener).await.context("the server for Cluster Autoscalers ended")
            };
            serve.await.map_err(|err| format!("{err:#}"))
        })
    })
}
