//! `provider autoscaler` as a process: kubeconfig, files, signals and the socket.

mod beside;
mod journal;
mod vcenter;

use std::{
    io::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use provider::{
    AutoscalerBackend, AutoscalerDeps, AutoscalerServer, BootstrapTokens, Clock, GroupsFile,
    GroupsSource, HealthEndpoint, InputError, Leadership, NODE_GROUP_DEFINITION, SecretRandom,
    SupervisorLink, Telemetry, TlsFiles,
    cli::{AutoscalerArguments, AutoscalerBackendName},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    Failure,
    endpoint::endpoint_with,
    files::{read_text, unreadable},
    kube::{client_from_file, client_of_this_cluster, client_of_this_pod, supervisor_client},
    serve::{clock, seed, until_done, until_signal},
};

pub(crate) use beside::{check_beside, side_server};

/// Runs the server until a signal.
///
/// # Errors
///
/// [`Failure::Input`] before the first connection, for a wrong file or flag.
pub(crate) fn run(arguments: AutoscalerArguments) -> Result<(), Failure> {
    until_done(serve(arguments))
}

async fn serve(arguments: AutoscalerArguments) -> Result<(), Failure> {
    if arguments.print_crd {
        return print_definition();
    }
    let stop = CancellationToken::new();
    let parts = Parts {
        clock: clock(),
        seed: seed(),
        telemetry: Arc::new(Telemetry::of_autoscaler()),
        supervisor: None,
        guard: Guard(None),
        grace: AutoscalerDeps::GRACE,
    };
    let endpoint = match arguments.serving() {
        None => None,
        Some((address, serving)) => Some((address, endpoint_with(&serving).await?)),
    };
    let telemetry = Arc::clone(&parts.telemetry);
    let (ready, listener) = open(&arguments, parts, stop.clone()).await?;
    let shown = show(endpoint, telemetry, stop.clone()).await?;
    // This task polls both, so the endpoint ends with the server at the latest.
    let serve = async {
        tokio::select! {
            biased;
            result = ready.serve(listener) => result,
            never = shown => never,
        }
    };
    until_signal(serve, &stop, "answering open requests").await
}

/// Restricts the clients of a server beside controllers to the time in which its replica leads; `None`
/// without controllers.
struct Guard(Option<Leadership>);

impl Guard {
    fn on(&self, client: kube::Client) -> kube::Client {
        match &self.0 {
            Some(leadership) => leadership.guard(client),
            None => client,
        }
    }
}

/// Parts of the process that the server uses.
struct Parts {
    clock: Clock,
    seed: u64,
    telemetry: Arc<Telemetry>,
    /// Connection of the provider around the server; `None` without one.
    supervisor: Option<SupervisorLink>,
    guard: Guard,
    grace: Duration,
}

/// Reads the input of the server, and opens its port.
async fn open(
    arguments: &AutoscalerArguments,
    parts: Parts,
    stop: CancellationToken,
) -> Result<(AutoscalerServer, TcpListener), Failure> {
    let address = arguments.listen;
    let deps = AutoscalerDeps {
        backend: match arguments.backend {
            AutoscalerBackendName::Vcenter => {
                vcenter::backend(arguments, &parts.guard, &parts.clock, parts.seed).await?
            }
            _ => backend(arguments, parts.supervisor.as_ref(), &parts.guard).await?,
        },
        groups: groups(arguments, &parts.guard).await?,
        tls: tls(arguments),
        gpu_label: arguments.gpu_label.clone(),
        telemetry: parts.telemetry,
        clock: parts.clock,
        seed: parts.seed,
        grace: parts.grace,
        stop,
    };
    let ready = deps.prepare()?;
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.with_context(|| format!("cannot listen on {address}; choose another --listen"))?;
    // The system picks the port in place of 0.
    let address = listener.local_addr().unwrap_or(address);
    if arguments.tls_cert_file.is_some() {
        tracing::info!(%address, "serving autoscalers with TLS; clients need a certificate");
    } else {
        tracing::warn!(%address, "serving autoscalers WITHOUT TLS: whoever connects can create and delete machines");
    }
    Ok((ready, listener))
}

/// Opens the port of the HTTPS endpoint, if there is one, and returns the future that serves it and
/// never ends.
async fn show<T>(
    endpoint: Option<(SocketAddr, HealthEndpoint)>,
    telemetry: Arc<Telemetry>,
    stop: CancellationToken,
) -> anyhow::Result<impl Future<Output = T>> {
    let served = match endpoint {
        None => None,
        Some((address, endpoint)) => {
            let listener = TcpListener::bind(address).await.with_context(|| {
                format!(
                    "cannot listen on {address}; choose another --bind-address or --secure-port"
                )
            })?;
            tracing::info!(%address, "serving metrics and health over HTTPS");
            Some((endpoint, listener))
        }
    };
    Ok(async move {
        if let Some((endpoint, listener)) = served {
            endpoint.serve(listener, telemetry, stop).await;
        }
        std::future::pending().await
    })
}

/// Makes the client of a platform other than a vCenter from its files, without sending a request.
async fn backend(
    arguments: &AutoscalerArguments,
    of_provider: Option<&SupervisorLink>,
    guard: &Guard,
) -> Result<AutoscalerBackend, InputError> {
    let version = arguments.vm_operator_api_version;
    match arguments.backend {
        AutoscalerBackendName::Vcenter => {
            Err(InputError::new("needs a journal, which is a bug of the provider"))
        }
        AutoscalerBackendName::Supervisor if arguments.shares_supervisor => {
            let missing = || InputError::new("needs Supervisor mode").in_flag("backend");
            let SupervisorLink { client, namespace } = of_provider.cloned().ok_or_else(missing)?;
            let namespace = arguments.namespace.clone().unwrap_or(namespace);
            let link = SupervisorLink { client: guard.on(client), namespace };
            let tokens = tokens(arguments, guard).await?;
            Ok(AutoscalerBackend::Supervisor { link, version, tokens })
        }
        AutoscalerBackendName::Supervisor => {
            let missing = || InputError::new("is required").in_flag("supervisor-kubeconfig");
            let path = arguments.supervisor_kubeconfig.as_deref().ok_or_else(missing)?;
            let (client, of_context) = supervisor_client(path).await?;
            let namespace = arguments.namespace.clone().unwrap_or(of_context);
            let link = SupervisorLink { client: guard.on(client), namespace };
            let tokens = tokens(arguments, guard).await?;
            Ok(AutoscalerBackend::Supervisor { link, version, tokens })
        }
        AutoscalerBackendName::ClusterApi => {
            let client = match arguments.management_kubeconfig.as_deref() {
                Some(path) => client_from_file("management-kubeconfig", path, None).await?,
                None => client_of_this_cluster("--management-kubeconfig")?,
            };
            let client = guard.on(client);
            Ok(AutoscalerBackend::ClusterApi { client, settings: arguments.cluster_api() })
        }
    }
}

/// Returns the workload cluster of bootstrap tokens: that of `--workload-kubeconfig`, or that of this pod;
/// `None` without both.
async fn tokens(
    arguments: &AutoscalerArguments,
    guard: &Guard,
) -> Result<Option<BootstrapTokens>, InputError> {
    let client = match arguments.workload_kubeconfig.as_deref() {
        Some(path) => Some(client_from_file("workload-kubeconfig", path, None).await?),
        None => client_of_this_pod()?,
    };
    // The source of keys of TLS, which is that of the operating system.
    let source = rustls::crypto::ring::default_provider().secure_random;
    let random: SecretRandom =
        Arc::new(move |bytes| source.fill(bytes).map_err(|_| "the source failed".to_owned()));
    Ok(client.map(|client| BootstrapTokens { client: guard.on(client), random }))
}

/// Prints the definition of NodeGroups.
fn print_definition() -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(NODE_GROUP_DEFINITION.as_bytes()).and_then(|()| out.flush());
    Ok(written.context("cannot print the definition")?)
}

