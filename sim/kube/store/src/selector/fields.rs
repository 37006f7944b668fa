//! Field selectors in their string form, as `fields.ParseSelector` reads them.

use std::borrow::Cow;

use serde_json::Value;

use crate::values::text::{go, quote};
use crate::{ResourceDef, Status};

/// A field selector: conditions on fields, all of which an object must meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSelector(Vec<Term>);

#[derive(Clone, Debug, PartialEq)]
struct Term {
    pointer: Cow<'static, str>,
    default: &'static str,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Parses a selector for objects of `resource`, such as
    /// `metadata.name=a,spec.unschedulable!=true`.
    ///
    /// # Errors
    /// 400 if the syntax is wrong or selectors for this resource cannot name the field.
    pub fn parse(text: &str, resource: &ResourceDef) -> Result<Self, Status> {
        let mut terms = Vec::new();
        for part in split_terms(text) {
            if part.is_empty() {
                continue;
            }
            let (name, value, equal) = split_term(part).ok_or_else(|| {
                Status::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{part}'"
                ))
            })?;
            let value = unescape(value)?;
            let (pointer, default) =
                locate(resource, name).ok_or_else(|| unknown(resource, name))?;
            terms.push(Term { pointer, default, value, equal });
        }
        Ok(Self(terms))
    }

    /// True if the selector has no condition.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value that `metadata.name` must equal, if the selector has this condition.
    pub fn name(&self) -> Option<&str> {
        let named = |term: &&Term| term.equal && term.pointer == "/metadata/name";
        self.0.iter().find(named).map(|term| term.value.as_str())
    }

    /// True if the fields of `object` meet all conditions.
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| {
            let is_equal = match object.pointer(&term.pointer) {
                Some(Value::String(text)) if text.is_empty() => term.default == term.value,
                Some(Value::String(text)) => *text == term.value,
                Some(Value::Null) | None => term.default == term.value,
                Some(other) => go(other) == term.value,
            };
            is_equal == term.equal
        })
    }
}

fn locate(resource: &ResourceDef, name: &str) -> Option<(Cow<'static, str>, &'static str)> {
    match name {
        "metadata.name" => Some(("/metadata/name".into(), "")),
        "metadata.namespace" if resource.namespaced || resource.selectable.is_empty() => {
            Some(("/metadata/namespace".into(), ""))
        }
        _ => {
            if let Some(custom) = &resource.custom {
                return Some((custom.selectable(name)?.into(), ""));
            }
            let field = resource.selectable.iter().find(|field| field.name == name)?;
            Some((field.pointer.into(), field.default))
        }
    }
}

/// Returns status 400 for a field that selectors cannot name. The message is different for a
/// built-in resource that adds no field to `metadata.name` and `metadata.namespace`.
fn unknown(resource: &ResourceDef, name: &str) -> Status {
    Status::bad_request(if resource.selectable.is_empty() && resource.custom.is_none() {
        format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quote(name)
        )
    } else {
        format!("field label not supported: {name}")
    })
}

/// Splits a selector at each comma that no backslash escapes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut from = 0;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// Splits a term at its first operator into name, value, and a flag: true for `=` and `==`, false
/// for `!=`. Returns `None` for a term without an operator.
fn split_term(term: &str) -> Option<(&str, &str, bool)> {
    for (at, _) in term.char_indices() {
        let rest = &term[at..];
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&term[..at], value, equal));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, Status> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => {
                    return Err(Status::bad_request(format!(
                        "invalid field selector: invalid escape sequence: \\{c}"
                    )));
                }
                None => {
                    return Err(Status::bad_request(
                        "invalid field selector: invalid escape sequence: \\",
                    ));
                }
            },
            ',' | '=' => {
                return Err(Status::bad_request(format!(
                    "invalid field selector: unescaped character in value: {c}"
                )));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}
