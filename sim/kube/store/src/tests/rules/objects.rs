use serde_json::{Value, json};

use super::{create, object, outcome, with};

fn none() -> Vec<String> {
    Vec::new()
}

#[test]
fn a_failed_rule_is_an_error_with_its_message_reason_and_field() {
    let n = json!({"type": "integer", "x-kubernetes-validations": [
        {"rule": "self > 1"},
        {"rule": "self > 1", "reason": "FieldValueDuplicate"},
        {"rule": "self > 1", "reason": "FieldValueForbidden", "message": "small"},
    ]});
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let properties = json!({"n": n, "s": {"type": "string"}, "m": map});
    let rules = json!([
        {"rule": "self.n > 1", "reason": "FieldValueForbidden", "message": " trimmed "},
        {"rule": "self.n > 1", "reason": "FieldValueRequired"},
        {"rule": "self.n > 1", "reason": "FieldValueDuplicate"},
        {"rule": "self.n > 1", "reason": "FieldValueInvalid", "fieldPath": ".n"},
        {"rule": "self.n > 1", "fieldPath": ".m['a.b']"},
        {"rule": "self.n > 1", "messageExpression": "' s is ' + self.s"},
        {"rule": "self.n > 1", "messageExpression": "self.m['none']", "message": "static"},
        {"rule": "self.n > 1", "messageExpression": "''"},
    ]);
    let mut store = with(object(properties, rules), json!([]));
    let want = [
        "FieldValueForbidden spec Forbidden: trimmed",
        "FieldValueRequired spec Required value: failed rule: self.n > 1",
        "FieldValueDuplicate spec Duplicate value",
        "FieldValueInvalid spec.n Invalid value: failed rule: self.n > 1",
        "FieldValueInvalid spec.m[a.b] Invalid value: failed rule: self.n > 1",
        "FieldValueInvalid spec Invalid value: s is q<r>",
        "FieldValueInvalid spec Invalid value: static",
        "FieldValueInvalid spec Invalid value: failed rule: self.n > 1",
        "FieldValueInvalid spec.n Invalid value: 1: failed rule: self > 1",
        "FieldValueDuplicate spec.n Duplicate value: 1",
        "FieldValueForbidden spec.n Forbidden: small",
    ];
    let refused = outcome(create(&mut store, json!({"n": 1, "m": {}, "s": "q<r>"}))).unwrap_err();
    assert_eq!(refused, want);
    assert_eq!(outcome(create(&mut store, json!({"n": 2, "m": {}, "s": ""}))), Ok(none()));
}

#[test]
fn rules_on_every_schema_node_are_evaluated() {
    let big = |kind: &str, rule: &str| json!({"type": kind, "x-kubernetes-validations": [{"rule": rule}]});
    let properties = json!({
        "list": {"type": "array", "items": big("integer", "self > 1")},
        "map": {"type": "object", "additionalProperties": big("string", "self != 'x'")},
        "odd name": big("integer", "self > 1"),
        "pod": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
            "x-kubernetes-validations": [{"rule": "self.metadata.name == 'a' && self.kind == 'Pod'"}],
        },
    });
    let root = json!([{"rule": "self.metadata.name != 'g' && self.kind == 'Gadget'", "fieldPath": ".spec"}]);
    let mut store = with(object(properties, json!([])), root);
    let spec = json!({
        "list": [2, 0], "map": {"a.b": "x"}, "odd name": 0,
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}},
    });
    let pod = "self.metadata.name == 'a' && self.kind == 'Pod'";
    let want = [
        "FieldValueInvalid spec Invalid value: failed rule: self.metadata.name != 'g' && self.kind == 'Gadget'".to_owned(),
        "FieldValueInvalid spec.list[1] Invalid value: 0: failed rule: self > 1".to_owned(),
        r#"FieldValueInvalid spec.map[a.b] Invalid value: "x": failed rule: self != 'x'"#.to_owned(),
        "FieldValueInvalid spec.odd name Invalid value: 0: failed rule: self > 1".to_owned(),
        format!("FieldValueInvalid spec.pod Invalid value: failed rule: {pod}"),
    ];
    assert_eq!(outcome(create(&mut store, spec)).unwrap_err(), want);
}

