//! Tests of watches under a paused clock.

use std::time::Duration;

use http_body_util::BodyExt as _;
use kube_sim_store::{Command, GroupResource, Key, PatchKind, Store};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{TestServer, get};
use crate::answer::Body;
use crate::server::{Effects, WatchEffects};

/// A watch's body, line by line.
struct Lines(Body);

impl Lines {
    async fn of(lab: &TestServer, path: &str, watch: WatchEffects) -> Self {
        let effects = Effects { watch, ..Effects::default() };
        let (_, reply) = lab.reply(get(path), &effects).await;
        assert_eq!(reply.response.status(), 200);
        Self(reply.response.into_body())
    }

    /// Summary of the next event, such as `ADDED a 6`; `end` at the end of the stream, `nothing`
    /// after ten minutes without an event.
    async fn next(&mut self) -> String {
        let Ok(frame) = timeout(Duration::from_secs(600), self.0.frame()).await else {
            return "nothing".into();
        };
        let Some(frame) = frame else { return "end".into() };
        let bytes = frame.unwrap().into_data().unwrap();
        assert_eq!(bytes.last(), Some(&b'\n'), "one event per frame");
        let event: Value = serde_json::from_slice(&bytes).unwrap();
        let (kind, object) = (event["type"].as_str().unwrap(), &event["object"]);
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        match kind {
            "BOOKMARK" if object["metadata"]["annotations"].is_object() => {
                format!("{kind} {version} initial")
            }
            "BOOKMARK" => format!("{kind} {version}"),
            "ERROR" => format!("{kind} {} {}", object["code"], object["message"].as_str().unwrap()),
            _ => format!("{kind} {} {version}", object["metadata"]["name"].as_str().unwrap()),
        }
    }
}

fn label(lab: &TestServer, name: &str, label: &str) {
    let patch = serde_json::json!({"metadata": {"labels": {"name": label}}});
    let command = Command::patch(Key::node(name), PatchKind::Merge, patch);
    lab.apply(command);
}

