use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::FutureExt as _;
use http_body_util::BodyExt as _;

use super::*;

/// The requests that a cluster received: method and body.
type Writes = Arc<Mutex<Vec<(String, Value)>>>;

fn cluster() -> (Cluster, Writes) {
    forgetful(0)
}

/// A cluster that answers the first `n_patches` patches with 404, as if the event had expired.
fn forgetful(n_patches: usize) -> (Cluster, Writes) {
    let writes = Writes::default();
    let kept = Arc::clone(&writes);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let writes = Arc::clone(&kept);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            let value = serde_json::from_slice(&body).unwrap();
            let mut response =
                http::Response::new(http_body_util::Full::new(bytes::Bytes::from_static(b"{}")));
            let mut writes = writes.lock().unwrap();
            let n_before = writes.iter().filter(|(method, _)| method == "PATCH").count();
            if parts.method == http::Method::PATCH && n_before < n_patches {
                *response.status_mut() = http::StatusCode::NOT_FOUND;
            }
            writes.push((parts.method.to_string(), value));
            Ok::<_, Infallible>(response)
        }
    });
    (Cluster::new(kube::Client::new(service, "default"), -1.0, 0), writes)
}

fn note(object: usize, severity: Severity, message: usize) -> PendingEvent {
    let name = format!("node-{object}");
    let uid = format!("uid-{object}");
    let subject = Subject { api_version: "v1".into(), kind: "Node", namespace: None, name, uid };
    let message = message.to_string();
    let key = Key { component: "c", subject, severity, reason: "R", message };
    PendingEvent { key, at: jiff::Timestamp::UNIX_EPOCH }
}

/// Sends the notes and returns the number of requests that the cluster received for them.
async fn sent(
    sender: &mpsc::Sender<PendingEvent>,
    notes: Vec<PendingEvent>,
    writes: &Writes,
) -> usize {
    let before = writes.lock().unwrap().len();
    for note in notes {
        sender.send(note).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    writes.lock().unwrap().len() - before
}

#[tokio::test(start_paused = true)]
async fn events_are_rate_limited_per_object() {
    let (cluster, writes) = cluster();
    let (sender, received) = mpsc::channel(QUEUE);
    let sending = tokio::spawn(send_all(cluster, received));
    let many = |object, severity| (0..100).map(|n| note(object, severity, n)).collect();
    assert_eq!(sent(&sender, many(1, Severity::Normal), &writes).await, 25);
    assert_eq!(sent(&sender, many(2, Severity::Normal), &writes).await, 25, "another object");
    assert_eq!(sent(&sender, many(1, Severity::Warning), &writes).await, 0, "another type");
    tokio::time::advance(Duration::from_secs(600)).await;
    assert_eq!(sent(&sender, many(1, Severity::Normal), &writes).await, 2, "ten minutes later");
    drop(sender);
    sending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_that_the_cluster_no_longer_has_is_created_anew() {
    let (cluster, writes) = forgetful(1);
    let (sender, received) = mpsc::channel(QUEUE);
    let sending = tokio::spawn(send_all(cluster, received));
    let notes = (0..3).map(|_| note(1, Severity::Normal, 0)).collect();
    sent(&sender, notes, &writes).await;
    let methods: Vec<String> = writes.lock().unwrap().iter().map(|(it, _)| it.clone()).collect();
    assert_eq!(methods, ["POST", "PATCH", "POST", "PATCH"]);
    drop(sender);
    sending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_count_of_an_event_includes_repeats_that_were_not_sent() {
    let (cluster, writes) = cluster();
    let (sender, received) = mpsc::channel(QUEUE);
    let mut sending = Box::pin(send_all(cluster, received));
    for _ in 0..40 {
        sender.try_send(note(1, Severity::Normal, 0)).unwrap();
    }
    while sending.as_mut().now_or_never().is_none() && sender.capacity() < QUEUE {
        tokio::task::yield_now().await;
    }
    assert_eq!(writes.lock().unwrap().len(), 25);
    tokio::time::advance(Duration::from_secs(300)).await;
    sender.try_send(note(1, Severity::Normal, 0)).unwrap();
    drop(sender);
    sending.await;
    let (method, body) = writes.lock().unwrap().last().cloned().unwrap();
    assert_eq!((method.as_str(), &body["count"]), ("PATCH", &Value::from(41)));
}

#[tokio::test(start_paused = true)]
async fn a_full_spam_filter_forgets_the_object_that_was_quiet_for_longest() {
    let mut spam = SpamFilter::default();
    let passes =
        |spam: &mut SpamFilter, object| spam.lets_through(&note(object, Severity::Normal, 0).key);
    for _ in 0..25 {
        assert!(passes(&mut spam, 0) && passes(&mut spam, 1));
    }
    for object in 2..5000 {
        assert!(passes(&mut spam, object));
        assert!(!passes(&mut spam, 1), "object 1 was forgotten after object {object}");
    }
    assert!(passes(&mut spam, 0), "object 0 was not forgotten");
}
