//! Checks of the parts of a version besides its schema: paths of replicas, columns of tables, and
//! selectable fields.

use serde_json::Value;

use super::structural;
use crate::FieldErrors;
use crate::object::fields;

const TYPES: &str = "boolean,date,integer,number,string";
const FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
const MAX_SELECTABLE: usize = 8;

pub(super) fn scale(subresources: &Value, path: &str, errors: &mut FieldErrors) {
    let scale = &subresources["scale"];
    if !scale.is_object() {
        return;
    }
    let paths: [(&str, &[&str], &str); 3] = [
        ("specReplicasPath", &[".spec."], ".spec"),
        ("statusReplicasPath", &[".status."], ".status"),
        ("labelSelectorPath", &[".spec.", ".status."], "either .spec or .status"),
    ];
    for (field, below, said) in paths {
        let text = fields::text(scale, &format!("/{field}"));
        let field = format!("{path}.scale.{field}");
        if text.is_empty() {
            if below.len() == 1 {
                errors.required(field, "");
            }
        } else if let Some(why) = path_problem(text) {
            errors.invalid(field, &text.into(), why);
        } else if !below.iter().any(|below| text.starts_with(below)) {
            errors.invalid(field, &text.into(), &format!("should be a json path under {said}"));
        }
    }
}

fn path_problem(path: &str) -> Option<&'static str> {
    (!path.starts_with('.')).then_some("must be a simple json path starting with .")
}

pub(super) fn columns(version: &Value, path: &str, errors: &mut FieldErrors) {
    for (at, column) in fields::list(version, "/additionalPrinterColumns").iter().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{at}]");
        let text = |field: &str| column[field].as_str().unwrap_or_default();
        if text("name").is_empty() {
            errors.required(format!("{path}.name"), "");
        }
        let among = |known: &str| format!("must be one of {known}");
        let kind = text("type");
        if kind.is_empty() {
            errors.required(format!("{path}.type"), &among(TYPES));
        } else if !TYPES.split(',').any(|known| known == kind) {
            errors.invalid(format!("{path}.type"), &kind.into(), &among(TYPES));
        }
        let format = text("format");
        if !format.is_empty() && !FORMATS.split(',').any(|known| known == format) {
            errors.invalid(format!("{path}.format"), &format.into(), &among(FORMATS));
        }
        let json_path = text("jsonPath");
        if json_path.is_empty() {
            errors.required(format!("{path}.JSONPath"), "");
        } else if let Some(why) = path_problem(json_path) {
            errors.invalid(format!("{path}.JSONPath"), &json_path.into(), why);
        }
    }
}

pub(super) fn selectable(version: &Value, path: &str, errors: &mut FieldErrors) {
    let schema = &version["schema"]["openAPIV3Schema"];
    let given = fields::list(version, "/selectableFields");
    if given.is_empty() {
        return;
    }
    if let Some(why) = structural::unreadable(schema) {
        return errors.invalid(format!("{path}.schema.openAPIV3Schema"), &"".into(), &why);
    }
    let mut seen: Vec<&str> = Vec::new();
    for (at, field) in given.iter().enumerate() {
        let json_path = fields::text(field, "/jsonPath");
        let at = format!("{path}.selectableFields[{at}].jsonPath");
        if json_path.is_empty() {
            errors.required(at, "");
            continue;
        }
        let found = match field_at(schema, json_path) {
            Ok(found) => found,
            Err(why) => {
                let why = format!("is an invalid path: {why}");
                errors.invalid(at, &json_path.into(), &why);
                continue;
            }
        };
        if json_path.split('.').nth(1) == Some("metadata") {
            errors.invalid(at.as_str(), &json_path.into(), "must not point to fields in metadata");
        }
        if !matches!(found["type"].as_str(), Some("string" | "boolean" | "integer")) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.invalid(at.as_str(), &json_path.into(), why);
        }
        if seen.contains(&json_path) {
            errors.duplicate(at, &json_path.into(), "");
        } else {
            seen.push(json_path);
        }
    }
    if seen.len() > MAX_SELECTABLE {
        errors.too_many(format!("{path}.selectableFields"), seen.len(), MAX_SELECTABLE);
    }
}

/// Returns the schema of the field at `path`, a path such as `.spec.color`.
///
/// # Errors
/// The reason why `path` is not the path of a field in `schema`.
fn field_at<'a>(schema: &'a Value, path: &str) -> Result<&'a Value, String> {
    let mut found = schema;
    let mut rest = path;
    while !rest.is_empty() {
        if rest.starts_with('[') {
            return Err("array notation is not allowed".into());
        }
        let Some(after) = rest.strip_prefix('.') else {
            let end = rest.find(['.', '[', ']']).filter(|end| *end > 0).unwrap_or(rest.len());
            return Err(format!("expected [ or . but got: {}", &rest[..end]));
        };
        if after.is_empty() {
            return Err("unexpected end of JSON path".into());
        }
        let end = after.find(['.', '[', ']']).unwrap_or(after.len());
        let (name, others) = (&after[..end], &found["additionalProperties"]);
        found = if found["properties"].is_object() {
            found["properties"].get(name).ok_or("does not refer to a valid field")?
        } else if others.is_object() {
            others
        } else {
            return Err("does not refer to a valid field".into());
        };
        rest = &after[end..];
    }
    Ok(found)
}
