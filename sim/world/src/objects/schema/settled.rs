//! Is a document already as decoding would leave it?
//!
//! Most of what is written was read from here and changed in a field or two, by the world's kubelets above
//! all. A look that copies nothing saves those writes from being rebuilt. It errs on the safe side:
//! whatever is not obviously settled gets decoded.

use serde_json::Value;

use super::decode::bytes;
use super::quantity;
use super::time::rfc3339;
use super::types::{Struct, Type, Types};

/// Whether [`super::decode`] accepts `document` without complaint and answers the same, order of fields
/// included.
pub(in crate::objects) fn is_settled(root: &Struct, document: &Value) -> bool {
    structure(Types::builtin(), root, document)
}

fn structure(types: &Types, of: &Struct, value: &Value) -> bool {
    let Value::Object(given) = value else { return false };
    let mut fields = of.fields.iter();
    for (name, value) in given {
        // What is passed over is not there, which has to be fine.
        let Some(field) = fields.find(|field| field.name == name || !field.omitted) else {
            return false;
        };
        if field.name != name || !is_value(types, &field.of, value, !field.omitted) {
            return false;
        }
    }
    fields.all(|field| field.omitted)
}

/// `keeps_zero` says whether Go writes it here if it is empty.
fn is_value(types: &Types, of: &Type, value: &Value, keeps_zero: bool) -> bool {
    match (of, value) {
        (Type::Struct(at), _) => types.at(*at).is_some_and(|of| structure(types, of, value)),
        (
            Type::Bytes
            | Type::Time
            | Type::MicroTime
            | Type::Raw
            | Type::List(..)
            | Type::Map(..)
            | Type::Pointer(_),
            Value::Null,
        ) => keeps_zero,
        (Type::Pointer(inner), _) => is_value(types, inner, value, true),
        (Type::String(_), Value::String(text)) => keeps_zero || !text.is_empty(),
        (Type::Bool, Value::Bool(flag)) => keeps_zero || *flag,
        (Type::Int(go), Value::Number(number)) => is_integer(go, number.as_i64(), keeps_zero),
        (Type::IntOrString, Value::Number(number)) => {
            is_integer("int32", number.as_i64(), keeps_zero)
        }
        (Type::Float, Value::Number(_)) | (Type::IntOrString, Value::String(_)) => true,
        (Type::Raw, _) => true,
        (Type::Bytes, Value::String(text)) => bytes(text).is_ok_and(|read| read == *value),
        (Type::Time, Value::String(text)) => is_time(text, ""),
        (Type::MicroTime, Value::String(text)) => is_time(text, ".000000"),
        (Type::Quantity, Value::String(text)) => {
            quantity::canonical(value).is_ok_and(|written| written == *text)
        }
        (Type::List(_, element), Value::Array(list)) => {
            !list.is_empty() && list.iter().all(|value| is_value(types, element, value, true))
        }
        (Type::Map(_, of), Value::Object(map)) => {
            !map.is_empty()
                && map.keys().is_sorted()
                && map.values().all(|value| is_entry(types, of, value))
        }
        _ => false,
    }
}

/// A value of a map.
fn is_entry(types: &Types, of: &Type, value: &Value) -> bool {
    match (of, value) {
        (Type::Bytes, Value::Null) => false,
        (Type::Quantity, Value::String(text)) => {
            quantity::amount(value).is_ok_and(|written| written == *text)
        }
        _ => is_value(types, of, value, true),
    }
}

fn is_integer(go: &str, whole: Option<i64>, keeps_zero: bool) -> bool {
    whole.is_some_and(|whole| {
        (keeps_zero || whole != 0) && (go != "int32" || i32::try_from(whole).is_ok())
    })
}

