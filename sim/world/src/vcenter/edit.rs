//! Application of a change to an inventory object, and the paths of the properties that it changes.

use super::entity::{Data, Entity};
use super::inventory::Change;
use super::machine::{Config, Guest, Machine, known};

/// Applies `change` to `entity` and returns the paths of the properties whose values it may have
/// changed.
pub(super) fn apply(entity: &mut Entity, change: &Change) -> Vec<&'static str> {
    match change {
        Change::Created(_) | Change::Removed => Vec::new(),
        Change::Renamed(name) => {
            entity.name.clone_from(name);
            match entity.data {
                Data::Machine(_) => vec!["name", "config.name", "summary.config.name"],
                Data::Host { .. } => vec!["name", "summary.config.name"],
                _ => vec!["name", "summary.name"],
            }
        }
        Change::Moved(parent) => {
            entity.parent = Some(*parent);
            vec!["parent", "parentVApp"]
        }
        Change::HostConnection(to) => host(entity, |connection, _| *connection = *to),
        Change::Maintenance(to) => host(entity, |_, maintenance| *maintenance = *to),
        _ => match &mut entity.data {
            Data::Machine(machine) => machine_change(machine, change),
            _ => Vec::new(),
        },
    }
}

fn host(
    entity: &mut Entity,
    set: impl FnOnce(&mut super::entity::HostConnection, &mut bool),
) -> Vec<&'static str> {
    let Data::Host { connection, maintenance, .. } = &mut entity.data else { return Vec::new() };
    set(connection, maintenance);
    vec!["runtime", "summary.runtime", "overallStatus", "summary.overallStatus"]
}

fn machine_change(machine: &mut Machine, change: &Change) -> Vec<&'static str> {
    match change {
        Change::Power { power, booted, boot } => {
            machine.power = *power;
            machine.booted = *booted;
            machine.boot = *boot;
            vec![
                "runtime.powerState",
                "runtime.bootTime",
                "summary.runtime.powerState",
                "summary.runtime.bootTime",
            ]
        }
        Change::Connection(to) => {
            let had_config = machine.connection.has_config();
            machine.connection = *to;
            let mut paths = vec!["runtime.connectionState", "summary.runtime.connectionState"];
            if had_config != to.has_config() {
                paths.extend(["config", "summary.config", "guest", "summary.guest"]);
            }
            paths
        }
        Change::Placed { host, pool } => {
            let mut paths = Vec::new();
            if machine.host != *host {
                paths.extend(["runtime.host", "summary.runtime.host"]);
            }
            if machine.pool != *pool {
                paths.push("resourcePool");
            }
            (machine.host, machine.pool) = (*host, *pool);
            paths
        }
        Change::Guest(guest) => {
            let paths = guest_paths(&machine.guest, guest);
            machine.guest = (**guest).clone();
            paths
        }
        Change::Plan(plan) => {
            machine.plan = (**plan).clone();
            Vec::new()
        }
        Change::Config(config) => {
            let paths = config_paths(&machine.config, config);
            machine.config = (**config).clone();
            paths
        }
        _ => Vec::new(),
    }
}

fn guest_paths(old: &Guest, new: &Guest) -> Vec<&'static str> {
    let mut paths = Vec::new();
    if old.tools != new.tools {
        paths.extend([
            "guest.toolsStatus",
            "guest.toolsRunningStatus",
            "guest.guestState",
            "guest.guestOperationsReady",
            "guest.interactiveGuestOperationsReady",
            "summary.guest.toolsStatus",
            "summary.guest.toolsRunningStatus",
            "guestHeartbeatStatus",
            "summary.quickStats.guestHeartbeatStatus",
        ]);
    }
    if old.host_name != new.host_name {
        paths.extend(["guest.hostName", "summary.guest.hostName"]);
    }
    if old.address != new.address {
        paths.extend(["guest.ipAddress", "summary.guest.ipAddress"]);
    }
    if old.nics != new.nics {
        paths.push("guest.net");
    }
    paths
}

fn config_paths(old: &Config, new: &Config) -> Vec<&'static str> {
    let mut paths = vec!["config.changeVersion", "config.modified"];
    if old.uuid != new.uuid {
        paths.extend(["config.uuid", "summary.config.uuid"]);
    }
    if old.instance_uuid != new.instance_uuid {
        paths.extend(["config.instanceUuid", "summary.config.instanceUuid"]);
    }
    if old.guest_id != new.guest_id {
        paths.extend([
            "config.guestId",
            "config.guestFullName",
            "summary.config.guestId",
            "summary.config.guestFullName",
        ]);
    }
    if old.cpus != new.cpus {
        paths.extend(["config.hardware.numCPU", "summary.config.numCpu"]);
    }
    if old.memory_mib != new.memory_mib {
        paths.extend(["config.hardware.memoryMB", "summary.config.memorySizeMB"]);
    }
    if old.annotation != new.annotation {
        paths.extend(["config.annotation", "summary.config.annotation"]);
    }
    if old.extra != new.extra {
        paths.push("config.extraConfig");
    }
    if old.cards != new.cards {
        paths.extend(["config.hardware.device", "network", "summary.config.numEthernetCards"]);
    }
    if old.devices != new.devices {
        paths.extend(["config.hardware.device", "summary.config.numVirtualDisks"]);
    }
    let names = old.settings.keys().chain(new.settings.keys());
    for name in names.filter(|name| old.settings.get(*name) != new.settings.get(*name)) {
        let path = known(name).map(|(path, _)| path).filter(|path| !paths.contains(path));
        paths.extend(path);
        paths.extend(summary_path(name));
    }
    if old.template != new.template {
        paths.extend(["config.template", "summary.config.template"]);
    }
    paths
}

/// Returns the property of the summary that shows a setting too.
fn summary_path(setting: &str) -> Option<&'static str> {
    match setting {
        "config.version" => Some("summary.config.hwVersion"),
        "config.managedBy" => Some("summary.config.managedBy"),
        "config.files" => Some("summary.config.vmPathName"),
        "config.cpuAllocation" => Some("summary.config.cpuReservation"),
        "config.memoryAllocation" => Some("summary.config.memoryReservation"),
        _ => None,
    }
}
