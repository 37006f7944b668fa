//! Checks of the versions of a definition: names, schemas, subresources, columns and selectable
//! fields.
//!
//! Follows `validateCustomResourceDefinitionSpec` of
//! `apiextensions-apiserver: pkg/apis/apiextensions/validation/validation.go`. The real server
//! keeps parts that are equal in all versions only once, and its errors name them as parts of
//! `spec` instead of a version; see [`Shared`].

use serde_json::{Value, json};

use super::openapi::{self, Place};
use super::parts::{columns, scale, selectable};
use super::structural::{self, is_zero};
use super::{conversion, defaults, names};
use crate::object::fields;
use crate::object::names::name_problems;
use crate::{FieldErrors, NameRule};

/// Checks `spec` of a definition: its versions and the parts that they share.
pub(super) fn validate(spec: &Value, errors: &mut FieldErrors) {
    group(spec, errors);
    match fields::text(spec, "/scope") {
        "" => errors.required("spec.scope", ""),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported("spec.scope", other, &["Cluster", "Namespaced"]),
    }
    let versions = fields::list(spec, "/versions");
    let shared = Shared::new(versions);
    for (at, version) in versions.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            errors.required(format!("spec.versions[{at}].schema.openAPIV3Schema"), "");
        }
    }
    for (at, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{at}]");
        let name = fields::text(version, "/name");
        let why = name_problems(NameRule::Label1035, name).join(",");
        if !why.is_empty() {
            errors.invalid(format!("{path}.name"), &name.into(), &why);
        }
        validate_version(version, &path, &shared, errors);
    }
    counts(versions, errors);
    let first = versions.first().map_or("", |it| fields::text(it, "/name"));
    let why = name_problems(NameRule::Label1035, first).join(",");
    if !first.is_empty() && !why.is_empty() {
        errors.invalid("spec.version", &first.into(), &why);
    }
    names::required(&spec["names"], errors);
    names::validate(&spec["names"], "spec.names", errors);
    validate_shared(versions, &shared, errors);
    conversion::validate(&spec["conversion"], errors);
}

fn group(spec: &Value, errors: &mut FieldErrors) {
    let group = fields::text(spec, "/group");
    let why = name_problems(NameRule::Subdomain, group).join(",");
    if group.is_empty() {
        errors.required("spec.group", "");
    } else if !why.is_empty() {
        errors.invalid("spec.group", &group.into(), &why);
    } else if !group.contains('.') {
        errors.invalid("spec.group", &group.into(), "should be a domain with at least one dot");
    }
}

