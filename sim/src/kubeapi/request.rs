//! A request, taken apart once: route, query, credentials, body.

use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;
use sim_world::objects::{PatchKind, Status};

use super::duplicates;
use super::query::Query;
use super::route::Route;
use crate::Incoming;

/// The real server's limit.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

const PATCH_TYPES: &str = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json";
const BODY_TYPES: &str = "application/json, application/yaml";

/// A request to the API server.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(super) route: Route,
    pub(super) query: Query,
    /// The bearer token, if there is one.
    pub(super) token: Option<String>,
    /// The driver's label of an in-process connection.
    pub(super) client: String,
    accept: String,
    content_type: String,
    body: Bytes,
}

impl Request {
    pub(super) fn read(incoming: &Incoming) -> Self {
        let Incoming { parts, body, peer } = incoming;
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let token = header(&parts.headers, AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.trim().split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
        });
        Self {
            route: Route::find(&parts.method, parts.uri.path(), &query),
            query,
            token,
            client: peer.client.clone(),
            accept: accepts(&parts.headers),
            content_type: header(&parts.headers, CONTENT_TYPE).unwrap_or_default(),
            body: body.clone(),
        }
    }

    /// The body as JSON if it is JSON, for those who only want to know what it is about.
    pub(super) fn glimpse(&self) -> Option<Value> {
        if self.body.len() > MAX_BODY_BYTES {
            return None;
        }
        serde_json::from_slice(&self.body).ok()
    }

    /// An object from the body.
    ///
    /// # Errors
    /// 413, 415, or 400 in the words of the real decoder.
    pub(super) fn object(&self, kind: &str) -> Result<Value, Status> {
        let unrecognized = |why: String| {
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({})",
                shown(&self.body)
            ))
        };
        self.check_size()?;
        match self.media_type() {
            "" | "application/json" => serde_json::from_slice(&self.body).map_err(|why| {
                let why = go_syntax_error(&self.body, &why);
                unrecognized(format!("couldn't get version/kind; json parse error: {why}"))
            }),
            "application/yaml" => {
                let text = std::str::from_utf8(&self.body)
                    .map_err(|_| unrecognized("yaml: invalid leading UTF-8 octet".into()))?;
                serde_saphyr::from_str(text)
                    .map_err(|_| unrecognized("error converting YAML to JSON".into()))
            }
            _ => Err(unsupported(BODY_TYPES)),
        }
    }

    /// The patch in the body and how to read it.
    ///
    /// # Errors
    /// 413, 415, or 400 in the words of the real decoder.
    pub(super) fn patch(&self) -> Result<(PatchKind, Value), Status> {
        let kind = match self.media_type() {
            "application/json-patch+json" => PatchKind::Json,
            "application/merge-patch+json" => PatchKind::Merge,
            "application/strategic-merge-patch+json" => PatchKind::StrategicMerge,
            "application/apply-patch+yaml" => {
                return Err(Status::new(
                    415,
                    "UnsupportedMediaType",
                    "this simulated API server does not implement server-side apply (application/apply-patch+yaml)",
                ));
            }
            _ => return Err(unsupported(PATCH_TYPES)),
        };
        self.check_size()?;
        let patch = serde_json::from_slice(&self.body)
            .map_err(|_| Status::bad_request("invalid JSON patch"))?;
        Ok((kind, patch))
    }

    /// Paths of fields that stand twice in a JSON body; of YAML they are not told.
    pub(super) fn duplicate_fields(&self) -> Vec<String> {
        match self.media_type() {
            "application/yaml" => Vec::new(),
            _ => duplicates::find(&self.body),
        }
    }

    /// `DeleteOptions` from the body; null if there is none.
    ///
    /// # Errors
    /// 413, 415, or 400 in the words of the real decoder.
    pub(super) fn delete_options(&self) -> Result<Value, Status> {
        if self.body.is_empty() { Ok(Value::Null) } else { self.object("DeleteOptions") }
    }

    /// Whether the answer may be JSON.
    ///
    /// # Errors
    /// 406 that says what could be had.
    pub(super) fn accepts_json(&self) -> Result<(), Status> {
        let mut converted = None;
        for range in self.accept.split(',').map(str::trim) {
            let (media_type, parameters) = range.split_once(';').unwrap_or((range, ""));
            if !matches!(media_type.trim(), "" | "application/json" | "application/*" | "*/*") {
                continue;
            }
            match parameters.split(';').find_map(|it| it.trim().strip_prefix("as=")) {
                None => return Ok(()),
                Some(target) => converted = Some(target.to_owned()),
            }
        }
        let message = match converted {
            Some(target) => format!(
                "this simulated API server does not implement {target}; only the following media types are accepted: application/json"
            ),
            None => "only the following media types are accepted: application/json".into(),
        };
        Err(Status::new(406, "NotAcceptable", message))
    }

    /// The version of aggregated discovery that the client prefers to plain JSON, if it does.
    pub(super) fn aggregated_discovery(&self) -> Option<&'static str> {
        let wants = |range: &str| {
            let has = |parameter: &str| range.split(';').any(|it| it.trim() == parameter);
            if !has("as=APIGroupDiscoveryList") || !has("g=apidiscovery.k8s.io") {
                return None;
            }
            ["v2", "v2beta1"].into_iter().find(|version| has(&format!("v={version}")))
        };
        self.accept.split(',').find_map(wants)
    }

    fn media_type(&self) -> &str {
        self.content_type.split(';').next().unwrap_or_default().trim()
    }

    fn check_size(&self) -> Result<(), Status> {
        if self.body.len() <= MAX_BODY_BYTES {
            return Ok(());
        }
        let message = format!("Request entity too large: limit is {MAX_BODY_BYTES}");
        Err(Status::new(413, "RequestEntityTooLarge", message))
    }

    pub(super) fn n_bytes(&self) -> u64 {
        self.body.len() as u64
    }
}

fn header(headers: &HeaderMap, name: http::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn accepts(headers: &HeaderMap) -> String {
    let ranges: Vec<&str> =
        headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    ranges.join(",")
}

fn unsupported(accepted: &str) -> Status {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    );
    Status::new(415, "UnsupportedMediaType", message)
}

/// The beginning of a body, as the real server shows it. Never more than thirty bytes.
fn shown(body: &[u8]) -> String {
    const N_SHOWN: usize = 30;
    let (head, dots) = match body.get(..N_SHOWN) {
        Some(head) if body.len() > N_SHOWN => (head, " ..."),
        _ => (body, ""),
    };
    match body.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{dots}", String::from_utf8_lossy(head)),
        Some(_) => {
            let hex: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{dots}")
        }
    }
}

/// A syntax error in the words of Go's decoder, as far as they can be told.
fn go_syntax_error(body: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    if error.to_string().starts_with("recursion limit") {
        return "exceeded max depth".into();
    }
    // Columns count from 1, and bytes.
    let line = body.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1));
    let byte = line.and_then(|line| line.get(error.column().saturating_sub(1)));
    match byte {
        Some(byte) => {
            let found = char::from(*byte);
            format!("invalid character '{found}' looking for beginning of value")
        }
        None => "invalid JSON".into(),
    }
}
