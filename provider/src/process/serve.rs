//! Runs the provider with its signals, its configuration file and its health endpoint.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use provider::{Clock, Config, Deps, Options, TimeSource, VcenterConfig, cli::Arguments};
use tokio::runtime::Runtime;

use super::{
    Prepared, Read,
    files::read_secrets,
    signals::{Request, Signals},
    watched::Watched,
};

/// Period between two reads of the configuration file, which is small.
const RELOAD_PERIOD: Duration = Duration::from_secs(2);

/// The runtime of the process.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    // One worker: the provider waits for servers nearly all the time, and every further thread would keep its own arena of
    // freed memory (5,000 nodes: 58 MB resident with one, 70 MB with two, more on a machine with many cores).
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

/// Runs until a signal or a changed configuration.
pub(crate) fn run(
    runtime: Runtime,
    arguments: Arguments,
    prepared: Prepared,
) -> anyhow::Result<()> {
    let result = runtime.block_on(serve(arguments, prepared));
    // The run has ended in order, so tasks that still run no longer matter.
    runtime.shutdown_background();
    result
}

async fn serve(arguments: Arguments, prepared: Prepared) -> anyhow::Result<()> {
    let mut options = arguments.options;
    options.skip_node_deletion = std::env::var_os("SKIP_NODE_DELETION").is_some();
    let Prepared { read, supervisor, kube, endpoint } = prepared;
    let Read { config, text, transports } = read;
    let deps = Deps {
        connect: Arc::new(move |vcenter: &VcenterConfig| {
            let found = transports.get(&vcenter.endpoint.name).cloned();
            found.ok_or_else(|| "no transport".to_owned())
        }),
        supervisor,
        secret_files: Some(Arc::new(read_secrets)),
        clock: clock(),
        seed: seed(),
        identity: identity(),
        ..Deps::new(kube)
    };
    let served = match endpoint {
        None => None,
        Some(endpoint) => {
            let address = SocketAddr::new(arguments.bind_address, arguments.secure_port);
            let listener = tokio::net::TcpListener::bind(address).await.with_context(|| {
                format!("cannot listen on {address} (--bind-address, --secure-port)")
            })?;
            Some((endpoint, listener))
        }
    };
    let (telemetry, stop) = (Arc::clone(&deps.telemetry), deps.stop.clone());
    // This task polls both, so the endpoint ends with the run at the latest.
    let endpoint = async {
        if let Some((endpoint, listener)) = served {
            endpoint.serve(listener, telemetry, stop).await;
        }
        std::future::pending().await
    };
    let watched = Watched {
        file: arguments.cloud_config,
        unknown_keys: arguments.unknown_keys,
        mounted: arguments.supervisor.map(|it| it.paths),
    };
    // The mounted files were just read; later content is compared with this text.
    let text = if watched.mounted.is_some() { watched.read().unwrap_or(text) } else { text };
    tokio::select! {
        biased;
        result = run_until_told(config, options, deps, &watched, &text) => result,
        result = endpoint => result,
    }
}

/// Runs until a signal, or until the configuration file has changed to a usable one.
async fn run_until_told(
    config: Config,
    options: Options,
    deps: Deps,
    watched: &Watched,
    text: &str,
) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let stop = deps.stop.clone();
    let name = watched.name();
    // The files are small, and the runtime has no other work.
    let read = async || watched.read();
    let check = |text: &str| watched.check(text);
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
                // As upstream, the process ends so that it is started again. Unlike upstream, it first stops in order.
                anyhow::ensure!(
                    !is_outdated,
                    "{name} has changed; stopped in order to be started again with it"
                );
                return Ok(());
            }
            request = signals.next() => {
                anyhow::ensure!(request == Request::Stop, "stopped at once by a second signal");
            }
            () = &mut changed, if !is_outdated && !stop.is_cancelled() => {
                tracing::info!(file = %name, "the configuration has changed; stopping");
                is_outdated = true;
                stop.cancel();
                continue;
            }
        }
        tracing::info!("stopping at a signal; another one, a second or more later, stops at once");
        stop.cancel();
    }
}

/// The clock of the process.
fn clock() -> Clock {
    Clock::new(Arc::new(SystemTime))
}

/// The clocks of this machine.
struct SystemTime;

impl TimeSource for SystemTime {
    #[expect(clippy::disallowed_methods, reason = "the process is where the wall clock is read")]
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn since_boot(&self) -> Duration {
        use rustix::time::{ClockId, clock_gettime};
        // Counts while the machine is suspended, unlike the monotonic clock.
        #[cfg(target_os = "linux")]
        let time = clock_gettime(ClockId::Boottime);
        #[cfg(not(target_os = "linux"))]
        let time = clock_gettime(ClockId::Monotonic);
        Duration::try_from(time).unwrap_or_default()
    }
}

fn seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Host name and a part that differs at every start, as in upstream's identities.
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

    /// Set in the test process that runs on a machine with a shifted clock.
    const SHIFTED: &str = "PROVIDER_TEST_SHIFTED";

    fn uptime() -> Duration {
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        Duration::from_secs_f64(text.split(' ').next().unwrap().parse().unwrap())
    }

    /// Also run in a time namespace where the machine was suspended for ten days, as far as the kernel allows one: on a machine
    /// that was never suspended, the monotonic clock shows the same as the time since boot.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "compares with the wall clock of the machine")]
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
            eprintln!("not checked on a machine that was suspended: no time namespace can be made");
            return;
        }
        let name = "the_clock_of_the_process_counts_from_the_boot_of_the_machine_and_moves";
        let this = std::env::current_exe().unwrap();
        let out = shifted(this.as_os_str()).arg(name).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success() && said.contains("1 passed"), "{said}");
    }
}
