//! Plays a sequence: sends its requests to a target and collects the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};

use super::normal::StepAnswer;
use super::sequence::{Sequence, SequenceStep};
use super::target::{StreamedResponse, TargetServer};

/// Timeout for the next event of a watch, and for the next part of a body. In virtual time the wait
/// costs nothing.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum number of repetitions of a step with `until`: 25 s in total, because a real server
/// checks for compactions of etcd only every 15 s.
const TRIES: u32 = 500;
/// Pause between two attempts of a step with `until`.
const PAUSE: Duration = Duration::from_millis(50);

/// Headers that are compared, because clients use them. Other headers belong to the transport,
/// differ in every answer (Date, Audit-Id) or name internal objects of the server
/// (X-Kubernetes-Pf-…).
const HEADERS: [&str; 10] = [
    "allow",
    "cache-control",
    "content-encoding",
    "content-type",
    "location",
    "retry-after",
    "vary",
    "warning",
    "www-authenticate",
    "x-content-type-options",
];

/// Prefix of a path in `save` that names a header.
const OF_HEADER: &str = "header ";

/// Size of `$block` in bytes. An answer with two blocks is so large that a real server compresses
/// it.
const BLOCK: usize = 64 << 10;

/// Creates the namespace `id`, plays a sequence in it, and returns the answers. Then deletes the
/// created objects if the target keeps them.
///
/// # Errors
/// Fails if the target cannot be reached or does not answer in time, if a connection breaks, if the
/// namespace exists already, if a step is not valid, or if a compaction fails. Created objects then
/// stay.
pub async fn play(
    sequence: &Sequence,
    target: &TargetServer,
    id: &str,
) -> anyhow::Result<Vec<StepAnswer>> {
    let mut player = Player::new(target, id);
    let namespace = json!({"metadata": {"name": id}});
    let made = player.ask("POST", "/api/v1/namespaces", &namespace).await?;
    anyhow::ensure!(
        made.status() == 201,
        "cannot create the namespace {id} ({}); delete it if an earlier run has left it",
        made.status()
    );
    let mut answers = Vec::new();
    for step in &sequence.steps {
        answers.push(player.step(step).await?);
    }
    if target.keeps() {
        player.clean_up(id).await?;
    }
    Ok(answers)
}

/// State of the play of one sequence.
struct Player<'a> {
    target: &'a TargetServer,
    /// Values that replace `$NAME` in requests, by name.
    names: BTreeMap<String, String>,
    /// Open watches, by the name in the sequence.
    watches: BTreeMap<String, Watch>,
    /// Paths of created objects, in order of creation.
    made: Vec<String>,
}

impl<'a> Player<'a> {
    fn new(target: &'a TargetServer, id: &str) -> Self {
        let names = BTreeMap::from([
            ("id".to_owned(), id.to_owned()),
            ("ns".to_owned(), format!("/api/v1/namespaces/{id}")),
            ("leases".to_owned(), format!("/apis/coordination.k8s.io/v1/namespaces/{id}/leases")),
            ("block".to_owned(), "x".repeat(BLOCK)),
        ]);
        Self { target, names, watches: BTreeMap::new(), made: Vec::new() }
    }

