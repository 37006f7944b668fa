//! `sim serve`: builds a world, opens its listeners, prints their addresses, and serves until a
//! signal arrives.

use std::path::Path;
use std::{fs, io};

use jiff::Timestamp;
use sim_world::{Command, Named, Nodes, Topology};
use tokio::task::JoinSet;

use super::args::{Serve, Switch};
use super::record::{Recording, Target};
use super::signals::Signals;
use super::state::StateDirectory;
use super::{CliError, Terminal, host, mount, report, world_file};
use crate::faults::{self, Rule};
use crate::files::{self, Scratch};
use crate::ledger::Keep;
use crate::{Advertise, ListenOptions, Sim, Transport, document};

/// Maximum number of vCenters. A hundred start within seconds, although each has its own listener,
/// certificate and state, and no known setup links more.
const MAX_VCENTERS: u32 = 100;

/// Runs `sim serve` until a signal arrives.
pub(super) fn run(options: &Serve, now: Timestamp) -> Result<(), CliError> {
    let Serve {
        world: _,
        vms: _,
        nodes: _,
        zones: _,
        vcenters: _,
        seed: _,
        heartbeats,
        event_ttl: _,
        rbac,
        faults,
        supervisor,
        supervisor_profile,
        env,
        state,
        ledger,
        ledger_memory,
        record,
        vcenter_listen,
        cluster_listen,
        supervisor_listen,
        admin_listen,
        admin_token,
        vcenter_advertise,
        cluster_advertise,
        supervisor_advertise,
        admin_advertise,
        tls_sans,
        plain_text,
    } = options;
    // Removes the file of an earlier run, which does not describe this one. Fails if another sim
    // that still runs uses the file.
    let _env = env.as_deref().map(forget).transpose()?;
    let _mounts = supervisor.as_deref().map(mount::claim).transpose()?;
    let rules = faults.as_deref().map(read_rules).transpose()?.unwrap_or_default();
    for doubt in rules.iter().flat_map(faults::warnings) {
        let path = faults.as_deref().unwrap_or(Path::new(""));
        Terminal.warn(&format!("--faults {}: {doubt}", path.display()));
    }
    let state = state.as_deref().map(StateDirectory::open).transpose()?;
    let restored = state.as_ref().map(StateDirectory::world).transpose()?.flatten();
    let origin = if restored.is_some() { report::World::GoesOn } else { report::World::New };
    let (topology, known_seed) = topology(options)?;
    check_ports(vcenter_advertise.as_deref(), topology.vcenters)?;
    let mut builder =
        Sim::builder().epoch(now).keep(Keep::Bytes(usize::from(*ledger_memory) << 20));
    let mut kubelets = Vec::new();
    builder = match restored {
        Some(state) => builder.seed(state.ids().seed()).restore(state.resumed_at(now)),
        None => {
            // Kubelets start after the listeners, because Nodes are most of the work and the
            // vCenters can serve without them.
            kubelets = kubelets_of(&topology);
            let topology = Topology { registered: false, ..topology };
            builder.topology(topology).seed(known_seed.unwrap_or_default())
        }
    };
    if *plain_text {
        builder = builder.plain_text();
    }
    let record = record.as_deref().map(Target::open).transpose()?;
    let mut listen = ListenOptions {
        vcenter: *vcenter_listen,
        cluster: *cluster_listen,
        supervisor: *supervisor_listen,
        admin: *admin_listen,
        transport: if *plain_text { Transport::PlainText } else { Transport::Tls },
        advertise: Advertise {
            vcenter: vcenter_advertise.clone(),
            cluster: cluster_advertise.clone(),
            supervisor: supervisor_advertise.clone(),
            admin: admin_advertise.clone(),
        },
        tls_sans: tls_sans.clone(),
        ..ListenOptions::default()
    };
    if let Some(state) = &state {
        state.recall(&mut listen)?;
    }
    // The command line overrides the saved token.
    listen.admin_token = admin_token.clone().or(listen.admin_token);
    let spill = ledger.as_deref().map(|path| exclusive("--ledger", path)).transpose()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(|error| {
            CliError::failed(format!("cannot start a runtime: {error}"), "try again")
        })?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let sim = builder.start();
        // Aborts its tasks at the end of this block.
        let mut beside = JoinSet::new();
        if let (Some(spill), Some(path)) = (spill, ledger) {
            let begun = sim.ledger().spill_to(spill);
            begun.map_err(|error| CliError::file("--ledger", path, &error))?;
            let ledger = sim.ledger().clone();
            beside.spawn(async move { ledger.spill_open().await });
        }
        let recording = record.map(|target| target.begin(&sim)).transpose()?;
        if *heartbeats == Switch::Off {
            let off = Command::SetHeartbeats { every: None };
            sim.world().apply(off).map_err(|error| {
                CliError::failed(error.to_string(), "report this as a bug of sim")
            })?;
        }
        if *rbac {
            sim.access().require_rbac();
        }
        match (sim.supervisor(), supervisor_profile) {
            (Some(supervisor), Some(profile)) => supervisor.grant((*profile).into()),
            (None, Some(_)) => return Err(no_supervisor("--supervisor-profile")),
            (None, None) if supervisor.is_some() => return Err(no_supervisor("--supervisor")),
            _ => {}
        }
        sim.fault_all(rules)
            .map_err(|error| {
                let path = faults.as_deref().unwrap_or(Path::new(""));
                let what = format!("--faults {}: {error}", path.display());
                CliError::input(what, "correct the rule")
            })?
            .keep();
        let mounts = supervisor.as_deref();
        let plan =
            Plan { listen, kubelets, state: state.as_ref(), origin, env: env.as_deref(), mounts };
        let served = serve(&sim, plan, &mut signals).await;
        // Writes the ledger even if the world cannot be saved.
        let kept = match (&served, &state) {
            (Ok(()), Some(state)) => state.keep_world(&sim),
            _ => Ok(()),
        };
        let kept_ledger = sim.ledger().clone();
        tokio::select! {
            // Polls the signal first, so that a second signal aborts a clean shutdown.
            biased;
            () = signals.next() => {
                return Err(CliError::failed("aborted by a second signal", ""));
            }
            () = sim.shutdown() => {}
        }
        let recorded =
            tokio::task::spawn_blocking(move || recording.map_or(Ok(()), Recording::end));
        let recorded = recorded.await.unwrap_or_else(|panic| {
            Err(CliError::failed(format!("--record: {panic}"), "report this as a bug of sim"))
        });
        if let Some(path) = ledger {
            let written = tokio::task::spawn_blocking(move || kept_ledger.end_spill());
            let written = written.await.unwrap_or_else(|panic| Err(io::Error::other(panic)));
            written.map_err(|error| CliError::file("--ledger", path, &error))?;
        }
        served.and(kept).and(recorded)
    })
}

