//! RFC 6902 and RFC 7386.

use json_patch::PatchOperation;
use serde_json::Value;

use super::rejected;
use crate::objects::Status;
use crate::objects::text::json_type;

/// The real server's limit.
const MAX_OPERATIONS: usize = 10_000;

/// The real server's limit of what copies may add, in bytes of JSON.
const MAX_COPIED: usize = 3 << 20;

/// How deep an operation may put things. A body is at most 128 deep; without a bound, operations that
/// move one value into another would make documents that no stack is deep enough for.
const MAX_DEPTH: usize = 256;

/// How often the depth of a document is measured in one patch; that costs as much as it is large.
const MAX_MEASURED: usize = 64;

/// Applies an RFC 6902 patch.
///
/// # Errors
/// 400 if it is no such patch, 413 if it is too long, 422 if it does not apply.
pub fn json_patch(document: &Value, patch: &Value) -> Result<Value, Status> {
    let operations = match patch {
        // Go reads null as an empty list.
        Value::Null => return Ok(document.clone()),
        Value::Array(operations) => operations,
        other => {
            let found = json_type(other);
            return Err(Status::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
            )));
        }
    };
    if let Some(other) = operations.iter().find(|it| !matches!(it, Value::Object(_) | Value::Null))
    {
        let found = json_type(other);
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp"
        )));
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
    let operations: Vec<PatchOperation> =
        serde_json::from_value(patch.clone()).map_err(|_| rejected())?;
    let mut patched = document.clone();
    let mut n_copied = 0;
    let (mut deep, mut n_measured) = (depth(document), 0);
    for operation in &operations {
        n_copied += copied(&patched, operation);
        if reach(operation, deep) > MAX_DEPTH && n_measured < MAX_MEASURED {
            // The bound is a guess that only grows.
            (deep, n_measured) = (depth(&patched), n_measured + 1);
        }
        deep = deep.max(reach(operation, deep));
        if n_copied > MAX_COPIED || deep > MAX_DEPTH {
            return Err(rejected());
        }
        let one = std::slice::from_ref(operation);
        json_patch::patch(&mut patched, one).map_err(|_| rejected())?;
    }
    Ok(patched)
}

/// Bytes that an operation copies.
fn copied(document: &Value, operation: &PatchOperation) -> usize {
    let PatchOperation::Copy(copy) = operation else { return 0 };
    let source = copy.from.resolve(document).ok();
    source.map_or(0, |source| source.to_string().len())
}

/// How deep an operation reaches at most, in a document that is at most `deep`.
fn reach(operation: &PatchOperation, deep: usize) -> usize {
    let moved = |from: &json_patch::jsonptr::Pointer| deep.saturating_sub(from.tokens().count());
    let value = match operation {
        PatchOperation::Add(it) => depth(&it.value),
        PatchOperation::Replace(it) => depth(&it.value),
        PatchOperation::Move(it) => moved(&it.from),
        PatchOperation::Copy(it) => moved(&it.from),
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return 0,
    };
    operation.path().tokens().count() + value
}

/// Arrays and objects in each other.
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
    match patch {
        Value::Object(_) => {}
        Value::Null => return Err(Status::bad_request("Invalid JSON Patch")),
        other => {
            let found = json_type(other);
            return Err(Status::bad_request(format!(
                "error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )));
        }
    }
    let mut patched = document.clone();
    merge(&mut patched, patch);
    Ok(patched)
}

/// Recursion is as deep as the patch, which the JSON parser has bounded.
fn merge(document: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *document = patch.clone();
        return;
    };
    let document = crate::objects::fields::as_map(document);
    for (field, value) in patch {
        if value.is_null() {
            document.shift_remove(field);
        } else {
            merge(document.entry(field).or_insert(Value::Null), value);
        }
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
        // Many that only move things about are no deeper in the end.
        let about = [
            json!({"op": "move", "from": "/x", "path": "/y/z"}),
            json!({"op": "move", "from": "/y/z", "path": "/x"}),
        ];
        let patch: Value = (0..2000).flat_map(|_| about.clone()).collect();
        let document = json!({"x": {}, "y": {}});
        assert_eq!(json_patch(&document, &patch).unwrap(), document);
    }

    #[test]
    fn an_operation_that_fails_takes_the_ones_before_with_it() {
        let document = json!({"a": 1});
        let patch = json!([{"op": "add", "path": "/b", "value": 2}, {"op": "test", "path": "/a", "value": 3}]);
        assert_eq!(json_patch(&document, &patch).unwrap_err(), rejected());
        assert_eq!(document, json!({"a": 1}));
        assert_eq!(json_patch(&document, &Value::Null).unwrap(), document, "as Go reads null");
    }
}