/// The parts of a version; a field is true if this part is equal in all versions.
struct Shared {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl Shared {
    fn new(versions: &[Value]) -> Self {
        let alike = |field: &str| {
            versions.iter().all(|it| {
                it[field] == versions[0][field]
                    || is_zero(&it[field]) && is_zero(&versions[0][field])
            })
        };
        Self {
            schema: alike("schema"),
            subresources: alike("subresources"),
            columns: alike("additionalPrinterColumns"),
            selectable: alike("selectableFields"),
        }
    }
}

fn validate_version(version: &Value, path: &str, shared: &Shared, errors: &mut FieldErrors) {
    for why in deprecation_problems(version) {
        errors.invalid(format!("{path}.deprecationWarning"), &version["deprecationWarning"], &why);
    }
    let schema = &version["schema"]["openAPIV3Schema"];
    if !shared.schema && schema.is_object() {
        let has_status = version["subresources"]["status"].is_object();
        validate_schema(schema, has_status, &format!("{path}.schema"), errors);
    }
    if !shared.subresources {
        scale(&version["subresources"], &format!("{path}.subresources"), errors);
    }
    if !shared.columns {
        columns(version, path, errors);
    }
    if !shared.selectable {
        if shared.schema {
            // The real server has moved the shared schema out of the version.
            let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
            if !fields::list(version, "/selectableFields").is_empty() {
                errors.invalid(format!("{path}.selectableFields"), &"".into(), why);
            }
        } else {
            selectable(version, path, errors);
        }
    }
}

fn validate_shared(versions: &[Value], shared: &Shared, errors: &mut FieldErrors) {
    let Some(first) = versions.first() else { return };
    let schema = &first["schema"]["openAPIV3Schema"];
    if shared.schema && schema.is_object() {
        let has_status = versions.iter().any(|it| it["subresources"]["status"].is_object());
        validate_schema(schema, has_status, "spec.validation", errors);
    }
    if shared.subresources {
        scale(&first["subresources"], "spec.subresources", errors);
    }
    if shared.columns {
        columns(first, "spec", errors);
    }
    if shared.selectable {
        if !shared.schema && !fields::list(first, "/selectableFields").is_empty() {
            let why = "may only be set when validations.schema is included";
            errors.invalid("spec.selectableFields", &"".into(), why);
        } else {
            selectable(first, "spec", errors);
        }
    }
}

fn counts(versions: &[Value], errors: &mut FieldErrors) {
    let is_unique = versions.iter().enumerate().all(|(at, version)| {
        !versions[..at].iter().any(|earlier| earlier["name"] == version["name"])
    });
    if !is_unique {
        errors.invalid(
            "spec.versions",
            &versions_in_message(versions),
            "must contain unique version names",
        );
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.invalid("spec.versions", &versions_in_message(versions), why);
    }
}

/// Returns versions as the real server's errors show them: in the form of its internal type.
fn versions_in_message(versions: &[Value]) -> Value {
    let one = |version: &Value| {
        json!({
            "Name": version["name"], "Served": version["served"] == true,
            "Storage": version["storage"] == true, "Deprecated": version["deprecated"] == true,
            "DeprecationWarning": version["deprecationWarning"], "Schema": null,
            "Subresources": null, "AdditionalPrinterColumns": null, "SelectableFields": null,
        })
    };
    versions.iter().map(one).collect()
}

fn deprecation_problems(version: &Value) -> Vec<String> {
    let Some(warning) = version["deprecationWarning"].as_str() else { return Vec::new() };
    if version["deprecated"] != true {
        return vec!["can only be set for deprecated versions".into()];
    }
    let mut problems = Vec::new();
    if warning.len() > 256 {
        problems.push("must be <= 256 characters long".into());
    }
    if warning.is_empty() {
        problems.push("must not be an empty string".into());
    }
    let is_odd = |(_, c): &(usize, char)| c.is_control() || c.is_whitespace() && *c != ' ';
    if let Some((at, _)) = warning.char_indices().find(is_odd) {
        problems.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
    problems
}

fn validate_schema(schema: &Value, has_status: bool, path: &str, errors: &mut FieldErrors) {
    let path = format!("{path}.openAPIV3Schema");
    let n_before = errors.len();
    if has_status {
        with_status(schema, &path, errors);
    }
    if schema["nullable"] == true {
        errors.forbidden(format!("{path}.nullable"), "nullable cannot be true at the root");
    }
    let unreadable = structural::unreadable(schema);
    let mut is_structural = unreadable.is_none();
    if is_structural {
        let mut found = structural::problems(schema, &path);
        if found.is_empty() {
            defaults::validate(schema, &path, &mut found);
        }
        is_structural = found.is_empty();
        errors.append(found);
    }
    let mut in_rules = FieldErrors::default();
    openapi::validate(schema, &path, Place::root(is_structural), errors, &mut in_rules);
    errors.append(in_rules);
    if let Some(why) = unreadable.filter(|_| errors.len() == n_before) {
        errors.invalid(path, &"".into(), &why);
    }
}

/// Checks the root of the schema of a version with a status subresource. Its type must be `object`,
/// and it must have none of the fields in `REFUSED`. The message lists the fields in `ALLOWED`.
fn with_status(schema: &Value, path: &str, errors: &mut FieldErrors) {
    const ALLOWED: [&str; 22] = [
        "Description",
        "Type",
        "Format",
        "Title",
        "Maximum",
        "ExclusiveMaximum",
        "Minimum",
        "ExclusiveMinimum",
        "MaxLength",
        "MinLength",
        "Pattern",
        "MaxItems",
        "MinItems",
        "UniqueItems",
        "MultipleOf",
        "Required",
        "Items",
        "Properties",
        "ExternalDocs",
        "Example",
        "XPreserveUnknownFields",
        "XValidations",
    ];
    const REFUSED: [&str; 20] = [
        "id",
        "$schema",
        "$ref",
        "nullable",
        "default",
        "enum",
        "maxProperties",
        "minProperties",
        "allOf",
        "oneOf",
        "anyOf",
        "not",
        "additionalProperties",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-map-type",
    ];
    let kind = fields::text(schema, "/type");
    if !kind.is_empty() && kind != "object" {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.invalid(format!("{path}.type"), &kind.into(), why);
    } else if REFUSED.iter().any(|field| !is_zero(&schema[*field])) {
        let why = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            ALLOWED.join(" ")
        );
        errors.invalid(path, schema, &why);
    }
}
