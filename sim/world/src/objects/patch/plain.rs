//! RFC 6902 and RFC 7386.

use json_patch::PatchOperation;
use serde_json::Value;

use super::rejected;
use crate::objects::Status;
use crate::objects::text::json_type;

/// The real server's limit.
const MAX_OPERATIONS: usize = 10_000;

/// Applies an RFC 6902 patch.
///
/// # Errors
/// 400 if it is no such patch, 413 if it is too long, 422 if it does not apply.
pub fn json_patch(document: &Value, patch: &Value) -> Result<Value, Status> {
    let Some(operations) = patch.as_array() else {
        let found = json_type(patch);
        return Err(Status::bad_request(format!(
            "json: cannot unmarshal {found} into Go value of type jsonpatch.Patch"
        )));
    };
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
    json_patch::patch(&mut patched, &operations).map_err(|_| rejected())?;
    Ok(patched)
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
