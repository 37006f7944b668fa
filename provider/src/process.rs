//! What only a process has: the log, files with certificates and secrets, signals, the health endpoint.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use provider::{
    Config, CredentialRef, Deps, Options, SecretData, TlsTrust, Transport, UnknownKeys,
    VcenterConfig, cli::Arguments,
};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Bundles of trusted roots, where the usual distributions keep them.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Says on standard error what is wrong; the log may not be there yet.
pub(crate) fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "provider: {what}");
}

pub(crate) fn start_logging(arguments: &Arguments) {
    let level = match arguments.verbosity {
        0..=1 => "info",
        2..=3 => "info,provider=info",
        4..=5 => "info,provider=debug,provider_vcenter=debug",
        _ => "debug,provider=trace,provider_vcenter=trace",
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(level))
        .with_writer(io::stderr)
        .with_ansi(false);
    if arguments.json_logs {
        builder.json().init();
    } else {
        builder.init();
    }
}

/// How often the configuration file is read again. It is small.
const RELOAD_PERIOD: Duration = Duration::from_secs(2);

/// What was read from files before anything is called.
pub(crate) struct Prepared {
    config: Config,
    /// The file that it was read from.
    text: String,
    transports: Vec<(String, Transport)>,
}

/// Reads the configuration and everything it points to.
pub(crate) fn prepare(arguments: &Arguments) -> Result<Prepared, String> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let file = arguments.cloud_config.display().to_string();
    let text = std::fs::read_to_string(&arguments.cloud_config)
        .map_err(|err| format!("{file}: cannot be read: {err}"))?;
    let (mut config, warnings) =
        Config::parse(&file, &text, arguments.unknown_keys).map_err(|err| err.to_string())?;
    for warning in warnings {
        tracing::warn!(file = %file, "{warning}");
    }
    for note in &arguments.notes {
        tracing::info!("{note}");
    }
    default_secrets_directory(&mut config);
    let dual_stack = std::env::var_os("ENABLE_ALPHA_DUAL_STACK").is_some();
    let mut transports = Vec::new();
    for vcenter in &config.vcenters {
        let name = &vcenter.endpoint.name;
        if vcenter.families.len() > 1 && !dual_stack {
            return Err(format!(
                "{file}: vCenter {name:?}: more than one IP family needs the environment variable \
                 ENABLE_ALPHA_DUAL_STACK"
            ));
        }
        let trust = trust(vcenter).map_err(|what| format!("{file}: vCenter {name:?}: {what}"))?;
        let transport = provider::https(&vcenter.endpoint, &trust)
            .map_err(|err| format!("{file}: vCenter {name:?}: {}", provider::Chain(&err)))?;
        transports.push((name.clone(), transport));
    }
    Ok(Prepared { config, text, transports })
}

/// Mounting something at the usual place is enough, as with upstream.
fn default_secrets_directory(config: &mut Config) {
    let usual = Path::new("/etc/cloud/secrets");
    if !usual.is_dir() {
        return;
    }
    for vcenter in &mut config.vcenters {
        if vcenter.credentials == CredentialRef::None {
            vcenter.credentials = CredentialRef::Directory(usual.to_owned());
        }
    }
}

fn trust(vcenter: &VcenterConfig) -> Result<TlsTrust, String> {
    let mut trust = TlsTrust {
        thumbprint: vcenter.thumbprint.clone(),
        insecure: vcenter.insecure,
        ..TlsTrust::default()
    };
    if let Some(paths) = &vcenter.ca_file {
        for path in std::env::split_paths(paths) {
            let pem = std::fs::read(&path).map_err(|err| {
                format!("invalid certificate '{}', cannot be used: {err}", path.display())
            })?;
            trust.roots_pem.extend(pem);
            trust.roots_pem.push(b'\n');
        }
    } else if !vcenter.insecure {
        trust.roots_pem =
            SYSTEM_ROOTS.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
    }
    Ok(trust)
}

fn read_secrets(directory: &Path) -> Result<SecretData, String> {
    let fail = |err: io::Error| format!("{}: {err}", directory.display());
    let mut data = SecretData::new();
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        // `..data` and its like are how Secrets are mounted.
        if name.starts_with("..") || !path.is_file() {
            continue;
        }
        match std::fs::read(&path) {
            Ok(content) => {
                data.insert(name.to_owned(), content);
            }
            Err(err) => tracing::warn!(file = name, error = %err, "secret file not read"),
        }
    }
    Ok(data)
}

/// Runs until a signal.
pub(crate) fn run(arguments: Arguments, prepared: Prepared) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(serve(arguments, prepared));
    // Nothing that is still running matters any more: the run has ended in order.
    runtime.shutdown_background();
    result
}

