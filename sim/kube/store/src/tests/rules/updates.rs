use serde_json::{Value, json};

use super::{DEFINITIONS, create, definition, gadgets, merge, object, outcome, with};
use crate::{Command, Key, PatchKind, Subresource};

fn none() -> Vec<String> {
    Vec::new()
}

fn failed(field: &str, rest: &str) -> Result<Vec<String>, Vec<String>> {
    Err(vec![format!("FieldValueInvalid {field} Invalid value: {rest}")])
}

#[test]
fn a_rule_with_old_self_runs_only_on_updates_of_a_value() {
    let fixed = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]});
    let properties = json!({
        "n": {"type": "integer"}, "s": fixed,
        "m": {"type": "object", "additionalProperties": fixed},
    });
    let rules = json!([{"rule": "self.n >= oldSelf.n", "message": "n must not shrink"}]);
    let mut store = with(object(properties, rules), json!([]));
    assert_eq!(outcome(create(&mut store, json!({"n": 3, "s": "a", "m": {"x": "1"}}))), Ok(none()));
    let mut run = |patch: Value| outcome(merge(&mut store, json!({"spec": patch})));
    assert_eq!(run(json!({"n": 2})), failed("spec", "n must not shrink"));
    assert_eq!(run(json!({"n": 4})), Ok(none()));
    assert_eq!(run(json!({"s": "b"})), failed("spec.s", r#""b": immutable"#));
    assert_eq!(run(json!({"s": null})), Ok(none()));
    assert_eq!(run(json!({"s": "c"})), Ok(none()));
    assert_eq!(run(json!({"m": {"x": "2"}})), failed("spec.m[x]", r#""2": immutable"#));
    assert_eq!(run(json!({"m": {"y": "2"}})), Ok(none()));
}

#[test]
fn elements_of_a_list_with_keys_are_compared_by_their_keys() {
    let item = json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "v": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v", "message": "shrinks"}],
    });
    let list = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item});
    let mut store = with(object(json!({"l": list}), json!([])), json!([]));
    create(&mut store, json!({"l": [{"name": "a", "v": 5}]})).unwrap();
    let mut run = |list: Value| outcome(merge(&mut store, json!({"spec": {"l": list}})));
    let shrunk = json!([{"name": "b", "v": 1}, {"name": "a", "v": 4}]);
    assert_eq!(run(shrunk), failed("spec.l[1]", "shrinks"));
    assert_eq!(run(json!([{"name": "b", "v": 1}, {"name": "a", "v": 6}])), Ok(none()));
}

/// Each case has a rule, and a change of a field that the rule forbids.
#[test]
fn a_rule_compares_fields_without_a_type() {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let any = json!({"x-kubernetes-preserve-unknown-fields": true});
    let mut embedded = free.clone();
    embedded["x-kubernetes-embedded-resource"] = json!(true);
    let properties = json!({
        "n": {"type": "integer"},
        "free": free,
        "any": any,
        "list": {"type": "array", "items": any},
        "map": {"type": "object", "additionalProperties": free},
        "frees": {"type": "array", "items": free},
        "raw": embedded,
    });
    let raw = |q: i64| json!({"raw": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"q": q.to_string()}}, "spec": {"q": 1}}});
    for (rule, old, new) in [
        ("self.free == oldSelf.free", json!({"free": {"a": 1}}), json!({"free": {"a": 2}})),
        ("!(self.free != oldSelf.free)", json!({"free": {"a": {}}}), json!({"free": {"b": []}})),
        ("self == oldSelf", json!({"any": 1}), json!({"any": "1"})),
        ("self == oldSelf", json!({"list": [1, 2]}), json!({"list": [2, 1]})),
        (
            "self.map == oldSelf.map",
            json!({"map": {"k": {"a": 1}}}),
            json!({"map": {"k": {"a": 2}}}),
        ),
        (
            "self.map.k in [oldSelf.map.k]",
            json!({"map": {"k": {"a": 1}}}),
            json!({"map": {"k": {"a": 2}}}),
        ),
        (
            "oldSelf.frees.indexOf(self.frees[0]) == 0",
            json!({"frees": [{"a": 1}]}),
            json!({"frees": [{"a": 2}]}),
        ),
        ("self.raw == oldSelf.raw", raw(1), raw(2)),
    ] {
        let rule = json!([{"rule": rule, "message": "changed"}]);
        let mut store = with(object(properties.clone(), rule.clone()), json!([]));
        create(&mut store, old.clone()).unwrap();
        let mut run = |patch: Value| outcome(merge(&mut store, patch));
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        assert_eq!(run(labels), Ok(Vec::new()), "{rule}");
        assert_eq!(run(json!({"spec": old})), Ok(Vec::new()), "{rule}");
        let want = Err(vec!["FieldValueInvalid spec Invalid value: changed".to_owned()]);
        assert_eq!(run(json!({"spec": new})), want, "{rule}");
    }
    let rule = json!([{"rule": "dyn(self.free).all(k, k == '')"}]);
    let mut store = with(object(properties, rule), json!([]));
    let found = outcome(create(&mut store, json!({"free": {"a": 1}}))).unwrap_err();
    assert!(found[0].contains("no such overload"), "{found:?}");
}

