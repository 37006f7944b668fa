//! Tests of strategic merge patches: tables of cases, and property tests.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{MergeRule, strategic_merge_patch};

const RULES: [MergeRule; 5] = [
    MergeRule::set("finalizers"),
    MergeRule::by_key("mergingList", "name"),
    MergeRule::set("mergingIntList"),
    MergeRule::by_key("mergingList.mergingList", "name"),
    MergeRule::by_key("conditions", "type"),
];

fn patched(document: Value, patch: Value) -> Result<Value, (u16, String)> {
    strategic_merge_patch(&document, &patch, &RULES).map_err(|it| (it.code, it.message))
}

/// Rows named `upstream: …` restate cases of `strategicpatch/patch_test.go`.
#[test]
fn a_strategic_merge_patch_has_the_same_result_as_upstream() {
    for (name, document, patch, want) in [
        (
            "maps merge",
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": {"c": 3, "d": 4}}),
            json!({"a": {"b": 1, "c": 3, "d": 4}}),
        ),
        ("null deletes", json!({"a": 1, "b": 2}), json!({"a": null, "z": null}), json!({"b": 2})),
        (
            "nulls of new maps are dropped",
            json!({}),
            json!({"a": {"b": null, "c": 1}}),
            json!({"a": {"c": 1}}),
        ),
        (
            "a value of another type replaces the old one",
            json!({"a": [1]}),
            json!({"a": "x"}),
            json!({"a": "x"}),
        ),
        (
            "lists without a merge rule are replaced",
            json!({"simple": [1, 2]}),
            json!({"simple": [3]}),
            json!({"simple": [3]}),
        ),
        (
            "upstream: merge lists of scalars",
            json!({"mergingIntList": [1, 2]}),
            json!({"mergingIntList": [2, 3]}),
            json!({"mergingIntList": [1, 2, 3]}),
        ),
        (
            "upstream: add to a list of maps: the patch's elements first",
            json!({"mergingList": [{"name": "1"}, {"name": "2"}]}),
            json!({"mergingList": [{"name": "3"}]}),
            json!({"mergingList": [{"name": "3"}, {"name": "1"}, {"name": "2"}]}),
        ),
        (
            "upstream: merge an element",
            json!({"mergingList": [{"name": "1", "v": 1}, {"name": "2"}]}),
            json!({"mergingList": [{"name": "1", "other": "a"}]}),
            json!({"mergingList": [{"name": "1", "v": 1, "other": "a"}, {"name": "2"}]}),
        ),
        (
            "upstream: delete an element",
            json!({"mergingList": [{"name": "1"}, {"name": "2"}]}),
            json!({"mergingList": [{"name": "1", "$patch": "delete"}]}),
            json!({"mergingList": [{"name": "2"}]}),
        ),
        (
            "upstream: delete all elements with one key",
            json!({"mergingList": [{"name": "1"}, {"name": "2"}, {"name": "1"}]}),
            json!({"mergingList": [{"name": "1", "$patch": "delete"}]}),
            json!({"mergingList": [{"name": "2"}]}),
        ),
        (
            "upstream: replace a list",
            json!({"mergingList": [{"name": "1"}]}),
            json!({"mergingList": [{"name": "2"}, {"$patch": "replace"}]}),
            json!({"mergingList": [{"name": "2"}]}),
        ),
        (
            "replace keeps equal keys",
            json!({"mergingList": [{"name": "1"}]}),
            json!({"mergingList": [{"name": "2", "v": 1}, {"name": "2", "v": 2}, {"$patch": "replace"}]}),
            json!({"mergingList": [{"name": "2", "v": 1}, {"name": "2", "v": 2}]}),
        ),
        (
            "a new list keeps equal keys and loses directives",
            json!({}),
            json!({"mergingList": [{"name": "2"}, {"name": "2"}, {"$patch": "replace"}]}),
            json!({"mergingList": [{"name": "2"}, {"name": "2"}]}),
        ),
        (
            "upstream: replace a map",
            json!({"a": {"b": 1}}),
            json!({"a": {"c": 1, "$patch": "replace"}}),
            json!({"a": {"c": 1}}),
        ),
        (
            "upstream: delete a map",
            json!({"a": {"b": 1}}),
            json!({"a": {"$patch": "delete"}}),
            json!({"a": {}}),
        ),
        (
            "upstream: replace everything",
            json!({"a": 1}),
            json!({"$patch": "replace", "b": 2}),
            json!({"b": 2}),
        ),
        (
            "nested lists merge",
            json!({"mergingList": [{"name": "1", "mergingList": [{"name": "1"}, {"name": "2"}]}]}),
            json!({"mergingList": [{"name": "1", "mergingList": [{"name": "2", "$patch": "delete"}]}]}),
            json!({"mergingList": [{"name": "1", "mergingList": [{"name": "1"}]}]}),
        ),
        (
            "scalars are deleted",
            json!({"finalizers": ["a", "b", "c"]}),
            json!({"$deleteFromPrimitiveList/finalizers": ["b"]}),
            json!({"finalizers": ["a", "c"]}),
        ),
        (
            "scalars are added in the given order",
            json!({"finalizers": ["a", "b"]}),
            json!({"$setElementOrder/finalizers": ["a", "c", "b"], "finalizers": ["c"]}),
            json!({"finalizers": ["a", "c", "b"]}),
        ),
        (
            "scalars are deleted and added",
            json!({"finalizers": ["a", "b"]}),
            json!({"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b", "c"], "finalizers": ["c"]}),
            json!({"finalizers": ["b", "c"]}),
        ),
        (
            "scalars are deleted from a list that does not exist",
            json!({}),
            json!({"$deleteFromPrimitiveList/finalizers": ["a"]}),
            json!({}),
        ),
        (
            "upstream: order of maps",
            json!({"mergingList": [{"name": "1"}, {"name": "2"}, {"name": "3"}]}),
            json!({"$setElementOrder/mergingList": [{"name": "3"}, {"name": "1"}, {"name": "2"}]}),
            json!({"mergingList": [{"name": "3"}, {"name": "1"}, {"name": "2"}]}),
        ),
        (
            "an order keeps elements that only the object has",
            json!({"mergingList": [{"name": "0"}, {"name": "1"}, {"name": "2"}]}),
            json!({"$setElementOrder/mergingList": [{"name": "2"}, {"name": "1"}]}),
            json!({"mergingList": [{"name": "0"}, {"name": "2"}, {"name": "1"}]}),
        ),
        (
            "upstream: retain keys",
            json!({"a": {"b": 1, "c": 2}}),
            json!({"a": {"$retainKeys": ["c", "d"], "d": 3}}),
            json!({"a": {"c": 2, "d": 3}}),
        ),
        (
            "conditions merge by type",
            json!({"conditions": [{"type": "Ready", "status": "True", "reason": "r"}]}),
            json!({"conditions": [{"type": "Ready", "status": "False"}]}),
            json!({"conditions": [{"type": "Ready", "status": "False", "reason": "r"}]}),
        ),
    ] {
        assert_eq!(patched(document, patch), Ok(want), "{name}");
    }
}

