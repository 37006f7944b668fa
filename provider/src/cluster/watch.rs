//! Lists the nodes and then watches them, forever.
//!
//! After a watch without events for 75 s the provider lists all nodes again. The cluster may just
//! be quiet, but the connection may also be dead, or the cluster was restored from a backup and has
//! not reached the version of the watch yet. A version that is too old (410, as an event or as a
//! status) leads to a new list. The provider does not use `kube::runtime::watcher`, because the
//! default pauses of that watcher are not seeded, it does not notice a silent watch, and it retries
//! an HTTP 410 with the same version forever.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use provider_vcenter::{Backoff, Chain, Jitter};
use serde_json::Value;
use tokio::time::Instant;

use super::{Cluster, ClusterError, NodeStore, WatchEvents, WatchItem, encode};
use crate::model::{Node, NodeName};

/// Seconds after which the server ends a watch; fewer than the five minutes after which proxies
/// close silent connections.
const WATCH_SECONDS: u64 = 270;
/// Time without an event after which the watch counts as dead; a bookmark comes about once a
/// minute.
const IDLE: Duration = Duration::from_secs(75);
/// Number of failed watches in a row that the provider opens again at the same version. After a
/// further failure with an error it lists all nodes again.
const MAX_FAILURES: u32 = 4;
const PAGE: u32 = 500;
/// Minimum duration of a watch that ends without a failure. A shorter watch counts as a failure,
/// because reopening it at once could become a busy loop. If it delivered an event, it counts as
/// the first failure in a row.
const LIVED: Duration = Duration::from_secs(1);

/// A change of a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeChange {
    /// The node is new or changed.
    Applied(Arc<Node>),
    /// The node was deleted.
    Deleted(Arc<Node>),
}

/// Way in which a watch ended without an error.
enum End {
    /// The server closed the watch in the ordinary way; the next watch continues at the last
    /// version.
    Closed,
    /// The provider must list all nodes again: the version is too old or cannot be trusted, or the
    /// watch was silent.
    Expired,
    /// The server closed the watch within [`LIVED`]; `has_told` is true if the watch delivered an
    /// event.
    AtOnce { has_told: bool },
}

/// Lists and watches nodes forever; puts each change into `store` and then passes it to
/// `on_change`. Leaves out nodes that a list shows unchanged, and an added or modified node of the
/// watch whose version is older than the stored one.
pub(crate) async fn watch_nodes(
    cluster: &Cluster,
    store: &NodeStore,
    seed: u64,
    on_change: &(dyn Fn(NodeChange) + Send + Sync),
) {
    let jitter = Jitter::new(seed, "nodes/watch");
    let mut backoff = Backoff::new(Duration::from_millis(800), Duration::from_secs(30), jitter);
    let mut version: Option<String> = None;
    // True if the last watch ended with `End::Expired`.
    let mut has_expired = false;
    loop {
        let result = match version.take() {
            None => list(cluster, store, on_change).await.map(|listed| {
                version = Some(listed);
                None
            }),
            Some(mut from) => {
                let ended = watch(cluster, store, &mut from, on_change).await;
                let is_expired = matches!(ended, Ok(End::Expired));
                let was_expired = std::mem::replace(&mut has_expired, is_expired);
                let may_continue = ended.is_ok() || backoff.failures() < MAX_FAILURES;
                if may_continue && !is_expired {
                    version = Some(from);
                }
                match ended {
                    // After the second expiry in a row the provider waits before it lists: a server
                    // that rejects every version must not get one list after the other.
                    Ok(End::Expired) if was_expired => Ok(Some(
                        "the resource version of the node watch expired twice in a row; \
                             pausing before the next list",
                    )),
                    Ok(End::AtOnce { has_told }) => {
                        if has_told {
                            backoff.reset();
                        }
                        Ok(Some("the node watch ended at once; pausing before the next watch"))
                    }
                    Ok(End::Expired | End::Closed) => Ok(None),
                    Err(err) => Err(err),
                }
            }
        };
        match result {
            Ok(None) => backoff.reset(),
            Ok(Some(what)) => sleep_after(what, &mut backoff).await,
            Err(err) => {
                let pause = backoff.next_pause().max(err.retry_after().unwrap_or_default());
                tracing::warn!(error = %Chain(&err), pause = ?pause, "listing or watching nodes failed; retrying");
                tokio::time::sleep(pause).await;
            }
        }
    }
}

async fn sleep_after(what: &'static str, backoff: &mut Backoff) {
    let pause = backoff.next_pause();
    tracing::warn!(pause = ?pause, "{what}");
    tokio::time::sleep(pause).await;
}