#[test]
fn an_error_of_an_evaluation_refuses_the_object() {
    let properties = json!({
        "n": {"type": "integer"}, "missing": {"type": "integer"},
        "either": {"x-kubernetes-int-or-string": true},
        "list": {"type": "array", "items": {"type": "integer"}},
    });
    let rules = json!([
        {"rule": "self.missing > 1"},
        {"rule": "self.n / 0 == 1", "message": "the message"},
        {"rule": "self.list[5] == 1"},
        {"rule": "self.either + 1 == 2"},
        {"rule": "self.missing > 1 || self.n == 7"},
        {"rule": "self.list.exists(it, 6 / it == 6)"},
    ]);
    let mut store = with(object(properties, rules), json!([]));
    let value = r#"FieldValueInvalid spec Invalid value: "object": "#;
    let want = [
        format!("{value}no such key: missing evaluating rule: self.missing > 1"),
        format!("{value}division by zero evaluating rule: the message"),
        format!("{value}index out of bounds: 5 evaluating rule: self.list[5] == 1"),
        format!(
            "{value}'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self.either + 1 == 2"
        ),
    ];
    let spec = json!({"n": 7, "either": "a", "list": [0, 1]});
    assert_eq!(outcome(create(&mut store, spec)).unwrap_err(), want);
}

/// Errors of the schema that make rules pointless keep the server from evaluating them.
#[test]
fn rules_are_not_evaluated_if_the_schema_already_refuses_the_object() {
    let schema = |n: Value| {
        let properties = json!({"n": n, "s": {"type": "string", "maxLength": 3}});
        object(properties, json!([{"rule": "self.n > 5"}]))
    };
    let mut store = with(schema(json!({"type": "integer"})), json!([]));
    let want = [
        "FieldValueTooLong spec.s Too long: may not be more than 3 bytes",
        "FieldValueInvalid <nil> Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
    ];
    assert_eq!(outcome(create(&mut store, json!({"n": 0, "s": "abcd"}))).unwrap_err(), want);
    let mut store = with(schema(json!({"type": "integer", "minimum": 3})), json!([]));
    let want = [
        "FieldValueInvalid spec.n Invalid value: 1: spec.n in body should be greater than or equal to 3",
        "FieldValueInvalid spec Invalid value: failed rule: self.n > 5",
    ];
    assert_eq!(outcome(create(&mut store, json!({"n": 1}))).unwrap_err(), want);
}

/// The rules have the forms of those in the definitions of Cluster API.
#[test]
fn rules_like_those_of_cluster_api_are_enforced() {
    let named =
        json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
    let properties = json!({
        "gates": {"type": "array", "items": named, "x-kubernetes-validations": [
            {"rule": "self.all(x, self.exists_one(y, x.name == y.name))", "message": "names must be unique"},
        ]},
        "kind": {"type": "string", "x-kubernetes-validations": [
            {"rule": "!(self in ['Ready','Available'])", "message": "this type is reserved"},
        ]},
        "partition": {"type": "string", "x-kubernetes-validations": [
            {"rule": "self.matches('^(Linux|[0-9A-F]{4}(-[0-9A-F]{2}){2})$')", "message": "unknown partition"},
        ]},
        "whole": {"type": "boolean"}, "parts": {"type": "integer"},
    });
    let rules = json!([{"rule": "[has(self.whole),has(self.parts)].filter(x,x==true).size() == 1", "message": "one of both"}]);
    let mut store = with(object(properties, rules), json!([]));
    let spec =
        json!({"gates": [{"name": "a"}, {"name": "a"}], "kind": "Ready", "partition": "Linux2"});
    let want = [
        "FieldValueInvalid spec Invalid value: one of both",
        "FieldValueInvalid spec.gates Invalid value: names must be unique",
        r#"FieldValueInvalid spec.kind Invalid value: "Ready": this type is reserved"#,
        r#"FieldValueInvalid spec.partition Invalid value: "Linux2": unknown partition"#,
    ];
    assert_eq!(outcome(create(&mut store, spec)).unwrap_err(), want);
    let spec = json!({"gates": [{"name": "a"}, {"name": "b"}], "kind": "Own", "partition": "12AF-01-02", "whole": true});
    assert_eq!(outcome(create(&mut store, spec)), Ok(none()));
}
