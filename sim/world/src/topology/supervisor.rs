//! Initial objects of a Supervisor: zones, a class, an image, and a VirtualMachine for each
//! generated machine.

use serde_json::{Value, json};

use super::{Topology, letter};
use crate::objects::{self, GroupResource};
use crate::supervisor::SupervisorTopology;
use crate::supervisor::vmoperator::{FINALIZER, GROUP, ZONE_LABEL};
use crate::vcenter::Kind;
use crate::{Command, Time, World};

const VCENTER: &str = "vc0";
const CLASS: &str = "best-effort-small";
const IMAGE: &str = "vmi-0123456789abcdef0";

/// Adds a Supervisor with its initial objects to a world that a topology builds.
pub(super) fn create_supervisor(world: &mut World, topology: &Topology, with: &SupervisorTopology) {
    world.add_supervisor(VCENTER, with);
    let zones = zones(world, topology);
    const ZONES: &str = "topology.tanzu.vmware.com";
    let version = format!("{ZONES}/v1alpha1");
    for (name, cluster) in &zones {
        let clusters = json!({
            "clusterComputeResourceMoIDs": [cluster],
            "clusterComputeResourceMoId": cluster,
        });
        let zone = object(&version, "AvailabilityZone", name, clusters);
        create(world, ZONES, "availabilityzones", "", zone);
        let reference = json!({"apiVersion": version, "name": name});
        let of_namespace = json!({"availabilityZoneReference": reference, "managedVMs": {}});
        let zone = object(&version, "Zone", name, of_namespace);
        create(world, ZONES, "zones", &with.namespace, zone);
    }
    let version = format!("{GROUP}/v1alpha6");
    let hardware = json!({"hardware": {"cpus": 2, "memory": "4Gi"}});
    let class = object(&version, "VirtualMachineClass", CLASS, hardware);
    create(world, GROUP, "virtualmachineclasses", &with.namespace, class);
    let image = object(&version, "ClusterVirtualMachineImage", IMAGE, json!({}));
    create(world, GROUP, "clustervirtualmachineimages", "", image);
    for n in 1..=topology.machines {
        adopt(world, &topology.machine_name(0, n), with, &zones);
    }
}

/// The zones of the Supervisor: the name of each and the id of its cluster.
fn zones(world: &World, topology: &Topology) -> Vec<(String, String)> {
    let Some(vcenter) = world.vcenter(VCENTER) else { return Vec::new() };
    let clusters = vcenter.inventory.of_kind(Kind::Cluster).map(|(id, _)| id.to_string());
    let name = |(n, id): (u32, String)| match topology.zones {
        // Without zones, the Supervisor has one zone, with the id of its cluster as its name.
        0 => (id.clone(), id),
        _ => (format!("zone-{}", letter(n)), id),
    };
    (0..).zip(clusters).map(name).collect()
}

/// Creates the VirtualMachine of an existing machine.
fn adopt(world: &mut World, name: &str, with: &SupervisorTopology, zones: &[(String, String)]) {
    let Some((id, host, config)) = world.vcenter(VCENTER).and_then(|vcenter| {
        let id = vcenter.inventory.by_machine_name(name).next()?;
        let machine = vcenter.inventory.machine(id)?;
        Some((id, machine.host, machine.config.clone()))
    }) else {
        return;
    };
    let compute = world
        .vcenter(VCENTER)
        .and_then(|vcenter| vcenter.inventory.get(host)?.parent)
        .map(|id| id.to_string());
    let zone = zones.iter().find(|(_, cluster)| Some(cluster) == compute.as_ref());
    let mut labels = json!({
        "capv.vmware.com/cluster.name": with.cluster,
        "capv.vmware.com/cluster.role": "node",
        "capw.vmware.com/cluster.name": with.cluster,
        "capw.vmware.com/cluster.role": "node",
        "cluster.x-k8s.io/cluster-name": with.cluster,
    });
    if let Some((zone, _)) = zone {
        labels[ZONE_LABEL] = zone.as_str().into();
    }
    let object = json!({
        "apiVersion": format!("{GROUP}/v1alpha6"),
        "kind": "VirtualMachine",
        "metadata": {
            "name": name, "namespace": with.namespace, "labels": labels, "finalizers": [FINALIZER],
        },
        "spec": {
            "biosUUID": config.uuid.map(|uuid| uuid.to_string()),
            "instanceUUID": config.instance_uuid.to_string(),
            "className": CLASS,
            "image": {"kind": "ClusterVirtualMachineImage", "name": IMAGE},
            "imageName": IMAGE,
            "powerOffMode": "Hard",
            "powerState": "PoweredOn",
            "storageClass": "default",
        },
    });
    world.adopt(object, id);
}

fn object(version: &str, kind: &str, name: &str, specification: Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": specification})
}

fn create(
    world: &mut World,
    group: &'static str,
    resource: &'static str,
    namespace: &str,
    object: Value,
) {
    let command = objects::Command::create(GroupResource::of(group, resource), namespace, object);
    world
        .apply(Time::ZERO, Command::Supervisor(command))
        .expect("a new Supervisor accepts its initial objects");
}