/// Whether it is an instant in UTC with a fraction of this form, written as we write it.
fn is_time(text: &str, fraction: &str) -> bool {
    const SECONDS: &str = "2026-03-01T08:00:00";
    let has_form = |text: &str, form: &str| {
        text.len() == form.len()
            && text.bytes().zip(form.bytes()).all(|(found, wanted)| {
                if wanted.is_ascii_digit() { found.is_ascii_digit() } else { found == wanted }
            })
    };
    let parts = text.strip_suffix('Z').and_then(|text| text.split_at_checked(SECONDS.len()));
    parts.is_some_and(|(whole, rest)| has_form(whole, SECONDS) && has_form(rest, fraction))
        && rfc3339(text).is_ok_and(|time| !time.is_zero(!fraction.is_empty()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Words, decode};
    use super::*;

    fn node(status: &Value) -> Value {
        json!({
            "kind": "Node", "apiVersion": "v1",
            "metadata": {"name": "n", "labels": {"a": "", "b": "1"}},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": status,
        })
    }

    fn ready(heartbeat: &str) -> Value {
        json!([{
            "type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat,
            "lastTransitionTime": null, "reason": "r",
        }])
    }

    /// Whatever is called settled, decoding leaves as it is; text shows the order as well.
    fn agrees(root: &Struct, document: &Value) -> bool {
        let decoded = decode(root, document, Words::Json);
        let is_same = decoded.is_ok_and(|decoded| {
            let (written, given) = (decoded.object.to_string(), document.to_string());
            decoded.unknown.is_empty() && written == given
        });
        assert!(is_same || !is_settled(root, document), "not settled: {document}");
        is_same
    }

    #[test]
    fn what_was_decoded_is_settled_and_what_decoding_changes_is_not() {
        let root = Types::builtin().kind("", "Node").unwrap();
        let decoded = |document: &Value| decode(root, document, Words::Json).unwrap().object;
        let whole = decoded(&node(&json!({
            "capacity": {"cpu": "1000m", "memory": "1024Mi"},
            "conditions": ready("2026-03-01T08:00:00.5Z"),
            "images": [{"names": ["b", "a"], "sizeBytes": 0}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        })));
        assert!(is_settled(root, &whole), "{whole}");
        assert!(agrees(root, &whole));
        for (what, status) in [
            ("order of a map", json!({"capacity": {"memory": "1Gi", "cpu": "1"}})),
            ("a quantity", json!({"capacity": {"cpu": "1000m"}})),
            ("a number as a quantity", json!({"capacity": {"cpu": 1}})),
            ("an empty list", json!({"images": []})),
            ("an empty map", json!({"capacity": {}})),
            ("null", json!({"phase": null})),
            ("an empty text", json!({"phase": ""})),
            ("a wrong type", json!({"phase": 1})),
            ("an unknown field", json!({"phases": "x"})),
            ("a fraction of a second", json!({"conditions": ready("2026-03-01T08:00:00.5Z")})),
            ("another zone", json!({"conditions": ready("2026-03-01T08:00:00+01:00")})),
            ("no such day", json!({"conditions": ready("2026-02-30T08:00:00Z")})),
            ("a large port", json!({"daemonEndpoints": {"kubeletEndpoint": {"Port": 1u64 << 31}}})),
        ] {
            let mut document = decoded(&node(&Value::Null));
            for (field, value) in status.as_object().unwrap() {
                document["status"][field] = value.clone();
            }
            assert!(!agrees(root, &document), "{what}: {document}");
        }
        assert!(!agrees(root, &json!({"metadata": {"name": "n"}, "kind": "Node"})));
        assert!(!agrees(root, &Value::Null));
    }

    #[test]
    fn microseconds_and_what_pointers_hold_are_settled() {
        let root = Types::builtin().kind("coordination.k8s.io", "Lease").unwrap();
        let lease = |spec: Value| json!({"metadata": {"name": "l"}, "spec": spec});
        let at = |time: &str| lease(json!({"holderIdentity": "", "renewTime": time}));
        for document in [
            at("2026-03-01T08:00:00.000000Z"),
            lease(json!({"leaseDurationSeconds": 0})),
            lease(json!({})),
        ] {
            assert!(is_settled(root, &document) && agrees(root, &document), "{document}");
        }
        for document in [
            at("2026-03-01T08:00:00Z"),
            at("2026-03-01t08:00:00.000000Z"),
            at("2026-03-01T08:00:00.0000000Z"),
            lease(json!({"holderIdentity": null})),
            json!({"metadata": {"name": "l"}}),
        ] {
            assert!(!agrees(root, &document), "{document}");
        }
    }
}