#[test]
fn bad_patches_are_refused() {
    for (name, document, patch, want) in [
        (
            "a patch that is not a map",
            json!({}),
            json!([]),
            (400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ),
        (
            "unknown directive",
            json!({"a": {}}),
            json!({"a": {"$patch": "merge"}}),
            (500, "unknown patch type: merge in map: map[$patch:merge]"),
        ),
        (
            "no merge key",
            json!({"mergingList": [{"name": "1"}]}),
            json!({"mergingList": [{"v": "1"}]}),
            (500, "map: map[v:1] does not contain declared merge key: name"),
        ),
        (
            "lists of lists",
            json!({"mergingIntList": [1]}),
            json!({"mergingIntList": [[1]]}),
            (422, "the server rejected our request due to an error in our request"),
        ),
        (
            "retained keys do not cover the patch",
            json!({"a": {}}),
            json!({"a": {"$retainKeys": ["b"], "c": 1}}),
            (400, "invalid patch format of retainKeys"),
        ),
        (
            "a directive without a field",
            json!({}),
            json!({"$deleteFromPrimitiveList": ["a"]}),
            (400, "invalid patch format of primitive list"),
        ),
    ] {
        assert_eq!(patched(document, patch), Err((want.0, want.1.to_owned())), "{name}");
    }
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..5_i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
        any::<bool>().prop_map(Value::from)
    ]
}

