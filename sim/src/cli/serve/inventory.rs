//! The new world of `sim serve`: its file and the options that override the file.

use std::fs;
use std::path::Path;

use sim_world::{Named, Nodes, Topology};

use crate::cli::args::Serve;
use crate::cli::{CliError, host, world_file};

/// Maximum number of vCenters. A hundred start within seconds, although each has its own listener,
/// certificate and state, and no known setup links more.
const MAX_VCENTERS: u32 = 100;

/// Returns the topology of a new world, and the seed if the file or an option sets one. The options
/// override the values of the world file. Without a file they override those of the standard
/// inventory, or of a world without machines if `--vms`, `--zones` or `--nodes` is set.
///
/// # Errors
/// A world file that cannot be read or is invalid, or a number that no world can have.
pub(super) fn topology(options: &Serve) -> Result<(Topology, Option<u64>), CliError> {
    let Serve {
        world, vms, nodes, zones, vcenters, seed, event_ttl, workloads, supervisor, ..
    } = options;
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
    topology.workloads |= workloads;
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
/// Passes if `advertised` is `None` or has no port.
pub(super) fn check_ports(advertised: Option<&str>, n_vcenters: u32) -> Result<(), CliError> {
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

/// Returns the machines on which the sim starts a kubelet: in each vCenter the first ones, as many
/// as [`Topology::nodes`] says; none if `topology.registered` is false.
pub(super) fn kubelets_of(topology: &Topology) -> Vec<Named> {
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

fn read_world(path: &Path) -> Result<(Topology, Option<u64>), CliError> {
    let text = fs::read(path).map_err(|error| CliError::file("--world", path, &error))?;
    world_file::read(&text).map_err(|wrong| CliError::document("--world", path, &wrong))
}