    /// Sends a request that is not part of the sequence, as administrator.
    async fn ask(
        &self,
        method: &str,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<StreamedResponse> {
        let content_type =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("user-agent", "conformance/1")
            .header("content-type", content_type);
        if let Some(token) = self.target.token("admin") {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.send(request.body(Bytes::from(serde_json::to_vec(body)?))?).await
    }

    /// Sends a request and returns the answer. Fails after 10 s, because a sequence cannot contain
    /// a request without an answer.
    async fn send(&self, request: Request<Bytes>) -> anyhow::Result<StreamedResponse> {
        let line = format!("{} {}", request.method(), request.uri());
        tokio::time::timeout(PATIENCE * 2, self.target.send(request)).await.with_context(|| {
            format!(
                "the server gave no answer to {line} in time; remove this request from the \
                 sequence, or check if the server is overloaded"
            )
        })?
    }

    /// Plays a step and returns the answer.
    async fn step(&mut self, step: &SequenceStep) -> anyhow::Result<StepAnswer> {
        if let Some(watch) = &step.read {
            let events = match self.watches.get_mut(watch) {
                Some(watch) => watch.read(step.events).await?,
                None => vec!["(the watch was refused)".into()],
            };
            return Ok(StepAnswer { events: Some(events), ..StepAnswer::default() });
        }
        if step.compact {
            self.compact().await?;
            return Ok(StepAnswer::default());
        }
        let line = self.fill(step.request.as_deref().unwrap_or_default());
        let (method, path) = line
            .split_once(' ')
            .context("`do`: expected a method and a path, such as GET /api/v1/nodes")?;
        let mut response = self.send(self.request(step, method, path)?).await?;
        let mut tries = TRIES;
        while step.until.is_some_and(|wanted| response.status() != wanted) && tries > 0 {
            whole(response).await?;
            tokio::time::sleep(PAUSE).await;
            response = self.send(self.request(step, method, path)?).await?;
            tries -= 1;
        }
        let status = response.status().as_u16();
        self.save_headers(step, response.headers());
        let headers = headers(response.headers());
        let (answer, value) = match &step.watch {
            Some(name) if status == 200 => {
                self.watches.insert(name.clone(), Watch::new(response));
                (StepAnswer { status, headers, ..StepAnswer::default() }, Value::Null)
            }
            _ => {
                let content_type = headers.get("content-type").map_or("", String::as_str);
                let bytes = whole(response).await?;
                let value = value_of(&bytes, content_type);
                let shown = if step.pick.is_empty() || status >= 400 {
                    value.clone()
                } else {
                    picked(&value, &step.pick)
                };
                (StepAnswer { status, headers, body: Some(shown), events: None }, value)
            }
        };
        self.save_values(step, &value);
        self.note_made(status, path, &value);
        Ok(answer)
    }

    /// Saves the values of an answer to which the step gives names. If the answer lacks a value,
    /// its name keeps the value of an earlier step, or else gets the value 1.
    fn save_values(&mut self, step: &SequenceStep, value: &Value) {
        for (name, path) in step.save.iter().filter(|(_, path)| !path.starts_with(OF_HEADER)) {
            let found = value_at(value, path).and_then(|it| match it {
                Value::String(text) => Some(text.clone()),
                Value::Null => None,
                other => Some(other.to_string()),
            });
            // Continues if the answer lacks the value, so that later steps are compared, too. The
            // name keeps an earlier value; otherwise it becomes 1, which is not the version, UID or
            // token of any object.
            match found {
                Some(found) => self.names.insert(name.clone(), found),
                None => Some(self.names.entry(name.clone()).or_insert_with(|| "1".into()).clone()),
            };
        }
    }

    /// Saves the values of headers that the step names; `none` for an absent header.
    fn save_headers(&mut self, step: &SequenceStep, headers: &HeaderMap) {
        for (name, path) in &step.save {
            let Some(header) = path.strip_prefix(OF_HEADER) else { continue };
            let value = headers.get(header).and_then(|it| it.to_str().ok()).unwrap_or("none");
            self.names.insert(name.clone(), value.to_owned());
        }
    }

    /// Makes the server forget all revisions before the present one.
    ///
    /// # Errors
    /// Fails if the server does not answer or does not tell its present revision, or as
    /// [`TargetServer::compact`] does.
    async fn compact(&self) -> anyhow::Result<()> {
        let now = whole(self.ask("GET", "/api/v1/namespaces?limit=1", &Value::Null).await?).await?;
        let revision = body(&now, true);
        let revision = value_at(&revision, "metadata.resourceVersion").and_then(Value::as_str);
        let revision = revision.and_then(|it| it.parse().ok()).context(
            "the answer to GET /api/v1/namespaces has no metadata.resourceVersion as a number; \
             check that the server is a kube-apiserver",
        )?;
        self.target.compact(revision).await
    }

    fn request(
        &self,
        step: &SequenceStep,
        method: &str,
        path: &str,
    ) -> anyhow::Result<Request<Bytes>> {
        let (body, default_type) = match (&step.body, &step.raw, &step.base64) {
            (Some(body), ..) => (Bytes::from(self.fill(&body.to_string())), "application/json"),
            (_, Some(raw), _) => (Bytes::from(self.fill(raw)), "application/json"),
            (.., Some(text)) => {
                let bytes = STANDARD
                    .decode(text.trim())
                    .context("`base64`: the value is not base64; correct it in the sequence")?;
                (Bytes::from(bytes), "application/vnd.kubernetes.protobuf")
            }
            _ => (Bytes::new(), ""),
        };
        let content_type = match step.content_type.as_deref() {
            None => default_type,
            Some("json-patch") => "application/json-patch+json",
            Some("merge") => "application/merge-patch+json",
            Some("strategic") => "application/strategic-merge-patch+json",
            Some(other) => other,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("user-agent", "conformance/1")
            .header("accept", step.accept.as_deref().unwrap_or("application/json"));
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        if let Some(token) = self.target.token(step.user.as_deref().unwrap_or("admin")) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in &step.headers {
            request = request.header(name, self.fill(value));
        }
        request.body(body).with_context(|| {
            format!("{method} {path} is not a valid request; correct `do` or `headers` of the step")
        })
    }

    /// Replaces each `$NAME` by its value, the longest names first.
    fn fill(&self, text: &str) -> String {
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names
            .iter()
            .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("${name}"), value))
    }

    /// Remembers the path of an object for the cleanup, if the answer shows that it was created.
    fn note_made(&mut self, status: u16, path: &str, value: &Value) {
        let Some(name) = value["metadata"]["name"].as_str() else { return };
        let has_uid = value["metadata"]["uid"].is_string();
        if status == 201 && has_uid {
            let path = path.split('?').next().unwrap_or(path).trim_end_matches('/');
            let path = match path.strip_suffix(name) {
                Some(collection) if collection.ends_with('/') => path.to_owned(),
                _ => format!("{path}/{name}"),
            };
            self.made.push(path);
        }
    }

    /// Deletes the created objects, the newest first, and the namespace.
    async fn clean_up(&mut self, id: &str) -> anyhow::Result<()> {
        self.watches.clear();
        let made = std::mem::take(&mut self.made);
        for path in made.iter().rev() {
            whole(self.ask("PATCH", path, &json!({"metadata": {"finalizers": null}})).await?)
                .await?;
            let now = format!("{path}?gracePeriodSeconds=0");
            whole(self.ask("DELETE", &now, &json!({})).await?).await?;
        }
        // Finalizes the namespace itself, because without a controller manager no controller
        // empties it. Objects that are left in it do no harm.
        let path = format!("/api/v1/namespaces/{id}");
        whole(self.ask("DELETE", &path, &json!({})).await?).await?;
        let done = json!({"metadata": {"name": id}, "spec": {"finalizers": []}});
        whole(self.ask("PUT", &format!("{path}/finalize"), &done).await?).await?;
        Ok(())
    }
}

/// The open answer to a watch request.
struct Watch {
    response: StreamedResponse,
    buffer: BytesMut,
}

impl Watch {
    fn new(response: StreamedResponse) -> Self {
        Self { response, buffer: BytesMut::new() }
    }

