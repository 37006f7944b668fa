//! Merges changes of an object on one side, the world or the real server, into the copy on the
//! other side.
//!
//! The two copies are never equal: each server assigns its own UID and version, and sets its own
//! defaults. So the mirror carries the difference between an earlier and a later state of one
//! side's copy. Carrying the same difference again has no effect.

use serde_json::{Map, Value};

/// Metadata fields whose changes the mirror carries. Each server maintains the other ones by
/// itself.
const METADATA: [&str; 4] = ["labels", "annotations", "ownerReferences", "finalizers"];
/// Metadata fields that each server assigns by itself, and `generateName`, which a copy does not
/// need because its name is known. The mirror creates an object without these fields.
const SERVER_METADATA: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
];

/// Sets of fields that identify an item of a list. If an item has every field of a set, these
/// fields identify it; the first such set counts. Any other item is identified by its whole value.
const IDENTITIES: [&[&str]; 6] =
    [&["type", "address"], &["key", "effect"], &["type"], &["uid"], &["name"], &["ip"]];

/// Returns `onto`, one side's copy of an object, with the changes between `before` and `after`, two
/// states of the other side's copy. Of the metadata, carries only the fields [`METADATA`].
pub(super) fn merged(onto: &Value, before: &Value, after: &Value) -> Value {
    let mut out = onto.clone();
    let metadata = |object: &Value| chosen(&object["metadata"], |name| METADATA.contains(&name));
    let rest =
        |object: &Value| chosen(object, |name| !matches!(name, "kind" | "apiVersion" | "metadata"));
    if let Value::Object(own) = &mut out["metadata"] {
        carry_fields(own, &metadata(before), &metadata(after));
    }
    if let Value::Object(own) = &mut out {
        carry_fields(own, &rest(before), &rest(after));
    }
    out
}

/// Returns an object without the metadata fields [`SERVER_METADATA`].
pub(super) fn without_server_metadata(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|name, _| !SERVER_METADATA.contains(&name.as_str()));
    }
    object
}

