use serde_json::{Value, json};

use super::{object, problems};

const AT: &str = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";

fn number_with(rule: &Value) -> Value {
    let properties = json!({
        "n": {"type": "integer"},
        "namespace": {"type": "string"},
        "names": {"type": "array", "items": {"type": "string"}},
    });
    object(properties, json!([rule]))
}

/// Each case has a rule, the field that the error names, and a part of the error.
#[test]
fn a_definition_with_a_wrong_rule_is_refused_with_the_words_of_the_real_server() {
    for (rule, field, want) in [
        (json!({"rule": " "}), "rule", "Required value: rule is not specified"),
        (json!({"rule": "true", "message": " "}), "message", "must be non-empty if specified"),
        (json!({"rule": "true", "message": "a\nb"}), "message", "must not contain line breaks"),
        (json!({"rule": "true\n"}), "", ""),
        (
            json!({"rule": "self.n\n> 1"}),
            "message",
            "Required value: message must be specified if rule contains line breaks",
        ),
        (
            json!({"rule": "true", "messageExpression": " "}),
            "messageExpression",
            "Required value: messageExpression must be non-empty if specified",
        ),
        (
            json!({"rule": "true", "reason": "Odd"}),
            "reason",
            r#"Unsupported value: "Odd": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired""#,
        ),
        (json!({"rule": "true", "fieldPath": ".x"}), "fieldPath", "must be a valid path"),
        (json!({"rule": "true", "fieldPath": ".names[0]"}), "fieldPath", "must be a valid path"),
        (
            json!({"rule": "self.n > 1", "optionalOldSelf": true}),
            "optionalOldSelf",
            "Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
        (json!({"rule": "self.n"}), "rule", "cel expression must evaluate to a bool"),
        (
            json!({"rule": "self.n > 1", "messageExpression": "self.n"}),
            "messageExpression",
            "messageExpression must evaluate to a string",
        ),
        (
            json!({"rule": "self.m > 1"}),
            "rule",
            "compilation failed: ERROR: <input>:1:5: undefined field 'm'\n | self.m > 1\n | ....^",
        ),
        (
            json!({"rule": "other > 1"}),
            "rule",
            "ERROR: <input>:1:1: undeclared reference to 'other' (in container '')\n | other > 1\n | ^",
        ),
        (
            json!({"rule": "self.n == 'a'"}),
            "rule",
            "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (json!({"rule": "self.names.first()"}), "rule", "cel expression must evaluate to a bool"),
        (
            json!({"rule": "self.n ="}),
            "rule",
            "compilation failed: ERROR: <input>:1:8: Syntax error",
        ),
        (
            json!({"rule": "duration('x') > duration('1s')"}),
            "rule",
            "compilation failed: ERROR: <input>:1:10: invalid duration argument",
        ),
        (
            json!({"rule": "duration('1hxyz') == duration('1h')"}),
            "rule",
            "compilation failed: ERROR: <input>:1:10: invalid duration argument",
        ),
        (
            json!({"rule": "int('x') > 1"}),
            "rule",
            "program instantiation failed: type conversion error from 'string' to 'int'",
        ),
        (json!({"rule": "self.namespace == 'a' && self.__namespace__ == 'a'"}), "", ""),
    ] {
        let found = problems(number_with(&rule));
        if want.is_empty() {
            assert_eq!(found, [""; 0], "{rule}");
            continue;
        }
        let [found] = found.as_slice() else { panic!("{rule}: {found:?}") };
        assert!(found.contains(&format!(" {AT}.{field} ")), "{rule}: {found}");
        assert!(found.contains(want), "{rule}: {found}");
    }
}

#[test]
fn an_error_shows_the_rule_in_the_form_of_the_real_server() {
    let found = problems(number_with(&json!({"rule": "self.n", "message": "<m>"})));
    let want = format!(
        r#"FieldValueInvalid {AT}.rule Invalid value: {{"Rule":"self.n","Message":"\u003cm\u003e","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}}: cel expression must evaluate to a bool"#
    );
    assert_eq!(found, [want]);
}

#[test]
fn a_rule_that_the_store_cannot_evaluate_is_refused_by_name() {
    for (rule, what) in [
        ("isURL(self.namespace)", "isURL(string)"),
        ("url(self.namespace) == url('a')", "url(string)"),
        ("self.names.all(i, name, name != '')", "all with 3 arguments"),
        ("self.names.sortBy(name, name)[0] == 'a'", "sortBy with 2 arguments"),
        ("self.names.transformList(i, name, name)[0] == 'a'", "transformList with 3 arguments"),
        ("string(1.5) == '1.5'", "string(double)"),
        ("'%s'.format([1.5]) == '1.5'", "format of double with %s"),
        ("'%s'.format([{'a': 1}]) == ''", "format of map(string, int) with %s"),
        ("'%s'.format([[{'a': 1}]]) == ''", "format of list(map(string, int)) with %s"),
        ("'%.3s'.format([self]) == ''", "format of object with %s"),
        ("'%s'.format([dyn(1)]) == '1'", "format of dyn with %s"),
        ("'%.65536f'.format([1.0]) == ''", "format with a precision above 100"),
        ("'%.99999999999f'.format([1.0]) == ''", "format with a precision above 100"),
        ("self.namespace.format([1]) == ''", "format of a text that is not a literal"),
        ("('%' + 'd').format([1]) == '1'", "format of a text that is not a literal"),
        ("format.named('uuid').hasValue()", "format.named(string)"),
        ("timestamp('2026-01-01T00:00:00Z').getHours('+01:00') == 1", "getHours(string)"),
        ("type(self.n) == google.protobuf.Duration", "names of protobuf types"),
    ] {
        let want = format!(
            "FieldValueForbidden {AT}.rule Forbidden: this simulated API server does not evaluate {what} in CEL"
        );
        assert_eq!(problems(number_with(&json!({"rule": rule}))), [want], "{rule}");
    }
    let lists =
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let found =
        problems(object(json!({"a": lists}), json!([{"rule": "size(self.a + self.a) > 1"}])));
    assert!(
        found[0].ends_with("does not evaluate + of lists of type set or map in CEL"),
        "{found:?}"
    );
}

#[test]
fn old_values_of_elements_without_keys_cannot_be_compared() {
    let items =
        json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let found = problems(object(json!({"l": {"type": "array", "items": items}}), json!([])));
    let list = "spec.validation.openAPIV3Schema.properties[spec].properties[l]";
    let want = format!(
        r#"FieldValueInvalid {list}.items.x-kubernetes-validations[0].rule Invalid value: "self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"#
    );
    assert_eq!(found, [want]);
}

#[test]
fn a_default_must_satisfy_the_rules() {
    let n = json!({"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1"}]});
    let found = problems(object(json!({"n": n}), json!([])));
    let want = "FieldValueInvalid spec.validation.openAPIV3Schema.properties[spec].properties[n].default Invalid value: 1: failed rule: self > 1";
    assert_eq!(found, [want]);
}

