//! Is a body an object of the right kind, with the right types where they are known?

use serde_json::Value;

use crate::objects::text::json_type;
use crate::objects::{FieldErrors, FieldShape, Key, ResourceDef, Shape, Status, meta};

/// Types of the fields that every object has.
const METADATA: [FieldShape; 10] = {
    use crate::objects::resource::shape;
    [
        shape("metadata.name", "ObjectMeta", Shape::String),
        shape("metadata.generateName", "ObjectMeta", Shape::String),
        shape("metadata.namespace", "ObjectMeta", Shape::String),
        shape("metadata.uid", "ObjectMeta", Shape::String),
        shape("metadata.resourceVersion", "ObjectMeta", Shape::String),
        shape("metadata.generation", "ObjectMeta", Shape::Int("int64")),
        shape("metadata.labels", "ObjectMeta", Shape::Strings),
        shape("metadata.annotations", "ObjectMeta", Shape::Strings),
        shape("metadata.ownerReferences", "ObjectMeta", Shape::List("[]v1.OwnerReference")),
        shape("metadata.finalizers", "ObjectMeta", Shape::StringList),
    ]
};

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
    misshapen(def, body).map_or(Ok(()), |why| Err(cannot(why)))
}

/// Checks the document that a patch leads to.
///
/// # Errors
/// 422 in the words of the real decoder.
pub(super) fn check_patched(def: &ResourceDef, document: &Value) -> Result<(), Status> {
    let Some(why) = misshapen(def, document) else { return Ok(()) };
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

/// What Go's decoder says about the first field of the wrong type.
fn misshapen(def: &ResourceDef, body: &Value) -> Option<String> {
    if let Some(metadata) = body.get("metadata").filter(|it| !it.is_object() && !it.is_null()) {
        return Some(complaint(json_type(metadata), &def.kind, "metadata", "v1.ObjectMeta"));
    }
    METADATA.iter().chain(def.shapes).find_map(|row| wrong(row, body))
}

fn wrong(row: &FieldShape, body: &Value) -> Option<String> {
    let FieldShape { path, parent, shape } = row;
    let value = path.split('.').try_fold(body, |value, step| value.get(step))?;
    let found = json_type(value);
    let not = |go: &str| Some(complaint(found, parent, path, go));
    match (shape, value) {
        (_, Value::Null)
        | (Shape::String, Value::String(_))
        | (Shape::Bool, Value::Bool(_))
        | (Shape::Object(_), Value::Object(_)) => None,
        (Shape::String, _) => not("string"),
        (Shape::Bool, _) => not("bool"),
        (Shape::Int(_), Value::Number(number)) if number.is_i64() => None,
        (Shape::Int(go), Value::Number(number)) => {
            Some(complaint(&format!("number {number}"), parent, path, go))
        }
        (Shape::List(go), Value::Array(list)) => {
            let element = go.strip_prefix("[]").unwrap_or(go);
            let wrong = list.iter().find(|value| !value.is_object());
            wrong.map(|value| complaint(json_type(value), parent, path, element))
        }
        (Shape::Int(go) | Shape::List(go) | Shape::Object(go), _) => not(go),
        (Shape::Strings, Value::Object(map)) => map
            .values()
            .find(|value| !value.is_string() && !value.is_null())
            .map(|value| complaint(json_type(value), parent, path, "string")),
        (Shape::Strings, _) => not("map[string]string"),
        (Shape::StringList, Value::Array(list)) => list
            .iter()
            .find(|value| !value.is_string())
            .map(|value| complaint(json_type(value), parent, path, "string")),
        (Shape::StringList, _) => not("[]string"),
        (Shape::Time, Value::String(text)) if text.parse::<jiff::Timestamp>().is_ok() => None,
        (Shape::Time, Value::String(text)) => Some(format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\""
        )),
        (Shape::Time, _) => not("string"),
    }
}

fn complaint(found: &str, parent: &str, path: &str, go: &str) -> String {
    format!("json: cannot unmarshal {found} into Go struct field {parent}.{path} of type {go}")
}
