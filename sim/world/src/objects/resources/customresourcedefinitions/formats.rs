//! Formats that nobody checks: the definition is accepted with a warning.

use serde_json::Value;

use crate::objects::{fields, text};

/// Formats of texts, without dashes.
const OF_TEXTS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// What to tell whoever writes a definition.
pub(super) fn warnings(definition: &Value) -> Vec<String> {
    let mut formats = Vec::new();
    for schema in super::schemas(&definition["spec"]) {
        unrecognized(schema, &mut formats);
    }
    formats.iter().map(|it| format!("unrecognized format {}", text::quote(it))).collect()
}

fn unrecognized<'a>(schema: &'a Value, formats: &mut Vec<&'a str>) {
    let format = fields::text(schema, "/format");
    let is_known = match fields::text(schema, "/type") {
        "" | "string" => OF_TEXTS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    };
    if !format.is_empty() && !is_known {
        formats.push(format);
    }
    for (_, inner) in super::inner(schema) {
        unrecognized(inner, formats);
    }
}
