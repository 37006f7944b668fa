//! Tests of the rules by which specifications in requests to the PropertyCollector select objects
//! and properties. Every client relies on these rules.

use http::Method;
use sim::faults::{Action, Rule};
use sim::world::{ADMINISTRATOR, Command, Grant};

use crate::client::{Answer, COLLECTOR, Client, SEARCH, SESSIONS, lab, object, props};
use crate::xml::Node;

async fn retrieve(client: &mut Client, spec: &str, options: &str) -> Answer {
    let arguments = format!("<specSet>{spec}</specSet><options>{options}</options>");
    client.call("RetrievePropertiesEx", COLLECTOR, &arguments).await
}

/// Summarizes each object of an answer, such as `vm-1 name=a,parent=b`.
fn objects(answer: &Answer) -> Vec<String> {
    let result = answer.returned().unwrap_or_default();
    let property = |it: &Node| format!("{}={}", it.text_of("name"), it.text_of("val"));
    result
        .all("objects")
        .map(|object| {
            let properties: Vec<String> = object.all("propSet").map(property).collect();
            format!("{} {}", object.text_of("obj"), properties.join(",")).trim_end().to_owned()
        })
        .collect()
}

fn fault(answer: &Answer) -> String {
    answer.fault().unwrap_or_default()
}

/// A specification that selects an object and its ancestors with a traversal that refers to itself.
fn ancestors(kind: &str, id: &str) -> String {
    format!(
        "{}{}<objectSet><obj type=\"{kind}\">{id}</obj><skip>false</skip>\
         <selectSet xsi:type=\"TraversalSpec\"><name>up</name><type>ManagedEntity</type>\
         <path>parent</path><skip>false</skip>\
         <selectSet xsi:type=\"SelectionSpec\"><name>up</name></selectSet></selectSet>\
         <selectSet xsi:type=\"TraversalSpec\"><type>VirtualMachine</type><path>parentVApp</path>\
         <skip>false</skip><selectSet xsi:type=\"SelectionSpec\"><name>up</name></selectSet>\
         </selectSet></objectSet>",
        props("ManagedEntity", &["name", "parent"]),
        props("VirtualMachine", &["parentVApp"]),
    )
}

