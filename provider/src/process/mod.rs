//! The parts of the provider that only a process has: the log, files with certificates and secrets,
//! signals, and the HTTPS endpoint.

mod autoscaler;
mod capacity;
mod endpoint;
mod files;
mod kube;
mod serve;
mod signals;
mod supervisor;
mod watched;

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    path::Path,
};

use provider::{
    Config, CredentialRef, HealthEndpoint, InputError, ProxyRules, SupervisorLink, Transport,
    UnknownKeys, VcenterConfig, VcenterName, cli::Arguments,
};
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;

use self::files::{SystemRoots, read_secrets, read_text, trust};

pub(crate) use autoscaler::run as run_autoscaler;
pub(crate) use capacity::run as run_capacity;
pub(crate) use serve::{run, runtime};

/// Reason why a subcommand ends with an error.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("{0:#}")]
    Other(#[from] anyhow::Error),
}

/// Writes an error to standard error, without the log, which may not have started yet.
pub(crate) fn print_error(what: &str) {
    let _ = writeln!(io::stderr(), "provider: {what}");
}

pub(crate) fn start_logging(verbosity: u8, is_json: bool) {
    let level = match verbosity {
        0..=1 => "info",
        2..=3 => "info,provider=info",
        4..=5 => "info,provider=debug,provider_vcenter=debug",
        _ => "debug,provider=trace,provider_vcenter=trace",
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(level))
        .with_writer(io::stderr)
        .with_ansi(false);
    if is_json {
        builder.json().init();
    } else {
        builder.init();
    }
}

/// Everything that the process prepares from files before the first call.
pub(crate) struct Preparation {
    read: LoadedConfig,
    supervisor: Option<SupervisorLink>,
    kube: ::kube::Client,
    /// `None` with `--secure-port=0`.
    endpoint: Option<HealthEndpoint>,
}

/// The configuration and the files that it names.
struct LoadedConfig {
    config: Config,
    /// Content of the configuration file.
    text: String,
    /// Transports by name of the vCenter; a map, because a configuration may have many vCenters.
    transports: BTreeMap<VcenterName, Transport>,
}

/// Reads the configuration and the files that it names, and makes the clients and the HTTPS
/// endpoint.
pub(crate) fn prepare(runtime: &Runtime, arguments: &Arguments) -> Result<Preparation, InputError> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let path = &arguments.cloud_config;
    let in_flag = |err: InputError| err.in_source(format!("--cloud-config {}", path.display()));
    let text = read_text(path).map_err(in_flag)?;
    for note in &arguments.notes {
        tracing::info!("{note}");
    }
    let (read, supervisor) = match &arguments.supervisor {
        None => (load(path, text, arguments.unknown_keys)?, None),
        Some(supervisor) => {
            watched::check_unused(path, &text)?;
            let link = runtime.block_on(async { supervisor::link(supervisor) })?;
            let config = Config::without_vcenters();
            (LoadedConfig { config, text, transports: BTreeMap::new() }, Some(link))
        }
    };
    let kube = runtime.block_on(kube::client(arguments))?;
    let endpoint = runtime.block_on(endpoint::endpoint(arguments))?;
    if let Some(server) = &arguments.autoscaler {
        runtime.block_on(autoscaler::check_beside(server, supervisor.as_ref()))?;
    }
    Ok(Preparation { read, supervisor, kube, endpoint })
}

