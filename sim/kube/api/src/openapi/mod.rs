//! OpenAPI v3: a document for each group and version that the server serves.
//!
//! Schemas of built-in kinds are those that the real server publishes; schemas of custom kinds come
//! from their definitions. Paths contain only what `kubectl explain`, `kubectl apply` and client
//! generators read: verbs, kinds and the main query parameters. The server does not serve OpenAPI
//! v2.

mod document;
mod paths;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, LOCATION, VARY};
use http::{HeaderValue, Method, StatusCode};
use serde_json::{Map, json};

use crate::answer::{self, Reply};
use crate::backend::Cluster;
use crate::discovery;
use crate::query::Query;
use crate::request::Request;
use document::Document;

const YEAR: jiff::SignedDuration = jiff::SignedDuration::from_hours(365 * 24);

/// Answers `/openapi/v3`: the list of documents.
pub(crate) fn index(cluster: &Cluster) -> Reply {
    let mut paths = Map::new();
    for (group, version) in discovery::group_versions(cluster) {
        let path = path_of(&group, &version);
        let hash = Document::collect(cluster, &group, &version).hash();
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    // The real server does not declare the list as JSON.
    let index = json!({"paths": paths}).to_string();
    Reply::new(StatusCode::OK, "text/plain; charset=utf-8", index)
}

/// Answers `/openapi/v3/<path>`: one document, 404 for an unknown path, 406 if the client does not
/// accept JSON, or 304 if the client already has the document.
///
/// Redirects a request with another hash than that of the current document to the current document.
pub(crate) fn document(cluster: &Cluster, path: &str, request: &Request) -> Reply {
    let Some((group, version)) = discovery::group_versions(cluster)
        .into_iter()
        .find(|(group, version)| path_of(group, version) == path)
    else {
        let mut reply = Reply::new(StatusCode::NOT_FOUND, "", "").with_fault("NotFound");
        reply.response.headers_mut().remove(CONTENT_TYPE);
        return reply;
    };
    if !request.accepts_json() {
        return Reply::new(StatusCode::NOT_ACCEPTABLE, "text/plain; charset=utf-8", "")
            .with_fault("NotAcceptable");
    }
    let document = Document::collect(cluster, &group, &version);
    let hash = document.hash();
    let asked = Query::get(&request.query, "hash");
    let tag = HeaderValue::from_str(&format!("\"{hash}\""));
    let mut reply = match &tag {
        _ if !asked.is_empty() && asked != hash => {
            Reply::new(StatusCode::MOVED_PERMANENTLY, answer::JSON, "")
        }
        Ok(tag) if is_held(&request.if_none_match, tag) => match request.method {
            Method::GET | Method::HEAD => answer::unchanged(tag),
            _ => Reply::new(StatusCode::PRECONDITION_FAILED, answer::JSON, ""),
        },
        _ => Reply::new(StatusCode::OK, answer::JSON, document.write()),
    };
    let headers = reply.response.headers_mut();
    // A request with the hash of the document always gets the same answer, so clients may cache it.
    let year = (asked == hash).then(|| cluster.timestamp().checked_add(YEAR)).and_then(Result::ok);
    let cached = if year.is_some() { "public, immutable" } else { "no-cache, private" };
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cached));
    let expires = year.map(|at| at.strftime("%a, %d %b %Y %H:%M:%S UTC").to_string());
    if let Some(expires) = expires.and_then(|it| HeaderValue::from_str(&it).ok()) {
        headers.insert(EXPIRES, expires);
    }
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    if let Ok(tag) = tag {
        headers.insert(ETAG, tag);
    }
    if !asked.is_empty() && asked != hash {
        let location = format!("/openapi/v3/{path}?hash={hash}");
        if let Ok(location) = HeaderValue::from_str(&location) {
            headers.insert(LOCATION, location);
        }
    }
    reply
}

/// True if an `If-None-Match` header (`"a", W/"b"`) lists the tag or `*`, so that the client
/// already has the document.
///
/// After Go: `net/http`, `scanETag`: an entry that is not a valid tag ends the list.
fn is_held(if_none_match: &str, tag: &HeaderValue) -> bool {
    let mut rest = if_none_match;
    loop {
        rest = rest.trim_start_matches([',', ' ', '\t']);
        if rest.starts_with('*') {
            return true;
        }
        let said = rest.strip_prefix("W/").unwrap_or(rest);
        let is_open = |byte: u8| byte == b'"' || byte <= b' ' || byte == 0x7f;
        let end = said.strip_prefix('"').and_then(|inner| inner.bytes().position(is_open));
        let Some((said, left)) = end.and_then(|end| said.split_at_checked(end + 2)) else {
            return false;
        };
        if !said.ends_with('"') {
            return false;
        }
        if said.as_bytes() == tag.as_bytes() {
            return true;
        }
        rest = left;
    }
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}
