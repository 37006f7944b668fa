//! JSON patches (RFC 6902) and JSON merge patches (RFC 7386), applied as the real server's library
//! does.
//!
//! Follows `evanphx/json-patch` v4 with its peculiarities: `replace` adds a missing field, `test`
//! reads a missing field as null, and negative indexes count from the end.

use serde_json::{Map, Value};

use super::rejected;
use crate::values::text::json_type;
use crate::{FieldValidation, PatchKind, Status};

/// Maximum number of operations in a JSON patch, as in the real server.
const MAX_OPERATIONS: usize = 10_000;

/// Maximum size in bytes of JSON that all `copy` operations of a patch may add, as in the real
/// server.
const MAX_COPIED: usize = 3 << 20;

/// Maximum depth of nesting that an operation may reach. A request body is at most 128 levels deep.
/// Without this limit, operations that move one value into another would make documents too deep
/// for the stack.
const MAX_DEPTH: usize = 256;

/// Maximum number of times that applying one patch measures the depth of the document. The cost of
/// a measurement grows with the document's size. Beyond this number only an upper estimate of the
/// depth counts, which may refuse a patch below [`MAX_DEPTH`].
const MAX_MEASURED: usize = 64;

/// Fields that an operation of a JSON patch may have.
const OPERATION: [&str; 4] = ["op", "path", "from", "value"];

/// Applies an RFC 6902 patch. A null patch changes nothing.
///
/// # Errors
/// 400 if the patch is not a list of objects, 413 if it has too many operations, 422 if an
/// operation does not apply, or if the patch copies too much or nests too deeply.
pub fn json_patch(document: &Value, patch: &Value) -> Result<Value, Status> {
    let Some(operations) = patch.as_array() else {
        if patch.is_null() {
            return Ok(document.clone());
        }
        return Err(mistyped(patch, "jsonpatch.Patch"));
    };
    if let Some(other) = operations.iter().find(|it| !it.is_object() && !it.is_null()) {
        return Err(mistyped(other, "jsonpatch.Operation"));
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(Status::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                operations.len()
            ),
        ));
    }
    let mut patched = document.clone();
    let mut n_copied = 0;
    let (mut deep, mut n_measured) = (depth(document), 0);
    for operation in operations {
        n_copied += copied(&mut patched, operation);
        if reach(operation, deep) > MAX_DEPTH && n_measured < MAX_MEASURED {
            // `deep` is an estimate that never shrinks, so measure the real depth.
            (deep, n_measured) = (depth(&patched), n_measured + 1);
        }
        deep = deep.max(reach(operation, deep));
        if n_copied > MAX_COPIED || deep > MAX_DEPTH {
            return Err(rejected());
        }
        apply(&mut patched, operation).ok_or_else(rejected)?;
    }
    Ok(patched)
}

/// Number of bytes of JSON that an operation copies; 0 for operations other than `copy`.
fn copied(document: &mut Value, operation: &Value) -> usize {
    match (operation["op"].as_str(), operation["from"].as_str()) {
        (Some("copy"), Some(from)) => get(document, from).map_or(0, |it| it.to_string().len()),
        _ => 0,
    }
}

/// Maximum depth that an operation reaches in a document whose depth is at most `deep`; 0 for
/// operations that cannot deepen a document.
fn reach(operation: &Value, deep: usize) -> usize {
    let steps = |field: &str| operation[field].as_str().unwrap_or_default().split('/').count() - 1;
    let value = match operation["op"].as_str() {
        Some("add" | "replace") => depth(&operation["value"]),
        Some("move" | "copy") => deep.saturating_sub(steps("from")),
        _ => return 0,
    };
    steps("path") + value
}

/// Depth to which arrays and objects are nested.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}

/// Applies an RFC 7386 patch.
///
/// # Errors
/// 400 if the patch is not an object.
pub fn merge_patch(document: &Value, patch: &Value) -> Result<Value, Status> {
    if !patch.is_object() {
        return Err(Status::bad_request("Invalid JSON Patch"));
    }
    let mut patched = document.clone();
    merge(&mut patched, patch);
    Ok(patched)
}

