//! Warnings about formats that the real server does not know. The store, like the real server,
//! accepts a definition with such a format.

use serde_json::Value;

use crate::kind::custom::formats::is_known;
use crate::object::fields;
use crate::values::text;

/// Returns the warnings about unknown formats for a client that writes this definition.
pub(super) fn warnings(definition: &Value) -> Vec<String> {
    let mut formats = Vec::new();
    for schema in super::schemas(&definition["spec"]) {
        unrecognized(schema, &mut formats);
    }
    formats.iter().map(|it| format!("unrecognized format {}", text::quote(it))).collect()
}

fn unrecognized<'a>(schema: &'a Value, formats: &mut Vec<&'a str>) {
    let format = fields::text(schema, "/format");
    if !format.is_empty() && !is_known(fields::text(schema, "/type"), format) {
        formats.push(format);
    }
    for (_, inner) in super::inner(schema) {
        unrecognized(inner, formats);
    }
}
