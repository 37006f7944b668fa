//! Tests of property filters and WaitForUpdatesEx: which updates a client gets between two
//! versions.

use std::time::Duration;

use sim::Sim;
use sim::world::{Command, Named};
use tokio::time::Instant;

use crate::client::{Answer, COLLECTOR, Client, VIEWS, lab, machines, members, object, props};
use crate::xml::Node;

const COLLECT: (&str, &str) = COLLECTOR;

fn power_off(sim: &Sim, name: &str) {
    sim.apply(Command::PowerOff(Named::from(name))).expect("the machine is on");
}

fn power_on(sim: &Sim, name: &str) {
    sim.apply(Command::PowerOn(Named::from(name))).expect("the machine is off");
}

/// Creates a filter on the default collector; returns its id.
async fn filter(client: &mut Client, props: &str, objects: &str) -> String {
    let spec = format!("<spec>{props}{objects}</spec><partialUpdates>false</partialUpdates>");
    client.call("CreateFilter", COLLECT, &spec).await.reference().1
}

/// Creates a list view of these machines and a filter on their name and power; returns the view's
/// id.
async fn watched(client: &mut Client, names: &[&str]) -> String {
    let mut list = String::new();
    for name in names {
        let id = client.machine(name).await;
        list.push_str(&format!("<obj type=\"VirtualMachine\">{id}</obj>"));
    }
    let (_, view) = client.call("CreateListView", VIEWS, &list).await.reference();
    let power = props("VirtualMachine", &["name", "runtime.powerState"]);
    filter(client, &power, &members("ListView", &view)).await;
    view
}

async fn wait(client: &mut Client, version: &str, options: &str) -> Answer {
    let options = match options {
        "" => String::new(),
        options => format!("<options>{options}</options>"),
    };
    let arguments = format!("<version>{version}</version>{options}");
    client.call("WaitForUpdatesEx", COLLECT, &arguments).await
}

const AT_ONCE: &str = "<maxWaitSeconds>0</maxWaitSeconds>";

/// The content of an answer of WaitForUpdatesEx: version, truncation, and for each object a text
/// with the kind of its update (`enter`, `modify` or `leave`), its id and its changes.
#[derive(Debug, PartialEq)]
struct Updates {
    version: String,
    truncated: bool,
    objects: Vec<String>,
}

fn updates(answer: &Answer) -> Updates {
    let set = answer.returned().unwrap_or_else(|| panic!("no updates: {}", answer.body));
    let objects = set.all("filterSet").flat_map(|filter| filter.all("objectSet"));
    let change = |change: &Node| format!("{}={}", change.text_of("name"), change.text_of("val"));
    let object = |object: &Node| {
        let changes: Vec<String> = object.all("changeSet").map(change).collect();
        format!("{} {} {}", object.text_of("kind"), object.text_of("obj"), changes.join(","))
            .trim_end()
            .to_owned()
    };
    Updates {
        version: set.text_of("version").to_owned(),
        truncated: set.text_of("truncated") == "true",
        objects: objects.map(object).collect(),
    }
}

/// Calls WaitForUpdatesEx without a version; returns the updates.
async fn first(client: &mut Client) -> Updates {
    updates(&wait(client, "", "").await)
}