/// Checks a patch as the real server's strict decoder does before it applies the patch. Returns
/// complaints about unknown fields of operations. Checks nothing for `FieldValidation::Ignore`, a
/// strategic merge patch or a null patch.
///
/// # Errors
/// 400 if the patch is malformed.
pub(crate) fn check(
    patch: &Value,
    kind: PatchKind,
    validation: FieldValidation,
) -> Result<Vec<String>, Status> {
    let is_read_otherwise = kind == PatchKind::StrategicMerge;
    if is_read_otherwise || validation == FieldValidation::Ignore || patch.is_null() {
        return Ok(Vec::new());
    }
    let undecodable = |found: &Value, what: &str| {
        let found = json_type(found);
        Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go {what}"
        ))
    };
    if kind == PatchKind::Merge {
        if !patch.is_object() {
            return Err(undecodable(patch, "value of type map[string]interface {}"));
        }
        return Ok(Vec::new());
    }
    let Some(operations) = patch.as_array() else {
        return Err(undecodable(patch, "value of type []handlers.jsonPatchOp"));
    };
    let mut unknown = Vec::new();
    for (at, operation) in operations.iter().enumerate() {
        let Some(operation) = operation.as_object() else {
            if operation.is_null() {
                continue;
            }
            return Err(undecodable(operation, "value of type handlers.jsonPatchOp"));
        };
        for (field, value) in operation {
            if !OPERATION.contains(&field.as_str()) {
                unknown.push(format!("json patch unknown field \"[{at}].{field}\""));
            } else if field != "value" && !value.is_string() && !value.is_null() {
                let what = format!("struct field jsonPatchOp.{field} of type string");
                return Err(undecodable(value, &what));
            }
        }
    }
    Ok(unknown)
}

fn mistyped(found: &Value, go: &str) -> Status {
    let found = json_type(found);
    Status::bad_request(format!("json: cannot unmarshal {found} into Go value of type {go}"))
}