/// Opens, locks and empties the file that an option names. Fails if another sim writes the file.
pub(super) fn exclusive(option: &str, path: &Path) -> Result<fs::File, CliError> {
    files::exclusive(path).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => CliError::input(
            format!("{option} {}: another sim writes it", path.display()),
            "stop the other sim, or choose another file",
        ),
        _ => CliError::file(option, path, &error),
    })
}

/// Returns the error for an option that needs a Supervisor, in a world without one.
fn no_supervisor(option: &str) -> CliError {
    let what = format!("{option}: this world has no Supervisor");
    CliError::input(
        what,
        "add --supervisor DIR; a world saved with --state keeps its settings, so choose another directory for --state too",
    )
}

/// Returns the topology of a new world, and the seed if the file or an option sets one. The options
/// override the values of the world file. Without a file they override those of the standard
/// inventory, or of a world without machines if `--vms`, `--zones` or `--nodes` is set.
///
/// # Errors
/// A world file that cannot be read, or a number that no world can have.
fn topology(options: &Serve) -> Result<(Topology, Option<u64>), CliError> {
    let Serve { world, vms, nodes, zones, vcenters, seed, event_ttl, supervisor, .. } = options;
    let (mut topology, known_seed) = match world {
        Some(path) => read_world(path)?,
        None if vms.is_none() && zones.is_none() && nodes.is_none() => (Topology::standard(), None),
        None => (Topology::default(), None),
    };
    topology.machines = vms.unwrap_or(topology.machines);
    topology.zones = zones.unwrap_or(topology.zones);
    topology.vcenters = vcenters.unwrap_or(topology.vcenters);
    topology.nodes = nodes.unwrap_or(topology.nodes);
    topology.event_ttl = event_ttl.unwrap_or(topology.event_ttl);
    if supervisor.is_some() && topology.supervisor.is_none() {
        topology = topology.supervisor();
    }
    let of_file = |key: &str| {
        let path = world.as_deref().unwrap_or(Path::new(""));
        format!("--world {}: spec.{key}:", path.display())
    };
    match topology.vcenters {
        0 => return Err(CliError::input("--vcenters 0: must be at least 1", "write 1 or more")),
        n if n > MAX_VCENTERS => {
            let place =
                if vcenters.is_some() { "--vcenters".to_owned() } else { of_file("vcenters") };
            let what = format!("{place} {n}: at most {MAX_VCENTERS} vCenters are possible");
            let remedy = format!("write {MAX_VCENTERS} or less; several sims can run side by side");
            return Err(CliError::input(what, remedy));
        }
        _ => {}
    }
    if *zones == Some(0) {
        let remedy = "write 1 or more, or omit --zones for one cluster without a tag";
        return Err(CliError::input("--zones 0: must be at least 1", remedy));
    }
    if let Nodes::Count(count) = topology.nodes
        && count > topology.machines
    {
        let place = if nodes.is_some() { "--nodes".to_owned() } else { of_file("nodes") };
        let machines = match topology.machines {
            0 => "the world has no machines for Nodes".to_owned(),
            machines => format!("each vCenter has only {machines} machines"),
        };
        let remedy = match (topology.machines, vms.is_some() || world.is_none()) {
            (0, _) => format!("add --vms {count}"),
            (machines, true) => format!("write {machines} or less, or --vms {count}"),
            (machines, false) => {
                format!("write {machines} or less, or set machines: {count} in the file")
            }
        };
        return Err(CliError::input(format!("{place} {count}: {machines}"), remedy));
    }
    Ok((topology, seed.or(known_seed)))
}

