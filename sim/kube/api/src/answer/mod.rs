//! Builds HTTP answers from objects, lists and failures.

mod facts;
pub(crate) mod failure;
pub(crate) mod render;
mod reply;
pub(crate) mod warnings;

pub(crate) use reply::full;
pub use reply::{Body, Outcome, Reply};

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use kube_sim_store::{Page, ResourceDef, Status};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::{Map, Value, json};

pub(crate) const JSON: &str = "application/json";

/// Size in bytes up to which the server does not compress an answer: 128 KiB.
const MIN_ZIPPED_BYTES: u64 = 128 * 1024;

/// Answer with a JSON document and the line feed that Go's encoder appends.
pub(crate) fn json(status: StatusCode, document: &impl Serialize) -> Reply {
    typed(status, JSON, document)
}

/// Answer with a JSON document and a line feed at its end, with this content type.
pub(crate) fn typed(status: StatusCode, content_type: &str, document: &impl Serialize) -> Reply {
    let mut bytes = serde_json::to_vec(document).unwrap_or_default();
    bytes.push(b'\n');
    let mut reply = Reply::new(status, content_type, bytes);
    let headers = reply.response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    reply
}

/// Answer with plain text.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Reply {
    Reply::new(status, "text/plain; charset=utf-8", text)
}

/// The real server's answer for a path that is not served: a text page, not a `Status`.
pub(crate) fn page_not_found() -> Reply {
    let reply = text(StatusCode::NOT_FOUND, "404 page not found\n").with_fault("NotFound");
    unsniffed(reply)
}

/// Adds `X-Content-Type-Options: nosniff`, so that browsers do not guess the content type.
pub(crate) fn unsniffed(mut reply: Reply) -> Reply {
    let nosniff = HeaderValue::from_static("nosniff");
    reply.response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    reply
}

/// Answer 304: the client already has the current state of the document, which has the tag `tag`.
pub(crate) fn unchanged(tag: &HeaderValue) -> Reply {
    let mut reply = Reply::new(StatusCode::NOT_MODIFIED, "", "");
    let headers = reply.response.headers_mut();
    headers.remove(CONTENT_TYPE);
    headers.insert(ETAG, tag.clone());
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    reply
}

/// Answer with a failure `Status`, and with `Retry-After` and warnings if the status has them.
pub(crate) fn failure(status: &Status) -> Reply {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = json(code, &status.to_value());
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if seconds > 0 {
        reply.response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    let fault = if status.reason.is_empty() {
        status.code.to_string()
    } else {
        status.reason.clone().into_owned()
    };
    warnings::with_warnings(reply.with_fault(fault), &status.warnings)
}

/// Answer to a successful deletion of `object`: a `Status` that names the object, for kinds whose
/// deletions do not return the object itself.
pub(crate) fn deleted(def: &ResourceDef, object: &Value) -> Reply {
    let mut details = Map::new();
    details.insert("name".into(), object["metadata"]["name"].clone());
    if !def.id.group.is_empty() {
        details.insert("group".into(), def.id.group.as_ref().into());
    }
    details.insert("kind".into(), def.id.resource.as_ref().into());
    details.insert("uid".into(), object["metadata"]["uid"].clone());
    json(
        StatusCode::OK,
        &json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": details,
        }),
    )
}

/// Metadata of a list: the revision and, if `page` has them, the continue token and the number of
/// remaining items.
pub(crate) fn list_metadata(page: &Page) -> Map<String, Value> {
    let Page { items: _, revision, continue_token, remaining } = page;
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".into(), revision.to_string().into());
    if let Some(token) = continue_token {
        metadata.insert("continue".into(), token.as_str().into());
    }
    if let Some(remaining) = remaining {
        metadata.insert("remainingItemCount".into(), (*remaining).into());
    }
    metadata
}