/// Applies one operation; `None` if it does not apply. Then `document` may have changed in part: a
/// failed `move` may have removed its value.
fn apply(document: &mut Value, operation: &Value) -> Option<()> {
    let text = |field: &str| operation[field].as_str();
    let value = operation.get("value");
    match text("op")? {
        "add" => add(document, text("path")?, value.cloned().unwrap_or_default()),
        "remove" => remove(document, text("path")?).map(|_| ()),
        "replace" => replace(document, text("path")?, value.cloned().unwrap_or_default()),
        "move" => {
            let value = remove(document, text("from")?)?;
            add(document, text("path")?, value)
        }
        "copy" => {
            let value = get(document, text("from")?)?;
            add(document, text("path")?, value)
        }
        "test" => {
            let path = text("path")?;
            let found = if path.is_empty() { document.clone() } else { get(document, path)? };
            (found == *value.unwrap_or(&Value::Null)).then_some(())
        }
        _ => None,
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let (holder, key) = find(document, path)?;
    match holder {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => {
            let at = index(&key, list.len() + 1)?;
            list.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn replace(document: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *document = (value.is_object() || value.is_array()).then_some(value)?;
        return Some(());
    }
    let (holder, key) = find(document, path)?;
    match holder {
        Value::Object(map) => {
            map.insert(key, value);
        }
        Value::Array(list) => {
            let at = index(&key, list.len())?;
            list[at] = value;
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (holder, key) = find(document, path)?;
    match holder {
        Value::Object(map) => map.shift_remove(&key),
        Value::Array(list) => {
            let at = index(&key, list.len())?;
            Some(list.remove(at))
        }
        _ => None,
    }
}

/// Returns the value at a path; null if only the last step is missing and leads into a map, `None`
/// if the path leads nowhere.
fn get(document: &mut Value, path: &str) -> Option<Value> {
    let (holder, key) = find(document, path)?;
    match holder {
        Value::Object(map) => Some(map.get(&key).cloned().unwrap_or_default()),
        Value::Array(list) => {
            let at = index(&key, list.len())?;
            Some(list[at].clone())
        }
        _ => None,
    }
}

/// Returns the map or list that contains the last step of a path, and this step without escapes;
/// `None` if an earlier step is missing, or if the path has no `/`.
fn find<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let mut steps: Vec<&str> = path.split('/').collect();
    if steps.len() < 2 {
        return None;
    }
    let last = steps.pop()?;
    let mut holder = document;
    for step in steps.iter().skip(1) {
        holder = match holder {
            Value::Object(map) => map.get_mut(&unescape(step))?,
            Value::Array(list) => {
                let at = index(&unescape(step), list.len())?;
                &mut list[at]
            }
            _ => return None,
        };
    }
    Some((holder, unescape(last)))
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Position in a list of this length; negative numbers count from the end. `None` outside of the
/// list.
fn index(text: &str, length: usize) -> Option<usize> {
    let at: i64 = text.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let at = if at < 0 { at + length } else { at };
    usize::try_from(at).ok().filter(|_| at < length)
}

/// Merges `patch` into `document` recursively. The recursion is as deep as the patch, whose depth
/// the JSON parser has bounded.
fn merge(document: &mut Value, patch: &Value) {
    let (Value::Object(document), Value::Object(patch)) = (document, patch) else { return };
    for (field, value) in patch {
        match document.get_mut(field) {
            _ if value.is_null() => {
                document.shift_remove(field);
            }
            Some(known @ Value::Object(_)) if value.is_object() => merge(known, value),
            // A value that replaces a map keeps its nulls.
            Some(known @ Value::Object(_)) => *known = value.clone(),
            _ => {
                document.insert(field.clone(), without_nulls(value));
            }
        }
    }
}

/// Returns a new value without null fields of maps; null elements of lists stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            let kept: Map<String, Value> =
                kept.map(|(field, value)| (field.clone(), without_nulls(value))).collect();
            Value::Object(kept)
        }
        Value::Array(list) => list.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn copies_cannot_make_a_document_grow_without_bound() {
        let document = json!({"a": {"b": "x".repeat(100)}});
        let double = |n| json!({"op": "copy", "from": "/a", "path": format!("/a/c{n}")});
        let patch = |n: usize| (0..n).map(double).collect::<Value>();
        assert!(json_patch(&document, &patch(10)).is_ok());
        assert_eq!(json_patch(&document, &patch(60)).unwrap_err(), rejected());
    }

    #[test]
    fn moves_cannot_make_a_document_deep_without_bound() {
        let nested = |n: usize| (0..n).fold(json!({}), |inner, _| json!({"a": inner}));
        let group = |n: usize| {
            [
                json!({"op": "add", "path": "/y", "value": nested(n)}),
                json!({"op": "move", "from": "/x", "path": format!("/y{}/a", "/a".repeat(n))}),
                json!({"op": "move", "from": "/y", "path": "/x"}),
            ]
        };
        let document = json!({"x": {}});
        let patch = |groups: usize| (0..groups).flat_map(|_| group(40)).collect::<Value>();
        let deepest = json_patch(&document, &patch(5)).unwrap();
        assert!(depth(&deepest) > 200);
        assert_eq!(json_patch(&document, &patch(1000)).unwrap_err(), rejected());
        // The patch may move a value back and forth as often as it wants, because the depth does
        // not grow.
        let about = [
            json!({"op": "move", "from": "/x", "path": "/y/z"}),
            json!({"op": "move", "from": "/y/z", "path": "/x"}),
        ];
        let patch: Value = (0..2000).flat_map(|_| about.clone()).collect();
        let document = json!({"x": {}, "y": {}});
        assert_eq!(json_patch(&document, &patch).unwrap(), document);
    }

    #[test]
    fn a_failed_operation_rejects_the_whole_json_patch() {
        let document = json!({"a": 1});
        let patch = json!([{"op": "add", "path": "/b", "value": 2}, {"op": "test", "path": "/a", "value": 3}]);
        assert_eq!(json_patch(&document, &patch).unwrap_err(), rejected());
        assert_eq!(document, json!({"a": 1}));
        assert_eq!(
            json_patch(&document, &Value::Null).unwrap(),
            document,
            "a null patch changes nothing"
        );
    }
}
