//! `metadata`: names, labels, and what nobody may change.

use serde_json::{Map, Value};

use super::{FieldErrors, NameRule, fields};

/// Fields of `metadata` in the order in which the real server writes them.
const ORDER: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// The real server's limit for all annotations of an object.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// A field of `metadata` as text; empty if there is none.
pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Sets `metadata.resourceVersion`.
pub(super) fn set_revision(object: &mut Value, revision: u64) {
    fields::map_mut(object, "metadata")
        .insert("resourceVersion".into(), revision.to_string().into());
}

/// Whether somebody has deleted the object already.
pub(super) fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// Whether finalizers hold the object.
pub(super) fn has_finalizers(object: &Value) -> bool {
    !fields::list(object, "/metadata/finalizers").is_empty()
}

/// Counts one more change of the object's specification.
pub(super) fn bump_generation(object: &mut Value) {
    let metadata = fields::map_mut(object, "metadata");
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
    metadata.insert("generation".into(), (generation + 1).into());
}

/// Puts the object into the order of the real server: top-level fields, metadata, sorted maps.
/// Empty maps and lists of metadata go, and so do fields that metadata does not have.
pub(super) fn arrange(object: &mut Value, api_version: &str, kind: &str) {
    let old = std::mem::take(fields::as_map(object));
    let mut new = Map::new();
    new.insert("kind".into(), kind.into());
    new.insert("apiVersion".into(), api_version.into());
    let mut metadata = old.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut arranged = Map::new();
    for field in ORDER {
        let Some(value) = metadata.remove(field) else { continue };
        match value {
            Value::Null => {}
            Value::Array(list) if list.is_empty() => {}
            Value::String(text) if text.is_empty() => {}
            Value::Object(map) => {
                if !map.is_empty() {
                    arranged.insert(field.into(), Value::Object(sorted(map)));
                }
            }
            other => {
                arranged.insert(field.into(), other);
            }
        }
    }
    new.insert("metadata".into(), Value::Object(arranged));
    for (field, value) in old {
        // Go's `omitempty` leaves these out, and a status that was never written is an empty one.
        if !matches!(field.as_str(), "kind" | "apiVersion" | "metadata") && !value.is_null() {
            new.insert(field, value);
        }
    }
    if let Some(status) = new.shift_remove("status") {
        new.insert("status".into(), status);
    }
    *object = Value::Object(new);
}

fn sorted(map: Map<String, Value>) -> Map<String, Value> {
    let mut entries: Vec<_> = map.into_iter().collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries.into_iter().collect()
}

/// What is checked of every object's metadata.
pub(super) fn validate(
    object: &Value,
    names: NameRule,
    namespaced: bool,
    errors: &mut FieldErrors,
) {
    let metadata = &object["metadata"];
    let generate_name = text(object, "generateName");
    if !generate_name.is_empty() {
        // A prefix may end as no name can; `-` in Go's check stands for what follows.
        let probe =
            generate_name.strip_suffix('-').map_or(generate_name.to_owned(), |p| format!("{p}a"));
        for why in name_problems(names, &probe) {
            errors.invalid("metadata.generateName", &generate_name.into(), &why);
        }
    }
    let name = text(object, "name");
    if name.is_empty() {
        errors.required("metadata.name", "name or generateName is required");
    } else {
        for why in name_problems(names, name) {
            errors.invalid("metadata.name", &name.into(), &why);
        }
    }
    if namespaced {
        let namespace = text(object, "namespace");
        if namespace.is_empty() {
            errors.required("metadata.namespace", "");
        } else {
            for why in name_problems(NameRule::Label, namespace) {
                errors.invalid("metadata.namespace", &namespace.into(), &why);
            }
        }
    }
    validate_labels(&metadata["labels"], "metadata.labels", errors);
    validate_annotations(&metadata["annotations"], errors);
    for (at, finalizer) in fields::list(object, "/metadata/finalizers").iter().enumerate() {
        let finalizer = finalizer.as_str().unwrap_or_default();
        for why in qualified_name_problems(finalizer) {
            errors.invalid("metadata.finalizers", &finalizer.into(), &why);
        }
        if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
            errors.invalid(
                format!("metadata.finalizers[{at}]"),
                &finalizer.into(),
                "name is neither a standard finalizer name nor is it fully qualified",
            );
        }
    }
}

