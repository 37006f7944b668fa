//! Collection of the errors in the fields of an object, with the texts of the real server.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

use crate::Cause;
use crate::values::text::quote;

/// Field errors, in the order in which checks added them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldErrors(Vec<FieldError>);

#[derive(Clone, Debug, PartialEq)]
struct FieldError {
    reason: &'static str,
    field: String,
    body: String,
}

impl FieldErrors {
    /// True if the collection has no error.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of errors.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Sorts the errors by their text, which begins with the field.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_cached_key(|error| format!("{}: {}", error.field, error.body));
    }

    /// Adds the error that the value is invalid, with the reason `why`.
    pub fn invalid(&mut self, field: impl Into<String>, value: &Value, why: &str) {
        self.push("FieldValueInvalid", field, with_value("Invalid value", value, why));
    }

    /// Adds the error that a rule of a schema refuses the value. The error does not show an object or
    /// a list, for which `value` is `None`.
    pub(crate) fn invalid_in_rule(
        &mut self,
        field: impl Into<String>,
        value: Option<&Value>,
        why: &str,
    ) {
        let body = match value {
            Some(value) => with_value("Invalid value", value, why),
            None => with_why("Invalid value".into(), why),
        };
        self.push("FieldValueInvalid", field, body);
    }

    /// Like [`invalid_in_rule`](Self::invalid_in_rule), for a rule that calls the value a duplicate.
    pub(crate) fn duplicate_in_rule(&mut self, field: impl Into<String>, value: Option<&Value>) {
        let body = match value {
            Some(value) => with_value("Duplicate value", value, ""),
            None => "Duplicate value".into(),
        };
        self.push("FieldValueDuplicate", field, body);
    }

    /// True if an error keeps the real server from evaluating rules.
    pub(crate) fn block_rules(&self) -> bool {
        const BLOCKING: [&str; 5] = [
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        ];
        self.0.iter().any(|error| BLOCKING.contains(&error.reason))
    }

    /// Adds the error that the value has the wrong type.
    pub(crate) fn wrong_type(&mut self, field: impl Into<String>, value: &Value, why: &str) {
        self.push("FieldValueTypeInvalid", field, with_value("Invalid value", value, why));
    }

    /// Adds the error that the value names something that does not exist, such as a volume.
    pub fn not_found(&mut self, field: impl Into<String>, value: &Value) {
        self.push("FieldValueNotFound", field, with_value("Not found", value, ""));
    }

    /// Adds the error that a required value is missing.
    pub fn required(&mut self, field: impl Into<String>, why: &str) {
        self.push("FieldValueRequired", field, with_why("Required value".into(), why));
    }

    /// Adds the error that a value occurs more than once.
    pub fn duplicate(&mut self, field: impl Into<String>, value: &Value, why: &str) {
        self.push("FieldValueDuplicate", field, with_value("Duplicate value", value, why));
    }

    /// Adds the error that the client must not set or change the field.
    pub fn forbidden(&mut self, field: impl Into<String>, why: &str) {
        self.push("FieldValueForbidden", field, with_why("Forbidden".into(), why));
    }

    /// Adds the error that the value is not one of the `known` values.
    pub fn not_supported(&mut self, field: impl Into<String>, value: &str, known: &[&str]) {
        let known: Vec<String> = known.iter().map(|one| quote(one)).collect();
        let why = format!("supported values: {}", known.join(", "));
        let body = with_value("Unsupported value", &value.into(), &why);
        self.push("FieldValueNotSupported", field, body);
    }

    /// Like [`not_supported`](Self::not_supported), for values of any type.
    pub(crate) fn not_among(&mut self, field: impl Into<String>, value: &Value, known: &[Value]) {
        let shown = |one: &Value| match one {
            Value::String(text) => quote(text),
            other => quote(&other.to_string()),
        };
        let known: Vec<String> = known.iter().map(shown).collect();
        let why = format!("supported values: {}", known.join(", "));
        self.push("FieldValueNotSupported", field, with_value("Unsupported value", value, &why));
    }

    /// Like [`not_supported`](Self::not_supported), for a list of values as one error.
    pub fn none_supported(&mut self, field: impl Into<String>, values: &[&str], known: &[&str]) {
        let known: Vec<String> = known.iter().map(|one| quote(one)).collect();
        let why = format!("supported values: {}", known.join(", "));
        let body = with_value("Unsupported value", &values.into(), &why);
        self.push("FieldValueNotSupported", field, body);
    }

    /// Adds an internal error: the server could not check the value.
    pub(crate) fn internal(&mut self, field: impl Into<String>, why: &str) {
        self.push("InternalError", field, format!("Internal error: {why}"));
    }

    /// Adds the error that the value has more than `max_bytes` bytes.
    pub fn too_long(&mut self, field: impl Into<String>, max_bytes: usize) {
        let body = format!("Too long: may not be more than {max_bytes} bytes");
        self.push("FieldValueTooLong", field, body);
    }

    /// Adds the error that the list has `n_found` items and may have at most `n_max`.
    pub(crate) fn too_many(&mut self, field: impl Into<String>, n_found: usize, n_max: usize) {
        let body = format!("Too many: {n_found}: must have at most {n_max} items");
        self.push("FieldValueTooMany", field, body);
    }

    /// Appends the errors of another collection.
    pub(crate) fn append(&mut self, found: Self) {
        self.0.extend(found.0);
    }

    /// Appends errors whose paths begin below `field`, and puts `field` before these paths.
    pub(crate) fn add_below(&mut self, field: &str, found: Self) {
        for mut error in found.0 {
            error.field = match error.field.as_str() {
                "" | "<nil>" => field.to_owned(),
                below => format!("{field}.{below}"),
            };
            self.0.push(error);
        }
    }

    /// Converts the errors into the causes of a `Status`.
    pub(crate) fn into_causes(self) -> Vec<Cause> {
        let cause = |error: FieldError| Cause {
            reason: Cow::Borrowed(error.reason),
            message: error.body,
            field: error.field,
        };
        self.0.into_iter().map(cause).collect()
    }

    fn push(&mut self, reason: &'static str, field: impl Into<String>, body: String) {
        self.0.push(FieldError { reason, field: field.into(), body });
    }
}

fn with_value(what: &str, value: &Value, why: &str) -> String {
    let shown = match value {
        Value::String(text) => quote(text),
        // Go's JSON encoder escapes these characters.
        other => other
            .to_string()
            .replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026"),
    };
    with_why(format!("{what}: {shown}"), why)
}

fn with_why(mut body: String, why: &str) -> String {
    if !why.is_empty() {
        body.push_str(": ");
        body.push_str(why);
    }
    body
}

impl FieldErrors {
    /// Returns all errors as one text, separated by commas; equal errors occur once.
    pub(crate) fn joined(&self) -> String {
        self.texts().join(", ")
    }

    /// Returns the text of each error; equal texts occur once.
    pub(crate) fn texts(&self) -> Vec<String> {
        // Go's aggregate error contains equal texts once.
        let mut texts: Vec<String> = Vec::new();
        for error in &self.0 {
            let text = format!("{}: {}", error.field, error.body);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.texts().as_slice() {
            [one] => f.write_str(one),
            many => write!(f, "[{}]", many.join(", ")),
        }
    }
}
