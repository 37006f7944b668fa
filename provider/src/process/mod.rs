//! What only a process has: the log, files with certificates and secrets, signals, the health endpoint.

mod files;
mod serve;

use std::{
    io::{self, Write as _},
    path::Path,
};

use provider::{Config, CredentialRef, Transport, UnknownKeys, cli::Arguments};
use tracing_subscriber::EnvFilter;

use self::files::trust;

pub(crate) use serve::run;

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
    let path = &arguments.cloud_config;
    let text = std::fs::read_to_string(path)
        .map_err(|err| format!("{}: cannot be read: {err}", path.display()))?;
    for note in &arguments.notes {
        tracing::info!("{note}");
    }
    load(path, text, arguments.unknown_keys)
}

/// What a text of the configuration file comes to, with everything it points to.
fn load(path: &Path, text: String, unknown_keys: UnknownKeys) -> Result<Prepared, String> {
    let file = path.display().to_string();
    let (mut config, warnings) =
        Config::parse(&file, &text, unknown_keys).map_err(|err| err.to_string())?;
    for warning in warnings {
        tracing::warn!(file = %file, "{warning}");
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
