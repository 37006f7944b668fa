//! Tests of the list and watch against an API server whose answers are given.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use serde_json::json;

use super::*;

type Answer = http::Response<UnsyncBoxBody<Bytes, Infallible>>;

fn whole(status: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    http::Response::builder().status(status).body(body).unwrap()
}

/// A watch with these events, which the server then closes.
fn closed(events: &[Value]) -> Answer {
    let text: String = events.iter().map(|event| format!("{event}\n")).collect();
    http::Response::new(Full::new(Bytes::from(text)).boxed_unsync())
}

/// A watch that never says anything.
fn silent() -> Answer {
    let frames = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
    http::Response::new(StreamBody::new(frames.boxed()).boxed_unsync())
}

fn object(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version}})
}

fn page(names: &[&str], version: &str, token: &str) -> Value {
    let items: Vec<Value> = names.iter().map(|name| object(name, version)).collect();
    json!({"metadata": {"resourceVersion": version, "continue": token}, "items": items})
}

/// A view that notes what it is told.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

impl ObjectView for Notes {
    type Object = String;
    type Before = ();

    fn read(&self, object: &Value) -> Option<String> {
        Some(name(object)).filter(|name| name != "ignored")
    }

    fn before_list(&self) {}

    fn listed(&self, objects: Vec<String>, (): (), version: &str) {
        self.note(format!("listed {} at {version}", objects.join(" ")));
    }

    fn changed(&self, change: ObjectChange<'_>) {
        match change {
            ObjectChange::Applied(object) => self.note(format!("applied {}", name(object))),
            ObjectChange::Deleted(object) => self.note(format!("deleted {}", name(object))),
        }
    }

    fn confirmed(&self, version: &str) {
        assert!(!version.is_empty());
    }

    fn retries_after(&self, failure: &ClusterError) -> bool {
        self.note(format!("failed with {:?}", failure.code()));
        !failure.is_not_found()
    }
}

/// Follows with these answers until they end with a 404. Returns the requests, and what the view
/// was told.
async fn followed(selector: &str, answers: Vec<Answer>) -> (Vec<String>, Vec<String>) {
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        noted.lock().unwrap().push(request.uri().query().unwrap_or_default().to_owned());
        let answer = answers.lock().unwrap().pop_front();
        async move { Ok::<_, Infallible>(answer.unwrap_or_else(|| whole(404, &json!({})))) }
    });
    let cluster = Cluster::new(kube::Client::new(service, "default"), -1.0, 0);
    let objects = Collection {
        cluster: &cluster,
        kind: "Thing",
        path: "/apis/example.com/v1/things".to_owned(),
        selector: selector.to_owned(),
    };
    let view = Notes::default();
    follow(&objects, &view, Jitter::new(1, "test")).await;
    let asked = asked.lock().unwrap().clone();
    (asked, view.0.into_inner().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_list_in_pages_reaches_the_view_as_one_list() {
    let answers =
        vec![whole(200, &page(&["a", "ignored"], "7", "x y")), whole(200, &page(&["b"], "7", ""))];
    let (asked, told) = followed("labelSelector=l", answers).await;
    assert_eq!(
        asked[..2],
        ["labelSelector=l&limit=500", "labelSelector=l&limit=500&continue=x%20y"]
    );
    assert!(asked[2].contains("watch=true") && asked[2].contains("resourceVersion=7"));
    assert_eq!(told, ["listed a b at 7", "failed with Some(404)"]);
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_that_comes_back_is_an_error() {
    let answers = vec![whole(200, &page(&[], "7", "x")), whole(200, &page(&[], "7", "x"))];
    let (_, told) = followed("", answers).await;
    assert_eq!(told, ["failed with None", "failed with Some(404)"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_continues_at_the_version_of_the_last_event() {
    let bookmark = json!({"type": "BOOKMARK", "object": object("", "9")});
    let added = json!({"type": "ADDED", "object": object("b", "8")});
    let deleted = json!({"type": "DELETED", "object": object("a", "10")});
    let answers =
        vec![whole(200, &page(&["a"], "7", "")), closed(&[added, bookmark]), closed(&[deleted])];
    let (asked, told) = followed("", answers).await;
    assert!(asked[2].contains("resourceVersion=9&"), "{}", asked[2]);
    assert!(asked[3].contains("resourceVersion=10&"), "{}", asked[3]);
    assert_eq!(told, ["listed a at 7", "applied b", "deleted a", "failed with Some(404)"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_and_a_silent_watch_lead_to_a_new_list() {
    let expired = json!({"type": "ERROR", "object": {"code": 410, "message": "too old"}});
    let gone = json!({"code": 410, "reason": "Expired", "message": "too old"});
    for (name, watch) in [
        ("an error event", closed(&[expired])),
        ("a status", whole(410, &gone)),
        ("a silent watch", silent()),
    ] {
        let answers =
            vec![whole(200, &page(&["a"], "7", "")), watch, whole(200, &page(&["b"], "8", ""))];
        let (_, told) = followed("", answers).await;
        assert_eq!(told, ["listed a at 7", "listed b at 8", "failed with Some(404)"], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_retried_after_a_pause() {
    let refused = json!({"code": 500, "message": "no"});
    let answers = vec![whole(500, &refused), whole(200, &page(&["a"], "7", ""))];
    let start = tokio::time::Instant::now();
    let (_, told) = followed("", answers).await;
    assert_eq!(told, ["failed with Some(500)", "listed a at 7", "failed with Some(404)"]);
    assert!(start.elapsed() >= FIRST_PAUSE);
}

#[test]
fn an_answer_that_is_no_object_stays_as_it_is() {
    for answer in [json!("text"), json!([1]), json!(1), json!(null), json!({})] {
        assert_eq!(without_managed_fields(&answer), answer);
    }
    let object = json!({"metadata": {"name": "m", "managedFields": []}});
    assert_eq!(without_managed_fields(&object), json!({"metadata": {"name": "m"}}));
}
