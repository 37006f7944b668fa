//! Limits that the real server does not have, or that it expresses as a cost.

use serde_json::{Value, json};

use super::{create, object, outcome, with};

fn refused(rule: &str, properties: Value, spec: Value) -> Vec<String> {
    let mut store = with(object(properties, json!([{"rule": rule}])), json!([]));
    outcome(create(&mut store, spec)).err().unwrap_or_default()
}

#[test]
fn an_expression_that_could_use_up_time_or_memory_fails() {
    let steps = "stops an expression after 1000000 steps of loops";
    let large = "does not compute with quantities of 1e24 or more";
    for (rule, want) in [
        ("lists.range(self.n).size() == 1", "does not make ranges of more than 10000 numbers"),
        ("lists.range(-1).size() == 1", "range argument must be non-negative"),
        ("lists.range(10000).all(x, lists.range(10000).all(y, x + y >= 0)) || true", steps),
        ("lists.range(10000).map(x, lists.range(10000).filter(y, y < 0)) == []", steps),
        ("quantity('1e39').isGreaterThan(quantity('1'))", large),
        ("quantity('1e60').compareTo(quantity('1n')) == 1", large),
        ("quantity('9e23').add(quantity('9e23')).isInteger()", large),
        ("quantity('-9e23').sub(quantity('9e23')).isInteger()", large),
        ("isQuantity('1e30')", large),
        ("quantity('1e').isInteger()", "unable to parse quantity's suffix"),
        ("quantity(' 1').isInteger()", "quantities must match the regular expression"),
        ("duration(self.s) == duration('1h')", "time: unknown unit \"h \" in duration \"1h 1\""),
    ] {
        let properties = json!({"n": {"type": "integer"}, "s": {"type": "string"}});
        let found = refused(rule, properties, json!({"n": 1_000_000_000_000_i64, "s": "1h 1"}));
        assert!(found.len() == 1 && found[0].contains(want), "{rule}: {found:?}");
    }
}

#[test]
fn quantities_and_durations_at_their_limits_are_exact() {
    for rule in [
        "lists.range(10000).size() == 10000",
        // Takes a minute if each step copies the list.
        "lists.range(3).map(x, lists.range(10000)).flatten().map(x, x).size() == 30000",
        "quantity('9e23').isGreaterThan(quantity('1n'))",
        "sign(quantity('1e-2147483648')) == 1",
        "quantity('0.1n').compareTo(quantity('1n')) == 0",
        "quantity('1.5Ki').asInteger() == 1536",
        "quantity('8Ei').compareTo(quantity('9223372036854775807')) == 0",
        "!isQuantity('1e99999999999')",
        "duration('2562047h47m16.854775807s') > duration('2562047h47m16.854775806s')",
        "duration('-9223372036854775808ns') < duration('-2562047h47m16.854775807s')",
        "duration('+1.5h') == duration('90m')",
        "'%%s %.100f'.format([0.5]).startsWith('%s 0.50')",
    ] {
        assert_eq!(refused(rule, json!({}), json!({})), [""; 0], "{rule}");
    }
}

#[test]
fn a_field_with_a_duration_has_the_units_of_its_format() {
    for (given, want) in [
        ("1d", "24h"),
        ("2 weeks", "336h"),
        ("1h 30 minutes", "90m"),
        ("-3 hours", "3h"),
        ("1.5h", "90m"),
        ("-1h", "-1h"),
    ] {
        let properties = json!({"d": {"type": "string", "format": "duration"}});
        let rule = format!("self.d == duration('{want}')");
        assert_eq!(refused(&rule, properties, json!({"d": given})), [""; 0], "{given}");
    }
}