fn delete(lab: &TestServer, name: &str) {
    let command = Command::delete(Key::node(name));
    lab.apply(command);
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_a_bookmark_and_continues_as_a_watch() {
    let lab = TestServer::new();
    lab.node("a");
    let path = "/api/v1/nodes?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=100";
    let mut lines = Lines::of(&lab, path, WatchEffects::default()).await;
    assert_eq!(lines.next().await, "ADDED a 6");
    assert_eq!(lines.next().await, "BOOKMARK 6 initial");
    lab.node("b");
    label(&lab, "a", "x");
    delete(&lab, "b");
    assert_eq!(lines.next().await, "ADDED b 7");
    assert_eq!(lines.next().await, "MODIFIED a 8");
    assert_eq!(lines.next().await, "DELETED b 9");
    let start = Instant::now();
    assert_eq!(lines.next().await, "BOOKMARK 9");
    assert_eq!(start.elapsed().as_secs(), 60);
    assert_eq!(lines.next().await, "BOOKMARK 9");
    assert_eq!(start.elapsed().as_secs(), 98, "two seconds before the end");
    assert_eq!(lines.next().await, "end");
    assert_eq!(start.elapsed().as_secs(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_watch_begins_at_the_requested_resource_version() {
    let lab = TestServer::new();
    lab.node("a");
    lab.node("b");
    let mut lines =
        Lines::of(&lab, "/api/v1/nodes?watch=1&resourceVersion=6", WatchEffects::default()).await;
    assert_eq!(lines.next().await, "ADDED b 7");
    let mut lines = Lines::of(&lab, "/api/v1/nodes?watch=1", WatchEffects::default()).await;
    assert_eq!(lines.next().await, "ADDED a 6");
    assert_eq!(lines.next().await, "ADDED b 7");
    assert_eq!(lines.next().await, "nothing");
    lab.node("c");
    assert_eq!(lines.next().await, "ADDED c 8", "a wait that the client gave up loses no event");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_enters_or_leaves_a_selector_is_sent_as_added_or_deleted() {
    let lab = TestServer::new();
    lab.node("a");
    let path = "/api/v1/nodes?watch=1&resourceVersion=6&labelSelector=name%3Dx";
    let mut lines = Lines::of(&lab, path, WatchEffects::default()).await;
    label(&lab, "a", "x");
    label(&lab, "a", "y");
    delete(&lab, "a");
    assert_eq!(lines.next().await, "ADDED a 7");
    assert_eq!(lines.next().await, "DELETED a 8");
    assert_eq!(lines.next().await, "nothing");
}

#[tokio::test(start_paused = true)]
async fn a_watch_under_a_gone_fault_gets_a_410_event_and_ends() {
    let lab = TestServer::new();
    for name in ["a", "b", "c"] {
        lab.node(name);
    }
    let error = Effects {
        watch: WatchEffects { gone410: true, ..WatchEffects::default() },
        ..Effects::default()
    };
    let path = "/api/v1/nodes?watch=1&resourceVersion=6";
    let mut lines = Lines::of(&lab, path, error.watch).await;
    assert_eq!(lines.next().await, "ERROR 410 too old resource version: 6 (7)");
    assert_eq!(lines.next().await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_slow_watch_gets_a_410_event_when_its_next_events_are_compacted() {
    let lab = TestServer::new();
    for name in ["a", "b", "c", "d"] {
        lab.node(name);
    }
    let path = "/api/v1/nodes?watch=1";
    let mut lines = Lines::of(&lab, path, WatchEffects::default()).await;
    assert!(lines.next().await.starts_with("ADDED a"));
    label(&lab, "a", "x");
    lab.memory.change(|store| store.compact(0));
    assert!(
        lines.next().await.starts_with("ADDED b"),
        "the client has been slow for less than a minute"
    );
    tokio::time::advance(Duration::from_secs(60)).await;
    let told = lines.next().await;
    assert!(told.starts_with("ERROR 410 too old resource version: "), "{told}");
    assert_eq!(lines.next().await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_slow_watch_continues_while_its_next_events_are_kept() {
    let lab = TestServer::new();
    for name in ["a", "b"] {
        lab.node(name);
    }
    let path = "/api/v1/nodes?watch=1";
    let mut lines = Lines::of(&lab, path, WatchEffects::default()).await;
    assert!(lines.next().await.starts_with("ADDED a"));
    label(&lab, "a", "x");
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert!(lines.next().await.starts_with("ADDED b"));
    assert!(lines.next().await.starts_with("MODIFIED a"));
}

#[tokio::test(start_paused = true)]
async fn the_encoding_of_an_object_is_kept_for_a_minute() {
    let lab = TestServer::new();
    lab.node("a");
    let path = "/api/v1/nodes?watch=1";
    for (seconds, n_written) in [(0, 1), (60, 1), (1, 2)] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        let mut lines = Lines::of(&lab, path, WatchEffects::default()).await;
        assert!(lines.next().await.starts_with("ADDED a"));
        assert_eq!(lab.api.encodings.n_written(), n_written, "{seconds} s later");
    }
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_from_a_future_version_gets_an_error_event() {
    let lab = TestServer::new();
    let path = "/api/v1/nodes?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99";
    let mut lines = Lines::of(&lab, path, WatchEffects::default()).await;
    assert_eq!(lines.next().await, "ERROR 504 Timeout: Too large resource version: 99, current: 5");
    assert_eq!(lines.next().await, "end");
}

#[tokio::test(start_paused = true)]
async fn an_ended_watch_delivers_its_pending_events_before_it_closes() {
    let lab = TestServer::new();
    lab.node("a");
    let path = "/api/v1/nodes?watch=1";
    let mut lines = Lines::of(&lab, path, WatchEffects::default()).await;
    assert_eq!(lines.next().await, "ADDED a 6");
    lab.node("b");
    lab.memory.change(Store::end_watches);
    assert_eq!(lines.next().await, "ADDED b 7");
    assert_eq!(lines.next().await, "end");
    // The next watch continues at that version.
    let next = format!("{path}&resourceVersion=7");
    let mut lines = Lines::of(&lab, &next, WatchEffects::default()).await;
    lab.node("c");
    assert_eq!(lines.next().await, "ADDED c 8");
}

#[tokio::test(start_paused = true)]
async fn watch_faults_silence_a_watch_drop_its_bookmarks_or_close_it() {
    let lab = TestServer::new();
    lab.node("a");
    let path = "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=300";
    let silent = WatchEffects { silent: true, ..WatchEffects::default() };
    let mut lines = Lines::of(&lab, path, silent).await;
    assert_eq!(lines.next().await, "end", "the silent watch ends at its timeout, without an event");

    let quiet = WatchEffects { no_bookmark: true, ..WatchEffects::default() };
    let mut lines = Lines::of(&lab, path, quiet).await;
    assert_eq!(lines.next().await, "ADDED a 6");
    assert_eq!(lines.next().await, "end");

    lab.node("b");
    let short = WatchEffects { close_after: Some(1), ..WatchEffects::default() };
    let mut lines = Lines::of(&lab, path, short).await;
    assert_eq!(lines.next().await, "ADDED a 6");
    assert_eq!(lines.next().await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_watch_fault_with_a_limit_acts_after_that_number_of_events() {
    let lab = TestServer::new();
    for name in ["a", "b", "c"] {
        lab.node(name);
    }
    let path = "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=300";
    let gone = WatchEffects { gone_after: Some(2), ..WatchEffects::default() };
    let mut lines = Lines::of(&lab, path, gone).await;
    assert_eq!(lines.next().await, "ADDED a 6");
    assert_eq!(lines.next().await, "ADDED b 7");
    assert_eq!(lines.next().await, "ERROR 410 too old resource version: 8 (9)");
    assert_eq!(lines.next().await, "end");

    let held = WatchEffects { hold_after: Some(1), ..WatchEffects::default() };
    let mut lines = Lines::of(&lab, path, held).await;
    assert_eq!(lines.next().await, "ADDED a 6");
    assert_eq!(
        lines.next().await,
        "nothing",
        "a held watch sends neither events nor bookmarks and does not end"
    );
    lab.node("d");
    assert_eq!(lines.next().await, "nothing");

    // Of several limits, the one that is reached first applies.
    let both =
        WatchEffects { hold_after: Some(2), close_after: Some(1), ..WatchEffects::default() };
    let mut lines = Lines::of(&lab, path, both).await;
    assert_eq!(lines.next().await, "ADDED a 6");
    assert_eq!(lines.next().await, "end");
}

#[tokio::test(start_paused = true)]
async fn an_object_is_serialized_once_for_all_watches() {
    const N_NODES: u64 = 200;
    const N_WATCHERS: usize = 50;
    let lab = TestServer::new();
    for n in 0..N_NODES {
        lab.node(&format!("n{n:03}"));
    }
    let mut watchers = Vec::new();
    for _ in 0..N_WATCHERS {
        watchers.push(Lines::of(&lab, "/api/v1/nodes?watch=1", WatchEffects::default()).await);
    }
    for watcher in &mut watchers {
        for _ in 0..N_NODES {
            assert!(watcher.next().await.starts_with("ADDED n"));
        }
    }
    assert_eq!(lab.api.encodings.n_written(), N_NODES);
    label(&lab, "n007", "x");
    for watcher in &mut watchers {
        assert!(watcher.next().await.starts_with("MODIFIED n007"));
    }
    assert_eq!(lab.api.encodings.n_written(), N_NODES + 1);
    // Another form is another encoding, again shared by all watches.
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    for _ in 0..3 {
        let request =
            http::Request::builder().uri("/api/v1/nodes?watch=1").header("accept", accept);
        let (_, reply) =
            lab.reply(request.body(Default::default()).unwrap(), &Effects::default()).await;
        let mut lines = Lines(reply.response.into_body());
        for _ in 0..N_NODES {
            assert!(lines.next().await.starts_with("ADDED n"));
        }
    }
    assert_eq!(lab.api.encodings.n_written(), 2 * N_NODES + 1);
    delete(&lab, "n007");
    for watcher in &mut watchers {
        assert!(watcher.next().await.starts_with("DELETED n007"));
    }
    assert_eq!(lab.api.encodings.n_written(), 2 * N_NODES + 2);
}

/// The roles that every cluster begins with all have the first revision.
#[tokio::test(start_paused = true)]
async fn objects_with_the_same_revision_have_separate_encodings() {
    let lab = TestServer::new();
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let list = lab.get(path).await.json();
    let roles = list["items"].as_array().unwrap();
    assert!(roles.len() > 50);
    let mut lines = Lines::of(&lab, &format!("{path}?watch=1"), WatchEffects::default()).await;
    for role in roles {
        let name = role["metadata"]["name"].as_str().unwrap();
        assert_eq!(lines.next().await, format!("ADDED {name} 1"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_leaves_a_selector_is_sent_in_its_last_matching_state() {
    let lab = TestServer::new();
    lab.node("a");
    let mut all = Lines::of(&lab, "/api/v1/nodes?watch=1", WatchEffects::default()).await;
    let path = "/api/v1/nodes?watch=1&labelSelector=name%3Da";
    let mut some = Lines::of(&lab, path, WatchEffects::default()).await;
    assert_eq!((all.next().await, some.next().await), ("ADDED a 6".into(), "ADDED a 6".into()));
    label(&lab, "a", "b");
    // The two watches get the same object and version with different contents.
    let frame = all.0.frame().await.unwrap().unwrap().into_data().unwrap();
    let told: Value = serde_json::from_slice(&frame).unwrap();
    assert_eq!(
        (&told["type"], &told["object"]["metadata"]["labels"]["name"]),
        (&"MODIFIED".into(), &"b".into())
    );
    let frame = some.0.frame().await.unwrap().unwrap().into_data().unwrap();
    let told: Value = serde_json::from_slice(&frame).unwrap();
    assert_eq!(
        (&told["type"], &told["object"]["metadata"]["labels"]["name"]),
        (&"DELETED".into(), &"a".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_tables_sends_columns_only_with_its_first_event() {
    let lab = TestServer::new();
    lab.node("a");
    lab.node("b");
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let path = "/api/v1/nodes?watch=1&includeObject=None&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let request = http::Request::builder().uri(path).header("accept", accept);
    let (_, reply) =
        lab.reply(request.body(Default::default()).unwrap(), &Effects::default()).await;
    let mut body = reply.response.into_body();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let event: Value = serde_json::from_slice(&frame).unwrap();
        let table = &event["object"];
        assert_eq!(
            (&table["kind"], &table["apiVersion"]),
            (&"Table".into(), &"meta.k8s.io/v1".into())
        );
        let n_columns = table["columnDefinitions"].as_array().map(Vec::len);
        seen.push((event["type"].clone(), n_columns, table["rows"][0]["cells"][0].clone()));
    }
    assert_eq!(
        seen,
        [
            ("ADDED".into(), Some(10), "a".into()),
            ("ADDED".into(), None, "b".into()),
            ("BOOKMARK".into(), None, "".into()),
        ]
    );
}

/// `/api/v1/watch/nodes` is the oldest form of a watch request. The real server still supports it.
#[tokio::test(start_paused = true)]
async fn a_watch_may_be_requested_by_the_verb_in_the_path() {
    let lab = TestServer::new();
    lab.node("a");
    lab.node("b");
    let mut all = Lines::of(&lab, "/api/v1/watch/nodes", WatchEffects::default()).await;
    assert_eq!(all.next().await, "ADDED a 6");
    assert_eq!(all.next().await, "ADDED b 7");
    let mut one = Lines::of(&lab, "/api/v1/watch/nodes/b", WatchEffects::default()).await;
    assert_eq!(one.next().await, "ADDED b 7");
    label(&lab, "a", "x");
    label(&lab, "b", "x");
    assert_eq!(one.next().await, "MODIFIED b 9");
    let other = lab.get("/api/v1/watch/nodes/b?fieldSelector=metadata.name%3Da").await;
    assert_eq!(other.message(), "fieldSelector metadata.name doesn't match requested name");
    for (method, path, code) in [
        ("POST", "/api/v1/watch/nodes", 405),
        ("GET", "/api/v1/watch/nodes/a/status", 404),
        ("GET", "/api/v1/watch/pods/p", 404),
        ("GET", "/api/v1/watch", 500),
    ] {
        assert_eq!(lab.send(method, path, "", "").await.code, code, "{method} {path}");
    }
}

/// Reads `n_events` events of a body and checks only their type.
async fn drain(body: &mut Body, n_events: usize, kind: &str) {
    let begin = format!("{{\"type\":\"{kind}\"");
    for _ in 0..n_events {
        let frame = timeout(Duration::from_secs(1), body.frame())
            .await
            .expect("an event arrives within a second");
        let frame = frame.unwrap().unwrap().into_data().unwrap();
        assert!(frame.starts_with(begin.as_bytes()), "{frame:?}");
    }
}

/// A node of some kilobytes, with the fields that a kubelet and add-ons write.
fn grown_node(name: &str) -> Value {
    let image = |n: usize| {
        let names = [format!("registry.example.com/platform/component-{n}@sha256:{n:064x}")];
        json!({"names": names, "sizeBytes": 40_000_000 + n})
    };
    let condition = |kind: &str| {
        json!({
            "type": kind, "status": "False", "reason": format!("Kubelet{kind}"),
            "message": format!("kubelet has no {kind}"),
            "lastHeartbeatTime": "2026-03-01T08:00:00Z", "lastTransitionTime": "2026-03-01T08:00:00Z",
        })
    };
    let conditions =
        ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(condition).to_vec();
    let resources = json!({
        "cpu": "16", "memory": "65800676Ki", "pods": "110", "ephemeral-storage": "103079844Ki",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    json!({
        "metadata": {
            "name": name,
            "labels": {
                "name": name, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": "zone-a",
                "topology.kubernetes.io/region": "region-a", "node.kubernetes.io/instance-type": "m",
            },
            "annotations": {
                "csi.volume.kubernetes.io/nodeid": format!("{{\"csi.vsphere.vmware.com\":\"{name}\"}}"),
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
            },
        },
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": format!("vsphere://{name}")},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": name}],
            "capacity": resources, "allocatable": resources,
            "conditions": conditions,
            "images": (0..25).map(image).collect::<Vec<_>>(),
            "nodeInfo": {
                "machineID": "m", "systemUUID": "s", "bootID": "b", "kernelVersion": "6.1.0",
                "osImage": "Photon", "containerRuntimeVersion": "containerd://2.0.0",
                "kubeletVersion": "v1.36.3", "kubeProxyVersion": "", "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    })
}

/// Starts fifty watches of nodes, in three forms, and returns their bodies before any of them is
/// read.
async fn fifty_watchers(lab: &TestServer, n_nodes: usize) -> Vec<Body> {
    const FORMS: [(&str, usize); 3] = [
        ("application/json", 20),
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json", 10),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 20),
    ];
    let mut watchers = Vec::new();
    for (accept, n_clients) in FORMS {
        for client in 0..n_clients {
            // The first client of each form lists all nodes; the other clients list 100 of them.
            let limit = if client == 0 { n_nodes } else { 100 };
            let listed = lab.get(&format!("/api/v1/nodes?limit={limit}")).await;
            assert_eq!(listed.text.matches("\"uid\"").count(), limit);
            let request = http::Request::builder().uri("/api/v1/nodes?watch=1");
            let request = request.header("accept", accept).body(Default::default()).unwrap();
            let (_, reply) = lab.reply(request, &Effects::default()).await;
            watchers.push(reply.response.into_body());
        }
    }
    watchers
}

#[tokio::test(start_paused = true)]
async fn five_thousand_nodes_are_written_once_per_encoding_for_fifty_watchers() {
    const N_NODES: usize = 5_000;
    const N_CHANGED: usize = 50;
    const N_FORMS: u64 = 3;
    let second = Duration::from_secs(1);
    let lab = TestServer::new();
    let name = |n: usize| format!("n{n:04}");
    for n in 0..N_NODES {
        let command = Command::create(GroupResource::core("nodes"), "", grown_node(&name(n)));
        lab.apply(command);
    }
    let n_bytes = lab.get("/api/v1/nodes/n0000").await.text.len();
    assert!(n_bytes > 5_000, "a real node is larger than {n_bytes} bytes");
    let mut watchers = fifty_watchers(&lab, N_NODES).await;
    assert_eq!(watchers.len(), 50);
    for watcher in &mut watchers {
        drain(watcher, N_NODES, "ADDED").await;
    }
    let mut n_written = N_FORMS * N_NODES as u64;
    assert_eq!(lab.api.encodings.n_written(), n_written);
    for (kind, change) in [
        ("MODIFIED", &(|n: &str| label(&lab, n, "changed")) as &dyn Fn(&str)),
        ("DELETED", &(|n: &str| delete(&lab, n)) as &dyn Fn(&str)),
    ] {
        for n in 0..N_CHANGED {
            change(&name(n * 100));
            for watcher in &mut watchers {
                drain(watcher, 1, kind).await;
            }
            n_written += N_FORMS;
            assert_eq!(
                lab.api.encodings.n_written(),
                n_written,
                "the event is serialized once per form"
            );
            tokio::time::advance(second).await;
        }
    }
    // Tables contain ages, so that a later reader gets other bytes. Only tables are written again.
    label(&lab, &name(1), "changed");
    let (early, late) = watchers.split_at_mut(40);
    for watcher in early {
        drain(watcher, 1, "MODIFIED").await;
    }
    tokio::time::advance(second).await;
    for watcher in late {
        drain(watcher, 1, "MODIFIED").await;
    }
    assert_eq!(lab.api.encodings.n_written(), n_written + N_FORMS + 1);
}

#[test]
fn concurrent_readers_of_one_object_share_one_encoding() {
    let lab = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let lab = lab.block_on(async { TestServer::new() });
    let edition = || crate::objects::encodings::EncodingKey {
        as_kept: false,
        schemas: 0,
        revision: 7,
        uid: "u".into(),
        is_gone: false,
        version: "v1".into(),
        form: Default::default(),
        table: None,
    };
    let all = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                all.wait();
                let bytes = lab.api.encodings.bytes(edition(), || {
                    std::thread::yield_now();
                    "x".into()
                });
                assert_eq!(bytes, "x");
            });
        }
    });
    assert_eq!(lab.api.encodings.n_written(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_accepts_the_largest_timeout_and_ends_at_a_negative_one() {
    let lab = TestServer::new();
    for (seconds, want) in [("9223372036854775807", "nothing"), ("-1", "end")] {
        let path = format!("/api/v1/secrets?watch=1&timeoutSeconds={seconds}");
        let mut lines = Lines::of(&lab, &path, WatchEffects::default()).await;
        assert_eq!(lines.next().await, want, "{seconds}");
    }
}

/// The real server ends the watch, too, because a watch of a deleted kind would wait forever.
#[tokio::test(start_paused = true)]
async fn a_watch_of_a_custom_kind_ends_when_its_definition_is_deleted() {
    let lab = TestServer::new();
    let schema = serde_json::json!({"type": "object"});
    let definition = serde_json::json!({
        "metadata": {"name": "parts.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"kind": "Part", "plural": "parts"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(lab.send("POST", definitions, super::JSON, definition).await.code, 201);
    let path = "/apis/example.com/v1/parts?watch=1";
    let mut lines = Lines::of(&lab, path, WatchEffects::default()).await;
    assert_eq!(lines.next().await, "nothing");
    let one = format!("{definitions}/parts.example.com");
    assert_eq!(lab.send("DELETE", &one, super::JSON, "").await.code, 200);
    assert_eq!(lines.next().await, "end");
}
