//! Tests of two exact costs of a SOAP call: how often it locks the world, and whether it wakes the
//! clients that wait for a change.

use futures::FutureExt;
use sim::Sim;
use sim::world::{Command, Named};

use crate::client::{COLLECTOR, Client, SEARCH, SESSIONS, VIEWS, lab, machines, object, props};

/// Makes a call. Returns the number of times that it locked the world, and true if it woke the
/// waiters for a change. Polls the call only once, so that no other task runs meanwhile.
fn cost(sim: &Sim, client: &mut Client, call: (&str, (&str, &str), &str)) -> (u64, bool) {
    let (operation, this, arguments) = call;
    let (before, mut changes) = (sim.world().locks(), sim.world().changes());
    let answer = client.call(operation, this, arguments).now_or_never();
    let answer = answer.unwrap_or_else(|| panic!("{operation} does not answer at once"));
    assert_eq!(answer.fault(), None, "{operation}");
    (sim.world().locks() - before, changes.changed().now_or_never().is_some())
}

#[tokio::test(start_paused = true)]
async fn a_soap_call_locks_the_world_twice_and_a_change_wakes_the_waiters() {
    let (sim, mut client) = lab(3).await;
    let machine = client.machine("node-0001").await;
    let path = "<inventoryPath>DC0/vm/node-0001</inventoryPath>";
    let list = format!("<obj type=\"VirtualMachine\">{machine}</obj>");
    let service = ("ServiceInstance", "ServiceInstance");
    let uuid = sim.world().read(|world| {
        let vcenter = world.vcenter("vc0").expect("the world has vc0");
        let mut machines = vcenter.inventory.machines();
        let (_, _, machine) =
            machines.find(|(id, _, _)| id.to_string() == machine).expect("the machine exists");
        machine.config.uuid.expect("the machine has a UUID")
    });
    let find =
        format!("<uuid>{uuid}</uuid><vmSearch>true</vmSearch><instanceUuid>false</instanceUuid>");
    let spec = format!(
        "{}{}",
        props("VirtualMachine", &["name", "runtime.powerState"]),
        object("VirtualMachine", &machine)
    );
    let specification = format!("<specSet>{spec}</specSet><options></options>");
    let filter = format!("<spec>{spec}</spec><partialUpdates>false</partialUpdates>");
    let no_wait = "<version></version><options><maxWaitSeconds>0</maxWaitSeconds></options>";
    for call in [
        ("RetrieveServiceContent", service, "<_this>ServiceInstance</_this>"),
        ("CurrentTime", service, ""),
        ("FindByInventoryPath", SEARCH, path),
        ("CreateListView", VIEWS, list.as_str()),
        ("AcquireCloneTicket", SESSIONS, ""),
        ("FindByUuid", SEARCH, find.as_str()),
        ("RetrievePropertiesEx", COLLECTOR, specification.as_str()),
        ("CreateFilter", COLLECTOR, filter.as_str()),
    ] {
        assert_eq!(cost(&sim, &mut client, call), (2, false), "{}", call.0);
    }
    // WaitForUpdatesEx may take time, so it locks once more to check that the vCenter still serves.
    let wait = ("WaitForUpdatesEx", COLLECTOR, no_wait);
    assert_eq!(cost(&sim, &mut client, wait), (3, false));
    let power_off = ("PowerOffVM_Task", ("VirtualMachine", machine.as_str()), "");
    assert_eq!(cost(&sim, &mut client, power_off), (2, true));
    assert_eq!(cost(&sim, &mut client, ("Logout", SESSIONS, "")), (2, true));
}

#[tokio::test(start_paused = true)]
async fn a_blocked_wait_locks_the_world_twice_before_and_three_times_after() {
    let (sim, mut client) = lab(3).await;
    let machine = client.machine("node-0001").await;
    let spec =
        props("VirtualMachine", &["runtime.powerState"]) + &object("VirtualMachine", &machine);
    let filter = format!("<spec>{spec}</spec><partialUpdates>false</partialUpdates>");
    client.call("CreateFilter", COLLECTOR, &filter).await.ok();
    let first = client.call("WaitForUpdatesEx", COLLECTOR, "<version></version>").await;
    let update = first.returned().expect("the first update");
    let arguments = format!("<version>{}</version>", update.text_of("version"));
    let before = sim.world().locks();
    let mut wait = std::pin::pin!(client.call("WaitForUpdatesEx", COLLECTOR, &arguments));
    assert!((&mut wait).now_or_never().is_none(), "nothing has changed");
    let begun = sim.world().locks() - before;
    for name in ["node-0002", "node-0001"] {
        sim.apply(Command::PowerOff(Named::from(name))).expect("the machine is on");
    }
    let before = sim.world().locks();
    let answer = (&mut wait).now_or_never().expect("the wait ends").payload();
    assert_eq!(answer.name, "WaitForUpdatesExResponse");
    // One pass with three locks handles both changes. It looks for changes, checks that the vCenter
    // still serves, and ends the call.
    assert_eq!((begun, sim.world().locks() - before), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_login_locks_the_world_twice() {
    let sim = machines(1);
    let mut client = Client::new(&sim);
    client.call("RetrieveServiceContent", ("ServiceInstance", "ServiceInstance"), "").await.ok();
    let before = sim.world().locks();
    client.login(&sim).await;
    // The first lock is that of the test itself, which reads the password.
    assert_eq!(sim.world().locks() - before, 1 + 2);
}