#[test]
fn rules_of_values_without_a_type_are_refused() {
    let free = json!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [{"rule": "true"}]});
    let found = problems(object(json!({"free": free}), json!([])));
    assert!(found[0].contains("failed to construct type information"), "{found:?}");
}

/// A thread of a test has 2 MiB of stack, as one of the sim has.
#[test]
fn a_deep_rule_is_refused_and_does_not_overflow_the_stack() {
    let nested = |n: usize| format!("{}true{}", "(".repeat(n), ")".repeat(n));
    assert_eq!(problems(number_with(&json!({"rule": nested(200)}))), [""; 0]);
    for (rule, want) in [
        (nested(20_000), "expression recursion limit exceeded: 250"),
        (format!("{}true", "!true || ".repeat(20_000)), "limit 100000"),
        (format!("1{} > 0", " + 1".repeat(2_000)), "expressions nested deeper than 60 levels"),
        (
            format!("self.namespace == '{}'", "a".repeat(10_000)),
            "does not evaluate expressions of more than 10000 characters in CEL",
        ),
        (format!("self.names{} == []", ".map(n, n)".repeat(200)), "deeper than 60 levels"),
    ] {
        let found = problems(number_with(&json!({"rule": rule})));
        assert!(found[0].contains(want), "{want}: {}", &found[0][found[0].len() - 200..]);
    }
}
