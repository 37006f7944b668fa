//! The bytes of representative answers. `><` is broken into lines for those who read them.

use base64::Engine as _;
use http::Method;
use sim::Sim;
use sim::world::{ADMINISTRATOR, Command, Nodes, Topology};

use crate::client::{Answer, COLLECTOR, Client, SEARCH, SESSIONS, VIEWS, members, object, props};

const CONTENT: (&str, &str) = ("ServiceInstance", "ServiceInstance");

/// Status, the headers that matter, body.
fn bytes(answer: &Answer) -> String {
    let mut out = format!("{}\n", answer.status);
    for name in ["content-type", "cache-control", "set-cookie", "www-authenticate", "retry-after"] {
        if let Some(value) = answer.headers.get(name) {
            out.push_str(&format!("{name}: {}\n", value.to_str().expect("text")));
        }
    }
    format!("{out}\n{}", answer.body.replace("><", ">\n<"))
}

fn lab() -> Sim {
    Sim::builder().topology(Topology::zones(2).machines(3).nodes(Nodes::Count(0))).start()
}

fn basic(sim: &Sim) -> String {
    let password = sim.password("vc0", ADMINISTRATOR).expect("the administrator is there");
    let text = format!("{ADMINISTRATOR}:{}", password.expose());
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text))
}

/// A vAPI session.
pub(crate) async fn rest_login(sim: &Sim, client: &mut Client) -> String {
    let basic = basic(sim);
    let headers = [("authorization", basic.as_str()), ("vmware-use-header-authn", "true")];
    let answer = client.rest(Method::POST, "/api/session", &headers, "").await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.body.trim_matches('"').to_owned()
}

#[tokio::test(start_paused = true)]
async fn first_contact() {
    let sim = lab();
    let mut client = Client::new(&sim);
    insta::assert_snapshot!(
        "service_content",
        bytes(&client.call("RetrieveServiceContent", CONTENT, "").await)
    );
    let password = sim.password("vc0", ADMINISTRATOR).unwrap();
    let login =
        format!("<userName>{ADMINISTRATOR}</userName><password>{}</password>", password.expose());
    insta::assert_snapshot!("login", bytes(&client.call("Login", SESSIONS, &login).await));
    insta::assert_snapshot!("current_time", bytes(&client.call("CurrentTime", CONTENT, "").await));
    insta::assert_snapshot!("logout", bytes(&client.call("Logout", SESSIONS, "").await));
    let answer = client.rest(Method::GET, "/sdk/vimServiceVersions.xml", &[], "").await;
    insta::assert_snapshot!("versions", bytes(&answer));
}

#[tokio::test(start_paused = true)]
async fn the_shapes_that_a_cloud_provider_reads() {
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
        insta::assert_snapshot!(name, bytes(&answer));
    }
}

#[tokio::test(start_paused = true)]
async fn pages() {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let spec = format!(
        "<specSet>{}<objectSet><obj type=\"Folder\">group-v3</obj><skip>true</skip>\
         <selectSet xsi:type=\"TraversalSpec\"><type>Folder</type><path>childEntity</path>\
         </selectSet></objectSet></specSet><options><maxObjects>2</maxObjects></options>",
        props("VirtualMachine", &["name"]),
    );
    let answer = client.call("RetrievePropertiesEx", COLLECTOR, &spec).await;
    insta::assert_snapshot!("page_1", bytes(&answer));
    let token = format!("<token>{}</token>", answer.returned().unwrap().text_of("token"));
    let answer = client.call("ContinueRetrievePropertiesEx", COLLECTOR, &token).await;
    insta::assert_snapshot!("page_2", bytes(&answer));
}

#[tokio::test(start_paused = true)]
async fn searches() {
    let sim = lab();
    let mut client = Client::logged_in(&sim).await;
    let machine = client.machine("node-0001").await;
    let uuid = client.fetch(("VirtualMachine", &machine), "config.uuid").await.unwrap().text;
    let find = |uuid: &str| {
        format!(
            "<datacenter type=\"Datacenter\">datacenter-2</datacenter><uuid>{uuid}</uuid>\
             <vmSearch>true</vmSearch>"
        )
    };
    insta::assert_snapshot!(
        "find_hit",
        bytes(&client.call("FindByUuid", SEARCH, &find(&uuid)).await)
    );
    let upper = client.call("FindByUuid", SEARCH, &find(&uuid.to_uppercase())).await;
    assert_eq!(upper.reference().1, machine, "upper case finds it too");
    let miss = find("00000000-0000-4000-8000-000000000000");
    insta::assert_snapshot!("find_miss", bytes(&client.call("FindByUuid", SEARCH, &miss).await));
    let name = "<dnsName>NODE-0001</dnsName><vmSearch>true</vmSearch>";
    insta::assert_snapshot!(
        "find_all",
        bytes(&client.call("FindAllByDnsName", SEARCH, name).await)
    );
}

