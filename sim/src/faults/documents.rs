//! Rules in documents: a rule, a list of rules, and the names of failures that stand for rules.

use serde_json::Value;

use super::{Known, Rule, catalogue, check, known};
use crate::document::{self, DocumentError, closest};

/// Parses and validates one rule or a list of rules. The name of a failure in the catalogue stands
/// for its rule.
pub(crate) fn read_rules(value: Value) -> Result<Vec<Rule>, DocumentError> {
    let list = match value {
        Value::Array(list) => list,
        Value::Object(_) => vec![value],
        // A single name of a failure in the catalogue.
        Value::String(name) if known(&name).is_some() => vec![Value::String(name)],
        other => {
            return Err(DocumentError::at_key(
                "",
                &other,
                "a list of fault rules is expected",
                "write `- id: NAME`, `match: {…}`, `do: […]` for each rule",
            ));
        }
    };
    let rule = |(n, value): (usize, Value)| {
        let place = format!("[{n}]");
        let value = named(value).map_err(|wrong| wrong.prefix_key(&place))?;
        let rule: Rule = document::typed(value).map_err(|wrong| {
            let remedy = "a rule has id, match, when, do, effect, priority and ttl";
            wrong.or_remedy(remedy).prefix_key(&place)
        })?;
        check(&rule).map_err(|problem| DocumentError::document(problem, "correct the rule"))?;
        Ok(rule)
    };
    list.into_iter().enumerate().map(rule).collect()
}

/// Expands the name of a failure in a rule of a document. A text stands for the rule of that name.
/// An object with the key `use` stands for the rule that `use` names; its other keys replace keys
/// of that rule. Returns any other value unchanged.
///
/// # Errors
/// A name that is not in the catalogue, or a `use` that is not a text.
fn named(value: Value) -> Result<Value, DocumentError> {
    let (name, own) = match value {
        Value::String(name) => (name, None),
        Value::Object(mut own) if own.contains_key("use") => {
            let name: String = document::typed(own.shift_remove("use").unwrap_or_default())
                .map_err(|wrong| wrong.prefix_key("use"))?;
            (name, Some(own))
        }
        other => return Ok(other),
    };
    let Some(rule) = known(&name) else {
        let names: Vec<&str> = catalogue().iter().map(Known::name).collect();
        let remedy = match closest(&name, &names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`sim fault known` lists the names".to_owned(),
        };
        return Err(DocumentError::at_key(
            "",
            &name.into(),
            "no known failure has this name",
            remedy,
        ));
    };
    let mut rule = serde_json::to_value(rule).unwrap_or_default();
    if let (Some(own), Value::Object(rule)) = (own, &mut rule) {
        rule.extend(own);
    }
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_rule_file_is_refused_with_its_key_and_a_remedy() {
        let problem = |text: &str| match read_rules(document::yaml(text.as_bytes()).unwrap()) {
            Ok(rules) => panic!("accepted: {rules:?}"),
            Err(wrong) => format!("{} | {}", wrong.summary(), wrong.remedy),
        };
        for (name, text, want) in [
            (
                "a misspelt key",
                "- id: a\n  mach: {}\n  do: [reset]",
                "[0].mach: unknown key | did you mean `match`?",
            ),
            (
                "a misspelt nested key",
                "- id: a\n  match: {operation: x}\n  do: [reset]",
                "[0].match.operation: unknown key | expected one of protocol, server, op, resource, client",
            ),
            (
                "an unknown action",
                "- id: a\n  do: [rest]",
                "[0].do[0]: rest: is not known | did you mean `reset`?",
            ),
            ("a missing key", "- id: a", "[0].do: is missing | add this key"),
            (
                "a wrong type",
                "- id: a\n  priority: high\n  do: [reset]",
                "[0].priority: \"high\": invalid value | write a whole number",
            ),
            (
                "a rule that parses but cannot work",
                "- id: a\n  when: {every: 0}\n  do: [reset]",
                "rule `a`: when.every is 0; write 1 or more | correct the rule",
            ),
            (
                "a text as match",
                "- id: a\n  match: x",
                "[0].match: \"x\": invalid value | write keys and values",
            ),
            (
                "a text in place of a list",
                "reset",
                "\"reset\": a list of fault rules is expected | write `- id: NAME`, `match: {…}`, `do: […]` for each rule",
            ),
        ] {
            assert_eq!(problem(text), want, "{name}");
        }
    }

    #[test]
    fn a_catalogue_name_in_a_rule_file_stands_for_its_rule() {
        let read = |text: &str| read_rules(document::yaml(text.as_bytes()).unwrap());
        let rules = read("[hangs, {use: token-refused, id: mine, when: {nth: 2}}]").unwrap();
        assert_eq!(rules[0], known("hangs").unwrap());
        let mut mine = known("token-refused").unwrap().nth(2);
        mine.id = "mine".into();
        assert_eq!(rules[1], mine);
        let wrong = |text: &str| read(text).map_err(|wrong| (wrong.summary(), wrong.remedy));
        assert_eq!(
            wrong("[hang]"),
            Err((
                "[0]: \"hang\": no known failure has this name".into(),
                "did you mean `hangs`?".into()
            ))
        );
        assert_eq!(
            wrong("[{use: hangs, wen: {}}]"),
            Err(("[0].wen: unknown key".into(), "did you mean `when`?".into()))
        );
    }
}
