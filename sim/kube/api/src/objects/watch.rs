//! Watches: answers that stream the changes of objects.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use jiff::Timestamp;
use kube_sim_store::{FieldErrors, Paging, ResourceDef, Selection, Status, WatchType};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::answer::render::Rendering;
use crate::answer::{self, Body, Outcome, Reply};
use crate::backend::{Changes, Cluster};
use crate::objects::encodings::{self, EncodingCache, EncodingKey, TableInputs};
use crate::objects::{self, name_of, selection};
use crate::objects::{Effects, WatchEffects};
use crate::query::Query;
use crate::request::Request;
use crate::request::accept::Form;
use crate::request::route::Target;

/// Duration of a watch without a timeout: 30 minutes. The real server draws 30 to 60 minutes at
/// random.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);

/// Longest duration of a watch: ten years, so that no clock overflows.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Interval between bookmarks: one minute, as in the real server.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

/// Time between the last bookmark and the end of the watch: 2 s.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// Starts a watch. The body of the answer streams its events.
///
/// # Errors
/// 406 for an unavailable representation; 400 or 422 for invalid parameters, 500 for an invalid
/// `resourceVersion`; a refusal of the initial list, such as 410. Later failures are events.
pub(crate) fn answer(
    cluster: &Cluster,
    encodings: &EncodingCache,
    def: &ResourceDef,
    request: &Request,
    target: &Target,
    effects: &Effects,
) -> Result<Reply, Status> {
    let rendering = Rendering::of(cluster, def, request)?;
    if matches!(rendering.form, Form::PartialList(_)) {
        return Err(rendering.unfit(def, ""));
    }
    let query = &request.query;
    let selection = selection(def, request, target)?;
    check_options(request)?;
    let timeout = effects.watch.lasts.map_or(timeout(query)?, |lasts| lasts.min(LONGEST));
    let asked = query.version()?;
    let now = Instant::now();
    let mut watch = Watch {
        changes: cluster.changes(),
        cluster: cluster.clone(),
        encodings: encodings.clone(),
        rendering,
        has_columns: false,
        def: def.clone(),
        selection,
        effects: effects.clone(),
        began: cluster.read(|store| store.revision()),
        generation: cluster.read(|store| store.watches_ended()),
        cursor: asked,
        pending: VecDeque::new(),
        taken: now,
        late: VecDeque::new(),
        n_queued: 0,
        bookmarks: query.flag("allowWatchBookmarks") && !effects.watch.no_bookmark,
        next_bookmark: now,
        deadline: now + timeout,
        is_held: false,
        is_over: false,
    };
    watch.schedule_bookmark(now);
    watch.apply_event_limits();
    let wants_initial = query.has("sendInitialEvents").then(|| query.flag("sendInitialEvents"));
    let stale = cluster.read(|store| objects::stale(store, def, request, effects));
    watch.begin(asked, wants_initial, stale.unwrap_or_default())?;
    Ok(Reply { response: streamed(watch), outcome: Outcome::default() })
}

/// Duration of a watch: `timeoutSeconds`, at most [`LONGEST`]; 30 minutes if the parameter is 0 or
/// absent, zero if it is negative.
///
/// # Errors
/// 400 if `timeoutSeconds` is not a number.
fn timeout(query: &Query) -> Result<Duration, Status> {
    let seconds = query.integer("timeoutSeconds").map_err(Status::bad_request)?;
    Ok(match seconds.unwrap_or_default() {
        0 => DEFAULT_TIMEOUT,
        // A negative timeout gives an empty stream.
        seconds => Duration::from_secs(seconds.try_into().unwrap_or_default()).min(LONGEST),
    })
}