/// Returns the source of the groups; `None` with Cluster API.
async fn groups(
    arguments: &AutoscalerArguments,
    guard: &Guard,
) -> Result<Option<GroupsSource>, InputError> {
    let Some(settings) = arguments.node_groups() else {
        return Ok(arguments.groups.clone().map(groups_file).map(GroupsSource::File));
    };
    let client = match arguments.groups_kubeconfig.as_deref() {
        Some(path) => client_from_file("groups-kubeconfig", path, None).await?,
        None => client_of_this_cluster("--groups-kubeconfig")?,
    };
    Ok(Some(GroupsSource::Objects { client: guard.on(client), settings }))
}

/// Returns the reader of the file with the groups.
fn groups_file(path: PathBuf) -> GroupsFile {
    Arc::new(move || {
        let place = format!("--groups {}", path.display());
        let text = read_text(&path).map_err(|err| err.in_source(place.as_str()))?;
        Ok((place, text))
    })
}

/// Returns the reader of the files for TLS; `None` without TLS.
fn tls(arguments: &AutoscalerArguments) -> Option<TlsFiles> {
    let files = [
        ("tls-cert-file", arguments.tls_cert_file.clone()?),
        ("tls-private-key-file", arguments.tls_private_key_file.clone()?),
        ("client-ca-file", arguments.client_ca_file.clone()?),
    ];
    Some(Arc::new(move || {
        let read = |(flag, path): &(&str, std::path::PathBuf)| {
            let path: &Path = path;
            let place = format!("--{flag} {}", path.display());
            std::fs::read(path).map_err(|err| unreadable(&err).in_source(place))
        };
        let [certificate, key, authorities] = &files;
        Ok([read(certificate)?, read(key)?, read(authorities)?])
    }))
}