#[tokio::test(start_paused = true)]
async fn a_traversal_may_refer_to_itself() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let answer = retrieve(&mut client, &ancestors("VirtualMachine", &one), "").await;
    let names: Vec<String> =
        objects(&answer).iter().map(|it| it.split("name=").nth(1).unwrap().to_owned()).collect();
    let names: Vec<&str> = names.iter().map(|it| it.split(',').next().unwrap()).collect();
    assert_eq!(names, ["node-0001", "vm", "DC0", "Datacenters"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_in_a_vapp_has_a_parent_vapp_and_no_parent_folder() {
    let (sim, mut client) = lab(2).await;
    let one = client.machine("node-0001").await;
    let vapp = |name: Option<&str>| Command::SetVApp {
        machine: "node-0001".into(),
        vapp: name.map(str::to_owned),
    };
    sim.apply(vapp(Some("app"))).unwrap();
    let names = async |client: &mut Client, kind: &str, id: &str| {
        let answer = retrieve(client, &ancestors(kind, id), "").await;
        let name = |it: &String| {
            let name = it.split("name=").nth(1).unwrap_or_default();
            name.split(',').next().unwrap_or_default().to_owned()
        };
        objects(&answer).iter().map(name).collect::<Vec<_>>()
    };
    let up = ["node-0001", "app", "Resources", "DC0_C0", "host", "DC0", "Datacenters"];
    assert_eq!(names(&mut client, "VirtualMachine", &one).await, up);

    let spec = format!(
        "{}{}",
        props("VirtualMachine", &["parent", "parentVApp", "resourcePool"]),
        object("VirtualMachine", &one)
    );
    let seen = objects(&retrieve(&mut client, &spec, "").await).remove(0);
    let app = seen.split("parentVApp=").nth(1).unwrap().split(',').next().unwrap().to_owned();
    assert!(app.starts_with("resgroup-v"), "{seen}");
    assert_eq!(seen, format!("{one} parentVApp={app},resourcePool={app}"));
    let spec = format!(
        "{}{}",
        props("VirtualApp", &["parent", "parentFolder"]),
        object("VirtualApp", &app)
    );
    let seen = objects(&retrieve(&mut client, &spec, "").await).remove(0);
    assert_eq!(seen, format!("{app} parent=resgroup-10,parentFolder=group-v3"));

    let search = "<inventoryPath>DC0/vm/app/node-0001</inventoryPath>";
    let found = client.call("FindByInventoryPath", SEARCH, search).await;
    assert_eq!(found.returned().unwrap().text, one);

    sim.apply(vapp(None)).unwrap();
    let up = ["node-0001", "vm", "DC0", "Datacenters"];
    assert_eq!(names(&mut client, "VirtualMachine", &one).await, up);
}

#[tokio::test(start_paused = true)]
async fn cycles_end_and_an_object_is_reported_once() {
    let (_sim, mut client) = lab(2).await;
    let one = client.machine("node-0001").await;
    // Machine → host → its machines → their host → …
    let spec = format!(
        "{}<objectSet><obj type=\"VirtualMachine\">{one}</obj>\
         <selectSet xsi:type=\"TraversalSpec\"><name>down</name><type>VirtualMachine</type>\
         <path>runtime.host</path><selectSet><name>up</name></selectSet></selectSet>\
         <selectSet xsi:type=\"TraversalSpec\"><name>up</name><type>HostSystem</type>\
         <path>vm</path><selectSet><name>down</name></selectSet></selectSet></objectSet>",
        props("ManagedEntity", &["name"]),
    );
    let found = objects(&retrieve(&mut client, &spec, "").await);
    let mut once = found.clone();
    once.sort();
    once.dedup();
    assert_eq!((found.len(), once.len()), (2, 2), "the machine and its host: {found:?}");
}

#[tokio::test(start_paused = true)]
async fn a_traversal_passes_through_a_skipped_object() {
    let (_sim, mut client) = lab(3).await;
    let children = |skip: bool| {
        format!(
            "{}<objectSet><obj type=\"Folder\">group-d1</obj><skip>{skip}</skip>\
             <selectSet xsi:type=\"TraversalSpec\"><type>Folder</type><path>childEntity</path>\
             <skip>false</skip></selectSet></objectSet>",
            props("ManagedEntity", &["name"]),
        )
    };
    assert_eq!(
        objects(&retrieve(&mut client, &children(true), "").await),
        ["datacenter-2 name=DC0"]
    );
    let with = objects(&retrieve(&mut client, &children(false), "").await);
    assert_eq!(with, ["group-d1 name=Datacenters", "datacenter-2 name=DC0"]);
}

#[tokio::test(start_paused = true)]
async fn paths_of_all_matching_types_are_united() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let spec = format!(
        "{}{}{}{}",
        props("ManagedEntity", &["name"]),
        props("VirtualMachine", &["runtime.powerState"]),
        props("HostSystem", &["name"]),
        object("VirtualMachine", &one),
    );
    assert_eq!(
        objects(&retrieve(&mut client, &spec, "").await),
        [format!("{one} name=node-0001,runtime.powerState=poweredOn")]
    );
    let nothing = format!("{}{}", props("HostSystem", &["name"]), object("VirtualMachine", &one));
    assert_eq!(retrieve(&mut client, &nothing, "").await.returned(), None);
}

#[tokio::test(start_paused = true)]
async fn a_base_type_names_the_object_as_well() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let spec = format!("{}{}", props("VirtualMachine", &["name"]), object("ManagedEntity", &one));
    assert_eq!(objects(&retrieve(&mut client, &spec, "").await), [format!("{one} name=node-0001")]);
}

