//! How often a SOAP call locks the world, and whom it wakes: exact counts.

use futures::FutureExt;
use sim::Sim;

use crate::client::{COLLECTOR, Client, SEARCH, SESSIONS, VIEWS, lab};

/// Locks by a call, and whether it woke those who wait for a change. The call is polled once, so that nothing else runs.
fn cost(sim: &Sim, client: &mut Client, call: (&str, (&str, &str), &str)) -> (u64, bool) {
    let (operation, this, arguments) = call;
    let (before, mut changes) = (sim.world().locks(), sim.world().changes());
    let answer = client.call(operation, this, arguments).now_or_never();
    let answer = answer.unwrap_or_else(|| panic!("{operation} waits"));
    assert_eq!(answer.fault(), None, "{operation}");
    (sim.world().locks() - before, changes.changed().now_or_never().is_some())
}

#[tokio::test(start_paused = true)]
async fn a_soap_call_locks_the_world_twice_and_wakes_nobody_unless_it_changes_something() {
    let (sim, mut client) = lab(3).await;
    let machine = client.machine("node-0001").await;
    let path = "<inventoryPath>DC0/vm/node-0001</inventoryPath>";
    let list = format!("<obj type=\"VirtualMachine\">{machine}</obj>");
    let service = ("ServiceInstance", "ServiceInstance");
    let no_wait = "<version></version><options><maxWaitSeconds>0</maxWaitSeconds></options>";
    for call in [
        ("RetrieveServiceContent", service, "<_this>ServiceInstance</_this>"),
        ("CurrentTime", service, ""),
        ("FindByInventoryPath", SEARCH, path),
        ("CreateListView", VIEWS, list.as_str()),
        ("AcquireCloneTicket", SESSIONS, ""),
    ] {
        assert_eq!(cost(&sim, &mut client, call), (2, false), "{}", call.0);
    }
    // A wait takes time, and so it looks once more whether the vCenter still serves.
    let wait = ("WaitForUpdatesEx", COLLECTOR, no_wait);
    assert_eq!(cost(&sim, &mut client, wait), (3, false));
    let power_off = ("PowerOffVM_Task", ("VirtualMachine", machine.as_str()), "");
    assert_eq!(cost(&sim, &mut client, power_off), (2, true));
    assert_eq!(cost(&sim, &mut client, ("Logout", SESSIONS, "")), (2, true));
}
