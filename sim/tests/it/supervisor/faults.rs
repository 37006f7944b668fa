//! Tests of the answers to clients with each failure of the catalogue, and in states of the world
//! that look like failures to a client.

use std::fmt::Write as _;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use sim::faults::{Action, Denial, Rule, catalogue, check};
use sim::world::Command;
use sim::world::objects::Quota;
use sim::world::supervisor::OperatorChange;
use sim::{Face, Sim};

use super::{MACHINES, admin, answer, builder, get, pass};

/// Path of the VirtualMachines in a version that is not the stored one.
const OLDER: &str = "/apis/vmoperator.vmware.com/v1alpha2/namespaces/workloads/virtualmachines";

fn machine(name: &str) -> Value {
    json!({
        "apiVersion": "vmoperator.vmware.com/v1alpha6",
        "kind": "VirtualMachine",
        "metadata": {"name": name},
        "spec": {"className": "best-effort-small", "storageClass": "default"},
    })
}

/// Sends a request with the administrator's token. Describes the answer: status, some headers, and
/// the body (for a list, the names of its items) or the error. Without an answer within a minute,
/// the description is `no answer`.
async fn seen(sim: &Sim, method: Method, path: &str, body: Value) -> String {
    let token = sim.supervisor().expect("the world has a Supervisor").admin_token().to_owned();
    let minute = Duration::from_secs(60);
    let answered = tokio::time::timeout(minute, answer(sim, method, path, &token, body)).await;
    let response = match answered {
        Err(_) => return "no answer\n".into(),
        Ok(Err(error)) => return format!("{error}\n"),
        Ok(Ok(response)) => response,
    };
    let mut out = format!("{}\n", response.status().as_u16());
    for name in [
        "content-type",
        "retry-after",
        "x-kubernetes-pf-flowschema-uid",
        "x-kubernetes-pf-prioritylevel-uid",
    ] {
        if let Some(value) = response.headers().get(name) {
            let _ = writeln!(out, "{name}: {}", value.to_str().unwrap_or_default());
        }
    }
    let mut body = response.into_body();
    let mut text = String::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => {
                text.push_str(&String::from_utf8_lossy(
                    frame.data_ref().expect("a frame without trailers"),
                ));
            }
            Err(error) => {
                let _ = write!(text, " … {error}");
                break;
            }
        }
    }
    // A whole list would be too long for a snapshot.
    let document: Value = serde_json::from_str(&text).unwrap_or_default();
    match document["items"].as_array() {
        Some(items) => {
            let names: Vec<_> = items.iter().map(|it| it["metadata"]["name"].clone()).collect();
            let _ = writeln!(out, "items {}", json!(names));
        }
        None => out.push_str(text.trim_end()),
    }
    out.trim_end().to_owned() + "\n"
}

