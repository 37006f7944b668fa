//! Tests of the admin port: its effects, its errors, and its separation from ledger and fault
//! rules.

use serde_json::{Value, json};
use sim::world::Topology;
use sim::{Endpoints, ListenOptions, Sim};

use crate::client::{Client, machines};
use crate::wire;

struct Admin {
    sim: Sim,
    endpoints: Endpoints,
}

impl Admin {
    async fn of(sim: Sim) -> Self {
        let endpoints = sim.listen(ListenOptions::default()).await.expect("free ports");
        Self { sim, endpoints }
    }

    async fn text(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let address = self.endpoints.admin.address;
        let stream = tokio::net::TcpStream::connect(address).await.expect("the admin port");
        let mut sender = wire::http(stream).await;
        wire::exchange(&mut sender, wire::request(method, path, body)).await.expect("an answer")
    }

    async fn call(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, text) = self.text(method, path, body).await;
        (status, serde_json::from_str(&text).unwrap_or_default())
    }
}

#[tokio::test]
async fn the_admin_port_serves_health_version_and_clock() {
    let admin = Admin::of(machines(1)).await;
    assert_eq!(admin.text("GET", "/admin/v1/healthz", "").await, (200, "ok\n".to_owned()));
    let (status, version) = admin.call("GET", "/admin/v1/version", "").await;
    assert_eq!((status, &version["name"]), (200, &json!("sim")));
    let (status, clock) = admin.call("GET", "/clock", "").await;
    assert_eq!((status, &clock["epoch"]), (200, &json!("2026-01-01T00:00:00Z")));
}

