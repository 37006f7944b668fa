//! Reads objects, patches and options from request bodies. Refuses malformed bodies in the words of
//! the real server's decoder.

use kube_sim_store::{FieldValidation, PatchKind, ResourceDef, Status, json_type};
use serde_json::{Map, Value};

use crate::protobuf::{self, ProtobufError};
use crate::request::{Request, json};
use kube_sim_store::duplicate_fields;

/// Largest accepted body in bytes: 3 MiB, the real server's limit.
pub const MAX_BODY_BYTES: usize = 3 * 1024 * 1024;

/// Media types that the 415 answer to an unknown media type lists, for built-in and custom kinds.
const BODY_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// Media types that the 415 answer to a protobuf body lists, for a kind without a protobuf form,
/// such as a custom one.
const CUSTOM_BODY_TYPES: &str = "application/json, application/yaml";
const CUSTOM_PATCH_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// Go type into which the real server decodes `apiVersion` and `kind`. The error messages of that
/// server contain this text.
const HEAD: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Reason why a body cannot be read.
enum Unreadable {
    /// The decoder cannot find out the kind of the document; holds the decoder's message.
    Unrecognized(String),
    Refused(Status),
}

impl Request {
    /// The body as JSON without any validation, for the ledger; `None` if the body is too large,
    /// malformed, protobuf of an unknown kind, or YAML that is not also JSON. `api_version` and
    /// `kind` count only for protobuf that does not name its own.
    pub(crate) fn decode_unchecked(&self, api_version: &str, kind: &str) -> Option<Value> {
        if self.body.len() > MAX_BODY_BYTES {
            return None;
        }
        if self.media_type() == protobuf::MEDIA_TYPE {
            return protobuf::decode(&self.body, api_version, kind).ok();
        }
        json::read(&self.body).ok()
    }

