//! Snapshots of objects of most types with all their properties, and of a machine in different
//! states.

use sim::Sim;
use sim::world::{Command, Nodes, Topology};

use super::{CONTENT, Snapshots};
use crate::client::{COLLECTOR, Client, SEARCH, VIEWS, object};

/// Reads all properties of an object, and compares the answer with the snapshot `all_of_{name}`.
async fn everything(
    shots: &mut Snapshots,
    sim: &Sim,
    client: &mut Client,
    name: &str,
    this: (&str, &str),
) {
    let spec = format!(
        "<specSet><propSet><type>{}</type><all>true</all></propSet>{}</specSet><options/>",
        this.0,
        object(this.0, this.1)
    );
    let answer = client.call("RetrievePropertiesEx", COLLECTOR, &spec).await;
    shots.take(sim, &format!("all_of_{name}"), &answer);
}

pub(super) async fn every_type_with_all_its_properties(shots: &mut Snapshots) {
    let sim = Sim::builder().start();
    let mut client = Client::logged_in(&sim).await;
    for (kind, path) in [
        ("Folder", "DC0/vm"),
        ("Datacenter", "DC0"),
        ("ClusterComputeResource", "DC0/host/DC0_C0"),
        ("ComputeResource", "DC0/host/DC0_H0"),
        ("HostSystem", "DC0/host/DC0_C0/DC0_C0_H0"),
        ("ResourcePool", "DC0/host/DC0_C0/Resources"),
        ("Datastore", "DC0/datastore/LocalDS_0"),
        ("Network", "DC0/network/VM Network"),
        ("VirtualMachine", "DC0/vm/DC0_H0_VM0"),
    ] {
        let arguments = format!("<inventoryPath>{path}</inventoryPath>");
        let found = client.call("FindByInventoryPath", SEARCH, &arguments).await.reference();
        assert_eq!(found.0, kind, "{path}");
        everything(shots, &sim, &mut client, kind, (kind, &found.1)).await;
    }
    for this in [
        CONTENT,
        COLLECTOR,
        VIEWS,
        SEARCH,
        ("SessionManager", "SessionManager"),
        ("TaskManager", "TaskManager"),
        ("AuthorizationManager", "AuthorizationManager"),
        ("EventManager", "EventManager"),
    ] {
        everything(shots, &sim, &mut client, this.0, this).await;
    }
    let container = "<container type=\"Folder\">group-d1</container><type>Datacenter</type>\
                     <recursive>true</recursive>";
    let view = client.call("CreateContainerView", VIEWS, container).await.reference().1;
    everything(shots, &sim, &mut client, "ContainerView", ("ContainerView", &view)).await;
    let list = "<obj type=\"Datacenter\">datacenter-2</obj>";
    let view = client.call("CreateListView", VIEWS, list).await.reference().1;
    everything(shots, &sim, &mut client, "ListView", ("ListView", &view)).await;
}

pub(super) async fn a_machine_in_every_state(shots: &mut Snapshots) {
    let topology = Topology::zones(1).machines(1).nodes(Nodes::Count(0));
    let one = || "node-0001".into();
    for (name, event) in [
        ("node", None),
        ("machine_off", Some(Command::PowerOff(one()))),
        ("machine_suspended", Some(Command::Suspend(one()))),
        ("machine_inaccessible", Some(Command::Inaccessible(one()))),
        ("machine_orphaned", Some(Command::Orphan(one()))),
        ("machine_disconnected", Some(Command::DisconnectHost("DC0_C0_H0".into()))),
        ("machine_without_uuid", Some(Command::SetUuid { machine: one(), uuid: None })),
        ("machine_without_tools", Some(Command::StopTools(one()))),
    ] {
        let sim = Sim::builder().topology(topology.clone()).start();
        let mut client = Client::logged_in(&sim).await;
        let machine = client.machine("node-0001").await;
        if let Some(event) = event {
            sim.apply(event).expect("the machine exists");
        }
        everything(shots, &sim, &mut client, name, ("VirtualMachine", &machine)).await;
    }
}