#[tokio::test(start_paused = true)]
async fn the_first_reply_has_every_object_with_everything_asked_for() {
    let (_sim, mut client) = lab(3).await;
    watched(&mut client, &["node-0001", "node-0002"]).await;
    let reply = first(&mut client).await;
    let one = client.machine("node-0001").await;
    let two = client.machine("node-0002").await;
    assert_eq!(
        reply.objects,
        [
            format!("enter {one} name=node-0001,runtime.powerState=poweredOn"),
            format!("enter {two} name=node-0002,runtime.powerState=poweredOn"),
        ]
    );
    assert!(!reply.truncated);
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_changes_ends_empty_after_its_timeout() {
    let (_sim, mut client) = lab(1).await;
    watched(&mut client, &["node-0001"]).await;
    let version = first(&mut client).await.version;
    let begun = Instant::now();
    let answer = wait(&mut client, &version, "<maxWaitSeconds>7</maxWaitSeconds>").await;
    assert_eq!(answer.returned(), None);
    assert_eq!(begun.elapsed(), Duration::from_secs(7));
    assert_eq!(wait(&mut client, &version, AT_ONCE).await.returned(), None);
    assert_eq!(begun.elapsed(), Duration::from_secs(7));
}

sim::test! {
    async fn a_negative_wait_is_refused(sim: &Sim) {
        let mut client = Client::logged_in(sim).await;
        let answer = wait(&mut client, "", "<maxWaitSeconds>-1</maxWaitSeconds>").await;
        assert_eq!(answer.fault().as_deref(), Some("InvalidArgument"));
    }

    async fn a_wait_without_filters_blocks_until_one_is_created(sim: &Sim) {
        let mut client = Client::logged_in(sim).await;
        let mut waiting = client.clone();
        let waiting = tokio::spawn(async move { wait(&mut waiting, "", "").await });
        tokio::task::yield_now().await;
        watched(&mut client, &["DC0_H0_VM0"]).await;
        assert_eq!(updates(&waiting.await.expect("the wait ends")).objects.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_has_only_the_paths_that_changed_and_were_asked_for() {
    let (sim, mut client) = lab(2).await;
    watched(&mut client, &["node-0001", "node-0002"]).await;
    let version = first(&mut client).await.version;
    power_off(&sim, "node-0002");
    let reply = updates(&wait(&mut client, &version, "").await);
    let two = client.machine("node-0002").await;
    assert_eq!(reply.objects, [format!("modify {two} runtime.powerState=poweredOff")]);
    // A change of a property that the filter does not select does not end a wait.
    sim.apply(Command::SetHostName { machine: "node-0001".into(), host_name: Some("x".into()) })
        .unwrap();
    assert_eq!(wait(&mut client, &reply.version, AT_ONCE).await.returned(), None);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_wait_is_woken_by_a_change() {
    let (sim, mut client) = lab(1).await;
    watched(&mut client, &["node-0001"]).await;
    let version = first(&mut client).await.version;
    let mut waiting = client.clone();
    let waiting = tokio::spawn(async move { wait(&mut waiting, &version, "").await });
    tokio::task::yield_now().await;
    let begun = Instant::now();
    power_off(&sim, "node-0001");
    assert_eq!(updates(&waiting.await.unwrap()).objects.len(), 1);
    assert_eq!(begun.elapsed(), Duration::ZERO, "the change wakes the wait at once");
}

#[tokio::test(start_paused = true)]
async fn several_changes_in_one_window_are_reported_as_the_last() {
    let (sim, mut client) = lab(1).await;
    watched(&mut client, &["node-0001"]).await;
    let version = first(&mut client).await.version;
    power_off(&sim, "node-0001");
    power_on(&sim, "node-0001");
    power_off(&sim, "node-0001");
    let reply = updates(&wait(&mut client, &version, "").await);
    let one = client.machine("node-0001").await;
    assert_eq!(reply.objects, [format!("modify {one} runtime.powerState=poweredOff")]);
}

#[tokio::test(start_paused = true)]
async fn the_changes_of_an_unacknowledged_version_are_sent_again() {
    let (sim, mut client) = lab(2).await;
    watched(&mut client, &["node-0001", "node-0002"]).await;
    let version = first(&mut client).await.version;
    power_off(&sim, "node-0001");
    let lost = updates(&wait(&mut client, &version, "").await);
    power_off(&sim, "node-0002");
    let again = updates(&wait(&mut client, &version, "").await);
    assert_eq!(again.objects.len(), 2, "the lost change and the new one: {again:?}");
    assert_ne!(lost.version, again.version);
    let answer = wait(&mut client, &again.version, AT_ONCE).await;
    assert_eq!(answer.returned(), None);
}

#[tokio::test(start_paused = true)]
async fn every_reply_has_a_new_version_and_an_unknown_version_is_refused() {
    let (sim, mut client) = lab(1).await;
    watched(&mut client, &["node-0001"]).await;
    let one = first(&mut client).await.version;
    power_off(&sim, "node-0001");
    let two = updates(&wait(&mut client, &one, "").await).version;
    assert_ne!(one, two);
    power_on(&sim, "node-0001");
    let three = updates(&wait(&mut client, &two, "").await).version;
    for (name, version) in [("older than acknowledged", &one), ("made up", &"-".to_owned())] {
        let fault = wait(&mut client, version, AT_ONCE).await.fault();
        assert_eq!(fault.as_deref(), Some("InvalidCollectorVersion"), "{name}");
    }
    assert_eq!(wait(&mut client, &three, AT_ONCE).await.returned(), None);
}

#[tokio::test(start_paused = true)]
async fn a_version_does_not_outlive_its_session() {
    let (sim, mut client) = lab(1).await;
    watched(&mut client, &["node-0001"]).await;
    let version = first(&mut client).await.version;
    sim.apply(Command::ExpireSessions { vcenter: None, family: None }).unwrap();
    let fault = wait(&mut client, &version, AT_ONCE).await.fault();
    assert_eq!(fault.as_deref(), Some("NotAuthenticated"));
    client.cookie = None;
    client.login(&sim).await;
    let fault = wait(&mut client, &version, AT_ONCE).await.fault();
    assert_eq!(fault.as_deref(), Some("InvalidCollectorVersion"));
}

#[tokio::test(start_paused = true)]
async fn a_reply_has_at_most_a_hundred_objects_and_the_rest_follows() {
    let (_sim, mut client) = lab(250).await;
    let container = "<container type=\"Folder\">group-d1</container>\
        <type>VirtualMachine</type><recursive>true</recursive>";
    let (_, view) = client.call("CreateContainerView", VIEWS, container).await.reference();
    let name = props("VirtualMachine", &["name"]);
    filter(&mut client, &name, &members("ContainerView", &view)).await;
    let (mut version, mut seen, mut replies) = (String::new(), Vec::new(), Vec::new());
    loop {
        let reply = updates(&wait(&mut client, &version, "").await);
        replies.push((reply.objects.len(), reply.truncated));
        seen.extend(reply.objects);
        version = reply.version;
        if !reply.truncated {
            break;
        }
    }
    assert_eq!(replies, [(100, true), (100, true), (50, false)]);
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!((all, seen.len()), (250, 250), "every object comes once");
}

#[tokio::test(start_paused = true)]
async fn the_version_of_a_cut_reply_works_once() {
    let (_sim, mut client) = lab(4).await;
    watched(&mut client, &["node-0001", "node-0002", "node-0003"]).await;
    let two = "<maxObjectUpdates>2</maxObjectUpdates>";
    let cut = updates(&wait(&mut client, "", two).await);
    assert!(cut.truncated);
    let rest = updates(&wait(&mut client, &cut.version, two).await);
    assert_eq!((rest.objects.len(), rest.truncated), (1, false));
    let fault = wait(&mut client, &cut.version, two).await.fault();
    assert_eq!(fault.as_deref(), Some("InvalidCollectorVersion"));
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_cut_reply_is_not_lost() {
    let (sim, mut client) = lab(4).await;
    watched(&mut client, &["node-0001", "node-0002", "node-0003"]).await;
    let two = "<maxObjectUpdates>2</maxObjectUpdates>";
    let cut = updates(&wait(&mut client, "", two).await);
    power_off(&sim, "node-0001");
    let rest = updates(&wait(&mut client, &cut.version, two).await);
    let reply = updates(&wait(&mut client, &rest.version, two).await);
    let one = client.machine("node-0001").await;
    assert_eq!(reply.objects, [format!("modify {one} runtime.powerState=poweredOff")]);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_wait_returns_the_objects_of_a_new_filter() {
    let (_sim, mut client) = lab(2).await;
    watched(&mut client, &["node-0001"]).await;
    let version = first(&mut client).await.version;
    let mut waiting = client.clone();
    let waiting = tokio::spawn(async move { wait(&mut waiting, &version, "").await });
    tokio::task::yield_now().await;
    let two = client.machine("node-0002").await;
    let spec = object("VirtualMachine", &two);
    filter(&mut client, &props("VirtualMachine", &["name"]), &spec).await;
    assert_eq!(updates(&waiting.await.unwrap()).objects, [format!("enter {two} name=node-0002")]);
}

#[tokio::test(start_paused = true)]
async fn a_destroyed_filter_reports_no_updates() {
    let (sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let power = props("VirtualMachine", &["runtime.powerState"]);
    let id = filter(&mut client, &power, &object("VirtualMachine", &one)).await;
    let version = first(&mut client).await.version;
    power_off(&sim, "node-0001");
    client.call("DestroyPropertyFilter", ("PropertyFilter", &id), "").await.ok();
    assert_eq!(wait(&mut client, &version, AT_ONCE).await.returned(), None);
    let again = client.call("DestroyPropertyFilter", ("PropertyFilter", &id), "").await;
    assert_eq!(again.fault().as_deref(), Some("ManagedObjectNotFound"));
}

#[tokio::test(start_paused = true)]
async fn a_second_wait_supersedes_the_first() {
    let (sim, mut client) = lab(1).await;
    watched(&mut client, &["node-0001"]).await;
    let version = first(&mut client).await.version;
    let (mut one, mut two) = (client.clone(), client.clone());
    let (first, second) = (version.clone(), version);
    let first = tokio::spawn(async move { wait(&mut one, &first, "").await });
    tokio::task::yield_now().await;
    let second = tokio::spawn(async move { wait(&mut two, &second, "").await });
    assert_eq!(first.await.unwrap().fault().as_deref(), Some("RequestCanceled"));
    power_off(&sim, "node-0001");
    assert_eq!(updates(&second.await.unwrap()).objects.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_can_be_cancelled() {
    let (_sim, mut client) = lab(1).await;
    watched(&mut client, &["node-0001"]).await;
    let version = first(&mut client).await.version;
    let (mut waiting, then) = (client.clone(), version.clone());
    let waiting = tokio::spawn(async move { wait(&mut waiting, &then, "").await });
    tokio::task::yield_now().await;
    client.call("CancelWaitForUpdates", COLLECT, "").await.ok();
    assert_eq!(waiting.await.unwrap().fault().as_deref(), Some("RequestCanceled"));
    assert_eq!(wait(&mut client, &version, AT_ONCE).await.returned(), None, "a valid version");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_ends_the_wait() {
    let (sim, mut client) = lab(1).await;
    watched(&mut client, &["node-0001"]).await;
    let version = first(&mut client).await.version;
    let (mut waiting, then) = (client.clone(), version.clone());
    let waiting = tokio::spawn(async move { wait(&mut waiting, &then, "").await });
    tokio::task::yield_now().await;
    sim.apply(Command::ExpireSessions { vcenter: None, family: None }).unwrap();
    let fault = waiting.await.unwrap().fault();
    assert_eq!(fault.as_deref(), Some("RequestCanceled"));
    let fault = wait(&mut client, &version, AT_ONCE).await.fault();
    assert_eq!(fault.as_deref(), Some("NotAuthenticated"));
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_wait_loses_no_update() {
    let (sim, mut client) = lab(1).await;
    watched(&mut client, &["node-0001"]).await;
    let version = first(&mut client).await.version;
    let (mut gone, then) = (client.clone(), version.clone());
    let gone = tokio::spawn(async move { wait(&mut gone, &then, "").await });
    tokio::task::yield_now().await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    power_off(&sim, "node-0001");
    assert_eq!(updates(&wait(&mut client, &version, "").await).objects.len(), 1);
    let abandoned = sim.ledger().records().into_iter().filter(|record| {
        record.ended.as_ref().is_some_and(|ended| ended.broken == Some("abandoned"))
    });
    assert_eq!(abandoned.count(), 1, "the ledger has the abandoned call");
}

#[tokio::test(start_paused = true)]
async fn a_modified_list_view_reports_members_that_enter_and_leave() {
    let (_sim, mut client) = lab(3).await;
    let view = watched(&mut client, &["node-0001"]).await;
    let version = first(&mut client).await.version;
    let one = client.machine("node-0001").await;
    let two = client.machine("node-0002").await;
    let change = format!(
        "<add type=\"VirtualMachine\">{two}</add><add type=\"VirtualMachine\">vm-9999</add>\
         <remove type=\"VirtualMachine\">{one}</remove>"
    );
    let answer = client.call("ModifyListView", ("ListView", &view), &change).await.ok();
    let unresolved: Vec<&str> = answer.all("returnval").map(|it| it.text.as_str()).collect();
    assert_eq!(unresolved, ["vm-9999"]);
    let reply = updates(&wait(&mut client, &version, "").await);
    assert_eq!(
        reply.objects,
        [
            format!("leave {one}"),
            format!("enter {two} name=node-0002,runtime.powerState=poweredOn"),
        ]
    );
}

/// As in `govc tasks`, one filter starts from a list view and from a single object.
#[tokio::test(start_paused = true)]
async fn a_filter_on_a_list_and_an_object_reports_members_that_enter_and_leave() {
    let (_sim, mut client) = lab(3).await;
    let mut machines = Vec::new();
    for n in 1..=3 {
        machines.push(client.machine(&format!("node-{n:04}")).await);
    }
    let [one, two, three] = &machines[..] else { unreachable!() };
    let list = format!("<obj type=\"VirtualMachine\">{one}</obj>");
    let (_, view) = client.call("CreateListView", VIEWS, &list).await.reference();
    let starts = members("ListView", &view) + &object("VirtualMachine", three);
    filter(&mut client, &props("VirtualMachine", &["name"]), &starts).await;
    let version = first(&mut client).await.version;
    // The list changes while a wait is blocked.
    let (mut waiting, known) = (client.clone(), version.clone());
    let reply = tokio::spawn(async move { updates(&wait(&mut waiting, &known, "").await) });
    tokio::task::yield_now().await;
    let before = Instant::now();
    let change = format!(
        "<add type=\"VirtualMachine\">{two}</add><remove type=\"VirtualMachine\">{one}</remove>"
    );
    client.call("ModifyListView", ("ListView", &view), &change).await.ok();
    let reply = reply.await.unwrap();
    assert_eq!(reply.objects, [format!("leave {one}"), format!("enter {two} name=node-0002")]);
    let reset = format!("<obj type=\"VirtualMachine\">{one}</obj>");
    client.call("ResetListView", ("ListView", &view), &reset).await.ok();
    let reply = updates(&wait(&mut client, &reply.version, "").await);
    assert_eq!(reply.objects, [format!("leave {two}"), format!("enter {one} name=node-0001")]);
    assert!(before.elapsed() < Duration::from_secs(1), "the updates come at once");
}

#[tokio::test(start_paused = true)]
async fn a_container_view_reports_machines_that_are_created_and_destroyed() {
    let (sim, mut client) = lab(2).await;
    let container = "<container type=\"Folder\">group-d1</container>\
        <type>VirtualMachine</type><recursive>true</recursive>";
    let (_, view) = client.call("CreateContainerView", VIEWS, container).await.reference();
    let name = props("VirtualMachine", &["name"]);
    filter(&mut client, &name, &members("ContainerView", &view)).await;
    let version = first(&mut client).await.version;
    let one = client.machine("node-0001").await;
    sim.apply(Command::DeleteMachine("node-0001".into())).unwrap();
    sim.apply(
        serde_json::from_value(serde_json::json!({"vm.create": {"spec": {"name": "new"}}}))
            .expect("a command"),
    )
    .unwrap();
    let new = client.machine("new").await;
    let reply = updates(&wait(&mut client, &version, "").await);
    assert_eq!(reply.objects, [format!("leave {one}"), format!("enter {new} name=new")]);
    // A machine that is created and destroyed between two waits causes no update.
    sim.apply(
        serde_json::from_value(serde_json::json!({"vm.create": {"spec": {"name": "short"}}}))
            .expect("a command"),
    )
    .unwrap();
    sim.apply(Command::DeleteMachine("short".into())).unwrap();
    assert_eq!(wait(&mut client, &reply.version, AT_ONCE).await.returned(), None);
}

#[tokio::test(start_paused = true)]
async fn a_filter_outlives_the_object_it_starts_from() {
    let (sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let name = props("VirtualMachine", &["name"]);
    filter(&mut client, &name, &object("VirtualMachine", &one)).await;
    let version = first(&mut client).await.version;
    sim.apply(Command::DeleteMachine("node-0001".into())).unwrap();
    let reply = updates(&wait(&mut client, &version, "").await);
    assert_eq!(reply.objects, [format!("leave {one}")]);
    assert_eq!(wait(&mut client, &reply.version, AT_ONCE).await.returned(), None);
}

#[tokio::test(start_paused = true)]
async fn wait_for_updates_is_not_cut_and_check_for_updates_does_not_wait() {
    let (_sim, mut client) = lab(150).await;
    let container = "<container type=\"Folder\">group-d1</container>\
        <type>VirtualMachine</type><recursive>true</recursive>";
    let (_, view) = client.call("CreateContainerView", VIEWS, container).await.reference();
    let name = props("VirtualMachine", &["name"]);
    filter(&mut client, &name, &members("ContainerView", &view)).await;
    let answer = client.call("WaitForUpdates", COLLECT, "").await;
    let reply = updates(&answer);
    assert_eq!((reply.objects.len(), reply.truncated), (150, false));
    let version = format!("<version>{}</version>", reply.version);
    let answer = client.call("CheckForUpdates", COLLECT, &version).await;
    assert_eq!(answer.returned(), None);
}

#[tokio::test(start_paused = true)]
async fn collectors_do_not_share_filters() {
    let (sim, mut client) = lab(1).await;
    watched(&mut client, &["node-0001"]).await;
    let (_, own) = client.call("CreatePropertyCollector", COLLECT, "").await.reference();
    let own = ("PropertyCollector", own.as_str());
    let answer =
        client.call("WaitForUpdatesEx", own, &format!("<options>{AT_ONCE}</options>")).await;
    assert_eq!(answer.returned(), None, "the new collector has no filter");
    client.call("DestroyPropertyCollector", own, "").await.ok();
    let answer = client.call("WaitForUpdatesEx", own, "").await;
    assert_eq!(answer.fault().as_deref(), Some("ManagedObjectNotFound"));
    // Sessions do not share filters either: each session has its own default collector.
    let mut other = Client::logged_in(&sim).await;
    assert_eq!(wait(&mut other, "", AT_ONCE).await.returned(), None);
}

#[tokio::test(start_paused = true)]
async fn one_change_of_five_thousand_is_one_update() {
    let sim = machines(5_000);
    let mut client = Client::logged_in(&sim).await;
    let container = "<container type=\"Folder\">group-d1</container>\
        <type>VirtualMachine</type><recursive>true</recursive>";
    let (_, view) = client.call("CreateContainerView", VIEWS, container).await.reference();
    let power = props("VirtualMachine", &["runtime.powerState"]);
    filter(&mut client, &power, &members("ContainerView", &view)).await;
    let reply = updates(&wait(&mut client, "", "<maxObjectUpdates>10000</maxObjectUpdates>").await);
    assert_eq!(reply.objects.len(), 5_000);
    power_off(&sim, "node-4711");
    let answer = wait(&mut client, &reply.version, "").await;
    assert_eq!(updates(&answer).objects.len(), 1);
    assert!(answer.body.len() < 1_500, "{} bytes", answer.body.len());
}
