//! The server for Cluster Autoscalers beside the controllers of a provider, which runs while the replica
//! leads.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use provider::{
    Clock, InputError, SideServer, SupervisorLink, Telemetry, check_autoscaler_files,
    cli::{AutoscalerArguments, AutoscalerBackendName},
};

use super::{Guard, Parts, backend, groups, groups_file, open, tls, tokens, vcenter};
use crate::process::Failure;

/// Longest time for which the stop waits for open requests, and then half as long for events: together
/// less than a provider waits for its controllers before it releases the lease.
const GRACE: Duration = Duration::from_secs(6);

/// Checks the files of the server before the replica leads, without sending a request. The server reads
/// them again when it starts, and opens the journal then.
///
/// # Errors
///
/// If a file cannot be read or used.
pub(crate) async fn check_beside(
    arguments: &AutoscalerArguments,
    of_provider: Option<&SupervisorLink>,
) -> Result<(), InputError> {
    let check = async {
        let mut has_tokens = false;
        let made = match arguments.backend {
            AutoscalerBackendName::Vcenter => {
                vcenter::link(arguments, &Guard(None)).await?;
                has_tokens = tokens(arguments, &Guard(None)).await?.is_some();
                None
            }
            _ => Some(backend(arguments, of_provider, &Guard(None)).await?),
        };
        groups(arguments, &Guard(None)).await?;
        let file = arguments.groups.clone().map(groups_file);
        check_autoscaler_files(file, tls(arguments), made.as_ref(), has_tokens)
    };
    check.await.map_err(|err| InputError::new(err.to_string()).in_flag("autoscaler"))
}

/// Returns the function that starts the server when the replica leads.
pub(crate) fn side_server(
    arguments: AutoscalerArguments,
    (clock, seed): (Clock, u64),
    telemetry: Arc<Telemetry>,
    supervisor: Option<SupervisorLink>,
) -> SideServer {
    let arguments = Arc::new(arguments);
    Arc::new(move |leadership| {
        let (arguments, stop) = (Arc::clone(&arguments), leadership.stop().clone());
        let parts = Parts {
            clock: clock.clone(),
            seed,
            telemetry: Arc::clone(&telemetry),
            supervisor: supervisor.clone(),
            guard: Guard(Some(leadership)),
            grace: GRACE,
        };
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
