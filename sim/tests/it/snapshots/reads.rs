//! Snapshots of calls that read: login, property retrievals, searches, filters, views and sessions.
//! Most are calls that a cloud provider makes.

use http::Method;
use sim::world::{ADMINISTRATOR, Command};

use super::{CONTENT, Snapshots, lab};
use crate::client::{Answer, COLLECTOR, Client, SEARCH, SESSIONS, VIEWS, members, object, props};

pub(super) async fn first_contact(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::new(&sim);
    let answer = client.call("RetrieveServiceContent", CONTENT, "").await;
    shots.take(&sim, "service_content", &answer);
    let password = sim.password("vc0", ADMINISTRATOR).expect("the administrator has an account");
    let login =
        format!("<userName>{ADMINISTRATOR}</userName><password>{}</password>", password.expose());
    let answer = client.call("Login", SESSIONS, &login).await;
    shots.take(&sim, "login", &answer);
    let answer = client.call("CurrentTime", CONTENT, "").await;
    shots.take(&sim, "current_time", &answer);
    let answer = client.call("Logout", SESSIONS, "").await;
    shots.take(&sim, "logout", &answer);
    let answer = client.rest(Method::GET, "/sdk/vimServiceVersions.xml", &[], "").await;
    shots.take(&sim, "versions", &answer);
}

pub(super) async fn the_shapes_that_a_cloud_provider_reads(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let machine = client.machine("node-0001").await;
    let up = "<selectSet xsi:type=\"SelectionSpec\"><name>traverseParent</name></selectSet>";
    let ancestors = format!(
        "{}{}<objectSet><obj type=\"VirtualMachine\">{machine}</obj><skip>false</skip>\
         <selectSet xsi:type=\"TraversalSpec\"><name>traverseParent</name><type>ManagedEntity</type>\
         <path>parent</path><skip>false</skip>{up}</selectSet>\
         <selectSet xsi:type=\"TraversalSpec\"><type>VirtualMachine</type><path>parentVApp</path>\
         <skip>false</skip>{up}</selectSet></objectSet>",
        props("ManagedEntity", &["name", "parent"]),
        props("VirtualMachine", &["parentVApp"]),
    );
    let children = format!(
        "{}{}{}{}<objectSet><obj type=\"Folder\">group-h4</obj><skip>true</skip>\
         <selectSet xsi:type=\"TraversalSpec\"><type>Folder</type><path>childEntity</path>\
         <skip>false</skip></selectSet></objectSet>",
        props("Folder", &["name", "childType"]),
        props("VirtualMachine", &["name"]),
        props("ComputeResource", &["name", "resourcePool"]),
        props("ClusterComputeResource", &["name", "resourcePool"]),
    );
    let folders = ["name", "vmFolder", "hostFolder", "datastoreFolder", "networkFolder"];
    let datacenter =
        format!("{}{}", props("Datacenter", &folders), object("Datacenter", "datacenter-2"));
    let machine_of = |paths: &[&str]| {
        format!("{}{}", props("VirtualMachine", paths), object("VirtualMachine", &machine))
    };
    for (name, spec) in [
        (
            "a_liveness",
            format!(
                "{}{}",
                props("SessionManager", &["currentSession"]),
                object("SessionManager", "SessionManager")
            ),
        ),
        ("b_ancestors", ancestors),
        ("c_children", children),
        ("d_datacenter", datacenter),
        ("e_discovery", machine_of(&["config", "summary", "guest"])),
        ("e_power", machine_of(&["summary.runtime.powerState"])),
        ("e_placement", machine_of(&["summary.runtime.host", "resourcePool"])),
    ] {
        let arguments = format!("<specSet>{spec}</specSet><options/>");
        let answer = client.call("RetrievePropertiesEx", COLLECTOR, &arguments).await;
        shots.take(&sim, name, &answer);
    }
}

pub(super) async fn pages(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let spec = format!(
        "<specSet>{}<objectSet><obj type=\"Folder\">group-v3</obj><skip>true</skip>\
         <selectSet xsi:type=\"TraversalSpec\"><type>Folder</type><path>childEntity</path>\
         </selectSet></objectSet></specSet><options><maxObjects>2</maxObjects></options>",
        props("VirtualMachine", &["name"]),
    );
    let answer = client.call("RetrievePropertiesEx", COLLECTOR, &spec).await;
    shots.take(&sim, "page_1", &answer);
    let token = format!("<token>{}</token>", answer.returned().expect("a value").text_of("token"));
    let answer = client.call("ContinueRetrievePropertiesEx", COLLECTOR, &token).await;
    shots.take(&sim, "page_2", &answer);
}