#[tokio::test(start_paused = true)]
async fn specifications_that_make_no_sense_are_refused_as_a_whole() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let select = |select: &str| {
        format!(
            "{}<objectSet><obj type=\"VirtualMachine\">{one}</obj>{select}</objectSet>",
            props("VirtualMachine", &["name"]),
        )
    };
    for (name, spec, want) in [
        (
            "an unknown path",
            format!(
                "{}{}",
                props("VirtualMachine", &["name", "no.such"]),
                object("VirtualMachine", &one)
            ),
            "InvalidProperty",
        ),
        (
            "a path of a subtype on its base",
            format!(
                "{}{}",
                props("ManagedEntity", &["runtime.powerState"]),
                object("VirtualMachine", &one)
            ),
            "InvalidProperty",
        ),
        (
            "an unknown type",
            format!("{}{}", props("Toaster", &["name"]), object("VirtualMachine", &one)),
            "InvalidArgument",
        ),
        (
            "an unknown name of a selection",
            select("<selectSet xsi:type=\"SelectionSpec\"><name>nowhere</name></selectSet>"),
            "InvalidArgument",
        ),
        (
            "a traversal of an unknown type",
            select(
                "<selectSet xsi:type=\"TraversalSpec\"><type>Toaster</type><path>slots</path></selectSet>",
            ),
            "InvalidArgument",
        ),
        (
            "a traversal by a property that is not a reference",
            select(
                "<selectSet xsi:type=\"TraversalSpec\"><type>VirtualMachine</type><path>name</path></selectSet>",
            ),
            "InvalidProperty",
        ),
        (
            "an object that is not there",
            format!(
                "{}{}",
                props("VirtualMachine", &["name"]),
                object("VirtualMachine", "vm-9999")
            ),
            "ManagedObjectNotFound",
        ),
    ] {
        let answer = retrieve(&mut client, &spec, "").await;
        assert_eq!(fault(&answer), want, "{name}: {}", answer.body);
        let arguments = format!("<spec>{spec}</spec><partialUpdates>false</partialUpdates>");
        let answer = client.call("CreateFilter", COLLECTOR, &arguments).await;
        assert_eq!(fault(&answer), want, "{name}, as a filter");
    }
}

#[tokio::test(start_paused = true)]
async fn missing_objects_can_be_left_out() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let spec = format!(
        "{}{}{}<reportMissingObjectsInResults>true</reportMissingObjectsInResults>",
        props("VirtualMachine", &["name"]),
        object("VirtualMachine", "vm-9999"),
        object("VirtualMachine", &one),
    );
    assert_eq!(objects(&retrieve(&mut client, &spec, "").await), [format!("{one} name=node-0001")]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_the_privilege_is_hidden_from_the_user() {
    let (sim, mut client) = lab(2).await;
    let one = client.machine("node-0001").await;
    let grant =
        Grant { vcenter: None, user: ADMINISTRATOR.to_owned(), object: "node-0001".to_owned() };
    sim.apply(Command::RevokePrivilege(grant)).unwrap();
    let children = format!(
        "{}<objectSet><obj type=\"Folder\">group-v3</obj><skip>true</skip>\
         <selectSet xsi:type=\"TraversalSpec\"><type>Folder</type><path>childEntity</path>\
         </selectSet></objectSet>",
        props("VirtualMachine", &["name"]),
    );
    let found = objects(&retrieve(&mut client, &children, "").await);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].ends_with("name=node-0002"), "{found:?}");
    let path = "<inventoryPath>DC0/vm/node-0001</inventoryPath>";
    let answer = client.call("FindByInventoryPath", crate::client::SEARCH, path).await;
    assert_eq!(answer.returned(), None, "the search index hides it from the user");
    let answer = client.call("PowerOffVM_Task", ("VirtualMachine", &one), "").await;
    assert_eq!(fault(&answer), "NoPermission");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_a_rule_hides_by_name_is_hidden_from_soap_and_vapi() {
    let (sim, mut client) = lab(2).await;
    let hidden = client.machine("node-0001").await;
    let token = crate::snapshots::rest_login(&sim, &mut client).await;
    let headers = [("vmware-api-session-id", token.as_str()), ("content-type", "application/json")];
    let path = "/api/cis/tagging/tag-association?action=list-attached-tags";
    let body = format!("{{\"object_id\":{{\"type\":\"VirtualMachine\",\"id\":\"{hidden}\"}}}}");
    assert_eq!(client.rest(Method::POST, path, &headers, &body).await.status, 200);
    sim.fault(Rule::new("hidden", [Action::Hide("node-0001".into())])).unwrap().keep();
    assert_eq!(client.rest(Method::POST, path, &headers, &body).await.status, 404);
    let path = "<inventoryPath>DC0/vm/node-0001</inventoryPath>";
    assert_eq!(client.call("FindByInventoryPath", SEARCH, path).await.returned(), None);
}