#[test]
fn a_rule_with_an_optional_old_self_runs_on_creations_too() {
    let s = json!({"type": "string", "x-kubernetes-validations": [
        {"rule": "oldSelf.hasValue() || self == 'new'", "optionalOldSelf": true, "message": "must start as new"},
        {"rule": "oldSelf.optMap(old, old != 'end').orValue(true)", "optionalOldSelf": true, "message": "ended"},
    ]});
    let mut store = with(object(json!({"s": s}), json!([])), json!([]));
    let refused = outcome(create(&mut store, json!({"s": "x"})));
    assert_eq!(refused, failed("spec.s", r#""x": must start as new"#));
    assert_eq!(outcome(create(&mut store, json!({"s": "new"}))), Ok(none()));
    let mut run = |s: &str| outcome(merge(&mut store, json!({"spec": {"s": s}})));
    assert_eq!(run("end"), Ok(none()));
    assert_eq!(run("z"), failed("spec.s", r#""z": ended"#));
}

#[test]
fn a_write_of_the_status_runs_the_rules_of_the_whole_object() {
    let root = json!([{"rule": "!has(self.status) || self.status.n < self.spec.n", "message": "too many"}]);
    let mut store = with(object(json!({"n": {"type": "integer"}}), json!([])), root);
    create(&mut store, json!({"n": 5})).unwrap();
    let mut run = |n: i64| {
        let key = Key::new(gadgets(), "default", "g");
        let patch = Command::patch(key, PatchKind::Merge, json!({"status": {"n": n}}));
        outcome(store.run(Command { subresource: Some(Subresource::Status), ..patch }))
    };
    assert_eq!(run(6), failed("<nil>", "too many"));
    assert_eq!(run(4), Ok(none()));
}

/// Returns the schema of a spec whose fields are limited if `is_strict` is true.
fn limited(is_strict: bool) -> Value {
    let number = |rule: &str| match is_strict {
        true => {
            json!({"type": "integer", "x-kubernetes-validations": [{"rule": rule, "message": "small"}]})
        }
        false => json!({"type": "integer"}),
    };
    let item = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "v": number("self > 9")}});
    let mut schema = object(
        json!({
            "n": number("self > 9"),
            "other": {"type": "integer"},
            "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": item},
            "plain": {"type": "array", "items": number("self > 9")},
            "max": {"type": "integer"},
        }),
        json!([]),
    );
    if is_strict {
        schema["properties"]["max"]["maximum"] = json!(3);
        schema["x-kubernetes-validations"] =
            json!([{"rule": "self.n >= oldSelf.n", "message": "shrinks"}]);
    }
    schema
}

/// The field of each patch is the one that the update makes or leaves invalid.
#[test]
fn an_update_may_leave_an_invalid_value_as_it_is() {
    let mut store = with(limited(false), json!([]));
    let l = json!([{"name": "a", "v": 1}, {"name": "b", "v": 2}]);
    create(&mut store, json!({"n": 1, "l": l, "plain": [1], "max": 5})).unwrap();
    let crd = Key::new(DEFINITIONS, "", "gadgets.rules.example.com");
    let strict = definition(limited(true), json!([]));
    store.done(Command::patch(
        crd,
        PatchKind::Merge,
        json!({"spec": {"versions": strict["spec"]["versions"]}}),
    ));
    let n = "spec.n: Invalid value: 1: small".to_owned();
    let a = "spec.l[0].v: Invalid value: 1: small".to_owned();
    let b = "spec.l[1].v: Invalid value: 2: small".to_owned();
    let plain = "spec.plain[0]: Invalid value: 1: small".to_owned();
    let all = vec![a.clone(), b.clone(), n.clone(), plain.clone()];
    let mut run = |patch: Value| outcome(merge(&mut store, patch));
    assert_eq!(run(json!({"metadata": {"labels": {"a": "b"}}})), Ok(all.clone()));
    assert_eq!(run(json!({"spec": {"other": 1}})), Ok(all));
    assert_eq!(run(json!({"spec": {"n": 2}})), failed("spec.n", "2: small"));
    let max = "6: spec.max in body should be less than or equal to 3";
    assert_eq!(run(json!({"spec": {"max": 6}})), failed("spec.max", max));
    // Elements of a list without keys are kept only as a whole.
    assert_eq!(run(json!({"spec": {"plain": [1, 20]}})), failed("spec.plain[0]", "1: small"));
    let moved = json!([{"name": "b", "v": 3}, {"name": "a", "v": 1}]);
    assert_eq!(run(json!({"spec": {"l": moved}})), failed("spec.l[0].v", "3: small"));
}
