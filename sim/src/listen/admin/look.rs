//! Requests that return the state of the world, its clock, and the version of the sim.

use std::net::IpAddr;

use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sim_world::vcenter::{Connection, MoRef, Power, Service, VCenter};
use sim_world::{State as WorldState, Time};

use super::AdminError;
use crate::shared_world::Control;

/// Query parameters of `GET /world`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WorldQuery {
    /// Name of the machines to return; all machines by default.
    machine: Option<String>,
}

/// Body of the answer to `GET /world`: seed, clock, vCenters and machines.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    seed: u64,
    epoch: jiff::Timestamp,
    now: Time,
    vcenters: Vec<VCenterSummary>,
    machines: Vec<MachineSummary>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct VCenterSummary {
    name: String,
    service: Service,
    instance_uuid: uuid::Uuid,
    certificate: u32,
    machines: usize,
    sessions: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MachineSummary {
    name: String,
    vcenter: String,
    moref: String,
    uuid: Option<uuid::Uuid>,
    power: Power,
    connection: Connection,
    host: Option<String>,
    addresses: Vec<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeSummary>,
}

#[derive(Debug, Serialize)]
struct NodeSummary {
    name: String,
    kubelet: &'static str,
}

/// `GET /world`: returns a summary of the vCenters and machines, or with `machine` of the vCenters
/// and the machines of that name. Answers 404 if no machine has the name, and 400 to an invalid
/// query.
pub(super) async fn world(
    State(control): State<Control>,
    wanted: Result<Query<WorldQuery>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Value>, AdminError> {
    let Query(WorldQuery { machine }) = wanted.map_err(|rejected| {
        AdminError::bad(rejected.body_text()).remedy("expected machine=NAME or no parameter")
    })?;
    control.world.advance();
    let now = control.world.now();
    let summary = control.world.read(|world| summary(world, now, machine.as_deref()));
    if let (Some(name), true) = (&machine, summary.machines.is_empty()) {
        let error = format!("no machine is called `{name}`");
        return Err(AdminError::new(http::StatusCode::NOT_FOUND, error)
            .remedy("GET /world lists all machines"));
    }
    Ok(Json(json!(summary)))
}

fn summary(world: &WorldState, now: Time, only: Option<&str>) -> Summary {
    let nodes: std::collections::BTreeMap<(&str, MoRef), (&str, bool)> = world
        .kubelets
        .iter()
        .map(|(node, it)| ((it.vcenter.as_str(), it.machine), (node.as_str(), it.running)))
        .collect();
    let mut machines = Vec::new();
    for (name, vcenter) in &world.vcenters {
        let chosen: Vec<MoRef> = match only {
            Some(machine) => vcenter.inventory.by_machine_name(machine).collect(),
            None => vcenter.inventory.machines().map(|(id, _, _)| id).collect(),
        };
        for id in chosen {
            let node = nodes.get(&(name.as_str(), id)).map(|(node, running)| NodeSummary {
                name: (*node).to_owned(),
                kubelet: if *running { "running" } else { "stopped" },
            });
            machines.extend(machine(name, vcenter, id, node));
        }
    }
    let vcenters = world.vcenters.iter().map(|(name, vcenter)| VCenterSummary {
        name: name.clone(),
        service: vcenter.service,
        instance_uuid: vcenter.instance_uuid,
        certificate: vcenter.certificate,
        machines: vcenter.inventory.machines().count(),
        sessions: vcenter.logins.sessions.len(),
    });
    let vcenters = vcenters.collect();
    Summary { seed: world.ids().seed(), epoch: world.epoch(), now, vcenters, machines }
}

fn machine(
    name: &str,
    vcenter: &VCenter,
    id: MoRef,
    node: Option<NodeSummary>,
) -> Option<MachineSummary> {
    let entity = vcenter.inventory.get(id)?;
    let machine = vcenter.inventory.machine(id)?;
    let nics = machine.guest.nics.iter();
    Some(MachineSummary {
        name: entity.name.clone(),
        vcenter: name.to_owned(),
        moref: id.to_string(),
        uuid: machine.config.uuid,
        power: machine.power,
        connection: machine.connection,
        host: vcenter.inventory.get(machine.host).map(|host| host.name.clone()),
        addresses: nics.flat_map(|nic| nic.addresses.iter().copied()).collect(),
        node,
    })
}

/// `GET /clock`: returns world time in nanoseconds, as a duration and as a timestamp, the epoch,
/// and the time of the next reaction or session expiry (null if neither is pending).
pub(super) async fn clock(State(control): State<Control>) -> Json<Value> {
    let (now, epoch) = (control.world.now(), control.world.clock().epoch());
    let due = control.world.read(|world| world.next_timer());
    Json(json!({
        "now": now,
        "age": sim_world::duration::format(now.since_start()),
        "wall": now.timestamp(epoch),
        "epoch": epoch,
        "nextEvent": due,
    }))
}

/// `GET /admin/v1/version`: returns the version of the sim.
pub(super) async fn version() -> Json<Value> {
    Json(json!({"name": "sim", "version": env!("CARGO_PKG_VERSION"), "admin": "v1"}))
}
