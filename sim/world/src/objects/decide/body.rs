//! Is a body an object of the right kind, with the right types where they are known?

use serde_json::Value;

use crate::objects::text::json_type;
use crate::objects::{FieldErrors, Key, ResourceDef, Status, meta, shapes};

/// Checks the body of a create or an update.
///
/// # Errors
/// 400 in the words of the real decoder.
pub(super) fn check(def: &ResourceDef, body: &Value) -> Result<(), Status> {
    let kind = def.kind.as_ref();
    if !body.is_object() {
        let found = json_type(body);
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} ({body:.30})"
        )));
    }
    let given_kind = given(body, "kind")?.unwrap_or(kind);
    let expected = api_version(def);
    let given_version = given(body, "apiVersion")?.unwrap_or(&expected);
    if given_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({given_version}) does not match the expected API version ({expected})"
        )));
    }
    let cannot = |why: String| {
        Status::bad_request(format!(
            "{given_kind} in version {:?} cannot be handled as a {kind}: {why}",
            def.version
        ))
    };
    if given_kind != kind {
        return Err(cannot(format!(
            "converting (v1.{given_kind}) to (v1.{kind}): unknown conversion"
        )));
    }
    shapes::complaint(def, body).map_or(Ok(()), |why| Err(cannot(why)))
}

/// Checks the document that a patch leads to.
///
/// # Errors
/// 422 in the words of the real decoder.
pub(super) fn check_patched(def: &ResourceDef, document: &Value) -> Result<(), Status> {
    let Some(why) = shapes::complaint(def, document) else { return Ok(()) };
    let mut errors = FieldErrors::default();
    let shown = if def.confidential { "<omitted>".into() } else { document.to_string() };
    errors.invalid("patch", &shown.into(), &why);
    Err(Status::invalid("", "", "", errors))
}

/// Checks that the body is about the object that the path names.
///
/// # Errors
/// 400 if it is about another one.
pub(super) fn check_name(key: &Key, body: &Value) -> Result<(), Status> {
    let (name, namespace) = (meta::text(body, "name"), meta::text(body, "namespace"));
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            key.name
        )));
    }
    if name != key.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    if !key.namespace.is_empty() && !namespace.is_empty() && namespace != key.namespace {
        return Err(Status::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
            key.namespace
        )));
    }
    Ok(())
}

/// `v1`, `coordination.k8s.io/v1`.
pub(super) fn api_version(def: &ResourceDef) -> String {
    match def.id.group.as_ref() {
        "" => def.version.to_string(),
        group => format!("{group}/{}", def.version),
    }
}

fn given<'a>(body: &'a Value, field: &str) -> Result<Option<&'a str>, Status> {
    match body.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(Status::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{field} of type string",
            json_type(other)
        ))),
    }
}