async fn serve(arguments: Arguments, prepared: Prepared) -> anyhow::Result<()> {
    let kube = kube_client(&arguments).await?;
    let mut options = arguments.options;
    options.skip_node_deletion = std::env::var_os("SKIP_NODE_DELETION").is_some();
    let Prepared { config, text, transports } = prepared;
    let deps = Deps {
        connect: Arc::new(move |vcenter: &VcenterConfig| {
            let found = transports.iter().find(|(name, _)| *name == vcenter.endpoint.name);
            found.map(|(_, transport)| transport.clone()).ok_or_else(|| "no transport".to_owned())
        }),
        secret_files: Some(Arc::new(read_secrets)),
        epoch: now(),
        seed: seed(),
        identity: identity(),
        ..Deps::new(kube)
    };
    let listener = if arguments.secure_port == 0 {
        None
    } else {
        let address = SocketAddr::new(arguments.bind_address, arguments.secure_port);
        let listener = tokio::net::TcpListener::bind(address).await.with_context(|| {
            format!("cannot listen on {address} (--bind-address, --secure-port)")
        })?;
        Some(listener)
    };
    let (telemetry, stop) = (Arc::clone(&deps.telemetry), deps.stop.clone());
    // Both are polled by this task, so the endpoint ends with the run at the latest.
    let endpoint = async {
        if let Some(listener) = listener
            && let Err(err) = provider::serve(listener, telemetry, stop).await
        {
            tracing::error!(error = %err, "health endpoint not served");
        }
        std::future::pending().await
    };
    let (file, unknown_keys) = (arguments.cloud_config, arguments.unknown_keys);
    tokio::select! {
        biased;
        result = run_until_told(config, options, deps, &file, &text, unknown_keys) => result,
        result = endpoint => result,
    }
}

/// Runs until a signal, or until the configuration file has changed to something that can be used.
async fn run_until_told(
    config: Config,
    options: Options,
    deps: Deps,
    file: &Path,
    text: &str,
    unknown_keys: UnknownKeys,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let stop = deps.stop.clone();
    let name = file.display().to_string();
    let read = async || tokio::fs::read_to_string(file).await.map_err(|err| err.to_string());
    let check = |text: &str| {
        Config::parse(&name, text, unknown_keys).map(|_| ()).map_err(|err| err.to_string())
    };
    let changed = provider::configuration_changed(text, RELOAD_PERIOD, read, check);
    let run = provider::run(config, options, deps);
    tokio::pin!(run, changed);
    let mut is_outdated = false;
    loop {
        tokio::select! {
            // The end of the run comes first: a signal that arrives with it changes nothing.
            biased;
            result = &mut run => {
                result?;
                // As upstream: whoever started the process starts it again. Unlike upstream: in order.
                anyhow::ensure!(
                    !is_outdated,
                    "{name} has changed; stopped in order to be started again with it"
                );
                return Ok(());
            }
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = &mut changed, if !is_outdated && !stop.is_cancelled() => {
                tracing::info!(file = %name, "the configuration has changed: stopping");
                is_outdated = true;
                stop.cancel();
                continue;
            }
        }
        if stop.is_cancelled() {
            anyhow::bail!("stopped at once by a second signal");
        }
        tracing::info!("stopping at a signal; a second one stops at once");
        stop.cancel();
    }
}

async fn kube_client(arguments: &Arguments) -> anyhow::Result<kube::Client> {
    let mut config = match &arguments.kubeconfig {
        Some(path) => {
            let read = kube::config::Kubeconfig::read_from(path)
                .with_context(|| format!("{}: cannot be read (--kubeconfig)", path.display()))?;
            let options = kube::config::KubeConfigOptions::default();
            kube::Config::from_custom_kubeconfig(read, &options)
                .await
                .with_context(|| format!("{}: cannot be used (--kubeconfig)", path.display()))?
        }
        None => kube::Config::incluster().context("not in a cluster; give --kubeconfig")?,
    };
    if let Some(master) = &arguments.master {
        config.cluster_url = master.parse().context("not a URL (--master)")?;
    }
    // Retries and deadlines are ours; kube's would send a write again that was applied already.
    config.default_retry = false;
    config.read_timeout = None;
    kube::Client::try_from(config).context("cannot make a client of the API server")
}

#[expect(clippy::disallowed_methods, reason = "the process is where the wall clock is read, once")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

fn seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Host name and something that differs at every start, as upstream's identities are.
fn identity() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|h| !h.is_empty()).unwrap_or("provider").to_owned();
    format!("{host}_{:016x}", seed())
}
