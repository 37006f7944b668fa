//! Fuzz target: patches. The sim applies a JSON patch as a whole or not at all, and bounds the
//! depth of the result. A merge patch applied twice gives the same result as once. So does a
//! strategic merge patch, unless it has directives, nulls in lists, or elements of one list that
//! may have the same key.
//!
//! Input: a byte that chooses the kind of patch and the resource, a line with a document, and the
//! patch as the rest.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use sim_world::Ids;
use sim_world::objects::{
    GroupResource, ResourceDef, Store, json_patch, merge_patch, strategic_merge_patch_of,
};

const RESOURCES: [&str; 4] = ["nodes", "services", "pods", "endpoints"];

static STORE: LazyLock<Store> = LazyLock::new(|| Store::new(Ids::new(0)));

fuzz_target!(|input: &[u8]| {
    let Some((choice, rest)) = input.split_first() else { return };
    let mut lines = rest.splitn(2, |byte| *byte == b'\n');
    let mut document = || serde_json::from_slice::<Value>(lines.next()?).ok();
    let (Some(document), Some(patch)) = (document(), document()) else { return };
    let resource = RESOURCES[usize::from(choice >> 4) % RESOURCES.len()];
    let def = STORE.resource(&GroupResource::core(resource)).expect("a built-in resource");
    match choice % 3 {
        0 => json(&document, &patch),
        1 => merge(&document, &patch),
        _ => strategic(&document, &patch, def),
    }
});

fn json(document: &Value, patch: &Value) {
    let before = document.clone();
    let patched = json_patch(document, patch);
    assert_eq!(*document, before, "the patch changed the original document");
    assert_eq!(json_patch(document, patch), patched, "the same patch gave another result");
    let Ok(patched) = patched else { return };
    assert!(depth(&patched) <= 256.max(depth(document)), "the result is deeper than 256 levels");
    // A patch whose last operation fails must fail as a whole.
    if let Value::Array(operations) = patch {
        let mut broken = operations.clone();
        broken.push(json!({"op": "test", "path": "", "value": {"no such": "document"}}));
        let is_other = patched != json!({"no such": "document"});
        assert!(json_patch(document, &broken.into()).is_err() == is_other);
    }
}

fn merge(document: &Value, patch: &Value) {
    let Ok(once) = merge_patch(document, patch) else { return };
    assert_eq!(merge_patch(&once, patch).as_ref(), Ok(&once), "a second application changes it");
    assert_eq!(merge_patch(&once, &json!({})).as_ref(), Ok(&once), "an empty patch changes it");
}

fn strategic(document: &Value, patch: &Value, def: &ResourceDef) {
    let apply = |document: &Value, patch: &Value| strategic_merge_patch_of(def, document, patch);
    let Ok(once) = apply(document, patch) else { return };
    assert!(depth(&once) <= depth(document) + depth(patch) + 1);
    if document.is_object() {
        assert_eq!(apply(&once, &json!({})).as_ref(), Ok(&once), "an empty patch changes it");
    }
    // Patches with directives, nulls in lists or similar list elements are not idempotent in the
    // real server either. A new list accepts elements without their key, and the next patch fails
    // on them. A new list drops nulls, but a replaced list keeps them until the server decodes it.
    // A new list keeps equal elements, and the next patch merges them.
    let is_peculiar =
        patch.to_string().contains('$') || has_null_in_list(patch, false) || has_twins(patch);
    if let (false, Ok(twice)) = (is_peculiar, apply(&once, patch)) {
        assert_eq!(twice, once, "a second application changes it");
    }
}

fn has_null_in_list(value: &Value, is_in_list: bool) -> bool {
    match value {
        Value::Null => is_in_list,
        Value::Array(items) => items.iter().any(|item| has_null_in_list(item, true)),
        Value::Object(fields) => fields.values().any(|field| has_null_in_list(field, is_in_list)),
        _ => false,
    }
}

/// True if two elements of one list are equal, or have an equal field and so possibly the same key.
fn has_twins(value: &Value) -> bool {
    let Value::Array(items) = value else {
        return value.as_object().is_some_and(|fields| fields.values().any(has_twins));
    };
    let share = |one: &Value, other: &Value| match one {
        Value::Object(fields) => fields.iter().any(|(name, value)| other.get(name) == Some(value)),
        one => one == other,
    };
    let pairs = items.iter().enumerate();
    let mut pairs = pairs.flat_map(|(at, one)| items[..at].iter().map(move |other| (one, other)));
    pairs.any(|(one, other)| share(one, other)) || items.iter().any(has_twins)
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or_default(),
        _ => 0,
    }
}
