//! Snapshots of operations that change machines or search datastores: tasks, from their acceptance
//! to their result, and requests to guests.

use std::time::Duration;

use sim::Sim;
use sim::world::Command;

use super::{Snapshots, lab};
use crate::client::{Answer, COLLECTOR, Client, SEARCH, object, props};

/// Reads the property `info` of a task, as clients do until the task ends.
async fn info(client: &mut Client, task: &Answer) -> Answer {
    let task = task.reference().1;
    let spec = format!(
        "<specSet>{}{}</specSet><options/>",
        props("Task", &["info"]),
        object("Task", &task)
    );
    client.call("RetrievePropertiesEx", COLLECTOR, &spec).await
}

/// Starts a task, and reads its result 1 s later. Takes snapshots of the first answer and of the
/// result. Returns the answer with the result.
async fn work(
    shots: &mut Snapshots,
    sim: &Sim,
    client: &mut Client,
    name: &str,
    (operation, this, arguments): (&str, (&str, &str), &str),
) -> Answer {
    let task = client.call(operation, this, arguments).await;
    shots.take(sim, name, &task);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ended = info(client, &task).await;
    shots.take(sim, &format!("{name}_ended"), &ended);
    ended
}

pub(super) async fn tasks(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let id = client.machine("node-0001").await;
    let machine = ("VirtualMachine", id.as_str());
    let running = client.call("SuspendVM_Task", machine, "").await;
    let answer = info(&mut client, &running).await;
    shots.take(&sim, "task_running", &answer);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut path = async |path: &str| {
        let path = format!("<inventoryPath>{path}</inventoryPath>");
        client.call("FindByInventoryPath", SEARCH, &path).await.reference().1
    };
    let other_host = path("DC0/host/DC0_C1/DC0_C1_H0").await;
    let pool = path("DC0/host/DC0_C0/Resources").await;
    let datastore = path("DC0/datastore/LocalDS_0").await;
    let browser = format!("datastoreBrowser-{datastore}");
    let folder = ("Folder", "group-v3");
    let browser = ("HostDatastoreBrowser", browser.as_str());
    let reconfigure = "<spec><numCPUs>4</numCPUs><annotation>a &amp; b</annotation></spec>";
    let relocate = format!("<spec><host type=\"HostSystem\">{other_host}</host></spec>");
    let create = format!(
        "<config><name>fresh</name><guestId>ubuntu64Guest</guestId><numCPUs>1</numCPUs>\
         <memoryMB>512</memoryMB></config><pool type=\"ResourcePool\">{pool}</pool>"
    );
    for (name, operation, this, arguments) in [
        ("power_on", "PowerOnVM_Task", machine, ""),
        ("power_on_twice", "PowerOnVM_Task", machine, ""),
        ("reset", "ResetVM_Task", machine, ""),
        ("suspend", "SuspendVM_Task", machine, ""),
        ("power_off", "PowerOffVM_Task", machine, ""),
        ("reset_off", "ResetVM_Task", machine, ""),
        ("reconfigure", "ReconfigVM_Task", machine, reconfigure),
        ("relocate", "RelocateVM_Task", machine, &relocate),
        ("rename", "Rename_Task", machine, "<newName>other</newName>"),
        ("rename_taken", "Rename_Task", machine, "<newName>node-0002</newName>"),
        ("create", "CreateVM_Task", folder, &create),
        (
            "search_datastore",
            "SearchDatastore_Task",
            browser,
            "<datastorePath>[LocalDS_0] other</datastorePath>",
        ),
        (
            "search_datastore_root",
            "SearchDatastore_Task",
            browser,
            "<datastorePath>[LocalDS_0]</datastorePath>",
        ),
        (
            "search_datastore_miss",
            "SearchDatastore_Task",
            browser,
            "<datastorePath>[LocalDS_0] none</datastorePath>",
        ),
        ("destroy", "Destroy_Task", machine, ""),
    ] {
        work(shots, &sim, &mut client, name, (operation, this, arguments)).await;
    }
    let source = client.machine("node-0002").await;
    let clone = "<folder type=\"Folder\">group-v3</folder><name>copy</name><spec><location/>\
        <template>false</template><powerOn>false</powerOn></spec>";
    let clone = ("CloneVM_Task", ("VirtualMachine", source.as_str()), clone);
    work(shots, &sim, &mut client, "clone", clone).await;
    // vCenter reports an error that it detects at once as a fault of the call, not of a task.
    for (name, operation, this, arguments) in [
        ("fault_gone", "PowerOnVM_Task", machine, ""),
        ("fault_argument", "CreateVM_Task", folder, "<config><name>x</name></config>"),
        ("fault_wrong_kind", "PowerOnVM_Task", folder, ""),
        ("fault_unsupported", "SearchDatastoreSubFolders_Task", browser, ""),
    ] {
        let answer = client.call(operation, this, arguments).await;
        shots.take(&sim, name, &answer);
    }
}

/// Takes snapshots of tasks that fail because vCenter cannot manage the machine.
pub(super) async fn tasks_that_fail(shots: &mut Snapshots) {
    for (name, event) in [
        ("power_off_disconnected", Command::DisconnectHost("DC0_C0_H0".into())),
        ("power_off_orphaned", Command::Orphan("node-0001".into())),
    ] {
        let sim = lab();
        let mut client = Client::logged_in(&sim).await;
        let machine = client.machine("node-0001").await;
        sim.apply(event).expect("the host and the machine exist");
        let task = ("PowerOffVM_Task", ("VirtualMachine", machine.as_str()), "");
        work(shots, &sim, &mut client, name, task).await;
    }
}

/// Takes snapshots of requests to guests, which take effect after 10 s and need VMware Tools.
pub(super) async fn guests(shots: &mut Snapshots) {
    for (name, operation, state) in [
        ("guest_shutdown", "ShutdownGuest", "poweredOff"),
        ("guest_reboot", "RebootGuest", "poweredOn"),
        ("guest_standby", "StandbyGuest", "suspended"),
    ] {
        let sim = lab();
        let mut client = Client::logged_in(&sim).await;
        let id = client.machine("node-0001").await;
        let machine = ("VirtualMachine", id.as_str());
        let answer = client.call(operation, machine, "").await;
        shots.take(&sim, name, &answer);
        let mut power = async |after: u64| {
            tokio::time::sleep(Duration::from_secs(after)).await;
            let state = client.fetch(machine, "runtime.powerState").await.expect("a state").text;
            let tools = client.fetch(machine, "guest.toolsRunningStatus").await.expect("a state");
            (state, tools.text)
        };
        let running = ("poweredOn".to_owned(), "guestToolsRunning".to_owned());
        assert_eq!(power(9).await, running, "{operation} takes 10 s");
        let stopped = (state.to_owned(), "guestToolsNotRunning".to_owned());
        assert_eq!(power(1).await, stopped, "{operation}");
        if operation == "RebootGuest" {
            assert_eq!(power(60).await, running, "the guest has booted");
            continue;
        }
        let answer = client.call(operation, machine, "").await;
        shots.take(&sim, &format!("fault_{name}_off"), &answer);
    }
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let machine = client.machine("node-0001").await;
    sim.apply(Command::StopTools("node-0001".into())).expect("VMware Tools runs");
    let answer = client.call("ShutdownGuest", ("VirtualMachine", &machine), "").await;
    shots.take(&sim, "fault_tools_unavailable", &answer);
    let answer = client.call("ShutdownGuest", ("Folder", "group-v3"), "").await;
    shots.take(&sim, "fault_guest_of_a_folder", &answer);
}