fn chosen(object: &Value, is_chosen: impl Fn(&str) -> bool) -> Map<String, Value> {
    let fields = object.as_object().into_iter().flatten();
    let chosen = fields.filter(|(name, _)| is_chosen(name));
    chosen.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn carry_fields(
    onto: &mut Map<String, Value>,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
) {
    let new = after.keys().filter(|name| !before.contains_key(*name));
    for name in before.keys().chain(new) {
        let (was, is) = (set(before.get(name)), set(after.get(name)));
        if was == is {
            continue;
        }
        match carry(set(onto.get(name)), was, is) {
            Some(value) => {
                onto.insert(name.clone(), value);
            }
            None => {
                onto.shift_remove(name);
            }
        }
    }
}

/// Returns the value of a field, or `None` if the field is absent or `null`.
fn set(value: Option<&Value>) -> Option<&Value> {
    value.filter(|it| !it.is_null())
}

fn carry(onto: Option<&Value>, before: Option<&Value>, after: Option<&Value>) -> Option<Value> {
    let after = after?;
    if onto == before {
        return Some(after.clone());
    }
    match (onto, before, after) {
        (Some(Value::Object(onto)), None | Some(Value::Object(_)), Value::Object(after)) => {
            let nothing = Map::new();
            let before = before.and_then(Value::as_object).unwrap_or(&nothing);
            let mut out = onto.clone();
            carry_fields(&mut out, before, after);
            Some(out.into())
        }
        (Some(Value::Array(onto)), None | Some(Value::Array(_)), Value::Array(after)) => {
            let before = before.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            Some(carry_items(onto, before, after).into())
        }
        _ => Some(after.clone()),
    }
}

fn carry_items(onto: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let has = |all: &[Value], item: &Value| all.iter().any(|it| identity(it) == identity(item));
    let stays = |item: &&Value| !has(before, item) || has(after, item);
    let mut out: Vec<Value> = onto.iter().filter(stays).cloned().collect();
    for changed in after.iter().filter(|it| !before.contains(it)) {
        match out.iter_mut().find(|it| identity(it) == identity(changed)) {
            Some(item) => item.clone_from(changed),
            None => out.push(changed.clone()),
        }
    }
    // If both sides have the same items, the order is carried too, because it can have a meaning: a
    // client may use the first address of a Node, for example.
    let place = |item: &Value| after.iter().position(|it| identity(it) == identity(item));
    if out.len() == after.len() && out.iter().all(|it| place(it).is_some()) {
        out.sort_by_key(place);
    }
    out
}

fn identity(item: &Value) -> Vec<&Value> {
    let of = |names: &&[&str]| names.iter().map(|name| item.get(*name)).collect::<Option<Vec<_>>>();
    IDENTITIES.iter().find_map(of).unwrap_or_else(|| vec![item])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(spec: Value, status: Value) -> Value {
        json!({"metadata": {"name": "node-1", "uid": "a"}, "spec": spec, "status": status})
    }

    fn taints(keys: &[&str]) -> Value {
        let taints: Vec<Value> =
            keys.iter().map(|key| json!({"key": key, "effect": "NoSchedule"})).collect();
        node(json!({"taints": taints}), json!({}))
    }

    #[test]
    fn a_merge_carries_the_changes_of_one_side_and_keeps_the_rest() {
        let conditions = |ready: &str| json!({"conditions": [{"type": "Ready", "status": ready}]});
        for (name, onto, before, after, want) in [
            ("no change", taints(&["a"]), taints(&["b"]), taints(&["b"]), taints(&["a"])),
            (
                "one side removes a taint",
                taints(&["a", "b"]),
                taints(&["a", "b"]),
                taints(&["b"]),
                taints(&["b"]),
            ),
            (
                "each side removes another taint",
                taints(&["a", "c"]),
                taints(&["a", "b", "c"]),
                taints(&["b", "c"]),
                taints(&["c"]),
            ),
            (
                "each side adds another taint",
                taints(&["a", "b"]),
                taints(&["a"]),
                taints(&["a", "c"]),
                taints(&["a", "b", "c"]),
            ),
            (
                "each side changes another field",
                node(json!({"providerID": "x"}), conditions("True")),
                node(json!({}), conditions("True")),
                node(json!({}), conditions("Unknown")),
                node(json!({"providerID": "x"}), conditions("Unknown")),
            ),
            (
                "null counts as an absent field",
                node(json!({"a": 1}), json!({})),
                node(json!({"b": null}), json!({})),
                node(json!({}), json!({})),
                node(json!({"a": 1}), json!({})),
            ),
        ] {
            let out = merged(&onto, &before, &after);
            assert_eq!(out, want, "{name}");
            assert_eq!(merged(&out, &before, &after), want, "{name}, twice");
        }
    }

    #[test]
    fn the_order_of_addresses_is_carried() {
        let addresses = |all: &[&str]| {
            let all: Vec<Value> =
                all.iter().map(|it| json!({"type": "InternalIP", "address": it})).collect();
            node(json!({}), json!({"addresses": all}))
        };
        let (one, other) = (addresses(&["1", "2"]), addresses(&["2", "1"]));
        assert_eq!(merged(&one, &one, &other), other);
        let onto = addresses(&["1", "2", "3"]);
        assert_eq!(
            merged(&onto, &one, &other),
            onto,
            "no order is carried if one side has more items"
        );
    }

    #[test]
    fn a_merge_keeps_the_uid_and_version_of_the_target() {
        let object = |uid: &str, labels: Value| json!({"metadata": {"uid": uid, "resourceVersion": uid, "labels": labels}});
        let (before, after) = (object("b", json!({"x": "1"})), object("c", json!({"y": "2"})));
        let out = merged(&object("a", json!({"x": "1", "z": "3"})), &before, &after);
        assert_eq!(out, object("a", json!({"z": "3", "y": "2"})));
        assert_eq!(
            without_server_metadata(&out),
            json!({"metadata": {"labels": {"z": "3", "y": "2"}}})
        );
    }
}