fn check_options(request: &Request) -> Result<(), Status> {
    let query = &request.query;
    let version_match = query.get("resourceVersionMatch");
    let initial = query.has("sendInitialEvents");
    let mut errors = FieldErrors::default();
    let field = "resourceVersionMatch";
    if initial && version_match != "NotOlderThan" {
        errors.forbidden(
            field,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        );
    }
    if !version_match.is_empty() {
        if !initial {
            errors.forbidden(
                field,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        if version_match != "NotOlderThan" {
            errors.not_supported(field, version_match, &["NotOlderThan"]);
        }
        if !query.get("continue").is_empty() {
            errors.forbidden(field, "resourceVersionMatch is forbidden when continue is provided");
        }
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid("meta.k8s.io", "ListOptions", "", errors))
    }
}

fn streamed(watch: Watch) -> Response<Body> {
    let frames = stream::unfold(watch, |mut watch| async move {
        let frame = watch.next().await?;
        Some((Ok::<_, io::Error>(Frame::data(frame)), watch))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer::JSON));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A running watch. Only the body of its answer polls it.
struct Watch {
    cluster: Cluster,
    changes: Changes,
    encodings: EncodingCache,
    rendering: Rendering,
    /// True after a table has been sent with columns; later tables omit them.
    has_columns: bool,
    def: ResourceDef,
    selection: Selection,
    effects: Effects,
    /// Revision of the store when the watch began. Events of newer changes are live: fault rules
    /// may delay them, and their objects include hidden fields.
    began: u64,
    /// Number of times that the store had ended all watches when this watch began. The watch ends
    /// when that number changes.
    generation: u64,
    /// Revision up to which the watch has read changes from the store. Changes that are not sent
    /// yet wait in `pending` or `late`.
    cursor: u64,
    /// Events to send. They hold references to objects, not bytes, so that a slow reader costs no
    /// copies.
    pending: VecDeque<Pending>,
    /// Time at which the watch last read the store or checked how far back the history of the store
    /// goes.
    taken: Instant,
    /// Events that a fault rule delays, each with the time at which it is due.
    late: VecDeque<(Instant, &'static str, Arc<Value>)>,
    /// Number of events that have been queued in `pending`, without bookmarks and errors. An event
    /// that a fault rule duplicates counts once.
    n_queued: u64,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    /// True if a fault rule holds the watch: after its pending events the watch sends nothing more,
    /// and it never ends.
    is_held: bool,
    is_over: bool,
}

impl Watch {
    /// Returns the next line of the answer; `None` when the watch is over.
    ///
    /// Cancel safe: an event leaves the queue only when its line is returned.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            self.end_if_history_is_lost();
            if let Some(pending) = self.pending.pop_front() {
                return Some(self.write(pending));
            }
            if self.is_over {
                return None;
            }
            if self.is_held {
                std::future::pending::<()>().await;
            }
            if self.effects.watch.silent {
                tokio::time::sleep_until(self.deadline).await;
                self.is_over = true;
                continue;
            }
            self.queue_due();
            // Marks changes as seen before it reads the store, so that a change after the read
            // wakes the watch.
            self.changes.mark_unchanged();
            self.taken = Instant::now();
            self.read_changes();
            if self.is_over || !self.pending.is_empty() {
                continue;
            }
            let mut wake =
                if self.bookmarks { self.next_bookmark.min(self.deadline) } else { self.deadline };
            if let Some((due, ..)) = self.late.front() {
                wake = wake.min(*due);
            }
            tokio::select! {
                biased;
                () = self.changes.changed() => {}
                () = tokio::time::sleep_until(wake) => self.tick(),
            }
        }
    }

    /// Queues the initial events, if the request calls for them: one for each selected object in
    /// the state `state` and, with `sendInitialEvents` and `allowWatchBookmarks`, a bookmark at
    /// their end. `asked` is the requested `resourceVersion` (0 if absent), `wants_initial` the
    /// parameter `sendInitialEvents`. Ends the watch with an ERROR event if a fault rule demands
    /// 410, or if `asked` is in the future and `wants_initial` is true.
    ///
    /// # Errors
    /// Refusals of the initial list, such as 410. The watch sends all other failures as events.
    fn begin(
        &mut self,
        asked: u64,
        wants_initial: Option<bool>,
        state: Paging,
    ) -> Result<(), Status> {
        let current = self.began;
        match (wants_initial, asked) {
            _ if self.effects.watch.gone410 => self.end_with_expired(),
            (Some(true), asked) if asked > current => {
                self.fail(&Status::too_large_version(asked, current));
            }
            (Some(true), _) => {
                self.begin_with_everything(&state)?;
                self.queue_initial_end();
            }
            (Some(false), 0) => self.cursor = current,
            // With `resourceVersion=0`, or without the parameter, a watch begins with all objects.
            (None, 0) => self.begin_with_everything(&state)?,
            (_, _) => {}
        }
        Ok(())
    }

    /// Sets the time of the next bookmark: a minute after `now`, or 2 s before the end of the watch
    /// if that time comes earlier and has not passed.
    fn schedule_bookmark(&mut self, now: Instant) {
        let next = now + BOOKMARK_PERIOD;
        let last = self.deadline.checked_sub(LAST_BOOKMARK).filter(|last| now < *last);
        self.next_bookmark = last.map_or(next, |last| next.min(last));
    }

    fn tick(&mut self) {
        let now = Instant::now();
        if self.bookmarks && now >= self.next_bookmark {
            self.schedule_bookmark(now);
            // While events are late, a bookmark would claim that they have been sent. A watch from
            // a version that the store has not reached, as after a restore, gets no bookmark
            // either, because the real server's watch cache drops bookmarks up to the requested
            // version.
            let is_ahead = self.cluster.read(|store| store.revision()) < self.cursor;
            if self.late.is_empty() && !is_ahead {
                self.bookmark(None);
            }
        }
        self.is_over |= now >= self.deadline;
    }

    /// Queues the changes since the cursor as events. Ends the watch if it cannot continue.
    fn read_changes(&mut self) {
        let (events, revision, may_go_on) = self.cluster.read(|store| {
            let events = store.watch_since(&self.def.id, &self.selection, self.cursor);
            let is_served =
                store.resource(&self.def.id).is_some_and(|def| def.is_same_as(&self.def));
            (events, store.revision(), is_served && store.watches_ended() == self.generation)
        });
        match events {
            Ok(events) => {
                for event in events {
                    let is_live = event.revision > self.began;
                    self.queue_event(event.kind.as_str(), &event.object, is_live);
                }
                self.cursor = self.cursor.max(revision);
            }
            Err(status) => self.fail(&status),
        }
        // The watch ends when a client deletes or changes the definition of its kind, and when a
        // command ends all watches.
        self.is_over |= !may_go_on;
    }

    fn begin_with_everything(&mut self, state: &Paging) -> Result<(), Status> {
        self.changes.mark_unchanged();
        let page = self.cluster.read(|store| store.list(&self.def.id, &self.selection, state))?;
        self.cursor = page.revision;
        if self.effects.watch.silent {
            return Ok(());
        }
        let n_shown = self.effects.max_objects().unwrap_or(usize::MAX);
        for object in page.items.iter().take(n_shown) {
            self.queue_event("ADDED", object, false);
        }
        Ok(())
    }

    fn queue_initial_end(&mut self) {
        if self.bookmarks && !self.effects.watch.silent {
            self.bookmark(Some(json!({"k8s.io/initial-events-end": "true"})));
        }
    }

    fn queue_event(&mut self, kind: &'static str, object: &Arc<Value>, is_live: bool) {
        if self.is_over || self.is_held || self.effects.hides(name_of(object)) {
            return;
        }
        match self.effects.watch.delay.filter(|_| is_live) {
            Some(delay) => self.late.push_back((Instant::now() + delay, kind, object.clone())),
            None => self.queue_now(kind, object, is_live),
        }
    }

    /// Queues the late events that are due.
    fn queue_due(&mut self) {
        let now = Instant::now();
        while self.late.front().is_some_and(|(due, ..)| *due <= now) {
            if let Some((_, kind, object)) = self.late.pop_front() {
                self.queue_now(kind, &object, true);
            }
        }
    }

    fn queue_now(&mut self, kind: &'static str, object: &Arc<Value>, is_live: bool) {
        if self.is_over || self.is_held {
            return;
        }
        self.n_queued += 1;
        // The real server wraps the objects of live events, and hides nothing in wrapped objects
        // (`apiserver: pkg/storage/cacher/caching_object.go`).
        let as_kept = is_live && self.def.hides_fields();
        let object = if as_kept { Ok(object.clone()) } else { self.shown(object) };
        match object {
            Ok(object) => {
                if self.effects.watch.duplicate {
                    self.pending.push_back(Pending { kind, object: object.clone(), as_kept });
                }
                self.pending.push_back(Pending { kind, object, as_kept });
            }
            Err(status) => return self.fail(&status),
        }
        self.apply_event_limits();
    }

    /// Ends or holds the watch once it has queued the number of events that a fault rule sets.
    fn apply_event_limits(&mut self) {
        let WatchEffects { gone_after, close_after, hold_after, .. } = self.effects.watch;
        let is_due = |limit: Option<u64>| limit.is_some_and(|limit| self.n_queued >= limit);
        if is_due(gone_after) {
            self.end_with_expired();
        } else if is_due(close_after) {
            self.is_over = true;
        } else if is_due(hold_after) {
            self.is_held = true;
        }
    }

    /// Drops the pending events and ends the watch with a 410 event if its client reads so slowly
    /// that the store has forgotten the changes after the cursor. Without this limit a client could
    /// keep any number of old objects in memory.
    fn end_if_history_is_lost(&mut self) {
        if self.pending.is_empty() || self.is_over || self.taken.elapsed() < SLOW {
            return;
        }
        self.taken = Instant::now();
        if !self.cluster.read(|store| store.has_changes_since(&self.def.id, self.cursor)) {
            self.pending.clear();
            self.end_with_expired();
        }
    }

    /// Ends the watch with an ERROR event 410, the answer to a revision that the store has
    /// forgotten.
    fn end_with_expired(&mut self) {
        let at = self.cursor;
        self.fail(&Status::expired(format!("too old resource version: {at} ({})", at + 1)));
    }

    /// The object as clients of the watched version see it. Fails if the object cannot be
    /// converted.
    fn shown(&self, object: &Arc<Value>) -> Result<Arc<Value>, Status> {
        let def = &self.def;
        if def.is_shown_as_kept() {
            return Ok(object.clone());
        }
        self.cluster.read(|store| store.to_client(def, &def.version, object))
    }

    fn bookmark(&mut self, annotations: Option<Value>) {
        if self.is_over || self.is_held {
            return;
        }
        let mut metadata = json!({"resourceVersion": self.cursor.to_string()});
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        let object = json!({
            "kind": self.def.kind,
            "apiVersion": answer::api_version(&self.def),
            "metadata": metadata,
        });
        self.pending.push_back(Pending {
            kind: BOOKMARK,
            object: Arc::new(object),
            as_kept: false,
        });
    }

    fn fail(&mut self, status: &Status) {
        let object = Arc::new(status.to_value());
        self.pending.push_back(Pending { kind: ERROR, object, as_kept: false });
        self.is_over = true;
    }

    /// True if all watches of one form can share the serialized object of an event of the type
    /// `kind`. False for tables of bookmarks, and for tables of custom kinds, whose columns change
    /// with the definition: the server makes these tables anew for each watch.
    fn is_shared(&self, kind: &str) -> bool {
        let is_table = self.rendering.include().is_some();
        !is_table || (kind != BOOKMARK && self.def.custom.is_none())
    }

    /// Serializes an event as a line of the answer. [`EncodingCache`] shares the serialized object
    /// between the watches that send it in the same form, except for errors, bookmarks and tables
    /// of custom kinds.
    fn write(&mut self, pending: Pending) -> Bytes {
        let Pending { kind, object, as_kept } = pending;
        let bytes = match kind {
            ERROR => encodings::json(&object),
            _ if !self.is_shared(kind) => {
                let with_columns = !std::mem::replace(&mut self.has_columns, true);
                let now = self.cluster.timestamp();
                encodings::json(&self.rendering.value(&object, with_columns, now))
            }
            BOOKMARK => {
                encodings::json(&self.rendering.value(&object, false, Timestamp::UNIX_EPOCH))
            }
            _ => {
                let now = self.cluster.timestamp();
                let table = self.rendering.include().map(|include| TableInputs {
                    at: now.as_second(),
                    include,
                    with_columns: !std::mem::replace(&mut self.has_columns, true),
                });
                let with_columns = table.is_some_and(|table| table.with_columns);
                let revision = object["metadata"]["resourceVersion"].as_str();
                let edition = EncodingKey {
                    revision: revision.and_then(|it| it.parse().ok()).unwrap_or_default(),
                    uid: object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
                    is_gone: kind == WatchType::Deleted.as_str(),
                    as_kept,
                    version: self.def.version.clone(),
                    schemas: self.def.custom.as_ref().map_or(0, |custom| custom.since),
                    form: self.rendering.form,
                    table,
                };
                self.encodings.bytes(edition, || match self.rendering.form {
                    Form::Whole => encodings::json(&object),
                    _ => encodings::json(&self.rendering.value(&object, with_columns, now)),
                })
            }
        };
        let mut line = Vec::with_capacity(bytes.len() + 40);
        line.extend_from_slice(b"{\"type\":\"");
        line.extend_from_slice(kind.as_bytes());
        line.extend_from_slice(b"\",\"object\":");
        line.extend_from_slice(&bytes);
        line.extend_from_slice(b"}\n");
        line.into()
    }
}

/// Time without a read of the store after which a watch with pending events checks that the store
/// still has the changes after its cursor: 60 s.
const SLOW: Duration = Duration::from_secs(60);

/// An event to send.
struct Pending {
    kind: &'static str,
    object: Arc<Value>,
    /// True if the object contains the stored fields that its kind hides from clients elsewhere
    /// (`ResourceDef::hides_fields`). Only events of changes during a watch contain them.
    as_kept: bool,
}

const BOOKMARK: &str = "BOOKMARK";
const ERROR: &str = "ERROR";