/// Answer with a list of whole objects. Its items omit `kind` and `apiVersion`, except items of
/// custom kinds.
pub(crate) fn list(def: &ResourceDef, page: &Page, mut metadata: Map<String, Value>) -> Reply {
    if def.custom.is_some() {
        // For custom kinds the real server writes `continue` even if it is empty.
        metadata.entry("continue").or_insert_with(|| "".into());
    }
    let list = List {
        kind: def
            .custom
            .as_ref()
            .map_or_else(|| format!("{}List", def.kind), |custom| custom.list_kind.clone()),
        items_say_kind: def.custom.is_some(),
        api_version: api_version(def),
        metadata,
        items: page.items.iter().map(AsRef::as_ref).collect(),
    };
    json(StatusCode::OK, &list)
}

fn is_json(reply: &Reply) -> bool {
    let content_type = reply.response.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|it| it.as_bytes().starts_with(JSON.as_bytes()))
}

/// Compresses a JSON answer of more than 128 KiB with gzip. Other answers and streams stay
/// unchanged.
///
/// After `apiserver: pkg/endpoints/handlers/responsewriters/writers.go`.
pub(crate) async fn zipped(reply: Reply) -> Reply {
    let is_large = |size: u64| size > MIN_ZIPPED_BYTES;
    if !is_json(&reply) || !reply.response.body().size_hint().exact().is_some_and(is_large) {
        return reply;
    }
    let Reply { response, outcome } = reply;
    let (mut parts, body) = response.into_parts();
    let bytes = body.collect().await.map(|it| it.to_bytes()).unwrap_or_default();
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
    let zipped = encoder.write_all(&bytes).and_then(|()| encoder.finish());
    let body = match zipped {
        Ok(zipped) => {
            parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
            full(zipped)
        }
        // Writing into memory does not fail.
        Err(_) => full(bytes),
    };
    Reply { response: http::Response::from_parts(parts, body), outcome }
}

/// Indents a JSON answer for human readers, without a line feed at the end.
///
/// Other answers and streams stay unchanged.
pub(crate) async fn pretty(reply: Reply) -> Reply {
    if !is_json(&reply) || reply.response.body().size_hint().exact().is_none() {
        return reply;
    }
    let Reply { response, outcome } = reply;
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map(|it| it.to_bytes()).unwrap_or_default();
    let indented = serde_json::from_slice::<Value>(&bytes)
        .and_then(|document| serde_json::to_vec_pretty(&document))
        .map_or(bytes, Bytes::from);
    Reply { response: http::Response::from_parts(parts, full(indented)), outcome }
}

/// Finishes an answer: forbids caching unless the answer sets `Cache-Control`, and drops the body
/// for HEAD.
pub(crate) fn finished(mut reply: Reply, is_head: bool) -> Reply {
    let headers = reply.response.headers_mut();
    headers.entry(CACHE_CONTROL).or_insert_with(|| HeaderValue::from_static("no-cache, private"));
    if is_head {
        *reply.response.body_mut() = full(Bytes::new());
    }
    reply
}

/// The `apiVersion` of a resource, such as `v1` or `coordination.k8s.io/v1`.
pub(crate) fn api_version(def: &ResourceDef) -> String {
    match def.id.group.as_ref() {
        "" => def.version.to_string(),
        group => format!("{group}/{}", def.version),
    }
}

/// A list that serde serializes directly from the store's objects, without a copy.
struct List<'a> {
    kind: String,
    api_version: String,
    metadata: Map<String, Value>,
    items_say_kind: bool,
    items: Vec<&'a Value>,
}

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("kind", &self.kind)?;
        map.serialize_entry("apiVersion", &self.api_version)?;
        map.serialize_entry("metadata", &self.metadata)?;
        if self.items_say_kind {
            map.serialize_entry("items", &self.items)?;
        } else {
            map.serialize_entry("items", &Items(&self.items))?;
        }
        map.end()
    }
}

struct Items<'a>(&'a [&'a Value]);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for item in self.0 {
            list.serialize_element(&Item(item))?;
        }
        list.end()
    }
}

struct Item<'a>(&'a Value);

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (field, value) in self.0.as_object().into_iter().flatten() {
            if !matches!(field.as_str(), "kind" | "apiVersion") {
                map.serialize_entry(field, value)?;
            }
        }
        map.end()
    }
}
