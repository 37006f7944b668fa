//! Tests of the client against a scripted service: sent bytes, decoded answers, and failed calls.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures::future::join_all;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};

use crate::{
    Backoff, CallError, CallErrorKind, Chain, Credential, Endpoint, Fault, FaultKind, FilterSpec,
    FixedCredential, LibraryItemId, MoRef, Retry, Settings, TagId, Transport, UpdateKind, Vcenter,
    from_service,
};

/// Answer of the service to one request.
#[derive(Clone)]
enum Answer {
    /// Content of the response element.
    Soap(&'static str),
    /// A fault of this class.
    Fault(&'static str),
    /// Status and body, sent unchanged.
    Raw(u16, &'static str),
    /// No answer at any time.
    Silence,
}

const CONTENT: &str = "<returnval><rootFolder type=\"Folder\">group-d1</rootFolder>\
    <propertyCollector type=\"PropertyCollector\">propertyCollector</propertyCollector>\
    <viewManager type=\"ViewManager\">ViewManager</viewManager>\
    <about><version>8.0.3</version><instanceUuid>I-1</instanceUuid></about>\
    <sessionManager type=\"SessionManager\">SessionManager</sessionManager>\
    <searchIndex type=\"SearchIndex\">SearchIndex</searchIndex></returnval>";

/// A service that gives prepared answers in order, and records the requests.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let script = Self::default();
        script.then(answers);
        script
    }

    /// Appends answers.
    fn then(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    /// Creates a script that begins with the answers to a successful login.
    fn logged_in(answers: impl IntoIterator<Item = Answer>) -> Self {
        let script = Self::new([Answer::Soap(CONTENT), Answer::Soap("<returnval/>")]);
        script.then(answers);
        script
    }

    fn transport(&self) -> Transport {
        let script = self.clone();
        from_service(tower::service_fn(move |request: Request<Full<Bytes>>| {
            let script = script.clone();
            async move { Ok::<_, Infallible>(script.serve(request).await) }
        }))
    }

    async fn serve(&self, request: Request<Full<Bytes>>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        let mut seen = format!("{} {}\n", parts.method, parts.uri);
        for (name, value) in &parts.headers {
            seen.push_str(&format!("{name}: {}\n", value.to_str().unwrap()));
        }
        let inner = body
            .split("<soapenv:Body>")
            .nth(1)
            .map(|b| b.trim_end_matches("</soapenv:Body></soapenv:Envelope>"));
        seen.push_str(inner.unwrap_or(&body));
        self.requests.lock().unwrap().push(seen);
        let operation =
            inner.and_then(|b| b[1..].split([' ', '>']).next()).unwrap_or_default().to_owned();
        // The pause lets all simultaneous requests arrive before the first answer.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let next = self.answers.lock().unwrap().pop_front();
        let (status, text) = match next {
            None => panic!("the script has no answer to {operation} {}", parts.uri),
            Some(Answer::Silence) => std::future::pending().await,
            Some(Answer::Raw(status, text)) => (status, text.to_owned()),
            Some(Answer::Soap(content)) => (
                200,
                format!(
                    "<e:Envelope xmlns:e=\"urn:e\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><e:Body>\
                 <{operation}Response xmlns=\"urn:vim25\">{content}</{operation}Response></e:Body></e:Envelope>"
                ),
            ),
            Some(Answer::Fault(class)) => (
                500,
                format!(
                    "<e:Envelope xmlns:e=\"urn:e\" xmlns:i=\"http://www.w3.org/2001/XMLSchema-instance\"><e:Body><e:Fault>\
                 <faultcode>ServerFaultCode</faultcode><faultstring>said so</faultstring><detail>\
                 <RuntimeFaultFault i:type=\"{class}\"><name>a.b</name></RuntimeFaultFault></detail></e:Fault></e:Body></e:Envelope>"
                ),
            ),
        };
        let cookie = "vmware_soap_session=\"abc\"; Path=/; HttpOnly; Secure;";
        Response::builder()
            .status(status)
            .header("set-cookie", cookie)
            .body(Full::new(Bytes::from(text)))
            .unwrap()
    }

    fn client(&self) -> Vcenter {
        let endpoint = Endpoint { name: "vc".into(), host: "fd00::1".into(), port: 443 };
        let credential = Credential::new("ccm@vsphere.local", "hunter2&<");
        let source = Arc::new(FixedCredential(credential));
        Vcenter::new(&endpoint, self.transport(), source, Settings::default())
    }

    /// Returns the operations of all recorded requests: the SOAP method, or HTTP method and path.
    fn operations(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let first = |seen: &String| {
            let last = seen.lines().last().unwrap_or_default().to_owned();
            match last.strip_prefix('<') {
                Some(rest) => rest.split([' ', '>']).next().unwrap_or_default().to_owned(),
                None => seen.lines().next().unwrap_or_default().to_owned(),
            }
        };
        requests.iter().map(first).collect()
    }
}

fn vm(id: &str) -> MoRef {
    MoRef::new("VirtualMachine", id)
}

#[tokio::test(start_paused = true)]
async fn requests_match_the_recorded_bytes() {
    let reference = "<returnval type=\"ListView\">view-1</returnval>";
    let script = Script::logged_in([
        Answer::Soap(""),
        Answer::Soap(""),
        Answer::Soap("<returnval><token>t&amp;1</token></returnval>"),
        Answer::Soap(""),
        Answer::Soap(""),
        Answer::Soap(reference),
        Answer::Soap(""),
        Answer::Soap(reference),
        Answer::Soap(""),
        Answer::Raw(200, "{\"value\":\"rest-1\"}"),
        Answer::Raw(200, "{\"value\":null}"),
        Answer::Raw(200, "{\"value\":{\"name\":\"a\",\"category_id\":\"c\"}}"),
        Answer::Raw(200, "{\"value\":{\"name\":\"k8s-zone\"}}"),
        Answer::Soap(""),
        Answer::Soap(""),
        Answer::Soap(""),
        Answer::Raw(200, ""),
    ]);
    let client = script.client();
    let session = client.session().await.unwrap();
    client.find_all_by_uuid("42301ab2-c3d4-e5f6-0000-000000000001").await.unwrap();
    client.find_all_by_dns_name("node-1").await.unwrap();
    client
        .retrieve(&FilterSpec::ancestors(vec![MoRef::new("HostSystem", "host-1")]))
        .await
        .unwrap();
    client.keep_alive().await.unwrap();
    let view = client.create_list_view(&session, &[vm("vm-1"), vm("vm-2")]).await.unwrap();
    client.modify_list_view(&session, &view, &[vm("vm-3")], &[vm("vm-1")]).await.unwrap();
    let paths = ["config.uuid", "config.extraConfig[\"guestinfo.metadata\"]"];
    client
        .create_filter(&session, &FilterSpec::of_view(&view, "VirtualMachine", &paths))
        .await
        .unwrap();
    client.wait_for_updates(&session, "v1", Duration::from_secs(60)).await.unwrap();
    client.tags_on_objects(&[vm("vm-1")]).await.unwrap();
    let tag = client.tag(&TagId("urn:tag".into())).await.unwrap();
    client.category(&tag.category).await.unwrap();
    let filter = MoRef::new("PropertyFilter", "filter-1");
    client.destroy_filter(&session, &filter).await.unwrap();
    client.destroy_view(&session, &view).await.unwrap();
    client.close().await;
    insta::assert_snapshot!(script.requests.lock().unwrap().join("\n\n"));
}

#[test]
fn a_missing_privilege_is_named_with_its_object() {
    let read = |members: &str| {
        let text = format!("<NoPermissionFault>{members}</NoPermissionFault>");
        Fault::read(&crate::xml::parse(&text).unwrap(), "Denied.").to_string()
    };
    let object = "<object type=\"Folder\">group-d1</object>";
    let privilege = "<privilegeId>System.Read</privilegeId>";
    for (members, told) in [
        (String::new(), "fault NoPermission: Denied."),
        (
            privilege.to_owned(),
            "fault NoPermission: Denied. (the login lacks the privilege System.Read)",
        ),
        (
            format!("{object}{privilege}"),
            "fault NoPermission: Denied. (the login lacks the privilege System.Read on \
             Folder:group-d1)",
        ),
    ] {
        assert_eq!(read(&members), told);
    }
}

#[tokio::test(start_paused = true)]
async fn all_fields_of_an_update_set_are_read() {
    let script = Script::logged_in([Answer::Soap(
        "<returnval><version>v2</version><truncated>true</truncated>\
         <filterSet><filter type=\"PropertyFilter\">f</filter>\
         <objectSet><kind>enter</kind><obj type=\"VirtualMachine\">vm-1</obj>\
         <changeSet><name>runtime.powerState</name><op>assign</op><val xsi:type=\"VirtualMachinePowerState\">poweredOn</val></changeSet>\
         <changeSet><name>guest.net</name><op>assign</op></changeSet>\
         <missingSet><path>config.uuid</path><fault><fault xsi:type=\"NoPermission\"/><localizedMessage>no</localizedMessage></fault></missingSet>\
         </objectSet><objectSet><kind>leave</kind><obj type=\"VirtualMachine\">vm-2</obj></objectSet></filterSet></returnval>",
    )]);
    let client = script.client();
    let session = client.session().await.unwrap();
    let set = client.wait_for_updates(&session, "", Duration::ZERO).await.unwrap().unwrap();
    assert_eq!((set.version.as_str(), set.truncated), ("v2", true));
    assert_eq!(set.updates[0].kind, UpdateKind::Enter);
    assert_eq!(set.updates[0].changes[0].value.as_ref().unwrap().text, "poweredOn");
    assert_eq!(set.updates[0].changes[1].value, None, "became unset");
    assert_eq!(set.updates[0].missing[0].1.kind, FaultKind::NoPermission);
    assert_eq!((set.updates[1].kind, &set.updates[1].object), (UpdateKind::Leave, &vm("vm-2")));
}

#[tokio::test(start_paused = true)]
async fn each_failure_has_its_own_message_and_retry_rule() {
    for (name, answer, want, retry) in [
        (
            "fault by type",
            Answer::Fault("ManagedObjectNotFound"),
            "fault ManagedObjectNotFound: said so",
            Retry::Never,
        ),
        (
            "unknown property",
            Answer::Fault("InvalidProperty"),
            "fault InvalidProperty for \"a.b\": said so",
            Retry::Never,
        ),
        (
            "argument",
            Answer::Fault("InvalidArgument"),
            "fault InvalidArgument for \"\": said so",
            Retry::Never,
        ),
        ("unknown fault", Answer::Fault("Strange"), "fault Strange: said so", Retry::WithBackoff),
        (
            "proxy",
            Answer::Raw(503, "no healthy upstream"),
            "HTTP status 503 without an error of vCenter in the answer; check if a proxy answers",
            Retry::WithBackoff,
        ),
        (
            "proxy with 500",
            Answer::Raw(500, "<html><body>oops"),
            "HTTP status 500 without an error of vCenter in the answer; check if a proxy answers",
            Retry::WithBackoff,
        ),
        (
            "cut",
            Answer::Raw(200, "<e:Envelope xmlns:e='e'><e:Body>"),
            "vCenter gave a malformed answer: the answer ends before its XML root element does",
            Retry::WithBackoff,
        ),
        (
            "bomb",
            Answer::Raw(200, "<!DOCTYPE x [<!ENTITY a 'b'>]><x>&a;</x>"),
            "vCenter gave a malformed answer: the answer has a document type declaration, so it \
             is not SOAP; check that address and proxy lead to vCenter",
            Retry::WithBackoff,
        ),
        (
            "another answer",
            Answer::Raw(200, "<E><Body><LoginResponse/></Body></E>"),
            "vCenter gave a malformed answer: element LoginResponse in the answer to FindAllByUuid",
            Retry::WithBackoff,
        ),
        (
            "silence",
            Answer::Silence,
            "vCenter gave no complete answer within 30s",
            Retry::WithBackoff,
        ),
    ] {
        let script = Script::logged_in([answer]);
        let err = script.client().find_all_by_uuid("x").await.unwrap_err();
        let shown = Chain(&err).to_string();
        assert_eq!(shown, format!("FindAllByUuid at vc failed: {want}"), "{name}");
        assert_eq!(err.retry(), retry, "{name}");
        assert!(!format!("{err:?}").contains("hunter2"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_login_replaces_a_lost_session_for_all_calls_that_notice_the_loss() {
    let script = Script::logged_in([Answer::Soap("")]);
    let client = script.client();
    client.find_all_by_uuid("x").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    script.then([
        Answer::Fault("NotAuthenticated"),
        Answer::Fault("NotAuthenticated"),
        Answer::Fault("NotAuthenticated"),
        Answer::Soap(CONTENT),
        Answer::Soap("<returnval/>"),
        Answer::Soap(""),
        Answer::Soap(""),
        Answer::Soap(""),
    ]);
    let results = join_all((0..3).map(|_| client.find_all_by_uuid("x"))).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let n_logins = script.operations().iter().filter(|o| *o == "Login").count();
    assert_eq!(n_logins, 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_logs_in_again_only_once() {
    let script = Script::logged_in([Answer::Soap("")]);
    let client = script.client();
    client.find_all_by_uuid("x").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    script.then([
        Answer::Fault("NotAuthenticated"),
        Answer::Soap(CONTENT),
        Answer::Soap("<returnval/>"),
        Answer::Fault("NotAuthenticated"),
    ]);
    let err = client.find_all_by_uuid("x").await.unwrap_err();
    assert_eq!(err.fault(), Some(&FaultKind::NotAuthenticated));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_credential_is_not_used_again_for_a_while() {
    let script = Script::new([Answer::Soap(CONTENT), Answer::Fault("InvalidLogin")]);
    let client = script.client();
    let err = client.session().await.unwrap_err();
    assert_eq!(err.fault(), Some(&FaultKind::InvalidLogin));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let err = client.session().await.unwrap_err();
    assert!(matches!(err.kind, CallErrorKind::Locked(_)), "{err:?}");
    assert_eq!(script.operations(), ["RetrieveServiceContent", "Login"]);
}

#[tokio::test(start_paused = true)]
async fn keeping_alive_never_logs_in() {
    let script = Script::new([]);
    let client = script.client();
    client.keep_alive().await.unwrap();
    assert_eq!(script.operations(), [""; 0]);
    script.then([Answer::Soap(CONTENT), Answer::Soap("<returnval/>"), Answer::Soap("")]);
    client.session().await.unwrap();
    client.keep_alive().await.unwrap();
    script.then([Answer::Fault("NotAuthenticated")]);
    let err = client.keep_alive().await.unwrap_err();
    assert_eq!(err.retry(), Retry::AfterLogin);
    client.keep_alive().await.unwrap();
    let wanted = ["RetrieveServiceContent", "Login", "CurrentTime", "CurrentTime"];
    assert_eq!(script.operations(), wanted);
}

#[tokio::test(start_paused = true)]
async fn another_vcenter_gets_no_credential() {
    let script = Script::logged_in([Answer::Soap("")]);
    let client = script.client();
    client.find_all_by_uuid("u").await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let other: &str = Box::leak(CONTENT.replace("I-1", "I-2").into_boxed_str());
    script.then([Answer::Fault("NotAuthenticated"), Answer::Soap(other)]);
    let err = client.find_all_by_uuid("u").await.unwrap_err();
    assert!(matches!(err.kind, CallErrorKind::OtherInstance(_)), "{err:?}");
    assert_eq!(script.operations().last().unwrap(), "RetrieveServiceContent");
}

/// A failover or a wrong DNS answer leads the first login to another vCenter, which refuses the
/// login.
#[tokio::test(start_paused = true)]
async fn a_vcenter_that_refuses_the_first_login_does_not_become_the_identity() {
    let other: &str = Box::leak(CONTENT.replace("I-1", "I-2").into_boxed_str());
    let script = Script::new([Answer::Soap(other), Answer::Fault("InvalidLogin")]);
    let client = script.client();
    let err = client.session().await.unwrap_err();
    assert_eq!(err.fault(), Some(&FaultKind::InvalidLogin));
    assert_eq!((client.instance_uuid(), client.other_instance()), (None, None));
    tokio::time::sleep(Duration::from_secs(60)).await;
    script.then([Answer::Soap(CONTENT), Answer::Soap("<returnval/>")]);
    client.session().await.unwrap();
    assert_eq!((client.instance_uuid(), client.other_instance()), (Some("i-1"), None));
    // The login that succeeded has fixed the identity: the other vCenter gets no credential.
    tokio::time::sleep(Duration::from_secs(60)).await;
    script.then([Answer::Fault("NotAuthenticated"), Answer::Soap(other)]);
    let err = client.find_all_by_uuid("u").await.unwrap_err();
    assert!(matches!(err.kind, CallErrorKind::OtherInstance(_)), "{err:?}");
    assert_eq!(script.operations().last().unwrap(), "RetrieveServiceContent");
}

#[tokio::test(start_paused = true)]
async fn a_vapi_session_is_replaced_once() {
    let denied = "{\"type\":\"com.vmware.vapi.std.errors.unauthenticated\",\"value\":{\"messages\":[{\"id\":\"x\"}]}}";
    let script =
        Script::new([Answer::Raw(200, "{\"value\":\"one\"}"), Answer::Raw(200, "{\"value\":[]}")]);
    let client = script.client();
    client.tags_on_objects(&[vm("vm-1")]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    script.then([
        Answer::Raw(401, denied),
        Answer::Raw(200, "{\"value\":\"two\"}"),
        Answer::Raw(200, "{\"value\":[{\"object_id\":{\"type\":\"VirtualMachine\",\"id\":\"vm-1\"},\"tag_ids\":[\"t\"]}]}"),
    ]);
    let tags = client.tags_on_objects(&[vm("vm-1")]).await.unwrap();
    assert_eq!(tags[&vm("vm-1")], [TagId("t".into())]);
}

#[tokio::test(start_paused = true)]
async fn a_vapi_session_that_is_refused_twice_is_not_used_again() {
    let login = |id: &'static str| Answer::Raw(200, id);
    let script = Script::new([
        login("{\"value\":\"one\"}"),
        Answer::Raw(401, "{}"),
        login("{\"value\":\"two\"}"),
        Answer::Raw(401, "{}"),
    ]);
    let client = script.client();
    client.begin_tagging().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let err = client.tags_on(&vm("vm-1")).await.unwrap_err();
    assert_eq!(err.retry(), Retry::AfterLogin, "{err:?}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    script.then([login("{\"value\":\"three\"}"), Answer::Raw(200, "{\"value\":[\"t\"]}")]);
    assert_eq!(client.tags_on(&vm("vm-1")).await.unwrap(), [TagId("t".into())]);
}

#[tokio::test(start_paused = true)]
async fn an_item_of_a_library_is_found_with_its_template() {
    let script = Script::new([
        Answer::Raw(200, "{\"value\":\"one\"}"),
        Answer::Raw(200, "{\"value\":[\"l-1\"]}"),
        Answer::Raw(200, "{\"value\":[\"i-1\"]}"),
        Answer::Raw(200, "{\"value\":{\"id\":\"i-1\",\"type\":\"vm-template\"}}"),
        Answer::Raw(200, "{\"value\":{\"vm_template\":\"vm-7\"}}"),
    ]);
    let client = script.client();
    let libraries = client.find_libraries("images").await.unwrap();
    let items = client.find_library_items(&libraries[0], "ubuntu").await.unwrap();
    assert_eq!(items, [LibraryItemId("i-1".into())]);
    assert_eq!(client.library_item_type(&items[0]).await.unwrap(), "vm-template");
    assert_eq!(client.library_template(&items[0]).await.unwrap(), Some(vm("vm-7")));
    let library = "/rest/com/vmware/content/library";
    assert_eq!(
        script.operations()[1..],
        [
            format!("POST {library}?~action=find"),
            format!("POST {library}/item?~action=find"),
            format!("GET {library}/item/id:i-1"),
            "GET /rest/vcenter/vm-template/library-items/i-1".to_owned(),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_item_without_template_has_none_in_each_form_of_the_answer() {
    let item = LibraryItemId("i-1".into());
    for unset in ["{}", "{\"value\":null}", "{\"value\":{}}", ""] {
        let script =
            Script::new([Answer::Raw(200, "{\"value\":\"one\"}"), Answer::Raw(200, unset)]);
        assert_eq!(script.client().library_template(&item).await.unwrap(), None, "{unset}");
    }
    let login = Answer::Raw(200, "{\"value\":\"one\"}");
    let denied = "{\"type\":\"com.vmware.vapi.std.errors.unauthorized\",\"value\":{\"messages\":[{\"id\":\"vapi.security.authorization.invalid\"}]}}";
    let script = Script::new([login, Answer::Raw(403, denied)]);
    let err = script.client().library_template(&item).await.unwrap_err();
    assert!(matches!(err.kind, CallErrorKind::Rest { status: 403, .. }), "{err:?}");
}

#[tokio::test(start_paused = true)]
async fn a_vapi_error_that_passes_does_not_blame_the_request() {
    let cases = [
        (400, "resource_busy", false),
        (404, "operation_not_found", false),
        (404, "not_found", true),
        (400, "invalid_argument", true),
    ];
    for (status, kind, blames_request) in cases {
        let body = format!(
            "{{\"type\":\"com.vmware.vapi.std.errors.{kind}\",\"value\":{{\"messages\":[{{\"id\":\"com.vmware.vdcs.x\"}}]}}}}"
        );
        let login = Answer::Raw(200, "{\"value\":\"one\"}");
        let script = Script::new([login, Answer::Raw(status, body.leak())]);
        let item = LibraryItemId("i-1".into());
        let err = script.client().library_template(&item).await.unwrap_err();
        assert_eq!(err.kind.blames_request(), blames_request, "{kind}: {err}");
        let wanted = if blames_request { Retry::Never } else { Retry::WithBackoff };
        assert_eq!(err.retry(), wanted, "{kind}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_vapi_session_is_opened_on_request_and_closed_once() {
    let script = Script::new([Answer::Raw(200, "{\"value\":\"one\"}"), Answer::Raw(200, "")]);
    let client = script.client();
    client.begin_tagging().await.unwrap();
    client.end_tagging().await;
    client.end_tagging().await;
    let session = "/rest/com/vmware/cis/session";
    assert_eq!(script.operations(), [format!("POST {session}"), format!("DELETE {session}")]);
}

#[tokio::test(start_paused = true)]
async fn a_credential_that_vapi_rejected_is_not_used_again_for_a_while() {
    let script = Script::new([Answer::Raw(401, "{}")]);
    let client = script.client();
    client.begin_tagging().await.unwrap_err();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let err = client.begin_tagging().await.unwrap_err();
    assert!(matches!(err.kind, CallErrorKind::Locked(_)), "{err:?}");
    assert_eq!(script.operations().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_page_with_the_datacenter_tree_has_room_for_64_more_objects() {
    for (spec, want) in [
        (FilterSpec::of_objects("VirtualMachine", &["name"], vec![vm("vm-1")]), 1000),
        (FilterSpec::datacenters(MoRef::new("Folder", "group-d1")), 1064),
    ] {
        let script = Script::logged_in([Answer::Soap("")]);
        script.client().retrieve(&spec).await.unwrap();
        let sent = script.requests.lock().unwrap().last().unwrap().clone();
        assert!(sent.contains(&format!("<maxObjects>{want}</maxObjects>")), "{sent}");
    }
}

#[test]
fn credentials_are_not_shown() {
    let credential = Credential::new("secret-user", "hunter2");
    let shown = format!("{credential:?} {:?}", FixedCredential(credential.clone()));
    assert!(!shown.contains("hunter2") && !shown.contains("secret-user"), "{shown}");
    let _ = Backoff::new(Duration::ZERO, Duration::ZERO, crate::Jitter::new(0, ""));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    #[test]
    fn no_answer_makes_the_client_panic(status in 100u16..600, body in ".{0,120}", tags in "[<>/a-zA-Z:=\" ]{0,80}") {
        let leaked: &'static str = Box::leak(format!("{body}{tags}").into_boxed_str());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let script = Script::logged_in([Answer::Raw(status.max(200), leaked)]);
            let _ = script.client().find_all_by_uuid("x").await;
            let script = Script::new([Answer::Raw(200, "{\"value\":\"one\"}"), Answer::Raw(status.max(200), leaked)]);
            script.then([Answer::Raw(500, ""), Answer::Raw(500, "")]);
            let _ = script.client().tags_on_objects(&[vm("vm-1")]).await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_an_instance_uuid_does_not_identify_the_vcenter() {
    const NAMELESS: &str = "<returnval><rootFolder type=\"Folder\">group-d1</rootFolder>\
        <propertyCollector type=\"PropertyCollector\">propertyCollector</propertyCollector>\
        <viewManager type=\"ViewManager\">ViewManager</viewManager>\
        <sessionManager type=\"SessionManager\">SessionManager</sessionManager>\
        <searchIndex type=\"SearchIndex\">SearchIndex</searchIndex></returnval>";
    let again =
        || [Answer::Fault("NotAuthenticated"), Answer::Soap(CONTENT), Answer::Soap("<returnval/>")];
    // The client logs in to that vCenter, and takes the first instance UUID that an answer names as
    // the identity.
    let script = Script::new([Answer::Soap(NAMELESS), Answer::Soap("<returnval/>")]);
    let client = script.client();
    client.session().await.unwrap();
    assert_eq!(client.instance_uuid(), None);
    script.then(again());
    script.then([Answer::Soap("")]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    client.find_all_by_uuid("42").await.unwrap();
    assert_eq!(client.instance_uuid(), Some("i-1"));
    assert_eq!(client.other_instance(), None);
    // Once the identity is known, a vCenter whose answer has none gets no credential.
    tokio::time::sleep(Duration::from_secs(60)).await;
    script.then([Answer::Fault("NotAuthenticated"), Answer::Soap(NAMELESS)]);
    let err = client.find_all_by_uuid("42").await.unwrap_err();
    assert!(Chain(&err).to_string().contains("without an instance UUID"), "{}", Chain(&err));
    assert_eq!(script.operations().last().unwrap(), "RetrieveServiceContent");
}

#[test]
fn a_fault_about_another_object_does_not_prove_a_machine_gone() {
    for (name, about, says_gone) in [
        ("the machine", Some(vm("vm-1")), true),
        ("another machine", Some(vm("vm-2")), false),
        ("the collector", Some(MoRef::new("PropertyCollector", "propertyCollector")), false),
        ("nothing", None, false),
    ] {
        let fault = Fault { kind: FaultKind::ManagedObjectNotFound(about), message: String::new() };
        let err = CallError {
            operation: "RetrievePropertiesEx",
            vcenter: "vc".into(),
            kind: CallErrorKind::Fault(fault),
        };
        assert_eq!(err.says_gone(&vm("vm-1")), says_gone, "{name}");
        assert!(err.is_object_gone(), "{name}");
    }
}

#[test]
fn the_wait_that_a_server_asks_for_never_shortens_the_pause_of_the_caller() {
    let seconds = Duration::from_secs;
    for (retry, own, want) in [
        (Retry::AtLeast(Duration::ZERO), 4, 4),
        (Retry::AtLeast(seconds(1)), 4, 4),
        (Retry::AtLeast(seconds(9)), 4, 9),
        (Retry::AtLeast(seconds(3600)), 4, 60),
        (Retry::AtLeast(seconds(3600)), 80, 80),
        (Retry::After(seconds(1)), 4, 1),
        (Retry::After(seconds(3600)), 4, 60),
        (Retry::WithBackoff, 4, 4),
    ] {
        assert_eq!(retry.pause(seconds(own)), seconds(want), "{retry:?}, own pause {own} s");
    }
    let http = |status, retry_after| CallError {
        operation: "CreateListView",
        vcenter: "vc".into(),
        kind: CallErrorKind::Http { status, retry_after },
    };
    assert_eq!(http(503, Some(seconds(0))).retry(), Retry::AtLeast(seconds(0)));
    assert_eq!(http(503, None).retry(), Retry::WithBackoff);
}