#[tokio::test(start_paused = true)]
async fn pages_have_everything_once_and_their_tokens_work_once() {
    let (_sim, mut client) = lab(25).await;
    let spec = format!(
        "{}<objectSet><obj type=\"Folder\">group-v3</obj><skip>true</skip>\
         <selectSet xsi:type=\"TraversalSpec\"><type>Folder</type><path>childEntity</path>\
         </selectSet></objectSet>",
        props("VirtualMachine", &["name"]),
    );
    let mut answer = retrieve(&mut client, &spec, "<maxObjects>10</maxObjects>").await;
    let (mut seen, mut pages, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let page = objects(&answer);
        pages.push(page.len());
        seen.extend(page);
        let token = answer.returned().unwrap().text_of("token").to_owned();
        if token.is_empty() {
            break;
        }
        let next = format!("<token>{token}</token>");
        tokens.push(next.clone());
        answer = client.call("ContinueRetrievePropertiesEx", COLLECTOR, &next).await;
    }
    assert_eq!(pages, [10, 10, 5]);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 25);
    for token in &tokens {
        let answer = client.call("ContinueRetrievePropertiesEx", COLLECTOR, token).await;
        assert_eq!(fault(&answer), "InvalidArgument", "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_cancelled_page_or_another_session_is_refused() {
    let (sim, mut client) = lab(25).await;
    let spec = format!(
        "{}<objectSet><obj type=\"Folder\">group-v3</obj><skip>true</skip>\
         <selectSet xsi:type=\"TraversalSpec\"><type>Folder</type><path>childEntity</path>\
         </selectSet></objectSet>",
        props("VirtualMachine", &["name"]),
    );
    let answer = retrieve(&mut client, &spec, "<maxObjects>10</maxObjects>").await;
    let token = format!("<token>{}</token>", answer.returned().unwrap().text_of("token"));
    client.call("CancelRetrievePropertiesEx", COLLECTOR, &token).await.ok();
    let answer = client.call("ContinueRetrievePropertiesEx", COLLECTOR, &token).await;
    assert_eq!(fault(&answer), "InvalidArgument");
    // The token of one session is not valid in another.
    let answer = retrieve(&mut client, &spec, "<maxObjects>10</maxObjects>").await;
    let token = format!("<token>{}</token>", answer.returned().unwrap().text_of("token"));
    let mut other = Client::logged_in(&sim).await;
    let answer = other.call("ContinueRetrievePropertiesEx", COLLECTOR, &token).await;
    assert_eq!(fault(&answer), "InvalidArgument");
}

#[tokio::test(start_paused = true)]
async fn all_properties_can_be_asked_for_at_once_or_none() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let all = format!(
        "<propSet><type>VirtualMachine</type><all>true</all></propSet>{}",
        object("VirtualMachine", &one)
    );
    let answer = retrieve(&mut client, &all, "").await;
    let all = answer.returned().unwrap().child("objects").unwrap().all("propSet").count();
    assert!(all > 10, "{all} properties");
    let none =
        format!("<propSet><type>VirtualMachine</type></propSet>{}", object("VirtualMachine", &one));
    assert_eq!(objects(&retrieve(&mut client, &none, "").await), [one]);
}

#[tokio::test(start_paused = true)]
async fn elements_of_a_list_are_read_by_their_key() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let machine = ("VirtualMachine", one.as_str());
    let card = client.fetch(machine, "config.hardware.device[4000]").await.unwrap();
    assert_eq!(card.text_of("key"), "4000");
    let label = client.fetch(machine, "config.hardware.device[4000].deviceInfo.label").await;
    assert!(label.is_some_and(|it| !it.text.is_empty()));
    assert_eq!(client.fetch(machine, "config.hardware.device[1]").await, None);
    let broken = "<prop>config.hardware.device[x</prop>";
    let answer = client.call("Fetch", machine, broken).await;
    assert_eq!(fault(&answer), "InvalidProperty");
}

