//! Access to `metadata` of objects, the order of its fields, and its validation.

use serde_json::{Map, Value};

use super::fields;
use super::names::{label_value_problems, name_problems, qualified_name_problems};
use crate::values::text::quote;
use crate::{FieldErrors, NameRule};

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

/// Maximum size in bytes of all annotations of an object together, as in the real server.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

/// Finalizer of an object whose dependents must survive its deletion.
pub(crate) const ORPHAN: &str = "orphan";
/// Finalizer of an object whose removal waits until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", ORPHAN, FOREGROUND];

/// Immutable fields, in the order in which the real server complains.
const IMMUTABLE: [&str; 6] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// Returns a field of `metadata` as text; empty if it is missing.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Returns `metadata.resourceVersion`; 0 if it is missing.
pub(crate) fn revision(object: &Value) -> u64 {
    text(object, "resourceVersion").parse().unwrap_or_default()
}

/// Sets `metadata.resourceVersion`.
pub(crate) fn set_revision(object: &mut Value, revision: u64) {
    fields::map_mut(object, "metadata")
        .insert("resourceVersion".into(), revision.to_string().into());
}

/// True if the object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// True if finalizers hold the object.
pub(crate) fn has_finalizers(object: &Value) -> bool {
    !fields::list(object, "/metadata/finalizers").is_empty()
}

/// Increments `metadata.generation`, which counts changes of the specification.
pub(crate) fn bump_generation(object: &mut Value) {
    let metadata = fields::map_mut(object, "metadata");
    let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
    metadata.insert("generation".into(), (generation + 1).into());
}

/// Sets kind and apiVersion, and puts the object into the order of the real server: top-level
/// fields, fields of metadata, and the keys of maps in metadata. Drops empty and unknown fields of
/// metadata.
pub(crate) fn arrange(object: &mut Value, api_version: &str, kind: &str) {
    if is_arranged(object, api_version, kind) {
        return;
    }
    let mut old = std::mem::take(fields::as_map(object));
    let mut new = Map::new();
    new.insert("kind".into(), kind.into());
    new.insert("apiVersion".into(), api_version.into());
    let mut metadata = match old.shift_remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    let mut arranged = Map::new();
    for field in ORDER {
        let Some(value) = metadata.swap_remove(field) else { continue };
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
        if !matches!(field.as_str(), "kind" | "apiVersion") {
            new.insert(field, value);
        }
    }
    if let Some(status) = new.shift_remove("status") {
        new.insert("status".into(), status);
    }
    *object = Value::Object(new);
}

/// True if [`arrange`] would not change the object.
fn is_arranged(object: &Value, api_version: &str, kind: &str) -> bool {
    let Value::Object(object) = object else { return false };
    let mut fields = object.iter();
    if !fields.next().is_some_and(|(field, value)| field == "kind" && *value == kind)
        || !fields
            .next()
            .is_some_and(|(field, value)| field == "apiVersion" && *value == api_version)
    {
        return false;
    }
    let Some((_, Value::Object(metadata))) =
        fields.next().filter(|(field, _)| *field == "metadata")
    else {
        return false;
    };
    let mut order = ORDER.iter();
    metadata.iter().all(|(field, value)| order.any(|one| one == field) && is_kept(value))
        && fields
            .clone()
            .position(|(field, _)| field == "status")
            .is_none_or(|at| at + 1 == fields.len())
}

/// True if [`arrange`] does not change a field of metadata: the field is not empty, and if it is a
/// map, the map is sorted and has no nulls.
fn is_kept(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => {
            !map.is_empty() && map.keys().is_sorted() && !map.values().any(Value::is_null)
        }
        Value::Bool(_) | Value::Number(_) => true,
    }
}

fn sorted(map: Map<String, Value>) -> Map<String, Value> {
    // Go reads a label value of null as an empty text.
    let text = |(field, value): (String, Value)| {
        (field, if value.is_null() { String::new().into() } else { value })
    };
    let mut entries: Vec<_> = map.into_iter().map(text).collect();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries.into_iter().collect()
}