/// What is checked of labels wherever they stand.
pub(super) fn validate_labels(labels: &Value, field: &str, errors: &mut FieldErrors) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        for why in qualified_name_problems(key) {
            errors.invalid(field, &key.as_str().into(), &why);
        }
        for why in label_value_problems(value.as_str().unwrap_or_default()) {
            errors.invalid(field, value, &why);
        }
    }
}

fn validate_annotations(annotations: &Value, errors: &mut FieldErrors) {
    let mut n_bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        n_bytes += key.len() + value.as_str().map_or(0, str::len);
        for why in qualified_name_problems(&key.to_ascii_lowercase()) {
            errors.invalid("metadata.annotations", &key.as_str().into(), &why);
        }
    }
    if n_bytes > MAX_ANNOTATIONS_BYTES {
        errors.too_long("metadata.annotations", MAX_ANNOTATIONS_BYTES);
    }
}

/// What is checked of a change of metadata.
pub(super) fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"] {
        let (before, after) = (&old["metadata"][field], &new["metadata"][field]);
        if before != after {
            errors.invalid(format!("metadata.{field}"), after, "field is immutable");
        }
    }
    if is_terminating(old) {
        let before = fields::list(old, "/metadata/finalizers");
        let added: Vec<&str> = fields::list(new, "/metadata/finalizers")
            .iter()
            .filter(|finalizer| !before.contains(finalizer))
            .filter_map(Value::as_str)
            .collect();
        if !added.is_empty() {
            let quoted: Vec<String> = added.iter().map(|one| super::text::quote(one)).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                quoted.join(", ")
            );
            errors.forbidden("metadata.finalizers", &why);
        }
    }
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn is_lower(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn is_dns_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            is_lower(*first) && is_lower(*last) && bytes.iter().all(|c| is_lower(*c) || *c == b'-')
        }
        _ => false,
    }
}

fn is_name_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes.iter().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(c))
        }
        _ => false,
    }
}

fn too_long(text: &str, n_max: usize) -> Option<String> {
    (text.len() > n_max).then(|| format!("must be no more than {n_max} characters"))
}

/// What is wrong with a name, in the words of the real server.
pub(super) fn name_problems(rule: NameRule, name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    match rule {
        NameRule::Subdomain => {
            problems.extend(too_long(name, 253));
            if !name.split('.').all(is_dns_label) {
                problems.push(SUBDOMAIN.into());
            }
        }
        NameRule::Label => {
            problems.extend(too_long(name, 63));
            if !is_dns_label(name) {
                // The real check words a dot like this as well.
                problems.push(LABEL.into());
            }
        }
        NameRule::Label1035 => {
            problems.extend(too_long(name, 63));
            if !is_dns_label(name) || name.as_bytes().first().is_some_and(u8::is_ascii_digit) {
                problems.push(LABEL_1035.into());
            }
        }
        NameRule::PathSegment => {
            if matches!(name, "." | "..") {
                problems.push(format!("may not be '{name}'"));
            }
            for banned in ["/", "%"] {
                if name.contains(banned) {
                    problems.push(format!("may not contain '{banned}'"));
                }
            }
        }
    }
    problems
}

/// What is wrong with the key of a label, an annotation or a taint.
pub(super) fn qualified_name_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".into());
            } else {
                let prefixed = |why: String| format!("prefix part {why}");
                problems
                    .extend(name_problems(NameRule::Subdomain, prefix).into_iter().map(prefixed));
            }
            name
        }
        _ => {
            let why = QUALIFIED.replacen("name part must", "a qualified name must", 1);
            problems.push(format!(
                "{why} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return problems;
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else {
        problems.extend(too_long(name, 63).map(|why| format!("name part {why}")));
    }
    if !is_name_part(name) {
        problems.push(QUALIFIED.into());
    }
    problems
}

/// What is wrong with the value of a label or a taint.
pub(super) fn label_value_problems(value: &str) -> Vec<String> {
    let mut problems: Vec<String> = too_long(value, 63).into_iter().collect();
    if !value.is_empty() && !is_name_part(value) {
        problems.push(LABEL_VALUE.into());
    }
    problems
}