#[tokio::test(start_paused = true)]
async fn requests_in_the_styles_of_govmomi_pyvmomi_and_java_get_the_same_answer() {
    let (_sim, mut client) = lab(1).await;
    let one = client.machine("node-0001").await;
    let soap = "http://schemas.xmlsoap.org/soap/envelope/";
    let instance = "http://www.w3.org/2001/XMLSchema-instance";
    let govmomi = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Envelope xmlns=\"{soap}\"><Body>\
         <RetrievePropertiesEx xmlns=\"urn:vim25\">\
         <_this type=\"PropertyCollector\">propertyCollector</_this><specSet><propSet>\
         <type>ManagedEntity</type><pathSet>name</pathSet></propSet><objectSet>\
         <obj type=\"VirtualMachine\">{one}</obj><skip>false</skip>\
         <selectSet xmlns:_XMLSchema-instance=\"{instance}\" _XMLSchema-instance:type=\"TraversalSpec\">\
         <name>up</name><type>ManagedEntity</type><path>parent</path>\
         <selectSet _XMLSchema-instance:type=\"SelectionSpec\"><name>up</name></selectSet></selectSet>\
         </objectSet></specSet><options></options></RetrievePropertiesEx></Body></Envelope>"
    );
    let pyvmomi = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<soapenv:Envelope xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
         xmlns:soapenv=\"{soap}\" xmlns:xsi=\"{instance}\">\n<soapenv:Body>\
         <RetrievePropertiesEx xmlns=\"urn:vim25\">\
         <_this versionId=\"6.5\" type=\"PropertyCollector\">propertyCollector</_this>\
         <specSet versionId=\"6.5\" xsi:type=\"PropertyFilterSpec\"><propSet xsi:type=\"PropertySpec\">\
         <type xsi:type=\"xsd:string\">ManagedEntity</type><pathSet>name</pathSet></propSet>\
         <objectSet xsi:type=\"ObjectSpec\"><obj type=\"VirtualMachine\" xsi:type=\"ManagedObjectReference\">{one}</obj>\
         <skip>false</skip><selectSet xsi:type=\"TraversalSpec\"><name>up</name><type>ManagedEntity</type>\
         <path>parent</path><selectSet xsi:type=\"SelectionSpec\"><name>up</name></selectSet></selectSet>\
         </objectSet></specSet><options versionId=\"6.5\" xsi:type=\"RetrieveOptions\"></options>\
         </RetrievePropertiesEx></soapenv:Body>\n</soapenv:Envelope>"
    );
    let java = format!(
        "<S:Envelope xmlns:S='{soap}' xmlns:v='urn:vim25' xmlns:ns2='{instance}'>\n <S:Header/>\n <S:Body>\n\
         <v:RetrievePropertiesEx><v:_this type='PropertyCollector'>propertyCollector</v:_this>\n\
         <v:options/><v:specSet>\n<!-- objects first --><v:objectSet><v:obj type='ManagedEntity'>{one}</v:obj>\
         <v:selectSet ns2:type='v:TraversalSpec'><v:path>parent</v:path><v:type>ManagedEntity</v:type>\
         <v:name>up</v:name><v:selectSet ns2:type='v:SelectionSpec'><v:name>up</v:name></v:selectSet>\
         </v:selectSet><v:skip>0</v:skip></v:objectSet><v:propSet><v:pathSet><![CDATA[name]]></v:pathSet>\
         <v:type>Managed&#69;ntity</v:type></v:propSet></v:specSet></v:RetrievePropertiesEx>\n </S:Body>\n</S:Envelope>"
    );
    let want = client.post(govmomi).await;
    assert_eq!(objects(&want).len(), 4, "{}", want.body);
    for (name, envelope) in [("pyVmomi", pyvmomi), ("Java", java)] {
        assert_eq!(client.post(envelope).await.body, want.body, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_ticket_works_once_and_no_two_are_the_same() {
    let (sim, mut client) = lab(1).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let answer = client.call("AcquireCloneTicket", SESSIONS, "").await;
        let ticket = answer.returned().expect("a ticket").text;
        let clone = format!("<cloneTicket>{ticket}</cloneTicket>");
        let mut other = Client::new(&sim);
        other.call("CloneSession", SESSIONS, &clone).await.ok();
        assert_eq!(other.machine("node-0001").await, client.machine("node-0001").await);
        let mut third = Client::new(&sim);
        let again = third.call("CloneSession", SESSIONS, &clone).await;
        assert_eq!(fault(&again), "InvalidLogin");
        assert!(!seen.contains(&ticket), "every ticket is new");
        seen.push(ticket);
    }
}
