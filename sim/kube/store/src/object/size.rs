//! Sizes of objects, and their limits.
//!
//! The limits are those of etcd and its client in a kube-apiserver 1.36 with default settings. That
//! server stores built-in kinds as protobuf. This module measures all kinds as JSON, which is a
//! little longer.

use serde_json::Value;

use crate::Status;

/// Maximum size in bytes of an object that etcd accepts (`--max-request-bytes`).
const MAX_OBJECT: usize = 3 * 512 * 1024;

/// Maximum size in bytes of an object that the API server's etcd client sends.
const MAX_MESSAGE: usize = 2 * 1024 * 1024;

/// Size of a value as JSON, in bytes. A character that JSON escapes counts with its unescaped
/// length.
pub(crate) fn size(value: &Value) -> usize {
    match value {
        Value::Null => 4,
        Value::Bool(value) => 5 - usize::from(*value),
        Value::Number(number) => match number.as_u64() {
            Some(number) => 1 + number.checked_ilog10().unwrap_or_default() as usize,
            None => number.to_string().len(),
        },
        Value::String(text) => text.len() + 2,
        Value::Array(values) => {
            2 + values.iter().map(|value| size(value) + 1).sum::<usize>().saturating_sub(1)
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| name.len() + 3 + size(value) + 1);
            2 + fields.sum::<usize>().saturating_sub(1)
        }
    }
}

/// Refuses an object that etcd does not accept.
///
/// # Errors
/// 500 with the text of etcd, or with that of its client for an object above `MAX_MESSAGE`.
pub(crate) fn check(object: &Value) -> Result<(), Status> {
    let size = size(object);
    if size > MAX_MESSAGE {
        let sent = format!(
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max \
             ({size} vs. {MAX_MESSAGE})"
        );
        return Err(Status::new(500, "", sent));
    }
    if size > MAX_OBJECT {
        return Err(Status::new(500, "", "etcdserver: request is too large"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_size_of_a_value_is_the_length_of_its_json_text() {
        for value in [
            json!(null),
            json!([true, false, 0, 9, 10, 99, 100, u64::MAX, -5, 1.5]),
            json!([]),
            json!({}),
            json!({"metadata": {"name": "n1", "labels": {"a": "b", "c": ""}}, "l": [[], {}, [1]]}),
        ] {
            assert_eq!(size(&value), value.to_string().len(), "{value}");
        }
    }

    #[test]
    fn an_object_is_refused_from_one_byte_above_the_limit_on() {
        let of = |bytes: usize| Value::String("x".repeat(bytes - 2));
        assert_eq!(check(&of(MAX_OBJECT)), Ok(()));
        let said =
            |bytes| check(&of(bytes)).expect_err("refusal of a value above the limit").message;
        assert_eq!(said(MAX_OBJECT + 1), "etcdserver: request is too large");
        assert_eq!(said(MAX_MESSAGE), "etcdserver: request is too large");
        assert!(said(MAX_MESSAGE + 1).ends_with("(2097153 vs. 2097152)"));
    }
}
