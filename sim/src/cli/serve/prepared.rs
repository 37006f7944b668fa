//! Everything that `sim serve` does before its world starts: claims, reads and checks files, so
//! that an error comes before the listeners.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::{fs, io};

use jiff::Timestamp;
use sim_world::{Named, Topology};

use super::inventory::{check_ports, kubelets_of, topology};
use super::{mount, report};
use crate::cli::args::Serve;
use crate::cli::files;
use crate::cli::serve::record::RecordingFile;
use crate::cli::serve::state::StateDirectory;
use crate::cli::{CliError, Terminal};
use crate::faults::{self, Rule};
use crate::ledger::Keep;
use crate::sim::Builder;
use crate::{Advertise, AutoscalerListener, ListenOptions, Sim, Transport, document};

/// Input for the start of `sim serve`: the world, the listeners and the open files. Until this
/// value is dropped, its locks keep other sims from using the same files and directories.
pub(super) struct Prepared<'a> {
    /// World and settings of the sim.
    pub(super) builder: Builder,
    pub(super) listen: ListenOptions,
    /// Machines on which a kubelet starts after the listeners.
    pub(super) kubelets: Vec<Named>,
    /// Rules of `--faults`.
    pub(super) rules: Vec<Rule>,
    pub(super) state: Option<StateDirectory>,
    /// Origin of the world: new, or saved by an earlier run.
    pub(super) origin: report::World,
    pub(super) record: Option<RecordingFile>,
    /// File of `--ledger` with its path; `None` without the option.
    pub(super) spill: Option<(fs::File, &'a Path)>,
    /// Locks of the file of `--env` and of the directory of `--supervisor`; `None` for an option
    /// that is not set.
    pub(super) locks: [Option<files::Lock>; 2],
}

impl<'a> Prepared<'a> {
    /// Claims, reads and checks the files that the options name, and derives the world and the
    /// listeners from the options. Removes the file of `--env`, and empties those of `--record` and
    /// `--ledger`.
    ///
    /// # Errors
    /// A file that another sim uses, that cannot be read or written, or whose contents are invalid,
    /// or an option with an invalid number or port. Files may be removed or empty already then.
    pub(super) fn read(options: &'a Serve, now: Timestamp) -> Result<Self, CliError> {
        // Names every option, so that a new one does not compile until this function or one of
        // those in the comments uses it.
        let Serve {
            // `inventory::topology`
            world: _,
            vms: _,
            nodes: _,
            zones: _,
            vcenters: _,
            seed: _,
            event_ttl: _,
            workloads: _,
            // `apply_settings`
            heartbeats: _,
            rbac: _,
            supervisor_profile: _,
            // `world`
            ledger_memory: _,
            plain_text: _,
            // `listeners`
            vcenter_listen: _,
            cluster_listen: _,
            supervisor_listen: _,
            admin_listen: _,
            autoscaler_server: _,
            autoscaler_listen: _,
            vcenter_advertise: _,
            cluster_advertise: _,
            supervisor_advertise: _,
            admin_advertise: _,
            tls_sans: _,
            faults,
            supervisor,
            env,
            state,
            ledger,
            record,
            admin_token,
        } = options;
        // Removes the file of an earlier run, which does not describe this one. Fails if another
        // sim that still runs uses the file.
        let env = env.as_deref().map(forget).transpose()?;
        let mounts = supervisor.as_deref().map(mount::claim).transpose()?;
        let rules = faults.as_deref().map(read_rules).transpose()?.unwrap_or_default();
        let state = state.as_deref().map(StateDirectory::open).transpose()?;
        let (builder, kubelets, origin) = world(options, state.as_ref(), now)?;
        let record = record.as_deref().map(RecordingFile::open).transpose()?;
        let mut listen = listeners(options);
        if let Some(state) = &state {
            state.recall(&mut listen)?;
        }
        // The command line overrides the saved token.
        listen.admin_token = admin_token.clone().or(listen.admin_token);
        let spill = |path: &'a PathBuf| Ok::<_, CliError>((exclusive("--ledger", path)?, &**path));
        let spill = ledger.as_ref().map(spill).transpose()?;
        let locks = [env, mounts];
        Ok(Self { builder, listen, kubelets, rules, state, origin, record, spill, locks })
    }
}

