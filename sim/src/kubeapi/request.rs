//! A request, taken apart once: route, query, credentials, body.

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Method};
use serde_json::{Map, Value};
use sim_world::objects::{PatchKind, ResourceDef, Status, json_problem};

use super::accept::{self, Asked, Wanted};
use super::duplicates;
use super::failure;
use super::protobuf::{self, ProtobufError};
use super::query::Query;
use super::route::{Route, Target, Verb};
use super::tokens::Identity;
use crate::Incoming;

/// The real server's limit.
const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

const BODY_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// Custom resources have no protobuf.
const CUSTOM_BODY_TYPES: &str = "application/json, application/yaml";

/// A request to the API server.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(super) route: Route,
    pub(super) query: Query,
    pub(super) method: Method,
    pub(super) path: String,
    /// Whom the client certificate names, if there is one.
    pub(super) certificate: Option<Identity>,
    /// As whom the request shall count, if as somebody else.
    pub(super) impersonated: Option<Identity>,
    /// The bearer token, if there is one.
    pub(super) token: Option<String>,
    /// The driver's label of an in-process connection.
    pub(super) client: String,
    accept: String,
    user_agent: String,
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
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            certificate: peer.identity.get().cloned(),
            impersonated: impersonated(&parts.headers),
            token,
            client: peer.client.clone(),
            accept: accepts(&parts.headers),
            user_agent: header(&parts.headers, USER_AGENT).unwrap_or_default(),
            content_type: header(&parts.headers, CONTENT_TYPE).unwrap_or_default(),
            body: body.clone(),
        }
    }

    /// The body as JSON if it can be had, for those who only want to know what it is about.
    pub(super) fn glimpse(&self, api_version: &str, kind: &str) -> Option<Value> {
        if self.body.len() > MAX_BODY_BYTES {
            return None;
        }
        if self.media_type() == protobuf::MEDIA_TYPE {
            return protobuf::decode(&self.body, api_version, kind).ok();
        }
        serde_json::from_slice(&self.body).ok()
    }

    /// An object from the body; `api_version` and `kind` are those that the path expects.
    ///
    /// # Errors
    /// 413, 415, or 400 in the words of the real decoder.
    pub(super) fn object(&self, api_version: &str, kind: &str) -> Result<Value, Status> {
        let unrecognized = |why: String| {
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({})",
                shown(&self.body)
            ))
        };
        self.check_size()?;
        let has_protobuf = protobuf::knows(api_version, kind);
        match self.media_type() {
            "" | "application/json" => self.json().and_then(head_checked).map_err(|why| {
                unrecognized(format!("couldn't get version/kind; json parse error: {why}"))
            }),
            "application/yaml" => {
                let text = std::str::from_utf8(&self.body)
                    .map_err(|_| unrecognized("yaml: invalid leading UTF-8 octet".into()))?;
                if text.trim().is_empty() {
                    return Ok(Value::Object(Map::new()));
                }
                serde_saphyr::from_str(text).map_err(|why| {
                    let why = why.to_string();
                    let why = why.lines().next().unwrap_or_default();
                    unrecognized(format!("error converting YAML to JSON: yaml: {why}"))
                })
            }
            protobuf::MEDIA_TYPE if has_protobuf => protobuf::decode(&self.body, api_version, kind)
                .map_err(|error| match error {
                    ProtobufError::Envelope(why) => unrecognized(why),
                    ProtobufError::Object { api_version, kind: given, why } => {
                        let version = api_version.rsplit('/').next().unwrap_or_default();
                        Status::bad_request(format!(
                            "{given} in version {version:?} cannot be handled as a {kind}: {why}"
                        ))
                    }
                }),
            _ if has_protobuf => Err(unsupported(BODY_TYPES)),
            _ => Err(unsupported(CUSTOM_BODY_TYPES)),
        }
    }

    /// How the patch in the body is to be read.
    ///
    /// # Errors
    /// 415.
    pub(super) fn patch_kind(&self) -> Result<PatchKind, Status> {
        match self.media_type() {
            "application/json-patch+json" => Ok(PatchKind::Json),
            "application/merge-patch+json" => Ok(PatchKind::Merge),
            "application/strategic-merge-patch+json" => Ok(PatchKind::StrategicMerge),
            "application/apply-patch+yaml" => Err(Status::new(
                415,
                "UnsupportedMediaType",
                "this simulated API server does not implement server-side apply (application/apply-patch+yaml)",
            )),
            _ => Err(failure::unsupported_media_type()),
        }
    }

    /// The patch in the body and how to read it.
    ///
    /// # Errors
    /// 413, 415, or 400 in the words of the real decoder.
    pub(super) fn patch(&self) -> Result<(PatchKind, Value), Status> {
        let kind = self.patch_kind()?;
        self.check_size()?;
        let patch = self.json().map_err(|why| {
            let is_read_first =
                kind != PatchKind::StrategicMerge && self.query.get("fieldValidation") != "Ignore";
            Status::bad_request(match kind {
                _ if is_read_first => format!("error decoding patch: {why}"),
                PatchKind::Merge => "Invalid JSON Patch".into(),
                _ => why,
            })
        })?;
        Ok((kind, patch))
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// What Go's decoder says.
    fn json(&self) -> Result<Value, String> {
        serde_json::from_slice(&self.body).map_err(|why| {
            // What Go can read and this parser cannot is too deep.
            json_problem(&self.body).unwrap_or_else(|| {
                let is_deep = why.to_string().starts_with("recursion limit");
                if is_deep { "exceeded max depth".into() } else { why.to_string() }
            })
        })
    }

    /// Paths of fields that stand twice in a JSON body; of YAML they are not told, and protobuf has
    /// none.
    pub(super) fn duplicate_fields(&self) -> Vec<String> {
        match self.media_type() {
            "application/yaml" | protobuf::MEDIA_TYPE => Vec::new(),
            _ => duplicates::find(&self.body),
        }
    }

    /// `DeleteOptions` from the body; null if there is none.
    ///
    /// # Errors
    /// 413, 415, or 400 in the words of the real decoder.
    pub(super) fn delete_options(&self) -> Result<Value, Status> {
        if self.body.is_empty() { Ok(Value::Null) } else { self.object("v1", "DeleteOptions") }
    }

    /// Which representation the answer should have.
    ///
    /// # Errors
    /// 406 that says what could be had.
    pub(super) fn wanted(&self) -> Result<Wanted, Status> {
        let is_list = |target: &Target| matches!(target.verb, Verb::List | Verb::Watch);
        let is_list = matches!(&self.route, Route::Resource(target) if is_list(target));
        accept::objects(&self.accept, if is_list { Asked::List } else { Asked::One })
    }

    /// The same for objects of this kind.
    ///
    /// # Errors
    /// 406 that says what could be had.
    pub(super) fn wanted_of(&self, def: &ResourceDef) -> Result<Wanted, Status> {
        match def.custom {
            None => self.wanted(),
            Some(_) => accept::objects(&self.accept, Asked::Custom),
        }
    }

    /// The version of aggregated discovery that the client prefers to plain JSON, if it does.
    pub(super) fn aggregated_discovery(&self) -> Option<&'static str> {
        accept::aggregated_discovery(&self.accept)
    }

    /// Whether a person reads the answer: asked for, or a browser or a tool for the command line.
    ///
    /// After `apiserver: pkg/endpoints/handlers/negotiation`, `isPrettyPrint`.
    pub(super) fn is_pretty(&self) -> bool {
        match self.query.get("pretty") {
            "" => {
                let tools = ["curl", "Wget", "Mozilla/5.0"];
                tools.iter().any(|tool| self.user_agent.starts_with(tool))
                    || self.wanted().is_ok_and(|wanted| wanted.pretty)
            }
            pretty => accept::is_true(pretty),
        }
    }

    /// Who writes: as the request says, or else the first part of the client's name.
    pub(super) fn manager(&self) -> String {
        const MAX_LENGTH: usize = 128;
        match self.query.get("fieldManager") {
            "" => {
                let name = self.user_agent.split('/').next().unwrap_or_default();
                name.chars().filter(|c| !c.is_control()).take(MAX_LENGTH).collect()
            }
            manager => manager.to_owned(),
        }
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

/// As whom the request shall count.
fn impersonated(headers: &HeaderMap) -> Option<Identity> {
    let all = |name: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.map(str::to_owned).collect::<Vec<_>>()
    };
    let user = all("impersonate-user").into_iter().next();
    let groups = all("impersonate-group");
    let is_asked = user.is_some() || !groups.is_empty();
    is_asked.then(|| Identity { user: user.unwrap_or_default(), groups })
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

/// A body whose kind can be told: an object whose head is text.
///
/// # Errors
/// What Go says about another one.
fn head_checked(body: Value) -> Result<Value, String> {
    const HEAD: &str = r#"value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let name = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    match &body {
        // Nothing leaves everything as it is.
        Value::Null => return Ok(Value::Object(Map::new())),
        Value::Object(map) => {
            for field in ["apiVersion", "kind"] {
                if let Some(other) = map.get(field).filter(|it| !it.is_string() && !it.is_null()) {
                    let found = name(other);
                    return Err(format!(
                        "json: cannot unmarshal {found} into Go struct field .{field} of type string"
                    ));
                }
            }
        }
        other => return Err(format!("json: cannot unmarshal {} into Go {HEAD}", name(other))),
    }
    Ok(body)
}