pub(super) async fn searches(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let machine = client.machine("node-0001").await;
    let uuid = client
        .fetch(("VirtualMachine", &machine), "config.uuid")
        .await
        .expect("the property is set")
        .text;
    let find = |uuid: &str| {
        format!(
            "<datacenter type=\"Datacenter\">datacenter-2</datacenter><uuid>{uuid}</uuid>\
             <vmSearch>true</vmSearch>"
        )
    };
    let answer = client.call("FindByUuid", SEARCH, &find(&uuid)).await;
    shots.take(&sim, "find_hit", &answer);
    let upper = client.call("FindByUuid", SEARCH, &find(&uuid.to_uppercase())).await;
    assert_eq!(upper.reference().1, machine, "the search ignores the case of the UUID");
    let miss = find("00000000-0000-4000-8000-000000000000");
    let answer = client.call("FindByUuid", SEARCH, &miss).await;
    shots.take(&sim, "find_miss", &answer);
    let name = "<dnsName>NODE-0001</dnsName><vmSearch>true</vmSearch>";
    let answer = client.call("FindAllByDnsName", SEARCH, name).await;
    shots.take(&sim, "find_all", &answer);
}

pub(super) async fn updates(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let mut list = String::new();
    for name in ["node-0001", "node-0002"] {
        list.push_str(&format!(
            "<obj type=\"VirtualMachine\">{}</obj>",
            client.machine(name).await
        ));
    }
    let answer = client.call("CreateListView", VIEWS, &list).await;
    shots.take(&sim, "create_list_view", &answer);
    let view = answer.reference().1;
    let spec = format!(
        "<spec>{}{}</spec><partialUpdates>false</partialUpdates>",
        props("VirtualMachine", &["name", "guest.net", "runtime.powerState"]),
        members("ListView", &view),
    );
    let answer = client.call("CreateFilter", COLLECTOR, &spec).await;
    shots.take(&sim, "create_filter", &answer);
    let wait = |version: &str, options: &str| {
        format!("<version>{version}</version><options>{options}</options>")
    };
    let version =
        |answer: &Answer| answer.returned().expect("a value").text_of("version").to_owned();
    let one = "<maxObjectUpdates>1</maxObjectUpdates>";
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, &wait("", one)).await;
    shots.take(&sim, "updates_truncated", &answer);
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, &wait(&version(&answer), one)).await;
    shots.take(&sim, "updates_rest", &answer);
    let known = version(&answer);
    let timeout = wait(&known, "<maxWaitSeconds>1</maxWaitSeconds>");
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, &timeout).await;
    shots.take(&sim, "updates_timeout", &answer);
    sim.apply(Command::PowerOff("node-0001".into())).expect("the machine exists");
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, &wait(&known, "")).await;
    shots.take(&sim, "updates_modify", &answer);
    let known = version(&answer);
    let three = client.machine("node-0003").await;
    let modify = format!(
        "<add type=\"VirtualMachine\">{three}</add><add type=\"VirtualMachine\">vm-9999</add>"
    );
    let answer = client.call("ModifyListView", ("ListView", &view), &modify).await;
    shots.take(&sim, "modify_list_view", &answer);
    sim.apply(Command::DeleteMachine("node-0002".into())).expect("the machine exists");
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, &wait(&known, "")).await;
    shots.take(&sim, "updates_enter_and_leave", &answer);
}

/// Takes snapshots of further searches, and of reads in the style of older clients.
pub(super) async fn other_ways_to_find_and_read(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let machine = client.machine("node-0001").await;
    let this = ("VirtualMachine", machine.as_str());
    let mut text =
        async |path: &str| client.fetch(this, path).await.expect("the property is set").text;
    let (uuid, address) = (text("config.uuid").await, text("guest.ipAddress").await);
    for (operation, arguments) in [
        ("FindAllByUuid", format!("<uuid>{uuid}</uuid><vmSearch>true</vmSearch>")),
        ("FindByDnsName", "<dnsName>node-0001</dnsName><vmSearch>true</vmSearch>".to_owned()),
        ("FindByIp", format!("<ip>{address}</ip><vmSearch>true</vmSearch>")),
        ("FindAllByIp", format!("<ip>{address}</ip><vmSearch>true</vmSearch>")),
        ("FindByInventoryPath", "<inventoryPath>DC0/vm/node-0001</inventoryPath>".to_owned()),
        ("FindChild", "<entity type=\"Folder\">group-v3</entity><name>node-0001</name>".to_owned()),
    ] {
        let answer = client.call(operation, SEARCH, &arguments).await;
        shots.take(&sim, operation, &answer);
    }
    let answer = client.call("Fetch", this, "<prop>summary.runtime.powerState</prop>").await;
    shots.take(&sim, "fetch", &answer);
    let answer = client.call("Fetch", this, "<prop>parentVApp</prop>").await;
    shots.take(&sim, "fetch_unset", &answer);
    let spec = format!(
        "<specSet>{}{}</specSet>",
        props("VirtualMachine", &["name"]),
        object("VirtualMachine", &machine)
    );
    let answer = client.call("RetrieveProperties", COLLECTOR, &spec).await;
    shots.take(&sim, "retrieve_properties", &answer);
    let spec = format!(
        "<specSet>{}<objectSet><obj type=\"Folder\">group-v3</obj><skip>true</skip>\
         <selectSet xsi:type=\"TraversalSpec\"><type>Folder</type><path>childEntity</path>\
         </selectSet></objectSet></specSet><options><maxObjects>1</maxObjects></options>",
        props("VirtualMachine", &["name"]),
    );
    let answer = client.call("RetrievePropertiesEx", COLLECTOR, &spec).await;
    let token = answer.returned().expect("a page").text_of("token").to_owned();
    let token = format!("<token>{token}</token>");
    let answer = client.call("CancelRetrievePropertiesEx", COLLECTOR, &token).await;
    shots.take(&sim, "cancel_retrieve", &answer);
    let answer = client.call("ContinueRetrievePropertiesEx", COLLECTOR, &token).await;
    shots.take(&sim, "continue_canceled", &answer);
}