async fn list(
    cluster: &Cluster,
    store: &NodeStore,
    on_change: &(dyn Fn(NodeChange) + Send + Sync),
) -> Result<String, ClusterError> {
    let mut listed: BTreeMap<NodeName, Node> = BTreeMap::new();
    let mut token: Option<String> = None;
    let version = loop {
        let path = match &token {
            None => format!("/api/v1/nodes?limit={PAGE}"),
            Some(token) => format!("/api/v1/nodes?limit={PAGE}&continue={token}"),
        };
        let page = cluster.get(&path).await?;
        let malformed = |what: String| ClusterError::Malformed { path: path.clone(), what };
        let items = page.get("items").and_then(Value::as_array);
        for item in items.ok_or_else(|| malformed("the list has no items".to_owned()))? {
            let node = Node::from_json(item).map_err(|err| malformed(err.to_string()))?;
            listed.insert(node.name.clone(), node);
        }
        let text = |key: &str| {
            page.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default()
        };
        let next = encode(text("continue"));
        if next.is_empty() {
            break text("resourceVersion").to_owned();
        }
        if token.as_ref() == Some(&next) {
            return Err(malformed("the continue token returned the same page again".to_owned()));
        }
        token = Some(next);
    };
    let names: BTreeSet<&NodeName> = listed.keys().collect();
    let gone: Vec<Arc<Node>> =
        store.all().into_iter().filter(|node| !names.contains(&node.name)).collect();
    for node in gone {
        store.remove(&node.name, &node.uid);
        on_change(NodeChange::Deleted(node));
    }
    for node in listed.into_values() {
        let is_known = store.get(&node.name).is_some_and(|known| *known == node);
        store.replace(node.clone());
        if !is_known {
            on_change(NodeChange::Applied(Arc::new(node)));
        }
    }
    store.mark_synced();
    Ok(version)
}

fn apply(store: &NodeStore, node: Node, on_change: &(dyn Fn(NodeChange) + Send + Sync)) {
    let name = node.name.clone();
    if store.upsert(node)
        && let Some(node) = store.get(&name)
    {
        on_change(NodeChange::Applied(node));
    }
}

/// True if both versions are numbers and the first is lower. Kubernetes 1.35 and newer promise that
/// versions are numbers.
pub(crate) fn is_earlier(version: &str, than: &str) -> bool {
    matches!((version.parse::<u64>(), than.parse::<u64>()), (Ok(version), Ok(than)) if version < than)
}

/// Returns the end of a watch that an error event means: expiry for the code 410, otherwise the
/// text of the event as the error.
fn end_by_error(object: &Value) -> Result<End, String> {
    let code = object.get("code").and_then(Value::as_u64).unwrap_or_default();
    if code == 410 {
        return Ok(End::Expired);
    }
    let message = object.get("message").and_then(Value::as_str).unwrap_or_default();
    Err(format!("an error event with {code}: {message}"))
}

async fn watch(
    cluster: &Cluster,
    store: &NodeStore,
    version: &mut String,
    on_change: &(dyn Fn(NodeChange) + Send + Sync),
) -> Result<End, ClusterError> {
    let path = format!(
        "/api/v1/nodes?watch=true&allowWatchBookmarks=true&resourceVersion={version}\
         &timeoutSeconds={WATCH_SECONDS}"
    );
    let mut events = match cluster.open(&path).await {
        Ok(body) => WatchEvents::new(path.clone(), body),
        Err(err) if err.code() == Some(410) => return Ok(End::Expired),
        Err(err) => return Err(err),
    };
    let opened_at = Instant::now();
    let mut has_told = false;
    loop {
        let event = match events.next(IDLE).await? {
            WatchItem::Event(event) => event,
            WatchItem::End if opened_at.elapsed() < LIVED => return Ok(End::AtOnce { has_told }),
            WatchItem::End => return Ok(End::Closed),
            // The connection is dead, or the cluster was restored from a backup: a server sends no
            // events to a watch whose version it has not reached yet.
            WatchItem::Nothing => {
                tracing::info!(
                    "the watch of Nodes sent nothing for a long time; listing Nodes again"
                );
                return Ok(End::Expired);
            }
        };
        let malformed = |what: String| ClusterError::Malformed { path: path.clone(), what };
        let object = event.get("object").unwrap_or(&Value::Null);
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "ERROR" {
            return end_by_error(object).map_err(malformed);
        }
        has_told = true;
        if kind != "BOOKMARK" {
            let node = Node::from_json(object).map_err(|err| malformed(err.to_string()))?;
            match kind {
                "ADDED" | "MODIFIED" => apply(store, node, on_change),
                "DELETED" => {
                    store.remove(&node.name, &node.uid);
                    on_change(NodeChange::Deleted(Arc::new(node)));
                }
                other => return Err(malformed(format!("an event of unknown type {other:?}"))),
            }
        }
        if let Some(seen) = object.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
            if is_earlier(seen, version) {
                tracing::warn!(from = %version, to = %seen, "the node watch returned an older resource version than before; listing nodes again");
                return Ok(End::Expired);
            }
            seen.clone_into(version);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Mutex};

    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_of_nodes_whose_continue_token_comes_back_is_an_error() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let mut noted = noted.lock().unwrap();
            noted.push(request.uri().query().unwrap_or_default().to_owned());
            assert!(noted.len() < 10, "the list has no end: {noted:?}");
            let page = json!({"metadata": {"continue": "a b"}, "items": []}).to_string();
            let page = http_body_util::Full::new(bytes::Bytes::from(page));
            async move { Ok::<_, Infallible>(http::Response::new(page)) }
        });
        let cluster = Cluster::new(kube::Client::new(service, "default"), -1.0, 0);
        let listed = list(&cluster, &NodeStore::new(), &|_| {}).await;
        assert!(matches!(listed, Err(ClusterError::Malformed { .. })), "{listed:?}");
        assert_eq!(*asked.lock().unwrap(), ["limit=500", "limit=500&continue=a%20b"]);
    }
}