    /// An object from the body; `api_version` and `kind` are those that the path expects.
    ///
    /// # Errors
    /// 413, 415, or 400 in the words of the real decoder.
    pub(crate) fn object(&self, api_version: &str, kind: &str) -> Result<Value, Status> {
        self.decoded(api_version, kind).map_err(|error| match error {
            Unreadable::Refused(status) => status,
            Unreadable::Unrecognized(why) => Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({})",
                shown(&self.body)
            )),
        })
    }

    /// `DeleteOptions` from the body; null if the body is empty.
    ///
    /// # Errors
    /// 413, 415, or 400 in the words of the real decoder.
    pub(crate) fn delete_options(&self) -> Result<Value, Status> {
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        self.decoded("v1", "DeleteOptions").map_err(|error| match error {
            Unreadable::Refused(status) => status,
            Unreadable::Unrecognized(why) => Status::bad_request(why),
        })
    }

    fn decoded(&self, api_version: &str, kind: &str) -> Result<Value, Unreadable> {
        self.check_size().map_err(Unreadable::Refused)?;
        let has_protobuf = protobuf::knows(api_version, kind);
        let object = match self.media_type() {
            "" | "application/json" => json::read(&self.body).map_err(|why| {
                Unreadable::Unrecognized(format!(
                    "couldn't get version/kind; json parse error: {why}"
                ))
            })?,
            "application/yaml" => self.yaml().map_err(Unreadable::Unrecognized)?,
            protobuf::MEDIA_TYPE if has_protobuf => {
                let read = protobuf::decode(&self.body, api_version, kind);
                return read.map_err(|error| unreadable(error, kind));
            }
            protobuf::MEDIA_TYPE => {
                return Err(Unreadable::Refused(unsupported(CUSTOM_BODY_TYPES)));
            }
            _ => return Err(Unreadable::Refused(unsupported(BODY_TYPES))),
        };
        if object.is_null() && has_protobuf {
            // Go's types read null as an empty object.
            return Ok(Value::Object(Map::new()));
        }
        check_head(&object).map_err(|why| {
            Unreadable::Unrecognized(format!("couldn't get version/kind; json parse error: {why}"))
        })?;
        Ok(object)
    }

    fn yaml(&self) -> Result<Value, String> {
        let text = std::str::from_utf8(&self.body)
            .map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
        if text.trim().is_empty() {
            return Ok(Value::Object(Map::new()));
        }
        serde_saphyr::from_str(text).map_err(|why| {
            let why = why.to_string();
            let why = why.lines().next().unwrap_or_default();
            format!("yaml: {}", why.strip_prefix("error: ").unwrap_or(why))
        })
    }

    /// Type of the patch in the body, from the content type.
    ///
    /// # Errors
    /// 415 for an unknown or unsupported content type.
    pub(crate) fn patch_kind(&self, def: &ResourceDef) -> Result<PatchKind, Status> {
        match self.media_type() {
            "application/json-patch+json" => Ok(PatchKind::Json),
            "application/merge-patch+json" => Ok(PatchKind::Merge),
            "application/strategic-merge-patch+json" if def.custom.is_none() => {
                Ok(PatchKind::StrategicMerge)
            }
            "application/apply-patch+yaml" => Err(Status::new(
                415,
                "UnsupportedMediaType",
                "this simulated API server does not implement server-side apply (application/apply-patch+yaml)",
            )),
            _ if def.custom.is_some() => Err(unsupported(CUSTOM_PATCH_TYPES)),
            _ => {
                let message = "415: Unsupported Media Type";
                let mut status = Status::new(415, "UnsupportedMediaType", message);
                status.details = Some(Box::default());
                Err(status)
            }
        }
    }

    /// The type of the patch and the patch itself, read from the body.
    ///
    /// After `apiserver: pkg/endpoints/handlers/patch.go`: unless `fieldValidation` is `Ignore`,
    /// the real server first decodes a JSON or merge patch to find unknown fields. If it cannot
    /// decode the patch, the message of the refusal begins with `error decoding patch`.
    ///
    /// # Errors
    /// 413, 415, or 400 in the words of the real decoder.
    pub(crate) fn patch(
        &self,
        def: &ResourceDef,
        validation: FieldValidation,
    ) -> Result<(PatchKind, Value), Status> {
        let kind = self.patch_kind(def)?;
        self.check_size()?;
        let is_strict = validation != FieldValidation::Ignore;
        let refused = |why: String| match kind {
            PatchKind::StrategicMerge => Status::bad_request(why),
            _ if is_strict => Status::bad_request(format!("error decoding patch: {why}")),
            PatchKind::Merge => Status::bad_request("Invalid JSON Patch"),
            PatchKind::Json => Status::bad_request(why),
        };
        let patch = json::read(&self.body).map_err(refused)?;
        let wrong = |found: &Value, wanted: &str| {
            let found = json_type(found);
            refused(format!("json: cannot unmarshal {found} into Go value of type {wanted}"))
        };
        let (list, operation) = match is_strict {
            true => ("[]handlers.jsonPatchOp", "handlers.jsonPatchOp"),
            false => ("jsonpatch.Patch", "jsonpatch.Operation"),
        };
        let patch = match (kind, patch) {
            (PatchKind::Json, Value::Null) => Value::Array(Vec::new()),
            (PatchKind::Json, Value::Array(operations)) => {
                let odd = operations.iter().find(|it| !it.is_object() && !it.is_null());
                if let Some(odd) = odd {
                    return Err(wrong(odd, operation));
                }
                Value::Array(operations)
            }
            (PatchKind::Json, other) => return Err(wrong(&other, list)),
            (PatchKind::StrategicMerge, Value::Null) => Value::Object(Map::new()),
            (PatchKind::Merge, Value::Null) => {
                return Err(Status::bad_request("Invalid JSON Patch"));
            }
            (_, Value::Object(map)) => Value::Object(map),
            (_, other) => return Err(wrong(&other, "map[string]interface {}")),
        };
        Ok((kind, patch))
    }

    /// Paths of fields that occur more than once in a JSON body. Empty for YAML, where this server
    /// does not look for duplicates, and for protobuf, which has none.
    pub(crate) fn duplicate_fields(&self) -> Vec<String> {
        match self.media_type() {
            "application/yaml" | protobuf::MEDIA_TYPE => Vec::new(),
            _ => duplicate_fields(&self.body),
        }
    }

    fn check_size(&self) -> Result<(), Status> {
        if self.body.len() <= MAX_BODY_BYTES {
            return Ok(());
        }
        let message = format!("Request entity too large: limit is {MAX_BODY_BYTES}");
        Err(Status::new(413, "RequestEntityTooLarge", message))
    }
}

fn unreadable(error: ProtobufError, kind: &str) -> Unreadable {
    match error {
        ProtobufError::Envelope(why) => Unreadable::Unrecognized(why),
        ProtobufError::Object { api_version, kind: given, why } => {
            let version = api_version.rsplit('/').next().unwrap_or_default();
            Unreadable::Refused(Status::bad_request(format!(
                "{given} in version {version:?} cannot be handled as a {kind}: {why}"
            )))
        }
    }
}

/// Checks that a document is an object whose `apiVersion` and `kind` are strings, null or absent.
///
/// # Errors
/// The message of the real decoder.
fn check_head(document: &Value) -> Result<(), String> {
    let Some(map) = document.as_object() else {
        let found = json_type(document);
        return Err(format!("json: cannot unmarshal {found} into Go value of type {HEAD}"));
    };
    let is_odd = |(name, value): &(&String, &Value)| {
        matches!(name.as_str(), "apiVersion" | "kind") && !value.is_string() && !value.is_null()
    };
    match map.iter().find(is_odd) {
        None => Ok(()),
        Some((name, value)) => Err(format!(
            "json: cannot unmarshal {} into Go struct field .{name} of type string",
            json_type(value)
        )),
    }
}

fn unsupported(accepted: &str) -> Status {
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {accepted}"
    );
    Status::new(415, "UnsupportedMediaType", message)
}

/// The first bytes of a body, at most 30, as the real server shows them in a message: as text if
/// they begin with `{`, else in hexadecimal, with ` ...` if the body is longer; `<empty>` for an
/// empty body.
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
