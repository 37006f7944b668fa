//! `customresourcedefinitions.apiextensions.k8s.io`: kinds that users define.
//!
//! [`Custom`](crate::Custom) describes the kind that a definition defines. Schemas must be
//! structural, as in the real server. Validation compiles rules in CEL (`x-kubernetes-validations`)
//! and refuses rules that [`rules`](crate::kind::custom::rules) cannot evaluate.

mod conversion;
mod defaults;
mod formats;
mod names;
mod openapi;
mod parts;
mod rules;
mod structural;
mod versions;

use serde_json::{Value, json};

use crate::object::{fields, meta};
use crate::{Check, FieldErrors, GroupResource, ResourceDef, Strategy};

pub(crate) use names::accepted;

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: id(),
        version: "v1".into(),
        kind: "CustomResourceDefinition".into(),
        singular: "customresourcedefinition".into(),
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        hides_content_in_errors: false,
        returns_deleted: true,
        status: true,
        scales: false,
        registry: "apiextensions.k8s.io/customresourcedefinitions".into(),
        custom: None,
        deprecation: "",
        selectable: &[],
        strategy: Strategy {
            generation: true,
            unconditional_update: false,
            begin: |definition| {
                fields::as_map(definition).shift_remove("status");
                note_stored(definition);
            },
            default: Some(default),
            carry_over: |_, definition| note_stored(definition),
            validate,
            validate_update,
            warn: formats::warnings,
            repeats_warnings: false,
            checks: &[Check::MetadataChange, Check::Change, Check::Whole],
            requires_standard_finalizers: false,
            uses_gc_finalizers: false,
            begin_delete: Some(begin_delete),
            ..Strategy::PLAIN
        },
    }
}

/// The resource of definitions themselves.
pub(crate) fn id() -> GroupResource {
    GroupResource::of("apiextensions.k8s.io", "customresourcedefinitions")
}

/// The resource that a definition defines.
pub(crate) fn defined(definition: &Value) -> GroupResource {
    GroupResource {
        group: fields::text(definition, "/spec/group").to_owned().into(),
        resource: fields::text(definition, "/spec/names/plural").to_owned().into(),
    }
}

/// True if two states of a definition define the same resource: spec, accepted names and
/// establishment are equal.
pub(crate) fn is_same(one: &Value, other: &Value) -> bool {
    let names = |it: &Value| it.pointer("/status/acceptedNames").cloned();
    is_established(one) == is_established(other)
        && one["spec"] == other["spec"]
        && names(one) == names(other)
}

fn default(definition: &mut Value) {
    let spec = fields::map_mut(definition, "spec");
    let names = fields::as_map(spec.entry("names").or_insert(Value::Null));
    let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !kind.is_empty() {
        fields::default_to(names, "singular", kind.to_lowercase());
        fields::default_to(names, "listKind", format!("{kind}List"));
    }
    fields::default_to(spec, "conversion", json!({"strategy": "None"}));
}

/// Adds the version with `storage: true` in the spec to `status.storedVersions`, and fills in
/// missing `acceptedNames` and `conditions` in the status.
fn note_stored(definition: &mut Value) {
    let spec = fields::map_mut(definition, "spec");
    let versions = spec.get("versions").and_then(Value::as_array).into_iter().flatten();
    let stored: Option<Value> =
        versions.into_iter().find(|it| it["storage"] == true).map(|it| it["name"].clone());
    let status = fields::map_mut(definition, "status");
    let conditions = status.shift_remove("conditions").unwrap_or_default();
    let accepted = status.shift_remove("acceptedNames");
    let accepted = accepted.unwrap_or_else(|| json!({"plural": "", "kind": ""}));
    let mut kept = status.shift_remove("storedVersions").unwrap_or_default();
    if kept.is_null() {
        kept = json!([]);
    }
    if let (Some(version), Some(list)) = (stored, kept.as_array_mut())
        && !list.contains(&version)
    {
        list.push(version);
    }
    status.insert("conditions".into(), conditions);
    status.insert("acceptedNames".into(), accepted);
    status.insert("storedVersions".into(), kept);
}