/// Checks the metadata of an object of any kind. `names` is the rule for the name of the object.
/// `namespaced` is true if the object must have a namespace, false if it must not have one.
pub(crate) fn validate(
    object: &Value,
    names: NameRule,
    namespaced: bool,
    errors: &mut FieldErrors,
) {
    let metadata = &object["metadata"];
    let generate_name = text(object, "generateName");
    if !generate_name.is_empty() {
        // A prefix may end with `-`, although a name may not. So this check, like Go's, replaces a
        // final `-` by a letter.
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
    let namespace = text(object, "namespace");
    if !namespaced {
        if !namespace.is_empty() {
            errors.forbidden("metadata.namespace", "not allowed on this type");
        }
    } else if namespace.is_empty() {
        errors.required("metadata.namespace", "");
    } else {
        for why in name_problems(NameRule::Label, namespace) {
            errors.invalid("metadata.namespace", &namespace.into(), &why);
        }
    }
    if metadata["generation"].as_i64().is_some_and(|it| it < 0) {
        let why = "must be greater than or equal to 0";
        errors.invalid("metadata.generation", &metadata["generation"], why);
    }
    validate_labels(&metadata["labels"], "metadata.labels", errors);
    validate_annotations(&metadata["annotations"], "metadata.annotations", errors);
    validate_owners(fields::list(object, "/metadata/ownerReferences"), errors);
    let finalizers = fields::list(object, "/metadata/finalizers");
    for finalizer in finalizers {
        let finalizer = finalizer.as_str().unwrap_or_default();
        for why in qualified_name_problems(finalizer) {
            errors.invalid("metadata.finalizers", &finalizer.into(), &why);
        }
    }
    if [ORPHAN, FOREGROUND].iter().all(|one| finalizers.iter().any(|it| it == *one)) {
        let why = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.invalid("metadata.finalizers", &finalizers.into(), &why);
    }
}

/// Checks that every finalizer without a domain is a standard one, which most built-in kinds
/// require.
pub(crate) fn validate_finalizers(object: &Value, errors: &mut FieldErrors) {
    for (at, finalizer) in fields::list(object, "/metadata/finalizers").iter().enumerate() {
        refuse_unknown_finalizer(finalizer, &format!("metadata.finalizers[{at}]"), errors);
    }
}

/// Checks a finalizer outside of metadata, such as in the `spec` of a Namespace.
pub(crate) fn validate_finalizer(finalizer: &Value, field: &str, errors: &mut FieldErrors) {
    for why in qualified_name_problems(finalizer.as_str().unwrap_or_default()) {
        errors.invalid(field, finalizer, &why);
    }
    refuse_unknown_finalizer(finalizer, field, errors);
}

fn refuse_unknown_finalizer(finalizer: &Value, field: &str, errors: &mut FieldErrors) {
    let name = finalizer.as_str().unwrap_or_default();
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        let why = "name is neither a standard finalizer name nor is it fully qualified";
        errors.invalid(field, finalizer, why);
    }
}

/// Checks owner references; follows `apimachinery: pkg/api/validation/objectmeta.go`,
/// `ValidateOwnerReferences`.
fn validate_owners(owners: &[Value], errors: &mut FieldErrors) {
    const FIELD: &str = "metadata.ownerReferences";
    let mut controller = String::new();
    for owner in owners {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let api_version = text("apiVersion");
        // An apiVersion with more than one slash has neither group nor version.
        let version = match api_version.split('/').collect::<Vec<_>>()[..] {
            [version] | [_, version] => version,
            _ => "",
        };
        if version.is_empty() {
            let why = "version must not be empty";
            errors.invalid(format!("{FIELD}.apiVersion"), &api_version.into(), why);
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.invalid(format!("{FIELD}.{field}"), &"".into(), "must not be empty");
            }
        }
        if (api_version, text("kind")) == ("v1", "Event") {
            errors.invalid(FIELD, owner, "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner["controller"] == true {
            let name = format!("{}/{}", text("kind"), text("name"));
            if controller.is_empty() {
                controller = name;
            } else {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {controller} and {name}"
                );
                errors.invalid(FIELD, &owners.into(), &why);
            }
        }
    }
}

/// Checks labels, in metadata or in another field.
pub(crate) fn validate_labels(labels: &Value, field: &str, errors: &mut FieldErrors) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        for why in qualified_name_problems(key) {
            errors.invalid(field, &key.as_str().into(), &why);
        }
        for why in label_value_problems(value.as_str().unwrap_or_default()) {
            errors.invalid(field, value, &why);
        }
    }
}

/// Checks annotations, in metadata or in another field.
pub(crate) fn validate_annotations(annotations: &Value, field: &str, errors: &mut FieldErrors) {
    let mut n_bytes = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        n_bytes += key.len() + value.as_str().map_or(0, str::len);
        for why in qualified_name_problems(&key.to_ascii_lowercase()) {
            errors.invalid(field, &key.as_str().into(), &why);
        }
    }
    if n_bytes > MAX_ANNOTATIONS_BYTES {
        errors.too_long(field, MAX_ANNOTATIONS_BYTES);
    }
}

/// Checks a change of metadata: immutable fields, labels, annotations, owners, and new finalizers
/// of an object that is being deleted.
pub(crate) fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    if is_terminating(old) {
        let before = fields::list(old, "/metadata/finalizers");
        let mut added: Vec<&str> = fields::list(new, "/metadata/finalizers")
            .iter()
            .filter(|finalizer| !before.contains(finalizer))
            .filter_map(Value::as_str)
            .collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let quoted: Vec<String> = added.iter().map(|one| quote(one)).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                quoted.join(", ")
            );
            errors.forbidden("metadata.finalizers", &why);
        }
    }
    for field in IMMUTABLE {
        let (before, after) = (&old["metadata"][field], &new["metadata"][field]);
        if before != after {
            errors.invalid(format!("metadata.{field}"), after, "field is immutable");
        }
    }
    let metadata = &new["metadata"];
    validate_labels(&metadata["labels"], "metadata.labels", errors);
    validate_annotations(&metadata["annotations"], "metadata.annotations", errors);
    validate_owners(fields::list(new, "/metadata/ownerReferences"), errors);
}
