//! One list and one watch of nodes, repeated forever.
//!
//! After a watch that is silent for a while the provider lists all nodes again: a dead connection, and a store that was
//! restored from a backup and has not reached the version yet, look just like a quiet cluster. A version that is too old
//! (410, as an event or as a status) leads to a new list. `kube::runtime::watcher` is not used because its default pauses
//! are not seeded, it has no idle guard, and it retries an HTTP 410 with the same version forever.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use provider_vcenter::{Backoff, Chain, Jitter};
use serde_json::Value;
use tokio::time::Instant;

use super::{Cluster, ClusterError, Heard, NodeStore, WatchEvents, encode};
use crate::model::Node;

/// Time after which the server ends a watch; below the five minutes after which proxies cut silent connections.
const WATCH_SECONDS: u64 = 270;
/// Time without an event after which the watch counts as dead; bookmarks come about once a minute.
const IDLE: Duration = Duration::from_secs(75);
/// Number of failed watches in a row after which all nodes are listed again.
const MAX_FAILURES: u32 = 4;
const PAGE: u32 = 500;
/// A watch that ends sooner than this counts as a failure (as the first one, if it delivered events): a client that
/// reopened it at once would do nothing else.
const LIVED: Duration = Duration::from_secs(1);

/// A change of a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeChange {
    /// The node is new or changed.
    Applied(Arc<Node>),
    /// The node was deleted.
    Deleted(Arc<Node>),
}

enum End {
    /// Closed in the ordinary way; the next watch continues at the last version.
    Closed,
    /// The version is too old.
    Expired,
    /// Closed right after it was opened, with or without an event.
    AtOnce { has_told: bool },
}

/// Lists and watches nodes forever; every change goes into `store` and then to `on_change`.
pub(crate) async fn watch_nodes(
    cluster: &Cluster,
    store: &NodeStore,
    seed: u64,
    on_change: &(dyn Fn(NodeChange) + Send + Sync),
) {
    let jitter = Jitter::new(seed, "nodes/watch");
    let mut backoff = Backoff::new(Duration::from_millis(800), Duration::from_secs(30), jitter);
    let mut version: Option<String> = None;
    // True if the last watch found its version too old.
    let mut has_expired = false;
    loop {
        let result = match version.take() {
            None => list(cluster, store, on_change).await.map(|listed| {
                version = Some(listed);
            }),
            Some(mut from) => {
                let ended = watch(cluster, store, &mut from, on_change).await;
                let was_expired =
                    std::mem::replace(&mut has_expired, matches!(ended, Ok(End::Expired)));
                match ended {
                    // The second time in a row the new list waits: a server to which every version is too old must not be
                    // asked as fast as it answers.
                    Ok(End::Expired) if was_expired => {
                        sleep_after("every version is too old for a watch of nodes", &mut backoff)
                            .await;
                        continue;
                    }
                    Ok(End::Expired) => Ok(()),
                    Ok(End::AtOnce { has_told }) => {
                        version = Some(from);
                        if has_told {
                            backoff.reset();
                        }
                        sleep_after("the watch of nodes ended at once", &mut backoff).await;
                        continue;
                    }
                    Ok(End::Closed) => {
                        version = Some(from);
                        Ok(())
                    }
                    Err(err) => {
                        if backoff.failures() < MAX_FAILURES {
                            version = Some(from);
                        }
                        Err(err)
                    }
                }
            }
        };
        match result {
            Ok(()) => backoff.reset(),
            Err(err) => {
                let pause = backoff.fail().max(err.retry_after().unwrap_or_default());
                tracing::warn!(error = %Chain(&err), pause = ?pause, "watching nodes failed; retrying");
                tokio::time::sleep(pause).await;
            }
        }
    }
}

async fn sleep_after(what: &'static str, backoff: &mut Backoff) {
    let pause = backoff.fail();
    tracing::warn!(pause = ?pause, "{what}");
    tokio::time::sleep(pause).await;
}

async fn list(
    cluster: &Cluster,
    store: &NodeStore,
    on_change: &(dyn Fn(NodeChange) + Send + Sync),
) -> Result<String, ClusterError> {
    let mut listed: BTreeMap<String, Node> = BTreeMap::new();
    let mut token = String::new();
    let version = loop {
        let path = if token.is_empty() {
            format!("/api/v1/nodes?limit={PAGE}")
        } else {
            format!("/api/v1/nodes?limit={PAGE}&continue={token}")
        };
        let page = cluster.get(&path).await?;
        let malformed = |what: String| ClusterError::Malformed { path: path.clone(), what };
        let items = page.get("items").and_then(Value::as_array);
        for item in items.ok_or_else(|| malformed("no items".to_owned()))? {
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
        if next == token {
            return Err(malformed("the same page again, without end".to_owned()));
        }
        token = next;
    };
    let names: BTreeSet<&String> = listed.keys().collect();
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

/// True if both versions are numbers and the first is lower. Kubernetes 1.35 and newer promise that versions are numbers.
fn is_earlier(version: &str, than: &str) -> bool {
    matches!((version.parse::<u64>(), than.parse::<u64>()), (Ok(version), Ok(than)) if version < than)
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
            Heard::Event(event) => event,
            Heard::End if opened_at.elapsed() < LIVED => return Ok(End::AtOnce { has_told }),
            Heard::End => return Ok(End::Closed),
            // The connection is dead, or the store was restored from a backup: a server is silent about a version that it
            // has not reached yet.
            Heard::Nothing => {
                tracing::info!("the node watch is silent; listing nodes again");
                return Ok(End::Expired);
            }
        };
        let malformed = |what: String| ClusterError::Malformed { path: path.clone(), what };
        let object = event.get("object").unwrap_or(&Value::Null);
        let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind == "ERROR" {
            let code = object.get("code").and_then(Value::as_u64).unwrap_or_default();
            if code == 410 {
                return Ok(End::Expired);
            }
            let message = object.get("message").and_then(Value::as_str).unwrap_or_default();
            return Err(malformed(format!("an error event with {code}: {message}")));
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
                other => return Err(malformed(format!("an event of type {other:?}"))),
            }
        }
        if let Some(seen) = object.pointer("/metadata/resourceVersion").and_then(Value::as_str) {
            if is_earlier(seen, version) {
                tracing::warn!(from = %version, to = %seen, "versions of the node watch run backwards; listing nodes again");
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