#[tokio::test]
async fn the_admin_port_shows_and_changes_the_world() {
    let admin = Admin::of(machines(2)).await;
    let (status, world) = admin.call("GET", "/world", "").await;
    assert_eq!(status, 200);
    let machine = &world["machines"][0];
    assert_eq!(machine["name"], "node-0001");
    assert_eq!(machine["power"], "poweredOn");
    assert_eq!(machine["addresses"][0], "10.0.0.1");
    let (status, answer) =
        admin.call("POST", "/world/events", r#"{"vm.powerOff": "node-0001"}"#).await;
    assert_eq!(status, 200, "{answer}");
    let (_, world) = admin.call("GET", "/admin/v1/world?machine=node-0001", "").await;
    assert_eq!(world["machines"][0]["power"], "poweredOff");
    let (status, answer) = admin
        .call(
            "POST",
            "/world/events",
            r#"[{"vm.create": {"spec": {"name": "new"}, "power_on": true}}, {"vm.delete": "node-0002"}]"#,
        )
        .await;
    assert_eq!((status, answer.as_array().map(Vec::len)), (200, Some(2)), "{answer}");
    let (_, world) = admin.call("GET", "/world", "").await;
    let names: Vec<&str> =
        world["machines"].as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
    assert_eq!(names, ["node-0001", "new"]);
}

#[tokio::test]
async fn the_admin_port_adds_lists_and_removes_rules() {
    let admin = Admin::of(machines(1)).await;
    let yaml = "- id: slow\n  match: {op: CurrentTime}\n  do: [{status: {code: 503}}]\n\
        - id: other\n  do: [reset]\n  match: {op: nothing}\n";
    let (status, answer) = admin.call("POST", "/faults", yaml).await;
    let doubt = "rule `other`: match.op `nothing` is not an operation that this vCenter answers; write the name as \
        in the ledger, or a pattern with *";
    assert_eq!((status, answer), (201, json!({"added": ["slow", "other"], "warnings": [doubt]})));
    let mut client = Client::logged_in(&admin.sim).await;
    let answer = client.call("CurrentTime", ("ServiceInstance", "ServiceInstance"), "").await;
    assert_eq!(answer.status, 503);
    let (_, rules) = admin.call("GET", "/faults", "").await;
    assert_eq!(rules[0]["rule"]["id"], "slow");
    assert_eq!((&rules[0]["matched"], &rules[0]["fired"]), (&json!(1), &json!(1)));
    assert_eq!(admin.call("DELETE", "/faults/slow", "").await.0, 204);
    assert_eq!(admin.call("DELETE", "/faults/slow", "").await.0, 404);
    assert_eq!(admin.call("DELETE", "/faults", "").await.0, 204);
    assert_eq!(admin.call("GET", "/faults", "").await.1, json!([]));
}

#[tokio::test]
async fn a_request_with_one_duplicate_rule_adds_no_rule() {
    let admin = Admin::of(machines(1)).await;
    admin.call("POST", "/faults", r#"{"id": "a", "do": ["reset"]}"#).await;
    let two = r#"[{"id": "b", "do": ["reset"]}, {"id": "a", "do": ["reset"]}]"#;
    let before = admin.sim.ledger().next_seq();
    assert_eq!(admin.call("POST", "/faults", two).await.0, 409);
    assert_eq!(admin.sim.ledger().next_seq(), before, "the ledger has no note of a refused list");
    assert_eq!(admin.call("GET", "/faults", "").await.1.as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_long_ledger_is_read_whole_and_in_order() {
    let admin = Admin::of(machines(1)).await;
    for n in 0..1000 {
        admin.sim.ledger().note(
            sim::world::Time::ZERO,
            sim::ledger::Kind::Note,
            format!("note {n}"),
        );
    }
    let (_, text) = admin.text("GET", "/ledger", "").await;
    let whole: String =
        admin.sim.ledger().records().iter().map(|record| record.to_line() + "\n").collect();
    assert_eq!(text, whole);
    // Both answers are empty, because no client has logged in and the ledger has fewer than 5,000
    // records.
    assert_eq!(admin.text("GET", "/ledger?op=Login", "").await, (200, String::new()));
    assert_eq!(admin.text("GET", "/ledger?since=5000", "").await, (200, String::new()));
}

#[tokio::test]
async fn the_ledger_is_read_in_parts() {
    let admin = Admin::of(machines(1)).await;
    let mut client = Client::logged_in(&admin.sim).await;
    for _ in 0..3 {
        client.call("CurrentTime", ("ServiceInstance", "ServiceInstance"), "").await.ok();
    }
    let (status, all) = admin.text("GET", "/ledger", "").await;
    assert_eq!((status, all.lines().count()), (200, 4));
    assert_eq!(admin.text("GET", "/ledger?since=4", "").await.1.lines().count(), 1);
    assert_eq!(admin.text("GET", "/ledger?op=@login", "").await.1.lines().count(), 1);
    assert_eq!(admin.text("GET", "/ledger?op=Current*,Login", "").await.1.lines().count(), 4);
    let (_, counts) = admin.call("GET", "/ledger?format=counts", "").await;
    assert_eq!(counts["total"], 4);
    let time = json!({"server": "vc0", "op": "CurrentTime", "calls": 3});
    assert!(counts["operations"].as_array().unwrap().contains(&time), "{counts}");
}

#[tokio::test]
async fn requests_to_the_admin_port_are_neither_recorded_nor_faulted() {
    let admin = Admin::of(machines(1)).await;
    let rule = sim::faults::Rule::new("everything", [sim::faults::Action::Reset]);
    admin.sim.fault(rule).expect("the rule is valid").keep();
    let before = admin.sim.ledger().next_seq();
    for path in ["/world", "/ledger", "/faults", "/clock", "/nowhere"] {
        admin.text("GET", path, "").await;
    }
    assert_eq!(admin.sim.ledger().next_seq(), before);
    // The ledger has a record of the admin port's changes of the world.
    admin.call("POST", "/world/events", r#"{"vm.powerOff": "node-0001"}"#).await;
    let note = admin.sim.ledger().records().pop().expect("a note");
    assert_eq!(note.kind, sim::ledger::Kind::World, "{}", note.to_line());
}

#[tokio::test]
async fn errors_say_what_is_wrong_and_what_to_do() {
    let admin = Admin::of(machines(1)).await;
    let mut out = String::new();
    for (method, path, body) in [
        ("GET", "/nowhere", ""),
        ("PUT", "/world", ""),
        ("GET", "/world?machin=x", ""),
        ("GET", "/world?machine=x", ""),
        ("POST", "/world/events", "{"),
        ("POST", "/world/events", "{}"),
        ("POST", "/world/events", r#"{"vm.powerof": "node-0001"}"#),
        ("POST", "/world/events", r#"{"vm.powerOff": 3}"#),
        ("POST", "/world/events", r#"{"vm.powerOff": "node-9999"}"#),
        ("POST", "/world/events", r#"{"vm.powerOn": "node-0001"}"#),
        ("POST", "/world/events", r#"{"vm.rename": {"machine": "node-0001"}}"#),
        (
            "POST",
            "/world/events",
            r#"{"vcenter.request": {"vcenter": "vc0", "request": {"DeleteTag": "x"}}}"#,
        ),
        ("POST", "/faults", "- id: a\n  mach: {}\n  do: [reset]"),
        ("POST", "/faults", "[{"),
        ("DELETE", "/faults/none", ""),
        ("GET", "/ledger?format=xml", ""),
        ("GET", "/ledger?op=Login,@nope", ""),
    ] {
        let (status, answer) = admin.call(method, path, body).await;
        out.push_str(&format!(
            "{method} {path} {}\n  {status} {answer}\n",
            body.replace('\n', "\\n")
        ));
        assert!(
            answer["remedy"].as_str().is_some_and(|it| !it.is_empty()),
            "{method} {path}: {answer}"
        );
    }
    insta::assert_snapshot!(out);
}

#[tokio::test]
async fn the_admin_port_requires_a_token_beyond_loopback() {
    let sim = machines(1);
    let options = ListenOptions { admin: "0.0.0.0:0".parse().unwrap(), ..ListenOptions::default() };
    let endpoints = sim.listen(options).await.expect("free ports");
    let token = endpoints.admin_token.clone().expect("a token");
    assert_eq!(token.len(), 32);
    let address = std::net::SocketAddr::new([127, 0, 0, 1].into(), endpoints.admin.address.port());
    let stream = tokio::net::TcpStream::connect(address).await.expect("the admin port");
    let mut sender = wire::http(stream).await;
    for (name, path, shown, want) in [
        ("none", "/clock", None, 401),
        ("another", "/clock", Some("Bearer x".to_owned()), 401),
        ("no bearer", "/clock", Some(token.clone()), 401),
        ("the right one", "/clock", Some(format!("Bearer {token}")), 200),
        ("none, for an unknown path", "/nowhere", None, 401),
        ("none, for the health", "/admin/v1/healthz", None, 200),
        ("none, for secrets", "/endpoints", None, 401),
    ] {
        let mut request = wire::request("GET", path, "");
        if let Some(shown) = shown {
            request.headers_mut().insert("authorization", shown.parse().unwrap());
        }
        let (status, _) = wire::exchange(&mut sender, request).await.expect("an answer");
        assert_eq!(status, want, "{name}");
    }
}

#[tokio::test]
async fn a_configured_admin_token_is_required_on_loopback_too() {
    let options =
        ListenOptions { admin_token: Some("mine".to_owned()), ..ListenOptions::default() };
    let sim = machines(1);
    let endpoints = sim.listen(options).await.expect("free ports");
    assert_eq!(endpoints.admin_token.as_deref(), Some("mine"));
    let stream =
        tokio::net::TcpStream::connect(endpoints.admin.address).await.expect("the admin port");
    let mut sender = wire::http(stream).await;
    let (status, _) =
        wire::exchange(&mut sender, wire::request("GET", "/clock", "")).await.expect("an answer");
    assert_eq!(status, 401);
}

#[tokio::test]
async fn the_admin_port_lists_endpoints_with_accounts_and_certificates() {
    let topology = Topology::default().machines(2).supervisor();
    let admin = Admin::of(Sim::builder().topology(topology).start()).await;
    let (status, told) = admin.call("GET", "/endpoints", "").await;
    assert_eq!(status, 200, "{told}");
    let vcenter = &told["vcenters"][0];
    assert_eq!(
        (&vcenter["name"], vcenter["url"].as_str()),
        (&json!("vc0"), {
            let endpoint = admin.endpoints.vcenters.get("vc0").expect("the world has vc0");
            Some(endpoint.url.as_str())
        })
    );
    let password = |user| admin.sim.password("vc0", user).expect("the user has an account");
    for (role, user) in
        [("administrator", sim::world::ADMINISTRATOR), ("provider", sim::world::PROVIDER_USER)]
    {
        let account = json!({"username": user, "password": password(user).expose()});
        assert_eq!(vcenter[role], account, "{role}");
    }
    assert_eq!(told["certificateAuthority"].as_str(), admin.endpoints.ca_pem());
    assert_eq!(told["cluster"]["token"], admin.sim.admin_token());
    assert_eq!(told["cluster"]["kubeconfig"], admin.endpoints.kubeconfig());
    let supervisor = admin.sim.supervisor().expect("the world has a Supervisor");
    let given = &told["supervisor"]["provider"];
    assert_eq!(given["token"], supervisor.provider_token());
    assert_eq!(given["ownerReference"]["kind"], "Cluster");

    // After a rotation the answer has the current values, which equal the files that a provider
    // mounts.
    let directory = tempfile::tempdir().expect("a directory");
    let pem = admin.endpoints.ca_pem().expect("TLS");
    supervisor.mount(directory.path(), pem).expect("the directory is writable");
    let body = r#"[{"supervisor.token.rotate": {}}, {"supervisor.ca.rotate": {}}]"#;
    assert_eq!(admin.call("POST", "/world/events", body).await.0, 200);
    let (_, told) = admin.call("GET", "/endpoints", "").await;
    let given = &told["supervisor"]["provider"];
    let credentials = sim::credentials(directory.path());
    for (file, key) in
        [("token", "token"), ("ca.crt", "certificateAuthority"), ("namespace", "namespace")]
    {
        let text = std::fs::read_to_string(credentials.join(file)).expect("a file");
        assert_eq!(given[key], text, "{file}");
    }
    let owner = std::fs::read_to_string(sim::owner_ref(directory.path())).expect("a file");
    assert_eq!(given["ownerReference"].to_string(), owner);
}

/// Sends one request with these headers. The body of a POST is an event that deletes `node-0001`.
/// Returns the status and the body, null if the body is not JSON.
async fn sent(admin: &Admin, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let stream = tokio::net::TcpStream::connect(admin.endpoints.admin.address).await;
    let mut sender = wire::http(stream.expect("the admin port")).await;
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = if method == "POST" { r#"{"vm.delete": "node-0001"}"# } else { "" };
    let request = request.body(http_body_util::Full::from(body)).expect("the request is valid");
    let (status, text) = wire::exchange(&mut sender, request).await.expect("an answer");
    (status, serde_json::from_str(&text).unwrap_or_default())
}

#[tokio::test]
async fn a_web_page_of_another_origin_cannot_use_the_admin_port() {
    let admin = Admin::of(machines(1)).await;
    let json = ("content-type", "application/json");
    let here = ("host", "127.0.0.1:8900");
    let events = "/world/events";
    for (method, path, headers, status) in [
        // Browsers let a web page send the first three requests without the permission of the
        // server, for example by a form, a beacon, or a fetch without CORS.
        ("POST", events, vec![here], 415),
        ("POST", events, vec![here, ("content-type", "text/plain")], 415),
        ("POST", events, vec![here, ("content-type", "application/x-www-form-urlencoded")], 415),
        ("POST", events, vec![here, ("content-type", "application/yaml")], 415),
        ("POST", events, vec![here, json, ("origin", "https://example.com")], 403),
        ("POST", events, vec![here, json, ("origin", "null")], 403),
        ("POST", events, vec![here, json, ("origin", "http://127.0.0.1:1")], 403),
        ("DELETE", "/faults", vec![here, ("origin", "https://example.com")], 403),
        // Requests to a foreign name that resolves to this address (DNS rebinding).
        ("POST", events, vec![("host", "example.com:8900"), json], 421),
        ("GET", "/world", vec![("host", "127.0.0.1.example.com")], 421),
    ] {
        let (is, answer) = sent(&admin, method, path, &headers).await;
        assert_eq!(is, status, "{method} {path} {headers:?}: {answer}");
        assert!(answer["remedy"].as_str().is_some_and(|it| !it.is_empty()), "{answer}");
    }
    assert_eq!(admin.call("GET", "/world", "").await.1["machines"][0]["name"], "node-0001");
    let own = ("origin", "http://127.0.0.1:8900");
    let and_charset = ("content-type", "Application/JSON; charset=utf-8");
    assert_eq!(sent(&admin, "POST", events, &[here, and_charset, own]).await.0, 200);
    assert_eq!(admin.call("GET", "/world", "").await.1["machines"], json!([]));
}

#[tokio::test]
async fn a_failed_list_of_events_reports_the_events_that_happened() {
    let topology = Topology::zones(1).machines(2).supervisor();
    let admin = Admin::of(Sim::builder().topology(topology).start()).await;
    let directory = tempfile::tempdir().expect("a directory");
    let mounts = directory.path().join("mounts");
    let supervisor = admin.sim.supervisor().expect("the world has a Supervisor");
    supervisor.mount(&mounts, "").expect("the directory is writable");
    // A file in place of the directory makes writes fail, even for root.
    std::fs::remove_dir_all(&mounts).expect("the directory exists");
    std::fs::write(&mounts, "").expect("a file");
    let list = json!([
        {"vm.powerOff": "node-0001"},
        {"vm.powerOn": "node-0001"},
        {"supervisor.token.rotate": {}},
        {"vm.powerOff": "node-0002"},
    ]);
    let (status, answer) = admin.call("POST", "/world/events", &list.to_string()).await;
    assert_eq!(status, 500, "{answer}");
    let error = answer["error"].as_str().expect("an error");
    assert!(error.starts_with("event 3 of 4: "), "{error}");
    assert_eq!(answer["done"].as_array().map(Vec::len), Some(2), "{answer}");
    let (_, world) = admin.call("GET", "/world", "").await;
    let power: Vec<_> = (0..2).map(|n| world["machines"][n]["power"].clone()).collect();
    assert_eq!(power, ["poweredOn", "poweredOn"], "the list ends at the failed third event");
}

#[tokio::test]
async fn a_list_of_events_happens_whole_or_not_at_all() {
    let admin = Admin::of(machines(2)).await;
    let list = r#"[{"vm.powerOff": "node-0001"}, {"vm.delete": "node-0009"}]"#;
    let (status, answer) = admin.call("POST", "/world/events", list).await;
    assert_eq!(status, 404, "{answer}");
    let error = answer["error"].as_str().expect("an error");
    assert!(error.starts_with("event 2 of 2: "), "{error}");
    let remedy = answer["remedy"].as_str().expect("a remedy");
    assert!(remedy.ends_with("no event of this list has happened"), "{remedy}");
    let power = |world: &Value| world["machines"][0]["power"].clone();
    assert_eq!(power(&admin.call("GET", "/world", "").await.1), "poweredOn");
    // The sim checks each event in the state after the events before it.
    let list = r#"[{"vm.powerOff": "node-0001"}, {"vm.powerOn": "node-0001"}, {"vm.powerOff": "node-0001"}]"#;
    let (status, answer) = admin.call("POST", "/world/events", list).await;
    assert_eq!((status, answer.as_array().map(Vec::len)), (200, Some(3)), "{answer}");
    assert_eq!(power(&admin.call("GET", "/world", "").await.1), "poweredOff");
    // The sim locks the world once for all events, not once for each, so that no other change can
    // come in between.
    let list: Vec<Value> = (0..20)
        .map(|n| json!({"vm.rename": {"machine": "node-0002", "to": format!("n{n}")}}))
        .zip((0..20).map(|n| json!({"vm.rename": {"machine": format!("n{n}"), "to": "node-0002"}})))
        .flat_map(|(there, back)| [there, back])
        .collect();
    let before = admin.sim.world().locks();
    let (status, answer) =
        admin.call("POST", "/world/events", &Value::Array(list).to_string()).await;
    assert_eq!((status, answer.as_array().map(Vec::len)), (200, Some(40)), "{answer}");
    let n_locks = admin.sim.world().locks() - before;
    // The count includes the locks by the listener and by the task that advances the world's clock.
    assert!(n_locks < 20, "the world is locked {n_locks} times for 40 events");
    // The answer to a list of one event is a list.
    let (_, answer) = admin.call("POST", "/world/events", r#"[{"vm.powerOn": "node-0001"}]"#).await;
    assert_eq!(answer.as_array().map(Vec::len), Some(1), "{answer}");
    let (_, answer) = admin.call("POST", "/world/events", "[]").await;
    assert_eq!(answer, json!([]));
}

#[tokio::test]
async fn a_duplicate_key_is_an_error() {
    let admin = Admin::of(machines(1)).await;
    for (path, body, key) in [
        ("/world/events", r#"{"vm.delete": "node-0001", "vm.delete": "node-0002"}"#, "vm.delete"),
        (
            "/world/events",
            r#"{"vm.rename": {"machine": "node-0001", "name": "a", "name": "b"}}"#,
            "vm.rename.name",
        ),
        ("/faults", r#"{"id": "a", "id": "b", "do": ["reset"]}"#, "id"),
    ] {
        let (status, answer) = admin.call("POST", path, body).await;
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|it| it.contains(key)), "{answer}");
    }
    assert_eq!(admin.call("GET", "/faults", "").await.1, json!([]));
}
