//! Lists the objects of one kind and then watches them, for a view that keeps them.
//!
//! A version that is too old (410, as an event or as a status) leads to a new list, and so does a
//! watch without events for 75 s: the API server may just be quiet, but the connection may also be
//! dead, or the server was restored from a backup and has not reached the version of the watch yet.
//! The watch of Nodes is a separate module, because it counts failures in a row.

use std::time::Duration;

use provider_vcenter::{Backoff, Chain, Jitter};
use serde_json::Value;

use super::{Cluster, ClusterError, WatchEvents, WatchItem, encode};

/// Seconds after which the server ends a watch; fewer than the five minutes after which proxies
/// close silent connections.
const WATCH_SECONDS: u64 = 270;
/// Time without an event after which the watch counts as dead; a bookmark comes about once a
/// minute.
const IDLE: Duration = Duration::from_secs(75);
const PAGE: u32 = 500;
/// Pause between two watches, so that a server that ends each at once causes no busy loop.
const AT_ONCE: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_millis(800);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The objects to list and watch.
pub(crate) struct Collection<'a> {
    pub(crate) cluster: &'a Cluster,
    /// Kind of the objects, for the log.
    pub(crate) kind: &'a str,
    /// Path of the collection, without query.
    pub(crate) path: String,
    /// Part of the query that selects objects; empty for all.
    pub(crate) selector: String,
}

/// A change of one object.
#[derive(Debug)]
pub(crate) enum ObjectChange<'a> {
    /// The object is new or changed.
    Applied(&'a Value),
    /// The object was deleted, or no longer has the selected labels.
    Deleted(&'a Value),
}

/// Returns the object without `metadata.managedFields`, which only its writers need and which are
/// half of many objects.
pub(crate) fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    object
}

/// Keeper of the objects that [`follow`] reads.
pub(crate) trait ObjectView: Sync {
    /// Form in which the view keeps an object.
    type Object: Send;
    /// State of the view before a list.
    type Before: Send;

    /// Reads an object of a list; `None` leaves it out.
    fn read(&self, object: &Value) -> Option<Self::Object>;

    /// Returns what [`ObjectView::listed`] needs to know about the time before the list. An object
    /// that is created while the list is read may be missing in it.
    fn before_list(&self) -> Self::Before;

    /// Takes a complete list and its resource version.
    fn listed(&self, objects: Vec<Self::Object>, before: Self::Before, version: &str);

    /// Takes a change.
    fn changed(&self, change: ObjectChange<'_>);

    /// Notes after each event of the watch, also of a bookmark, that the view is current at this
    /// resource version. A later list of a lower version shows that the API server was restored
    /// from a backup.
    fn confirmed(&self, version: &str);

    /// Notes a failure. Returns false to end [`follow`]; true to try again after a pause.
    fn retries_after(&self, _failure: &ClusterError) -> bool {
        true
    }
}

/// Way in which a watch ended without an error.
enum End {
    /// The server closed the watch; the next one continues at this version.
    Closed(String),
    /// A list is needed: the version is too old, or the watch was silent.
    Expired,
}

/// Keeps the view current until [`ObjectView::retries_after`] ends it. `jitter` is for the pauses
/// after failures.
///
/// Cancel safe: a list that is cut short changes nothing in the view.
pub(crate) async fn follow(objects: &Collection<'_>, view: &impl ObjectView, jitter: Jitter) {
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, jitter);
    let mut version = None;
    loop {
        let listed = match version.take() {
            Some(version) => Ok(version),
            None => list(objects, view).await,
        };
        let ended = match listed {
            Ok(version) => watch(objects, view, version, &mut backoff).await,
            Err(err) => Err(err),
        };
        let pause = match ended {
            Ok(End::Closed(last)) => {
                version = Some(last);
                AT_ONCE
            }
            Ok(End::Expired) => AT_ONCE,
            Err(err) if !view.retries_after(&err) => return,
            Err(err) => {
                let pause = backoff.next_pause().max(err.retry_after().unwrap_or_default());
                tracing::warn!(kind = objects.kind, error = %Chain(&err), pause = ?pause, "listing or watching objects failed; retrying");
                pause
            }
        };
        tokio::time::sleep(pause).await;
    }
}

impl Collection<'_> {
    /// Returns the path with the parts of a query that are not empty.
    fn with_query(&self, parts: &[&str]) -> String {
        let parts = std::iter::once(self.selector.as_str()).chain(parts.iter().copied());
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        format!("{}?{}", self.path, parts.join("&"))
    }
}

/// Reads all objects into the view, and returns the resource version of the list.
async fn list<V: ObjectView>(objects: &Collection<'_>, view: &V) -> Result<String, ClusterError> {
    let before = view.before_list();
    let (mut read, mut token) = (Vec::new(), String::new());
    loop {
        let position = if token.is_empty() { String::new() } else { format!("continue={token}") };
        let path = objects.with_query(&[&format!("limit={PAGE}"), &position]);
        let page = objects.cluster.get(&path).await?;
        let malformed =
            |what: &str| ClusterError::Malformed { path: path.clone(), what: what.to_owned() };
        let items = page["items"].as_array().ok_or_else(|| malformed("the list has no items"))?;
        read.extend(items.iter().filter_map(|item| view.read(item)));
        let next = encode(page["metadata"]["continue"].as_str().unwrap_or_default());
        if next.is_empty() {
            let version = page["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            view.listed(read, before, version);
            return Ok(version.to_owned());
        }
        if next == token {
            return Err(malformed("the continue token returned the same page again"));
        }
        token = next;
    }
}

/// Passes the events of one watch to the view.
async fn watch(
    objects: &Collection<'_>,
    view: &impl ObjectView,
    mut version: String,
    backoff: &mut Backoff,
) -> Result<End, ClusterError> {
    let path = objects.with_query(&[
        "watch=true&allowWatchBookmarks=true",
        &format!("resourceVersion={version}&timeoutSeconds={WATCH_SECONDS}"),
    ]);
    let body = match objects.cluster.open(&path).await {
        Ok(body) => body,
        Err(err) if err.code() == Some(410) => return Ok(End::Expired),
        Err(err) => return Err(err),
    };
    let mut events = WatchEvents::new(path.clone(), body);
    loop {
        let event = match events.next(IDLE).await? {
            WatchItem::Event(event) => event,
            WatchItem::End => return Ok(End::Closed(version)),
            WatchItem::Nothing => return Ok(End::Expired),
        };
        let object = &event["object"];
        match event["type"].as_str().unwrap_or_default() {
            "BOOKMARK" => {}
            "ERROR" if object["code"] == 410 => return Ok(End::Expired),
            "ADDED" | "MODIFIED" => view.changed(ObjectChange::Applied(object)),
            "DELETED" => view.changed(ObjectChange::Deleted(object)),
            kind => {
                let what = format!("an event of type {kind:?}: {}", object["message"]);
                return Err(ClusterError::Malformed { path, what });
            }
        }
        if let Some(seen) = object["metadata"]["resourceVersion"].as_str() {
            seen.clone_into(&mut version);
        }
        backoff.reset();
        view.confirmed(&version);
    }
}

#[cfg(test)]
mod tests;