/// Parses a configuration, and makes the transports to its vCenters from the files that it names.
fn load(path: &Path, text: String, unknown_keys: UnknownKeys) -> Result<LoadedConfig, InputError> {
    let file = path.display().to_string();
    let (mut config, warnings) = Config::parse(&file, &text, unknown_keys)?;
    for warning in warnings {
        tracing::warn!(file = %file, "{warning}");
    }
    default_secrets_directory(&mut config);
    let dual_stack = std::env::var_os("ENABLE_ALPHA_DUAL_STACK").is_some();
    let proxies = proxies()?;
    let (mut transports, mut system) = (BTreeMap::new(), SystemRoots::default());
    for vcenter in &config.vcenters {
        let name = &vcenter.endpoint.name;
        let in_section = |err: InputError| {
            err.at_key(format!("vCenter {:?}", name.as_str())).in_source(file.as_str())
        };
        if vcenter.families.len() > 1 && !dual_stack {
            let what =
                "more than one IP family needs the environment variable ENABLE_ALPHA_DUAL_STACK";
            return Err(in_section(
                InputError::new(what).remedy("set the variable, or name one family"),
            ));
        }
        check_secrets(vcenter).map_err(in_section)?;
        let trust = trust(vcenter, &mut system).map_err(in_section)?;
        let proxy = proxies.proxy_for(&vcenter.endpoint);
        if proxy.is_some() {
            tracing::info!(vcenter = %name, "connecting through the proxy that HTTPS_PROXY or https_proxy names");
        }
        let transport = provider::https_through(&vcenter.endpoint, &trust, proxy)
            .map_err(|err| in_section(unusable(vcenter, &err)))?;
        transports.insert(name.clone(), transport);
    }
    Ok(LoadedConfig { config, text, transports })
}

/// Reads `HTTPS_PROXY` and `NO_PROXY` from the environment, or their names in lower case if the
/// upper-case variable is missing or empty. Returns an error if a value cannot be parsed.
fn proxies() -> Result<ProxyRules, InputError> {
    let is_set = |name: &&str| std::env::var(name).is_ok_and(|text| !text.is_empty());
    let variable = |names: [&'static str; 2]| names.into_iter().find(is_set);
    let text = |name: Option<&str>| name.and_then(|name| std::env::var(name).ok());
    let proxy = variable(["HTTPS_PROXY", "https_proxy"]);
    let exceptions = text(variable(["NO_PROXY", "no_proxy"])).unwrap_or_default();
    ProxyRules::parse(&text(proxy).unwrap_or_default(), &exceptions)
        .map_err(|err| InputError::new(err.to_string()).in_source(proxy.unwrap_or("HTTPS_PROXY")))
}

/// Describes a problem with trusted roots or thumbprint. Names the remedy and the key with its
/// value, or both keys if either may be the cause.
fn unusable(vcenter: &VcenterConfig, err: &provider::TlsError) -> InputError {
    let ca_file = vcenter.ca_file.as_deref().unwrap_or(Path::new("(trusted roots of this host)"));
    let ca_file = ca_file.display();
    match (err, &vcenter.thumbprint) {
        (provider::TlsError::BadThumbprint, Some(thumbprint)) => {
            let remedy = "write the hex digits that `openssl x509 -fingerprint` prints after the =";
            let err = InputError::new(err.to_string()).remedy(remedy);
            err.at_key(format!("thumbprint {thumbprint:?}"))
        }
        (provider::TlsError::NoCertificate | provider::TlsError::BadCertificate(_), _) => {
            let err = InputError::new(err.to_string());
            err.remedy("give a PEM file with certificates").at_key(format!("ca-file {ca_file}"))
        }
        _ => {
            InputError::new(provider::Chain(err).to_string()).remedy("check ca-file and thumbprint")
        }
    }
}

/// Checks that the provider can read the secrets directory, if the configuration names one. Without
/// user and password in the file a failure is an error, else a warning.
fn check_secrets(vcenter: &VcenterConfig) -> Result<(), InputError> {
    let CredentialRef::Directory(path) = &vcenter.credentials else { return Ok(()) };
    let Err(err) = read_secrets(path.as_path()) else { return Ok(()) };
    let err = InputError::new(err.to_string())
        .remedy("mount the secret there, or correct the path")
        .at_key(format!("secrets-directory {}", path.display()));
    if vcenter.inline.is_none() {
        return Err(err);
    }
    tracing::warn!(vcenter = %vcenter.endpoint.name, "{err}; using user and password of the configuration file for now");
    Ok(())
}

/// Sets `/etc/cloud/secrets` as the secrets directory of every vCenter without a Secret or
/// directory, if that path is a directory. As in upstream.
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