#[tokio::test(start_paused = true)]
async fn updates() {
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
    insta::assert_snapshot!("create_list_view", bytes(&answer));
    let view = answer.reference().1;
    let spec = format!(
        "<spec>{}{}</spec><partialUpdates>false</partialUpdates>",
        props("VirtualMachine", &["name", "guest.net", "runtime.powerState"]),
        members("ListView", &view),
    );
    let answer = client.call("CreateFilter", COLLECTOR, &spec).await;
    insta::assert_snapshot!("create_filter", bytes(&answer));
    let wait = |version: &str, options: &str| {
        format!("<version>{version}</version><options>{options}</options>")
    };
    let version = |answer: &Answer| answer.returned().unwrap().text_of("version").to_owned();
    let one = "<maxObjectUpdates>1</maxObjectUpdates>";
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, &wait("", one)).await;
    insta::assert_snapshot!("updates_truncated", bytes(&answer));
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, &wait(&version(&answer), one)).await;
    insta::assert_snapshot!("updates_rest", bytes(&answer));
    let known = version(&answer);
    let timeout = wait(&known, "<maxWaitSeconds>1</maxWaitSeconds>");
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, &timeout).await;
    insta::assert_snapshot!("updates_timeout", bytes(&answer));
    sim.apply(Command::PowerOff("node-0001".into())).unwrap();
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, &wait(&known, "")).await;
    insta::assert_snapshot!("updates_modify", bytes(&answer));
    let known = version(&answer);
    let three = client.machine("node-0003").await;
    let modify = format!(
        "<add type=\"VirtualMachine\">{three}</add><add type=\"VirtualMachine\">vm-9999</add>"
    );
    let answer = client.call("ModifyListView", ("ListView", &view), &modify).await;
    insta::assert_snapshot!("modify_list_view", bytes(&answer));
    sim.apply(Command::DeleteMachine("node-0002".into())).unwrap();
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, &wait(&known, "")).await;
    insta::assert_snapshot!("updates_enter_and_leave", bytes(&answer));
}

#[tokio::test(start_paused = true)]
async fn faults() {
    let sim = lab();
    let mut client = Client::new(&sim);
    client.call("RetrieveServiceContent", CONTENT, "").await.ok();
    let wrong = format!("<userName>{ADMINISTRATOR}</userName><password>wrong</password>");
    insta::assert_snapshot!("fault_login", bytes(&client.call("Login", SESSIONS, &wrong).await));
    let read = |spec: String| format!("<specSet>{spec}</specSet><options/>");
    let spec =
        read(format!("{}{}", props("VirtualMachine", &["nmae"]), object("VirtualMachine", "vm-1")));
    let answer = client.call("RetrievePropertiesEx", COLLECTOR, &spec).await;
    insta::assert_snapshot!("fault_not_authenticated", bytes(&answer));
    client.login(&sim).await;
    let answer = client.call("RetrievePropertiesEx", COLLECTOR, &spec).await;
    insta::assert_snapshot!("fault_property", bytes(&answer));
    let spec = read(format!(
        "{}{}",
        props("VirtualMachine", &["name"]),
        object("VirtualMachine", "vm-9999")
    ));
    let answer = client.call("RetrievePropertiesEx", COLLECTOR, &spec).await;
    insta::assert_snapshot!("fault_not_found", bytes(&answer));
    let answer = client.call("WaitForUpdatesEx", COLLECTOR, "<version>7</version>").await;
    insta::assert_snapshot!("fault_version", bytes(&answer));
    insta::assert_snapshot!("fault_malformed", bytes(&client.post("<a>").await));
    insta::assert_snapshot!("fault_unknown", bytes(&client.call("MakeCoffee", CONTENT, "").await));
}

#[tokio::test(start_paused = true)]
async fn rest_in_both_dialects() {
    let sim = lab();
    let mut client = Client::new(&sim);
    let basic = basic(&sim);
    let cluster = client_cluster(&sim).await;
    let object_id =
        format!("{{\"object_id\":{{\"type\":\"ClusterComputeResource\",\"id\":\"{cluster}\"}}}}");
    for (dialect, session, tagging, action) in [
        ("rest", "/rest/com/vmware/cis/session", "/rest/com/vmware/cis/tagging", "~action"),
        ("api", "/api/session", "/api/cis/tagging", "action"),
    ] {
        let shot = |name: &str, answer: &Answer| {
            insta::assert_snapshot!(format!("{dialect}_{name}"), bytes(answer));
        };
        let headers = [("authorization", basic.as_str())];
        let answer = client.rest(Method::POST, session, &headers, "").await;
        shot("login", &answer);
        let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        let token = body["value"].as_str().or(body.as_str()).expect("a token").to_owned();
        let headers =
            [("vmware-api-session-id", token.as_str()), ("content-type", "application/json")];
        shot("session", &client.rest(Method::GET, session, &headers, "").await);
        let attached = format!("{tagging}/tag-association?{action}=list-attached-tags");
        let answer = client.rest(Method::POST, &attached, &headers, &object_id).await;
        shot("attached", &answer);
        let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        let list = body.get("value").unwrap_or(&body);
        let tag = list[0].as_str().expect("a zone").to_owned();
        let prefix = if dialect == "rest" { "id:" } else { "" };
        let answer =
            client.rest(Method::GET, &format!("{tagging}/tag/{prefix}{tag}"), &headers, "").await;
        shot("tag", &answer);
        let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        let category =
            body.get("value").unwrap_or(&body)["category_id"].as_str().expect("an id").to_owned();
        let answer = client
            .rest(Method::GET, &format!("{tagging}/category/{prefix}{category}"), &headers, "")
            .await;
        shot("category", &answer);
        let nowhere = format!("{tagging}/tag/{prefix}urn:vmomi:InventoryServiceTag:0:GLOBAL");
        shot("error_not_found", &client.rest(Method::GET, &nowhere, &headers, "").await);
        let tags = format!("{tagging}/tag");
        shot("error_no_session", &client.rest(Method::GET, &tags, &[], "").await);
        shot("error_bad_json", &client.rest(Method::POST, &tags, &headers, "{").await);
        shot("logout", &client.rest(Method::DELETE, session, &headers, "").await);
        let wrong = [("authorization", "Basic Zm9vOmJhcg==")];
        shot("error_login", &client.rest(Method::POST, session, &wrong, "").await);
    }
}

async fn client_cluster(sim: &Sim) -> String {
    let mut client = Client::logged_in(sim).await;
    let path = "<inventoryPath>DC0/host/DC0_C0</inventoryPath>";
    client.call("FindByInventoryPath", SEARCH, path).await.reference().1
}
