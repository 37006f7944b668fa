//! Checks of rules in CEL (`x-kubernetes-validations`) in the schemas of a definition.
//!
//! Follows the end of `ValidateCustomResourceDefinitionOpenAPISchema` of
//! `apiextensions-apiserver: pkg/apis/apiextensions/validation/validation.go`, without limits of
//! cost.

use serde_json::{Value, json};

use crate::FieldErrors;
use crate::kind::custom::rules::{Refusal, Rules, field_path};

const FIELD: &str = "x-kubernetes-validations";
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Place of a schema, as far as the checks of its rules depend on it.
#[derive(Clone, Copy, Default)]
pub(super) struct Place<'a> {
    /// True if the rules are compiled. The real server does not compile rules inside `allOf`,
    /// `anyOf`, `oneOf` and `not`.
    pub(super) is_compiled: bool,
    /// Path of the outermost list around the schema whose elements have no keys: an update cannot
    /// compare them with their old values.
    pub(super) uncorrelated: Option<&'a str>,
}

/// Checks the form of the rules of one schema.
pub(super) fn validate(schema: &Value, path: &str, errors: &mut FieldErrors) {
    for (at, rule) in schema[FIELD].as_array().into_iter().flatten().enumerate() {
        let path = |field: &str| format!("{path}.{FIELD}[{at}].{field}");
        let given = |field: &str| rule[field].as_str().unwrap_or_default();
        let has_breaks = |text: &str| text.contains(['\n', '\r']);
        let (text, message) = (given("rule").trim(), given("message").trim());
        if text.is_empty() {
            errors.required(path("rule"), "rule is not specified");
        } else if !given("message").is_empty() && message.is_empty() {
            let why = "must be non-empty if specified";
            errors.invalid(path("message"), &rule["message"], why);
        } else if has_breaks(message) {
            errors.invalid(path("message"), &rule["message"], "must not contain line breaks");
        } else if has_breaks(text) && message.is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.required(path("message"), why);
        }
        let expression = given("messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.required(path("messageExpression"), why);
        }
        if let Some(reason) = rule["reason"].as_str().filter(|it| !REASONS.contains(it)) {
            errors.not_supported(path("reason"), reason, &REASONS);
        }
        let field = given("fieldPath");
        if !field.is_empty() && field.trim().is_empty() {
            let why = "must be non-empty if specified";
            errors.invalid(path("fieldPath"), &field.into(), why);
        }
        if has_breaks(field) {
            errors.invalid(path("fieldPath"), &field.into(), "must not contain line breaks");
        }
        if !field.is_empty() && field_path(field, schema).is_none() {
            errors.invalid(path("fieldPath"), &field.into(), "must be a valid path");
        }
    }
}

/// Compiles the rules of one schema. `is_object` is true for the schema of a whole or embedded
/// object.
pub(super) fn compile(
    schema: &Value,
    path: &str,
    is_object: bool,
    place: Place<'_>,
    errors: &mut FieldErrors,
) {
    let given = schema[FIELD].as_array().map(Vec::as_slice).unwrap_or_default();
    if given.is_empty() {
        return;
    }
    let at = format!("{path}.{FIELD}");
    let Some(rules) = Rules::compile(schema, is_object) else {
        let why = format!(
            "internal error: failed to construct type information for {FIELD} rules: unable to convert structural schema to CEL declarations"
        );
        return errors.internal(at, &why);
    };
    for (n, (rule, problems)) in given.iter().zip(rules.problems()).enumerate() {
        let mut report = |field: &str, refusal: Option<&Refusal>| match refusal {
            None => {}
            Some(Refusal::Wrong(why)) => {
                errors.invalid(format!("{at}[{n}].{field}"), &shown(rule), why);
            }
            Some(Refusal::Unsupported(what)) => {
                let why = format!("this simulated API server does not evaluate {what} in CEL");
                errors.forbidden(format!("{at}[{n}].{field}"), &why);
            }
        };
        report("rule", problems.rule);
        report("messageExpression", problems.message);
        let optional = &rule["optionalOldSelf"];
        if let (true, Some(list)) = (problems.uses_old, place.uncorrelated) {
            let why = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
            );
            errors.invalid(format!("{at}[{n}].rule"), &rule["rule"], &why);
        } else if !problems.uses_old && !optional.is_null() {
            let why = "may not be set if oldSelf is not used in rule";
            errors.invalid(format!("{at}[{n}].optionalOldSelf"), optional, why);
        }
    }
}

/// Returns a rule in the form of the real server's internal type.
fn shown(rule: &Value) -> Value {
    let text = |field: &str| rule[field].as_str().unwrap_or_default();
    json!({
        "Rule": text("rule"), "Message": text("message"),
        "MessageExpression": text("messageExpression"), "Reason": rule["reason"],
        "FieldPath": text("fieldPath"), "OptionalOldSelf": rule["optionalOldSelf"],
    })
}
