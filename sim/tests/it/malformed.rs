//! Tests that malformed requests get the right errors and never cause a panic.

use bytes::Bytes;
use http::{Method, Request, header};
use sim::Sim;

use crate::client::{Answer, Client, SESSIONS, envelope};

const DATA: &str = "http://schemas.xmlsoap.org/soap/envelope/";

async fn still_serves(client: &mut Client) {
    let answer = client.call("CurrentTime", ("ServiceInstance", "ServiceInstance"), "").await;
    assert_eq!(answer.fault(), None);
}

#[tokio::test(start_paused = true)]
async fn malformed_soap_is_an_invalid_request() {
    let sim = Sim::builder().start();
    let mut client = Client::logged_in(&sim).await;
    let good = envelope("CurrentTime", ("ServiceInstance", "ServiceInstance"), "");
    let cut = good[..good.len() - 20].to_owned();
    let deep = format!("{}{}", "<a>".repeat(100_000), "</a>".repeat(100_000));
    let bomb = format!(
        "<!DOCTYPE lolz [<!ENTITY lol \"lol\"><!ENTITY lol2 \"&lol;&lol;&lol;&lol;&lol;\">]>{good}"
    );
    for (name, body) in [
        ("nothing", String::new()),
        ("no XML", "hello".to_owned()),
        ("JSON", "{\"a\": 1}".to_owned()),
        ("cut short", cut),
        ("tags that cross", "<a><b></a></b>".to_owned()),
        ("no envelope", "<a/>".to_owned()),
        ("another envelope", "<Envelope xmlns=\"urn:x\"><Body/></Envelope>".to_owned()),
        ("no body", format!("<s:Envelope xmlns:s=\"{DATA}\"/>")),
        ("an empty body", format!("<s:Envelope xmlns:s=\"{DATA}\"><s:Body/></s:Envelope>")),
        ("an unknown prefix", "<s:Envelope><s:Body><x:Op/></s:Body></s:Envelope>".to_owned()),
        (
            "no _this",
            format!(
                "<s:Envelope xmlns:s=\"{DATA}\"><s:Body><CurrentTime xmlns=\"urn:vim25\"/></s:Body></s:Envelope>"
            ),
        ),
        ("a document type", bomb),
        (
            "an external entity",
            format!("<!DOCTYPE x [<!ENTITY e SYSTEM \"file:///etc/passwd\">]>{good}"),
        ),
        ("an undeclared entity", good.replace("ServiceInstance<", "&e;<")),
        ("very deep", deep),
        ("a NUL", good.replace("ServiceInstance<", "\0<")),
        ("a huge character reference", good.replace("ServiceInstance<", "&#x110000;<")),
    ] {
        let answer = client.post(body).await;
        let fault = answer.fault().unwrap_or_else(|| panic!("{name}: {}", answer.body));
        assert!(
            ["InvalidRequest", "ManagedObjectNotFound"].contains(&fault.as_str()),
            "{name}: {fault}"
        );
        assert!(!answer.body.contains("root:"), "{name}: the answer contains /etc/passwd");
        still_serves(&mut client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_not_text_are_an_invalid_request() {
    let sim = Sim::builder().start();
    let mut client = Client::logged_in(&sim).await;
    for bytes in [&b"\xff\xfe<\0a\0"[..], &b"<a>\xc3\x28</a>"[..], &[0; 1000][..]] {
        let answer = client.post(Bytes::copy_from_slice(bytes)).await;
        assert_eq!(answer.fault().as_deref(), Some("InvalidRequest"), "{bytes:?}");
    }
    still_serves(&mut client).await;
}

#[tokio::test(start_paused = true)]
async fn unknown_operations_and_unknown_objects_get_different_faults() {
    let sim = Sim::builder().start();
    let mut client = Client::logged_in(&sim).await;
    for (operation, this, want) in [
        ("MakeCoffee", ("ServiceInstance", "ServiceInstance"), "InvalidRequest"),
        ("PowerOnVM_Task", ("Folder", "group-d1"), "MethodNotFound"),
        ("CloneVApp_Task", ("Folder", "group-d1"), "MethodNotFound"),
        ("MoveIntoFolder_Task", ("Folder", "group-d1"), "NotSupported"),
        ("PowerOnVM_Task", ("VirtualMachine", "vm-9999"), "ManagedObjectNotFound"),
        ("PowerOnVM_Task", ("VirtualMachine", "nonsense"), "ManagedObjectNotFound"),
        ("FindByUuid", ("SearchIndex", "SearchIndex"), "InvalidArgument"),
    ] {
        let answer = client.call(operation, this, "").await;
        let fault = answer.fault();
        let also = (want == "InvalidArgument").then_some("InvalidRequest");
        assert!(
            fault.as_deref() == Some(want) || fault.as_deref() == also,
            "{operation} on {this:?}: {fault:?}"
        );
    }
    let records = sim.ledger().records();
    assert!(records.iter().any(|record| record.op == "MakeCoffee"), "the ledger has the call");
}

#[tokio::test(start_paused = true)]
async fn arguments_of_a_wrong_kind_are_refused() {
    let sim = Sim::builder().start();
    let mut client = Client::logged_in(&sim).await;
    let collector = crate::client::COLLECTOR;
    for (name, operation, arguments) in [
        (
            "a word for a number",
            "WaitForUpdatesEx",
            "<options><maxWaitSeconds>soon</maxWaitSeconds></options>",
        ),
        ("no specification", "RetrievePropertiesEx", ""),
        ("half a specification", "CreateFilter", "<spec><propSet/></spec>"),
        (
            "a word for a page",
            "RetrievePropertiesEx",
            "<specSet><propSet><type>Folder</type></propSet><objectSet><obj type=\"Folder\">group-d1</obj></objectSet></specSet><options><maxObjects>many</maxObjects></options>",
        ),
    ] {
        let fault = client.call(operation, collector, arguments).await.fault();
        let fault = fault.unwrap_or_else(|| panic!("{name} was accepted"));
        assert!(["InvalidArgument", "InvalidRequest"].contains(&fault.as_str()), "{name}: {fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_login_is_not_authenticated() {
    let sim = Sim::builder().start();
    for (operation, this) in [
        ("RetrievePropertiesEx", crate::client::COLLECTOR),
        ("FindByUuid", crate::client::SEARCH),
        ("CreateContainerView", crate::client::VIEWS),
        ("PowerOffVM_Task", ("VirtualMachine", "vm-1")),
        ("MakeCoffee", ("ServiceInstance", "ServiceInstance")),
    ] {
        let mut client = Client::new(&sim);
        let fault = client.call(operation, this, "").await.fault();
        assert_eq!(fault.as_deref(), Some("NotAuthenticated"), "{operation}");
    }
    let mut client = Client::new(&sim);
    let wrong = "<userName>administrator@vsphere.local</userName><password>wrong</password>";
    let fault = client.call("Login", SESSIONS, wrong).await.fault();
    assert_eq!(fault.as_deref(), Some("InvalidLogin"));
}

/// Spaces around a password are part of the password, and a password may consist of spaces. The sim
/// ignores spaces around the texts of other elements.
#[tokio::test(start_paused = true)]
async fn a_password_keeps_its_blanks() {
    let sim = Sim::builder().start();
    for (password, tried, fits) in [
        (" two words ", " two words ", true),
        (" two words ", "two words", false),
        ("two words", "two words ", false),
        ("   ", "   ", true),
        ("   ", "", false),
        ("two words", "<![CDATA[two words]]>", true),
    ] {
        sim.apply(sim::world::Command::RotatePassword {
            vcenter: None,
            user: "administrator@vsphere.local".to_owned(),
            password: sim::world::vcenter::Password::new(password),
        })
        .expect("the administrator has an account");
        let mut client = Client::new(&sim);
        let arguments = format!(
            "\n  <userName> administrator@vsphere.local </userName>\n  <password>{tried}</password>\n"
        );
        let answer = client.call("Login", SESSIONS, &arguments).await;
        let wanted = if fits { None } else { Some("InvalidLogin") };
        assert_eq!(answer.fault().as_deref(), wanted, "{password:?} {tried:?}");
    }
}

async fn send(
    client: &mut Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: impl Into<Bytes>,
) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .body(http_body_util::Full::new(body.into()))
        .expect("the request is valid");
    client.send(request).await
}

#[tokio::test(start_paused = true)]
async fn wrong_methods_paths_and_media_types_have_their_statuses() {
    let sim = Sim::builder().start();
    let mut client = Client::new(&sim);
    let xml = "text/xml";
    for (name, method, path, content_type, want) in [
        ("a path that is not there", Method::GET, "/nowhere", xml, 404),
        ("the root", Method::GET, "/", xml, 404),
        ("a file beside the service", Method::GET, "/sdk/nowhere.xml", xml, 404),
        ("a GET of the service", Method::GET, "/sdk", xml, 404),
        ("PUT", Method::PUT, "/sdk", xml, 405),
        ("DELETE", Method::DELETE, "/sdk", xml, 405),
        ("JSON for SOAP", Method::POST, "/sdk", "application/json", 415),
        ("a service that is not there", Method::GET, "/rest/com/vmware/nowhere", xml, 404),
        ("an API service that is not there", Method::GET, "/api/nowhere", xml, 404),
        ("no session", Method::GET, "/rest/com/vmware/cis/tagging/tag", xml, 401),
        ("no session in the API", Method::GET, "/api/cis/tagging/tag", xml, 401),
        ("a login without credentials", Method::POST, "/api/session", xml, 401),
    ] {
        let answer = send(&mut client, method, path, content_type, "").await;
        assert_eq!(answer.status, want, "{name}: {}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_huge_body_is_refused_and_a_large_one_is_read() {
    let sim = Sim::builder().start();
    let mut client = Client::logged_in(&sim).await;
    let huge = vec![b' '; (32 << 20) + 1];
    assert_eq!(client.post(huge).await.status, 413);
    let comment = format!("<!--{}-->", "x".repeat(20 << 20));
    let this = ("ServiceInstance", "ServiceInstance");
    assert_eq!(client.call("CurrentTime", this, &comment).await.fault(), None);
}

#[tokio::test(start_paused = true)]
async fn bad_json_is_an_invalid_argument() {
    let sim = Sim::builder().start();
    let mut client = Client::new(&sim);
    let session = crate::snapshots::rest_login(&sim, &mut client).await;
    let wrong = [("vmware-api-session-id", session.as_str()), ("content-type", "text/xml")];
    let path = "/api/cis/tagging/category";
    let answer = client.rest(Method::POST, path, &wrong, "<category/>").await;
    assert_eq!(answer.status, 415, "{}", answer.body);
    let headers =
        [("vmware-api-session-id", session.as_str()), ("content-type", "application/json")];
    for (name, body) in [
        ("cut short", "{\"create_spec\": {"),
        ("no object", "[1, 2"),
        ("another type", "{\"create_spec\": 3}"),
        ("a missing key", "{\"create_spec\": {}}"),
        ("nothing", ""),
        ("deep", &"[".repeat(10_000)),
    ] {
        let path = "/rest/com/vmware/cis/tagging/category";
        let answer = client.rest(Method::POST, path, &headers, body).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.body);
        let error: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!(error["type"], "com.vmware.vapi.std.errors.invalid_argument", "{name}");
        let path = "/api/cis/tagging/category";
        let answer = client.rest(Method::POST, path, &headers, body).await;
        assert_eq!(answer.status, 400, "{name}: {}", answer.body);
        let error: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!(error["error_type"], "INVALID_ARGUMENT", "{name}");
    }
}
