//! Runs the provider in the process: with signals, the watched configuration file and the HTTPS
//! endpoint.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use provider::{
    Clock, Config, Deps, Options, Telemetry, TimeSource, VcenterConfig, cli::Arguments,
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::{
    Failure, LoadedConfig, Preparation,
    autoscaler::side_server,
    files::read_secrets,
    signals::{SignalAction, Signals},
    watched::WatchedFiles,
};

/// Period between two reads of the watched files, which are small.
const RELOAD_PERIOD: Duration = Duration::from_secs(2);

/// Makes the tokio runtime of the process.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    // One worker thread: the provider waits for servers nearly all the time, and every further
    // thread would keep another arena of freed memory (5,000 nodes: 58 MB resident with one thread,
    // 70 MB with two, more on a host with many cores).
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot make the async runtime of the provider; raise the limit of open files")
}

/// Runs a subcommand in a runtime of its own.
pub(crate) fn until_done(
    command: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    // Fails only if the process has a provider of cryptography already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = runtime()?;
    let result = runtime.block_on(command);
    runtime.shutdown_background();
    result
}

/// Runs the work of a subcommand until it ends. The first signal cancels `stop`, and a second one ends
/// the work at once. `finishing` is what the log says that the work does before it stops.
pub(crate) async fn until_signal<E>(
    work: impl Future<Output = Result<(), E>>,
    stop: &CancellationToken,
    finishing: &'static str,
) -> Result<(), Failure>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let mut signals = Signals::new()?;
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            result = &mut work => return result.map_err(|err| anyhow::Error::new(err).into()),
            request = signals.next() => {
                if request != SignalAction::Stop {
                    return Err(anyhow::anyhow!("ended at once by a second signal").into());
                }
                tracing::info!("received a signal; {finishing}, then stopping");
                stop.cancel();
            }
        }
    }
}

/// Runs the provider until a signal arrives, the configuration changes or the run fails.
pub(crate) fn run(
    runtime: Runtime,
    arguments: Arguments,
    prepared: Preparation,
) -> anyhow::Result<()> {
    let result = runtime.block_on(serve(arguments, prepared));
    // The run has ended in order, so tasks that still run no longer matter.
    runtime.shutdown_background();
    result
}

async fn serve(arguments: Arguments, prepared: Preparation) -> anyhow::Result<()> {
    let mut options = arguments.options;
    options.skip_node_deletion = std::env::var_os("SKIP_NODE_DELETION").is_some();
    let Preparation { read, supervisor, kube, endpoint } = prepared;
    let LoadedConfig { config, text, transports } = read;
    let (clock, seed) = (clock(), seed());
    let telemetry = Arc::new(match &arguments.autoscaler {
        Some(_) => Telemetry::with_autoscaler(),
        None => Telemetry::default(),
    });
    let side_server = arguments.autoscaler.map(|of| {
        side_server(of, (clock.clone(), seed), Arc::clone(&telemetry), supervisor.clone())
    });
    let deps = Deps {
        connect: Arc::new(move |vcenter: &VcenterConfig| {
            let found = transports.get(&vcenter.endpoint.name).cloned();
            found.ok_or_else(|| {
                "no transport was made for this vCenter, which is a bug of the provider".to_owned()
            })
        }),
        supervisor,
        side_server,
        telemetry,
        secret_files: Some(Arc::new(|path: &Path| {
            read_secrets(path).map_err(|err| format!("{}: {err}", path.display()))
        })),
        clock,
        seed,
        identity: identity(),
        ..Deps::new(kube)
    };
    let served = match endpoint {
        None => None,
        Some(endpoint) => {
            let address = SocketAddr::new(arguments.bind_address, arguments.secure_port);
            let listener = tokio::net::TcpListener::bind(address).await.with_context(|| {
                format!(
                    "cannot listen on {address}; choose another --bind-address or --secure-port"
                )
            })?;
            Some((endpoint, listener))
        }
    };
    let (telemetry, stop) = (Arc::clone(&deps.telemetry), deps.stop.clone());
    // This task polls the endpoint and the run, so the endpoint ends with the run at the latest.
    let endpoint = async {
        if let Some((endpoint, listener)) = served {
            endpoint.serve(listener, telemetry, stop).await;
        }
        std::future::pending().await
    };
    let watched = WatchedFiles {
        file: arguments.cloud_config,
        unknown_keys: arguments.unknown_keys,
        mounted: arguments.supervisor.map(|it| it.paths),
    };
    // The process has just read the mounted files; `configuration_changed` compares their later
    // content with this text.
    let text = if watched.mounted.is_some() { watched.read().unwrap_or(text) } else { text };
    tokio::select! {
        biased;
        result = run_until_stopped(config, options, deps, &watched, &text) => result,
        result = endpoint => result,
    }
}