/// Checks that the advertised ports of all vCenters, which are consecutive, stay below 65536.
fn check_ports(advertised: Option<&str>, n_vcenters: u32) -> Result<(), CliError> {
    let Some(advertised) = advertised else { return Ok(()) };
    let Some(port) = host::port(advertised) else { return Ok(()) };
    if u32::from(port) + n_vcenters - 1 <= u32::from(u16::MAX) {
        return Ok(());
    }
    let what = format!(
        "--vcenter-advertise {advertised}: {n_vcenters} vCenters need consecutive ports from there on, beyond 65535"
    );
    Err(CliError::input(what, "choose a lower port, or write none"))
}

/// Input of [`serve`], for the work after the start of the world.
struct Plan<'a> {
    listen: ListenOptions,
    kubelets: Vec<Named>,
    state: Option<&'a StateDirectory>,
    /// Origin of the world that `state` saves.
    origin: report::World,
    env: Option<&'a Path>,
    /// Directory for the files that a provider mounts.
    mounts: Option<&'a Path>,
}

/// Opens the listeners, starts the kubelets, writes the files, and waits for a signal. Meanwhile
/// saves the world if a state directory is set. Removes the file of `--env` at the end.
async fn serve(sim: &Sim, plan: Plan<'_>, signals: &mut Signals) -> Result<(), CliError> {
    let Plan { listen, kubelets, state, origin, env, mounts } = plan;
    let endpoints = sim.listen(listen).await?;
    for kubelet in kubelets {
        sim.world()
            .apply(Command::StartKubelet(kubelet))
            .map_err(|error| CliError::failed(error.to_string(), "report this as a bug of sim"))?;
        tokio::task::yield_now().await;
    }
    let scratch = match state {
        Some(_) => None,
        None => Scratch::new().map_err(|error| Terminal.warn(&no_files(&error))).ok(),
    };
    let directory = match (state, &scratch) {
        (Some(state), _) => {
            let full = fs::canonicalize(state.path());
            Some(full.map_err(|error| CliError::file("--state", state.path(), &error))?)
        }
        (None, Some(scratch)) => Some(scratch.path().to_owned()),
        (None, None) => None,
    };
    let write = |name: &str, text: &str| {
        let Some(directory) = &directory else { return Ok(()) };
        let path = directory.join(name);
        files::replace(&path, text.as_bytes())
            .map_err(|error| CliError::file("writing", &path, &error))
    };
    if let Some(pem) = endpoints.ca_pem() {
        write("ca.pem", pem)?;
    }
    write("kubeconfig", &endpoints.kubeconfig())?;
    if let Some(kubeconfig) = endpoints.supervisor_kubeconfig() {
        write("supervisor.kubeconfig", &kubeconfig)?;
    }
    if let Some(mounts) = mounts {
        mount::write(sim, &endpoints, mounts)?;
    }
    let changes = sim.world().changes();
    if let Some(state) = state {
        state.keep(&endpoints)?;
        state.keep_world(sim)?;
    }
    let variables = report::variables(sim, &endpoints, directory.as_deref(), mounts);
    let kept = state.map(|state| (state.path(), origin));
    Terminal.say(&report::text(sim, &endpoints, &variables, (env, kept)));
    if let Some(path) = env {
        files::replace(path, variables.as_bytes())
            .map_err(|error| CliError::file("--env", path, &error))?;
    }
    let kept = match state {
        None => {
            signals.next().await;
            Ok(())
        }
        Some(state) => {
            state.keep_until(signals.next(), sim, &endpoints, changes).await;
            // Certificates may have changed since the last save.
            state.keep(&endpoints)
        }
    };
    if let Some(path) = env {
        take_away(path, &variables);
    }
    drop(scratch);
    kept
}