/// Takes snapshots of calls to views and collectors, from their creation to their destruction.
pub(super) async fn views_and_collectors(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let machine = client.machine("node-0001").await;
    let container = "<container type=\"Folder\">group-d1</container><type>VirtualMachine</type>\
                     <recursive>true</recursive>";
    let answer = client.call("CreateContainerView", VIEWS, container).await;
    shots.take(&sim, "create_container_view", &answer);
    let container = answer.reference().1;
    let list = format!("<obj type=\"VirtualMachine\">{machine}</obj>");
    let view = client.call("CreateListView", VIEWS, "").await.reference().1;
    let answer = client.call("ResetListView", ("ListView", &view), &list).await;
    shots.take(&sim, "reset_list_view", &answer);
    let gone = "<obj type=\"VirtualMachine\">vm-9999</obj>";
    let answer = client.call("ResetListView", ("ListView", &view), gone).await;
    shots.take(&sim, "reset_list_view_unresolved", &answer);
    let answer = client.call("CreatePropertyCollector", COLLECTOR, "").await;
    shots.take(&sim, "create_collector", &answer);
    let id = answer.reference().1;
    let collector = ("PropertyCollector", id.as_str());
    let spec = format!(
        "<spec>{}{}</spec><partialUpdates>false</partialUpdates>",
        props("VirtualMachine", &["name"]),
        members("ContainerView", &container),
    );
    let filter = client.call("CreateFilter", collector, &spec).await.reference().1;
    let answer = client.call("CheckForUpdates", collector, "<version></version>").await;
    shots.take(&sim, "check_for_updates", &answer);
    let answer = client.call("WaitForUpdates", collector, "<version></version>").await;
    shots.take(&sim, "wait_for_updates", &answer);
    let answer = client.call("CancelWaitForUpdates", collector, "").await;
    shots.take(&sim, "cancel_wait", &answer);
    let answer = client.call("DestroyPropertyFilter", ("PropertyFilter", &filter), "").await;
    shots.take(&sim, "destroy_filter", &answer);
    let answer = client.call("DestroyPropertyCollector", collector, "").await;
    shots.take(&sim, "destroy_collector", &answer);
    let answer = client.call("DestroyView", ("ContainerView", &container), "").await;
    shots.take(&sim, "destroy_view", &answer);
}

/// Takes snapshots of session calls: a client clones its login to a second session, queries the
/// second session and ends it.
pub(super) async fn sessions(shots: &mut Snapshots) {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let answer = client.call("AcquireCloneTicket", SESSIONS, "").await;
    shots.take(&sim, "clone_ticket", &answer);
    let ticket = answer.returned().expect("a ticket").text;
    let mut other = Client::new(&sim);
    let arguments = format!("<cloneTicket>{ticket}</cloneTicket>");
    let answer = other.call("CloneSession", SESSIONS, &arguments).await;
    shots.take(&sim, "clone_session", &answer);
    let key = answer.returned().expect("a session").text_of("key").to_owned();
    let answer = other.call("CloneSession", SESSIONS, &arguments).await;
    shots.take(&sim, "fault_ticket_used", &answer);
    let asked = format!("<sessionID>{key}</sessionID><userName>{ADMINISTRATOR}</userName>");
    let answer = client.call("SessionIsActive", SESSIONS, &asked).await;
    shots.take(&sim, "session_is_active", &answer);
    let ended = format!("<sessionId>{key}</sessionId>");
    let answer = client.call("TerminateSession", SESSIONS, &ended).await;
    shots.take(&sim, "terminate_session", &answer);
    let answer = client.call("SessionIsActive", SESSIONS, &asked).await;
    shots.take(&sim, "session_is_not_active", &answer);
    let answer = client.call("TerminateSession", SESSIONS, &ended).await;
    shots.take(&sim, "fault_no_such_session", &answer);
}