/// Runs the provider until it ends: by itself, after a signal, or after a watched file has changed
/// from `text` to content with which the provider could start. A failed run, a change and a second
/// signal lead to an error.
async fn run_until_stopped(
    config: Config,
    options: Options,
    deps: Deps,
    watched: &WatchedFiles,
    text: &str,
) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let stop = deps.stop.clone();
    let name = watched.name();
    // The files are small, and the runtime has no other work.
    let read = async || watched.read();
    let check = |text: &str| watched.check(text).map_err(|err| err.to_string());
    let changed = provider::configuration_changed(text, RELOAD_PERIOD, read, check);
    let run = provider::run(config, options, deps);
    tokio::pin!(run, changed);
    let mut is_outdated = false;
    loop {
        tokio::select! {
            // The end of the run takes precedence over a signal that arrives at the same moment.
            biased;
            result = &mut run => {
                result?;
                // As in upstream, the process ends so that the kubelet restarts it. Unlike
                // upstream, it first stops in order.
                anyhow::ensure!(
                    !is_outdated,
                    "{name} has changed; stopped so that a restart uses the new content"
                );
                return Ok(());
            }
            request = signals.next() => {
                anyhow::ensure!(request == SignalAction::Stop, "ended at once by a second signal");
            }
            () = &mut changed, if !is_outdated && !stop.is_cancelled() => {
                tracing::info!(file = %name, "the configuration has changed; stopping, so that a restart uses it");
                is_outdated = true;
                stop.cancel();
                continue;
            }
        }
        tracing::info!(
            "received a signal; stopping (another signal 1 s or more later ends the process at once)"
        );
        stop.cancel();
    }
}

/// Returns the clock of the process, which reads the clocks of this host.
pub(super) fn clock() -> Clock {
    Clock::new(Arc::new(SystemTime))
}

/// Source of the times of this host: the wall clock, and the time since boot.
struct SystemTime;

impl TimeSource for SystemTime {
    #[expect(clippy::disallowed_methods, reason = "only the process reads the wall clock")]
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn since_boot(&self) -> Duration {
        use rustix::time::{ClockId, clock_gettime};
        // This clock counts while the host is suspended, unlike the monotonic clock.
        #[cfg(target_os = "linux")]
        let time = clock_gettime(ClockId::Boottime);
        #[cfg(not(target_os = "linux"))]
        let time = clock_gettime(ClockId::Monotonic);
        Duration::try_from(time).unwrap_or_default()
    }
}

/// Returns a random seed for the delays of this process.
pub(super) fn seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Returns the host name and a part that differs at every start, as in upstream's identities.
fn identity() -> String {
    let host = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|h| !h.is_empty()).unwrap_or("provider").to_owned();
    format!("{host}_{:016x}", seed())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::process::Command;

    use super::*;

    /// Environment variable that is set in the test process with a shifted time since boot.
    const SHIFTED: &str = "PROVIDER_TEST_SHIFTED";

    fn uptime() -> Duration {
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        Duration::from_secs_f64(text.split(' ').next().unwrap().parse().unwrap())
    }

    /// The test runs itself again in a time namespace, if the kernel allows one, in which the host
    /// seems to have been suspended for ten days. Without a suspension the monotonic clock and the
    /// time since boot show the same.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "compares with the wall clock of the host")]
    fn the_clock_of_the_process_counts_from_the_boot_of_the_machine_and_moves() {
        let (clock, before, wall) = (clock(), uptime(), jiff::Timestamp::now());
        let (boot, now) = (clock.since_boot(), clock.now());
        // The kernel rounds its report down to hundredths of a second.
        let after = uptime() + Duration::from_millis(10);
        assert!((before..=after).contains(&boot), "{before:?} {boot:?} {after:?}");
        assert!((wall..=jiff::Timestamp::now()).contains(&now), "{wall} {now}");
        while clock.now() == now || clock.since_boot() == boot {
            std::thread::yield_now();
        }
        if std::env::var_os(SHIFTED).is_some() {
            return;
        }
        let shifted = |program: &std::ffi::OsStr| {
            let mut unshare = Command::new("unshare");
            unshare.args(["--user", "--map-root-user", "--time", "--boottime", "864000"]);
            unshare.arg(program).env(SHIFTED, "yes");
            unshare
        };
        // Containers may forbid namespaces.
        if !shifted("true".as_ref()).output().is_ok_and(|out| out.status.success()) {
            eprintln!("cannot make a time namespace; not testing a host that was suspended");
            return;
        }
        let name = "the_clock_of_the_process_counts_from_the_boot_of_the_machine_and_moves";
        let this = std::env::current_exe().unwrap();
        let out = shifted(this.as_os_str()).arg(name).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && said.contains("1 passed"), "{said}");
    }
}