/// Documents with well-formed merging lists, like those of typed objects.
fn document() -> impl Strategy<Value = Value> {
    let maps = prop::collection::btree_map("[a-d]", scalar(), 0..4);
    let element = prop::collection::btree_map("[v-x]", scalar(), 0..3);
    let list = prop::collection::btree_map("[1-4]", element, 0..4).prop_map(|elements| {
        let element = |(name, fields): (String, std::collections::BTreeMap<String, Value>)| {
            let mut element = json!({"name": name});
            for (field, value) in fields {
                element[field] = value;
            }
            element
        };
        elements.into_iter().map(element).collect::<Vec<_>>()
    });
    let set = prop::collection::btree_set(0..5_i64, 0..4);
    (maps, list, set).prop_map(
        |(map, list, set)| json!({"map": map, "mergingList": list, "mergingIntList": set}),
    )
}

/// Returns a patch that changes one document into another.
fn difference(from: &Value, to: &Value) -> Value {
    let mut map = to["map"].clone();
    for field in from["map"].as_object().unwrap().keys() {
        if to["map"].get(field).is_none() {
            map[field] = Value::Null;
        }
    }
    let list = |it: &Value, field: &str| it[field].as_array().unwrap().clone();
    let mut maps: Vec<Value> = list(to, "mergingList");
    for element in &mut maps {
        element["$patch"].take();
        element.as_object_mut().unwrap().shift_remove("$patch");
        let old = list(from, "mergingList").into_iter().find(|it| it["name"] == element["name"]);
        for field in old.iter().flat_map(|it| it.as_object().unwrap().keys()) {
            if element.get(field).is_none() {
                element[field] = Value::Null;
            }
        }
    }
    for element in list(from, "mergingList") {
        if !list(to, "mergingList").iter().any(|it| it["name"] == element["name"]) {
            maps.push(json!({"name": element["name"], "$patch": "delete"}));
        }
    }
    let names: Vec<Value> =
        list(to, "mergingList").iter().map(|it| json!({"name": it["name"]})).collect();
    let gone: Vec<Value> = list(from, "mergingIntList")
        .into_iter()
        .filter(|it| !list(to, "mergingIntList").contains(it))
        .collect();
    json!({
        "map": map,
        "mergingList": maps,
        "$setElementOrder/mergingList": names,
        "$deleteFromPrimitiveList/mergingIntList": gone,
        "$setElementOrder/mergingIntList": to["mergingIntList"],
        "mergingIntList": to["mergingIntList"],
    })
}

fn sorted(mut document: Value) -> Value {
    document.sort_all_objects();
    document
}

proptest! {
    #[test]
    fn a_second_application_of_a_patch_changes_nothing(from in document(), to in document()) {
        let patch = difference(&from, &to);
        let once = patched(from, patch.clone()).unwrap();
        prop_assert_eq!(patched(once.clone(), patch).unwrap(), once);
    }

    #[test]
    fn a_patch_of_the_difference_produces_the_target_document(from in document(), to in document()) {
        let patch = difference(&from, &to);
        let arrived = patched(from, patch).unwrap();
        prop_assert_eq!(sorted(arrived), sorted(to));
    }

    #[test]
    fn a_document_patched_with_itself_stays_equal(document in document()) {
        prop_assert_eq!(sorted(patched(document.clone(), document.clone()).unwrap()), sorted(document));
    }
}