/// Removes the file of `--env`, so that no client connects to a sim that has ended. Keeps the file
/// if another program has changed it.
fn take_away(path: &Path, variables: &str) {
    let is_ours = fs::read(path).is_ok_and(|text| text == variables.as_bytes());
    if is_ours && let Err(error) = fs::remove_file(path) {
        Terminal.warn(&format!("--env {}: cannot remove the file: {error}", path.display()));
    }
}

/// Returns the warning that the sim has no temporary directory. The sim serves without one, for
/// example in a container with a read-only file system, and `GET /endpoints` returns the contents
/// of the files.
fn no_files(error: &std::io::Error) -> String {
    format!(
        "no temporary directory, so sim writes no certificate and no kubeconfig: {error}\n  \
         remedy: set TMPDIR to a writable directory, or read GET /endpoints of the admin port"
    )
}

/// Returns the machines on which the sim starts a kubelet: in each vCenter the first ones, as many
/// as [`Topology::nodes`] says; none if `topology.registered` is false.
fn kubelets_of(topology: &Topology) -> Vec<Named> {
    let n_nodes = match topology.nodes {
        _ if !topology.registered => 0,
        Nodes::All => topology.machines,
        Nodes::Count(count) => count.min(topology.machines),
    };
    let of_vcenter = |vc| {
        (1..=n_nodes).map(move |n| Named {
            vcenter: Some(format!("vc{vc}")),
            name: topology.machine_name(vc, n),
        })
    };
    (0..topology.vcenters).flat_map(of_vcenter).collect()
}

/// Removes the file of `--env` and locks its path. No other sim can use the path until the lock is
/// dropped.
fn forget(path: &Path) -> Result<files::Lock, CliError> {
    // Checks the directory now, so that an error comes before the listeners start.
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
        && let Err(error) = fs::read_dir(parent)
    {
        return Err(CliError::file("--env", path, &error));
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    let lock = files::Lock::new(path.with_file_name(name)).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => CliError::input(
            format!("--env {}: another sim writes it", path.display()),
            "stop the other sim, or choose another file",
        ),
        _ => CliError::file("--env", path, &error),
    })?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(CliError::file("--env", path, &error))
        }
        _ => Ok(lock),
    }
}

fn read_world(path: &Path) -> Result<(Topology, Option<u64>), CliError> {
    let text = fs::read(path).map_err(|error| CliError::file("--world", path, &error))?;
    world_file::read(&text).map_err(|wrong| CliError::document("--world", path, &wrong))
}

fn read_rules(path: &Path) -> Result<Vec<Rule>, CliError> {
    let text = fs::read(path).map_err(|error| CliError::file("--faults", path, &error))?;
    document::yaml(&text)
        .and_then(document::rules)
        .map_err(|wrong| CliError::document("--faults", path, &wrong))
}