    /// Returns the next `n` events. If fewer events arrive, a remark in place of the next event has
    /// the reason.
    ///
    /// # Errors
    /// Fails if the connection breaks.
    async fn read(&mut self, n: usize) -> anyhow::Result<Vec<Value>> {
        let mut events = Vec::new();
        while events.len() < n {
            match tokio::time::timeout(PATIENCE, self.next()).await {
                Ok(Ok(Some(event))) => events.push(event),
                Ok(Err(error)) => return Err(error.context("the connection of a watch broke")),
                Ok(Ok(None)) => {
                    events.push("(the stream ended)".into());
                    break;
                }
                Err(_) => {
                    events.push("(no further event)".into());
                    break;
                }
            }
        }
        Ok(events)
    }

    /// Returns the next event, or `None` at the end of the stream. Cancel safe: received data stays
    /// in the buffer.
    async fn next(&mut self) -> anyhow::Result<Option<Value>> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Ok(Some(body(&line, true)));
            }
            let Some(frame) = self.response.body_mut().frame().await else { return Ok(None) };
            if let Ok(data) = frame?.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }
}

/// Returns the whole body. If the body pauses for [`PATIENCE`], returns the received part.
///
/// # Errors
/// Fails if the connection breaks.
async fn whole(mut response: StreamedResponse) -> anyhow::Result<Bytes> {
    let mut bytes = BytesMut::new();
    while let Ok(Some(frame)) = tokio::time::timeout(PATIENCE, response.body_mut().frame()).await {
        let frame = frame.context("the connection broke within an answer")?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.freeze())
}