/// Watches VirtualMachines for at most two minutes, and stops VMware Tools of a machine at the
/// beginning. Describes the events and the end, each with its time in milliseconds, or the answer
/// if it is an error.
async fn watched(sim: &Sim) -> String {
    let (_, list) = get(sim, MACHINES).await;
    let from = list["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
    let path = format!(
        "{MACHINES}?watch=true&allowWatchBookmarks=true&timeoutSeconds=100&resourceVersion={from}"
    );
    let token = sim.supervisor().expect("the world has a Supervisor").admin_token().to_owned();
    let response = answer(sim, Method::GET, &path, &token, Value::Null).await.expect("an answer");
    if response.status() != 200 {
        drop(response);
        return seen(sim, Method::GET, &path, Value::Null).await;
    }
    let began = tokio::time::Instant::now();
    sim.apply(Command::StopTools("node-0002".into())).expect("the machine exists");
    let mut body = response.into_body();
    let mut out = String::new();
    let end = began + Duration::from_secs(120);
    loop {
        let frame = tokio::time::timeout_at(end, body.frame()).await;
        let at = began.elapsed().as_millis();
        match frame {
            Err(_) => break out + "still open\n",
            Ok(None) => break format!("{out}{at} ms: ends\n"),
            Ok(Some(frame)) => {
                let data = frame
                    .expect("the watch does not break")
                    .into_data()
                    .expect("a frame without trailers");
                let event: Value = serde_json::from_slice(&data).expect("JSON");
                let what = match &event["object"]["metadata"]["name"] {
                    Value::Null => event["object"]["message"].clone(),
                    name => name.clone(),
                };
                let _ = writeln!(out, "{at} ms: {} {what}", event["type"].as_str().unwrap_or("?"));
            }
        }
    }
}

/// Sends the requests that show the failure with this name. Returns the description of their
/// answers.
async fn shown(sim: &Sim, name: &str) -> String {
    let one = format!("{MACHINES}/node-0001");
    match name {
        "conflict" => {
            let patch = json!({"metadata": {"labels": {"a": "b"}}});
            seen(sim, Method::PATCH, &one, patch).await
        }
        "conversion-webhook-down" => {
            let mut out = String::new();
            let older = format!("{OLDER}/node-0001");
            for path in [older.as_str(), OLDER, &format!("{OLDER}?watch=true"), MACHINES] {
                out += &seen(sim, Method::GET, path, Value::Null).await;
            }
            out
        }
        "continue-expired" => {
            let (_, list) = get(sim, &format!("{MACHINES}?limit=2")).await;
            let token = list["metadata"]["continue"]
                .as_str()
                .expect("the list has another page")
                .to_owned();
            let path = format!("{MACHINES}?limit=2&continue={token}");
            seen(sim, Method::GET, &path, Value::Null).await
        }
        "empty-list" | "partial-list" => {
            let first = seen(sim, Method::GET, MACHINES, Value::Null).await;
            first + &seen(sim, Method::GET, MACHINES, Value::Null).await
        }
        "stale-reads" => {
            sim.apply(Command::StopTools("node-0003".into())).expect("the machine exists");
            pass(5).await;
            let network = async |path: &str| get(sim, path).await.1["status"]["network"].clone();
            let path = format!("{MACHINES}/node-0003");
            let now = network(&path).await;
            let then = network(&format!("{path}?resourceVersion=0")).await;
            let (_, list) = get(sim, &format!("{MACHINES}?resourceVersion=0")).await;
            let listed = &list["items"][2]["status"]["network"];
            format!("now {now}\nany {}\nlisted {}\n", then["primaryIP4"], listed["primaryIP4"])
        }
        _ if name.starts_with("watch-") => watched(sim).await,
        "hangs"
        | "connection-reset"
        | "half-a-body"
        | "throttled"
        | "etcd-leader-changed"
        | "etcd-timed-out"
        | "request-timed-out"
        | "unavailable"
        | "token-refused"
        | "forbidden"
        | "not-served" => seen(sim, Method::GET, &one, Value::Null).await,
        "webhook-denies"
        | "webhook-forbids"
        | "webhook-unreachable"
        | "schema-refuses"
        | "already-exists"
        | "namespace-terminating" => seen(sim, Method::POST, MACHINES, machine("new")).await,
        other => panic!("no request shows the failure {other}: add one here"),
    }
}

sim::test! {
    async fn every_catalogue_rule_fires_and_shows_on_the_wire(sim: &Sim = builder()) {
        let mut out = String::new();
        for known in catalogue() {
            sim.fault(known.rule.clone()).expect("the rule is valid").keep();
            let _ = writeln!(out, "## {}\n{}", known.name(), shown(sim, known.name()).await);
            assert!(sim.faults().fired(known.name()) > 0, "{} never fired", known.name());
            sim.heal();
            sim.apply(Command::StartTools("node-0002".into())).expect("the machine exists");
            pass(120).await;
        }
        insta::assert_snapshot!(out);
        let (status, _) = get(sim, MACHINES).await;
        assert_eq!(status, 200, "the failure ends with its rule");
    }

    async fn a_denial_has_the_webhook_and_the_message_of_its_rule(sim: &Sim = builder()) {
        let denial = Denial::new(403, "no more than five").webhook("quota.example");
        let rule = Rule::new("full", [Action::Deny(denial)]).on(Face::Supervisor);
        sim.fault(rule.op(["create virtualmachines"])).expect("the rule is valid").keep();
        let (code, status) = admin(sim, Method::POST, MACHINES, machine("new")).await;
        assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
        assert_eq!(
            status["message"],
            "admission webhook \"quota.example\" denied the request: no more than five"
        );
        let (_, list) = get(sim, MACHINES).await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(5), "nothing was created");
    }

    async fn writes_and_conversions_fail_while_vm_operator_is_away(sim: &Sim = builder()) -> Result<(), sim::world::Fault> {
        sim.apply(Command::SetVmOperator(OperatorChange::away()))?;
        let (code, status) = admin(sim, Method::POST, MACHINES, machine("new")).await;
        assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
        insta::assert_snapshot!(status["message"].as_str().unwrap_or_default(), @r#"Internal error occurred: failed calling webhook "default.mutating.virtualmachine.v1alpha6.vmoperator.vmware.com": failed to call webhook: Post "https://vmware-system-vmop-webhook-service.vmware-system-vmop.svc:443/default-mutate-vmoperator-vmware-com-v1alpha6-virtualmachine?timeout=10s": dial tcp 10.96.0.45:443: connect: connection refused"#);
        let older = format!("{OLDER}/node-0001");
        let (code, status) = get(sim, &older).await;
        assert_eq!(code, 500);
        insta::assert_snapshot!(status["message"].as_str().unwrap_or_default(), @r#"conversion webhook for vmoperator.vmware.com/v1alpha6, Kind=VirtualMachine failed: Post "https://vmware-system-vmop-webhook-service.vmware-system-vmop.svc:443/convert?timeout=30s": dial tcp 10.96.0.45:443: connect: connection refused"#);
        assert_eq!(get(sim, OLDER).await.0, 500);
        assert_eq!(get(sim, MACHINES).await.0, 200, "reads of the stored version succeed");
        // Changes during the outage become visible after its end.
        sim.apply(Command::StopTools("node-0001".into()))?;
        pass(600).await;
        let stored = format!("{MACHINES}/node-0001");
        assert!(get(sim, &stored).await.1["status"]["network"].is_object());
        sim.apply(Command::SetVmOperator(OperatorChange::back()))?;
        pass(1).await;
        assert_eq!(get(sim, &older).await.1["status"]["network"], Value::Null);
        assert_eq!(admin(sim, Method::POST, MACHINES, machine("new")).await.0, 201);
        Ok(())
    }

    async fn a_quota_refuses_objects_beyond_its_count(sim: &Sim = builder()) -> Result<(), sim::world::Fault> {
        let quota = |hard: &[(&str, u64)]| Quota {
            namespace: "workloads".into(),
            name: "machines".into(),
            hard: hard.iter().map(|(what, n)| ((*what).to_owned(), *n)).collect(),
        };
        let machines = "count/virtualmachines.vmoperator.vmware.com";
        let classes = "count/virtualmachineclasses.vmoperator.vmware.com";
        sim.apply(Command::SetQuota(quota(&[(machines, 6), (classes, 1)])))?;
        assert_eq!(admin(sim, Method::POST, MACHINES, machine("six")).await.0, 201);
        let (code, status) = admin(sim, Method::POST, MACHINES, machine("seven")).await;
        assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
        assert_eq!(
            status["message"],
            "virtualmachines.vmoperator.vmware.com \"seven\" is forbidden: exceeded quota: machines, requested: count/virtualmachines.vmoperator.vmware.com=1, used: count/virtualmachines.vmoperator.vmware.com=6, limited: count/virtualmachines.vmoperator.vmware.com=6"
        );
        assert_eq!(status["details"]["name"], "seven");
        let path = MACHINES.replace("virtualmachines", "virtualmachineclasses");
        let class = json!({
            "apiVersion": "vmoperator.vmware.com/v1alpha6",
            "kind": "VirtualMachineClass",
            "metadata": {"name": "huge"},
            "spec": {"hardware": {"cpus": 64, "memory": "1Ti"}},
        });
        assert_eq!(admin(sim, Method::POST, &path, class.clone()).await.0, 403);
        sim.apply(Command::SetQuota(quota(&[])))?;
        assert_eq!(admin(sim, Method::POST, MACHINES, machine("seven")).await.0, 201);
        assert_eq!(admin(sim, Method::POST, &path, class).await.0, 201);
        let wrong = sim.apply(Command::SetQuota(quota(&[("cpu", 1)]))).expect_err("not a count");
        assert!(wrong.to_string().contains("`cpu` is not a count of objects"), "{wrong}");
        Ok(())
    }

    async fn a_version_that_is_not_served_gets_a_404_without_a_status(sim: &Sim = builder()) {
        let definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/virtualmachines.vmoperator.vmware.com";
        let (_, mut document) = admin(sim, Method::GET, definition, Value::Null).await;
        for version in document["spec"]["versions"].as_array_mut().expect("versions") {
            if version["name"] == "v1alpha2" {
                version["served"] = false.into();
            }
        }
        assert_eq!(admin(sim, Method::PUT, definition, document).await.0, 200);
        let (status, page) = get(sim, OLDER).await;
        assert_eq!((status, page), (404, Value::Null), "the body is not a Status");
        assert_eq!(get(sim, MACHINES).await.0, 200);
        assert_eq!(admin(sim, Method::DELETE, definition, Value::Null).await.0, 200);
        assert_eq!(get(sim, MACHINES).await.0, 404);
    }

    async fn a_terminating_namespace_refuses_new_objects(sim: &Sim = builder()) {
        // The namespace stays terminating while finalizers hold objects in it.
        let path = "/api/v1/namespaces/workloads";
        assert_eq!(admin(sim, Method::DELETE, path, Value::Null).await.0, 200);
        let (code, status) = admin(sim, Method::POST, MACHINES, machine("new")).await;
        assert_eq!(code, 403);
        assert_eq!(
            status["message"],
            "virtualmachines.vmoperator.vmware.com \"new\" is forbidden: unable to create new content in namespace workloads because it is being terminated"
        );
        assert_eq!(status["details"]["causes"][0]["reason"], "NamespaceTerminating");
    }
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    for (action, face, want) in [
        (
            Action::NotServed,
            Face::Soap,
            "rule `r`: notServed works only in a Kubernetes API; remove match.protocol or write k8s.guest or k8s.supervisor",
        ),
        (
            Action::Deny(Denial::new(200, "denied")),
            Face::Supervisor,
            "rule `r`: status code 200 is not an error; write 400 to 599",
        ),
    ] {
        let rule = Rule::new("r", [action]).on(face);
        assert_eq!(check(&rule), Err(want.to_owned()));
    }
}