/// Returns the builder of the world, the machines on which a kubelet starts (none for a saved
/// world), and the origin of the world. The world is the one saved in `state`, else the new one
/// that the options describe. Fails for a saved world or world file that cannot be read or is
/// invalid, and for an option with an invalid number or port.
fn world(
    options: &Serve,
    state: Option<&StateDirectory>,
    now: Timestamp,
) -> Result<(Builder, Vec<Named>, report::World), CliError> {
    let restored = state.map(StateDirectory::world).transpose()?.flatten();
    let (topology, seed) = topology(options)?;
    check_ports(options.vcenter_advertise.as_deref(), topology.vcenters)?;
    let memory = Keep::Bytes(usize::from(options.ledger_memory) << 20);
    let builder = Sim::builder().epoch(now).keep(memory);
    let (builder, kubelets, origin) = match restored {
        Some(state) => {
            let builder = builder.seed(state.ids().seed()).restore(state.resumed_at(now));
            (builder, Vec::new(), report::World::GoesOn)
        }
        None => {
            // Kubelets start after the listeners, because Nodes are most of the work and the
            // vCenters can serve without them.
            let kubelets = kubelets_of(&topology);
            let topology = Topology { registered: false, ..topology };
            let builder = builder.topology(topology).seed(seed.unwrap_or_default());
            (builder, kubelets, report::World::New)
        }
    };
    let builder = if options.plain_text { builder.plain_text() } else { builder };
    Ok((builder, kubelets, origin))
}

/// Address on which Cluster Autoscalers connect without `--autoscaler-listen`.
const AUTOSCALER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8085);

fn listeners(options: &Serve) -> ListenOptions {
    let autoscaler = options.autoscaler_server.as_ref().map(|server| AutoscalerListener {
        listen: options.autoscaler_listen.unwrap_or(AUTOSCALER),
        server: server.clone(),
    });
    ListenOptions {
        vcenter: options.vcenter_listen,
        cluster: options.cluster_listen,
        supervisor: options.supervisor_listen,
        admin: options.admin_listen,
        autoscaler,
        transport: if options.plain_text { Transport::PlainText } else { Transport::Tls },
        advertise: Advertise {
            vcenter: options.vcenter_advertise.clone(),
            cluster: options.cluster_advertise.clone(),
            supervisor: options.supervisor_advertise.clone(),
            admin: options.admin_advertise.clone(),
        },
        tls_sans: options.tls_sans.clone(),
        ..ListenOptions::default()
    }
}

/// Reads the rules of `--faults`, and warns of those that can never fire. Fails for a file that
/// cannot be read or has an invalid rule.
fn read_rules(path: &Path) -> Result<Vec<Rule>, CliError> {
    let text = fs::read(path).map_err(|error| CliError::file("--faults", path, &error))?;
    let rules = document::yaml(&text)
        .and_then(faults::read_rules)
        .map_err(|wrong| CliError::document("--faults", path, &wrong))?;
    for warning in rules.iter().flat_map(faults::warnings) {
        Terminal.warn(&format!("--faults {}: {warning}", path.display()));
    }
    Ok(rules)
}

/// Opens, locks and empties the file at `path`, which `option` names. Fails if another sim writes
/// the file, or if the system cannot open it.
pub(in crate::cli) fn exclusive(option: &str, path: &Path) -> Result<fs::File, CliError> {
    files::exclusive(path).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => CliError::input(
            format!("{option} {}: another sim writes it", path.display()),
            "stop the other sim, or choose another file",
        ),
        _ => CliError::file(option, path, &error),
    })
}

/// Removes the file of `--env` and locks its path. No other sim can use the path until the lock is
/// dropped. Fails if another sim uses the path, if the directory does not exist, or if the file
/// cannot be removed.
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