/// Cleanup finalizer: holds a definition until the objects of its kind are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn begin_delete(definition: &mut Value, now: &Value) {
    let metadata = fields::map_mut(definition, "metadata");
    let finalizers = fields::as_list(metadata, "finalizers");
    if !finalizers.iter().any(|it| it == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    let conditions = fields::as_list(fields::map_mut(definition, "status"), "conditions");
    conditions.retain(|it| it["type"] != "Terminating");
    conditions.push(json!({
        "type": "Terminating", "status": "True", "lastTransitionTime": now,
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }));
}

/// True if the definition is being deleted and the objects of its kind must be deleted before it.
pub(crate) fn is_cleaned_up(definition: &Value) -> bool {
    meta::is_terminating(definition)
        && fields::list(definition, "/metadata/finalizers").iter().any(|it| it == CLEANUP)
}

/// Removes the cleanup finalizer of a definition.
pub(crate) fn clean_up(definition: &mut Value) {
    let metadata = fields::map_mut(definition, "metadata");
    fields::as_list(metadata, "finalizers").retain(|it| it != CLEANUP);
}

fn validate(definition: &Value, errors: &mut FieldErrors) {
    let spec = &definition["spec"];
    let name = meta::text(definition, "name");
    if name != format!("{}.{}", fields::text(spec, "/names/plural"), fields::text(spec, "/group")) {
        errors.invalid("metadata.name", &name.into(), "must be spec.names.plural+\".\"+spec.group");
    }
    versions::validate(spec, errors);
    names::validate(&definition["status"]["acceptedNames"], "status.acceptedNames", errors);
    conversion::validate_stored(definition, errors);
    if spec["preserveUnknownFields"] == true {
        errors.invalid(
            "spec.preserveUnknownFields",
            &true.into(),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
}

/// Returns the schemas of all versions, or only one if all versions have the same schema.
fn schemas(spec: &Value) -> Vec<&Value> {
    let all = fields::list(spec, "/versions").iter();
    let all: Vec<&Value> = all.map(|version| &version["schema"]["openAPIV3Schema"]).collect();
    match all.split_first() {
        Some((first, rest)) if rest.iter().all(|it| it == first) => vec![first],
        _ => all,
    }
}

/// Returns the schemas directly inside `schema`, each with its path relative to `schema`.
fn inner(schema: &Value) -> impl Iterator<Item = (String, &Value)> {
    let one = ["items", "not", "additionalProperties"]
        .into_iter()
        .map(|field| (field.to_owned(), &schema[field]));
    let lists = ["allOf", "oneOf", "anyOf"].into_iter().flat_map(|field| {
        let all = schema[field].as_array().into_iter().flatten().enumerate();
        all.map(move |(at, it)| (format!("{field}[{at}]"), it))
    });
    let named = schema["properties"].as_object().into_iter().flatten();
    let named = named.map(|(name, it)| (format!("properties[{name}]"), it));
    one.chain(lists).chain(named).filter(|(_, it)| it.is_object())
}

/// Checks that an established definition keeps its scope, group, plural and kind.
fn validate_update(new: &Value, old: &Value, errors: &mut FieldErrors) {
    if !is_established(old) {
        return;
    }
    for pointer in ["/spec/scope", "/spec/group", "/spec/names/plural", "/spec/names/kind"] {
        let (before, after) = (fields::text(old, pointer), fields::text(new, pointer));
        if before != after {
            let field = pointer[1..].replace('/', ".");
            errors.invalid(field, &after.into(), "field is immutable");
        }
    }
}

fn is_established(definition: &Value) -> bool {
    let conditions = fields::list(definition, "/status/conditions");
    conditions.iter().any(|it| it["type"] == "Established" && it["status"] == "True")
}
