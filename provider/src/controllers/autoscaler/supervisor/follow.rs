//! Lists the VirtualMachines of all groups and then watches them, forever.

use std::time::Duration;

use provider_vcenter::{Backoff, Chain, Jitter};
use serde_json::Value;

use super::{Shared, machine::Machine};
use crate::cluster::{ClusterError, WatchEvents, WatchItem, encode};

/// Seconds after which the server ends a watch.
const WATCH_SECONDS: u64 = 270;
/// Time without an event after which the watch counts as dead; a bookmark comes about once a
/// minute.
const IDLE: Duration = Duration::from_secs(75);
const PAGE: u32 = 500;
/// Pause between two watches, so that a server that ends each at once causes no busy loop.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Way in which a watch ended without an error.
enum End {
    /// The server closed the watch; the next one continues at this version.
    Closed(String),
    /// A list is needed: the version is too old, or the watch was silent, as after a restore of the
    /// Supervisor from a backup.
    Expired,
}

/// Keeps the view current, forever.
pub(super) async fn follow(shared: &Shared) {
    let jitter = Jitter::new(shared.seed, "autoscaler/machines");
    let mut backoff = Backoff::new(Duration::from_millis(800), Duration::from_secs(30), jitter);
    let mut version = None;
    loop {
        let listed = match version.take() {
            Some(version) => Ok(version),
            None => list(shared).await,
        };
        let ended = match listed {
            Ok(version) => watch(shared, version, &mut backoff).await,
            Err(err) => Err(err),
        };
        let pause = match ended {
            Ok(End::Closed(last)) => {
                version = Some(last);
                AT_ONCE
            }
            Ok(End::Expired) => AT_ONCE,
            Err(err) => {
                let pause = backoff.next_pause().max(err.retry_after().unwrap_or_default());
                tracing::warn!(error = %Chain(&err), pause = ?pause, "listing or watching VirtualMachines failed; retrying");
                pause
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Reads all objects into the view, and returns the resource version of the list.
async fn list(shared: &Shared) -> Result<String, ClusterError> {
    // A machine that is created while the list is read may be missing in it.
    let known_before = shared.view.lock().expect("no holder panics").uids();
    let (mut machines, mut token) = (Vec::new(), String::new());
    loop {
        let (path, selector) = (shared.machines_path(), shared.selector());
        let mut path = format!("{path}?{selector}&limit={PAGE}");
        if !token.is_empty() {
            path.push_str(&format!("&continue={token}"));
        }
        let page = shared.cluster.get(&path).await?;
        let malformed =
            |what: &str| ClusterError::Malformed { path: path.clone(), what: what.to_owned() };
        let items = page["items"].as_array().ok_or_else(|| malformed("the list has no items"))?;
        machines.extend(items.iter().filter_map(Machine::read));
        let next = encode(page["metadata"]["continue"].as_str().unwrap_or_default());
        if next.is_empty() {
            let mut view = shared.view.lock().expect("no holder panics");
            let version = page["metadata"]["resourceVersion"].as_str().unwrap_or_default();
            view.replace(machines, &known_before, version);
            return Ok(version.to_owned());
        }
        if next == token {
            return Err(malformed("the continue token returned the same page again"));
        }
        token = next;
    }
}

/// Applies the events of one watch.
async fn watch(
    shared: &Shared,
    mut version: String,
    backoff: &mut Backoff,
) -> Result<End, ClusterError> {
    let path = format!(
        "{}?{}&watch=true&allowWatchBookmarks=true&resourceVersion={version}\
         &timeoutSeconds={WATCH_SECONDS}",
        shared.machines_path(),
        shared.selector()
    );
    let body = match shared.cluster.open(&path).await {
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
            kind @ ("ADDED" | "MODIFIED" | "DELETED") => apply(shared, kind, object),
            kind => {
                let what = format!("an event of type {kind:?}: {}", object["message"]);
                return Err(ClusterError::Malformed { path, what });
            }
        }
        if let Some(seen) = object["metadata"]["resourceVersion"].as_str() {
            seen.clone_into(&mut version);
        }
        backoff.reset();
        shared.mark_current();
    }
}

fn apply(shared: &Shared, kind: &str, object: &Value) {
    let mut view = shared.view.lock().expect("no holder panics");
    match (kind, Machine::read(object)) {
        ("DELETED", _) => view.remove(
            object["metadata"]["uid"].as_str().unwrap_or_default(),
            object["metadata"]["resourceVersion"].as_str(),
        ),
        (_, Some(machine)) => view.apply(machine),
        (_, None) => {}
    }
}
