//! Tests of the decision about the second write, of the controller's memory of deleted nodes, and
//! of writes to a node that is gone.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use serde_json::json;

use super::*;
use crate::model::{AddressOrder, Clock, NodeIdentity, NodeName};

#[test]
fn a_write_stays_valid_while_taints_provider_id_and_its_labels_are_unchanged() {
    let labeled = |id: &str, taint: &str, version: &str, label: (&str, &str)| {
        let taints = json!([{"key": taint, "effect": "NoSchedule"}]);
        let labels = json!({label.0: label.1});
        let metadata =
            json!({"name": "n", "uid": "u", "resourceVersion": version, "labels": labels});
        let spec = json!({"providerID": id, "taints": taints});
        Node::from_json(&json!({"metadata": metadata, "spec": spec})).unwrap()
    };
    let node = |id, taint, version| labeled(id, taint, version, ("zone", "a"));
    let before = node("vsphere://a", "a", "1");
    let body = json!({"metadata": {"labels": {"zone": "b"}}});
    let is_same = |now: &Node| is_same_for_writes(&body, &before, now);
    assert!(is_same(&node("vsphere://a", "a", "2")));
    assert!(!is_same(&node("vsphere://b", "a", "2")));
    assert!(!is_same(&node("vsphere://a", "b", "2")));
    // Another client has set a label that this write also sets.
    assert!(!is_same(&labeled("vsphere://a", "a", "2", ("zone", "c"))));
}

/// A backend without answers: each lookup is pending, and `exists` and `changed` never return.
struct Unasked;

impl Instances for Unasked {
    fn observe(&self, _: &NodeIdentity) {}

    fn forget(&self, _: &NodeName) {}

    fn metadata(&self, _: &NodeIdentity, _: ZoneWanted) -> Lookup<Metadata> {
        Lookup::Unknown(Unknown::Pending)
    }

    fn exists<'a>(&'a self, _: &'a NodeIdentity, _: Instant) -> BoxFuture<'a, Lookup<()>> {
        Box::pin(std::future::pending())
    }

    fn shutdown(&self, _: &NodeIdentity) -> Lookup<bool> {
        Lookup::Unknown(Unknown::Pending)
    }

    fn n_missing(&self) -> usize {
        0
    }

    fn changed(&self) -> BoxFuture<'_, BTreeSet<NodeName>> {
        Box::pin(std::future::pending())
    }
}

/// Returns a client whose requests get no answer.
fn silent_client() -> kube::Client {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, Infallible>>()
    });
    kube::Client::new(service, "default")
}

fn controller() -> Arc<NodeController> {
    controller_over(silent_client())
}

fn controller_over(client: kube::Client) -> Arc<NodeController> {
    controller_with(client, BTreeMap::new())
}

fn controller_with(
    client: kube::Client,
    extra_labels: BTreeMap<String, String>,
) -> Arc<NodeController> {
    let cluster = Cluster::new(client, -1.0, 0);
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let (events, _) = Events::new("test", cluster.clone(), clock);
    let settings = Settings {
        workers: 1,
        status_period: WINDOW,
        extra_labels,
        late_zone: LateZone::LeftOut,
        seed: 0,
        active: Active::default(),
    };
    let store = Arc::new(NodeStore::new());
    NodeController::new(cluster, store, Arc::new(Unasked), events, Arc::default(), settings)
}

/// Marks the addresses of node `n` as due, and uses up its writes of the current window.
fn write_too_often(controller: &NodeController) {
    controller.mark_due(std::iter::once("n".into()));
    while controller.address_write_delay(&"n".into()).is_none() {}
}

/// Returns the number of nodes with due addresses, and the number of nodes with counted writes.
fn n_remembered(controller: &NodeController) -> (usize, usize) {
    (controller.due.lock().unwrap().len(), controller.written.lock().unwrap().len())
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_is_forgotten_and_a_new_one_of_its_name_may_be_written() {
    let controller = controller();
    write_too_often(&controller);
    assert_eq!(n_remembered(&controller), (1, 1));
    let node = Node::from_json(&json!({"metadata": {"name": "n", "uid": "u"}})).unwrap();
    controller.on_change(&NodeChange::Deleted(Arc::new(node)));
    assert_eq!(n_remembered(&controller), (0, 0));
    assert_eq!(controller.address_write_delay(&"n".into()), None);
}

/// The node is deleted while a worker syncs it, and the worker notes it again after the deletion.
#[tokio::test(start_paused = true)]
async fn a_node_that_a_worker_noted_after_its_deletion_is_forgotten_by_the_next_sync() {
    let controller = controller();
    write_too_often(&controller);
    let looked = controller.sync(&"n".into(), &mut Jitter::new(0, "test")).await;
    assert!(matches!(looked, Ok(None)));
    assert_eq!(n_remembered(&controller), (0, 0));
}

/// The API server answers that the node does not exist, but the watch never reports the deletion.
#[tokio::test(start_paused = true)]
async fn a_write_of_a_node_that_is_gone_is_not_repeated() {
    let n_sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&n_sent);
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        counted.fetch_add(1, Ordering::Relaxed);
        let message = "nodes \"n\" not found";
        let body = json!({"kind": "Status", "reason": "NotFound", "code": 404, "message": message});
        let body = http_body_util::Full::new(bytes::Bytes::from(body.to_string()));
        let answer = http::Response::builder().status(404).body(body).unwrap();
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let controller = controller_over(kube::Client::new(service, "default"));
    let labels = json!({"failure-domain.beta.kubernetes.io/zone": "a"});
    let node = json!({"metadata": {"name": "n", "uid": "u", "labels": labels}});
    controller.store.upsert(Node::from_json(&node).unwrap());
    controller.queue.add(&"n".into());
    let stop = CancellationToken::new();
    let working = controller.work(0, &stop);
    let worked = tokio::time::timeout(Duration::from_secs(600), working).await;
    assert!(worked.is_err(), "the worker ended");
    assert_eq!(n_sent.load(Ordering::Relaxed), 1);
}

/// A copy of everything that is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_reserved_label_is_reported_once_however_many_nodes_it_concerns() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let labels = ["a.example/x", "k8s.io/x", "k8s.io/y"].map(|key| (key.to_owned(), "1".into()));
    let controller = controller_with(silent_client(), labels.into());
    let metadata = Lookup::Found(Metadata {
        provider_id: "vsphere://a".to_owned(),
        reference: None,
        instance_type: None,
        addresses: Ok(Vec::new()),
        order: AddressOrder::Any,
        zone: Ok(None),
    });
    for name in ["n1", "n2"] {
        let node = Node::from_json(&json!({"metadata": {"name": name, "uid": name}})).unwrap();
        let labels = &controller.settings.extra_labels;
        let plan = plan::initialize(&node, &metadata, labels, Active::default());
        let Plan::Write(Writes { node: Some(body), .. }) = plan else { panic!("{plan:?}") };
        assert_eq!(body["metadata"]["labels"], json!({"a.example/x": "1"}));
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(log.matches("reserved for Kubernetes").count(), 2, "{log}");
    assert_eq!(log.matches("k8s.io/x").count(), 1, "{log}");
}