/// Returns a body as its content type says. A binary body becomes only the word `(binary)`, because
/// two encoders may order fields differently.
fn value_of(bytes: &[u8], content_type: &str) -> Value {
    if content_type.contains("protobuf") {
        return "(binary)".into();
    }
    body(bytes, content_type.contains("json"))
}

/// Returns a body as JSON if `is_json` is true and it parses, else as text; `(binary)` if it is not
/// UTF-8.
fn body(bytes: &[u8], is_json: bool) -> Value {
    if is_json && let Ok(value) = serde_json::from_slice(bytes) {
        return value;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => "(binary)".into(),
    }
}

fn headers(all: &HeaderMap) -> BTreeMap<String, String> {
    HEADERS
        .into_iter()
        .filter_map(|name| {
            let values: Vec<&str> =
                all.get_all(name).iter().filter_map(|it| it.to_str().ok()).collect();
            (!values.is_empty()).then(|| (name.to_owned(), values.join(" | ")))
        })
        .collect()
}

/// Returns an object with the parts of a value at these paths, by path.
fn picked(value: &Value, paths: &[String]) -> Value {
    let parts = paths.iter().map(|path| (path.clone(), selected_value(value, path)));
    Value::Object(parts.collect::<Map<_, _>>())
}

/// Returns the value at a path of field names and list indexes, joined by dots; `None` if the path
/// does not exist.
fn value_at<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, field| match field.parse::<usize>() {
        Ok(index) => value.get(index),
        Err(_) => value.get(field),
    })
}

/// Returns the value at a path, or null. In addition to the paths of [`value_at`], `[key=value]`
/// selects the first entry of a list whose field `key` has this value, and `[*]` selects all
/// entries.
fn selected_value(value: &Value, path: &str) -> Value {
    let (step, rest) = split(path);
    if step.is_empty() && rest.is_empty() {
        return value.clone();
    }
    if let Some(inner) = step.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        let entries = value.as_array().map(Vec::as_slice).unwrap_or_default();
        if inner == "*" {
            return entries.iter().map(|entry| selected_value(entry, rest)).collect();
        }
        let (key, wanted) = inner.split_once('=').unwrap_or((inner, ""));
        let has = |entry: &&Value| value_at(entry, key).and_then(Value::as_str) == Some(wanted);
        return entries.iter().find(has).map_or(Value::Null, |entry| selected_value(entry, rest));
    }
    value.get(step).map_or(Value::Null, |value| selected_value(value, rest))
}

/// Splits a path into its first step and the rest. Quotes enclose a field that contains dots or
/// slashes.
fn split(path: &str) -> (&str, &str) {
    let path = path.strip_prefix('.').unwrap_or(path);
    if let Some(quoted) = path.strip_prefix('"')
        && let Some((field, rest)) = quoted.split_once('"')
    {
        return (field, rest);
    }
    if path.starts_with('[') {
        return path.find(']').map_or((path, ""), |end| path.split_at(end + 1));
    }
    path.find(['.', '[']).map_or((path, ""), |end| path.split_at(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_selects_by_field_by_key_and_value_or_every_entry() {
        let value = json!({"groups": [{"name": "a", "v": [1]}, {"name": "b", "v": [2, 3]}], "x/y.z": {"q": 1}});
        for (path, want) in [
            ("groups[name=b].v", json!([2, 3])),
            ("groups[*].name", json!(["a", "b"])),
            ("\"x/y.z\".q", json!(1)),
            ("groups[name=c].v", Value::Null),
            ("nothing.here", Value::Null),
        ] {
            assert_eq!(selected_value(&value, path), want, "{path}");
        }
    }
}
