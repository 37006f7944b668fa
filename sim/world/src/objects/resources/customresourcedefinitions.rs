//! `customresourcedefinitions.apiextensions.k8s.io`: kinds that users bring.
//!
//! What follows from a definition is in [`Custom`](crate::objects::Custom). Schemas have to be
//! structural, as the real server asks; of the rules for that, types, items and patterns are
//! checked. CEL (`x-kubernetes-validations`) is refused.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::objects::{
    Check, FieldErrors, GroupResource, NameRule, ResourceDef, Store, Strategy, custom, fields,
    meta, names,
};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

pub(super) fn definition() -> ResourceDef {
    ResourceDef {
        id: id(),
        version: "v1".into(),
        kind: "CustomResourceDefinition".into(),
        singular: "customresourcedefinition".into(),
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        confidential: false,
        returns_deleted: true,
        status: true,
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
            checks: &[Check::MetadataChange, Check::Change, Check::Whole],
            knows_finalizers: false,
            collectable: false,
            begin_delete: Some(begin_delete),
            ..Strategy::PLAIN
        },
    }
}

/// The resource of definitions.
pub(in crate::objects) fn id() -> GroupResource {
    GroupResource::of("apiextensions.k8s.io", "customresourcedefinitions")
}

/// The resource that a definition makes.
pub(in crate::objects) fn defined(definition: &Value) -> GroupResource {
    GroupResource {
        group: fields::text(definition, "/spec/group").to_owned().into(),
        resource: fields::text(definition, "/spec/names/plural").to_owned().into(),
    }
}

/// Whether two states of a definition define the same.
pub(in crate::objects) fn is_same(one: &Value, other: &Value) -> bool {
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

/// The status remembers in which versions objects may have been kept.
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

/// What holds a definition until its objects have gone.
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

/// Whether the objects of a definition are to go.
pub(in crate::objects) fn is_cleaned_up(definition: &Value) -> bool {
    meta::is_terminating(definition)
        && fields::list(definition, "/metadata/finalizers").iter().any(|it| it == CLEANUP)
}

/// The objects of a definition have gone.
pub(in crate::objects) fn clean_up(definition: &mut Value) {
    let metadata = fields::map_mut(definition, "metadata");
    fields::as_list(metadata, "finalizers").retain(|it| it != CLEANUP);
}

fn validate(definition: &Value, errors: &mut FieldErrors) {
    let spec = &definition["spec"];
    let group = fields::text(spec, "/group");
    let name = meta::text(definition, "name");
    if name != format!("{}.{group}", fields::text(spec, "/names/plural")) {
        errors.invalid("metadata.name", &name.into(), "must be spec.names.plural+\".\"+spec.group");
    }
    if group.is_empty() {
        errors.required("spec.group", "");
    } else {
        for why in names::name_problems(NameRule::Subdomain, group) {
            errors.invalid("spec.group", &group.into(), &why);
        }
        if !group.contains('.') {
            errors.invalid("spec.group", &group.into(), "should be a domain with at least one dot");
        }
    }
    match fields::text(spec, "/scope") {
        "" => errors.required("spec.scope", ""),
        "Cluster" | "Namespaced" => {}
        other => errors.not_supported("spec.scope", other, &["Cluster", "Namespaced"]),
    }
    if spec["preserveUnknownFields"] == true {
        errors.invalid(
            "spec.preserveUnknownFields",
            &true.into(),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        );
    }
    validate_versions(spec, errors);
    validate_names(&spec["names"], errors);
    validate_conversion(&spec["conversion"], errors);
    validate_stored(definition, errors);
}

/// Whatever version objects may be kept in has to stay.
fn validate_stored(definition: &Value, errors: &mut FieldErrors) {
    const FIELD: &str = "status.storedVersions";
    let kept = fields::list(definition, "/status/storedVersions");
    if kept.is_empty() {
        return errors.invalid(FIELD, &Value::Null, "must have at least one stored version");
    }
    let versions = fields::list(definition, "/spec/versions");
    for version in versions.iter().filter(|it| it["storage"] == true) {
        if !kept.contains(&version["name"]) {
            let why = format!("must have the storage version {}", fields::text(version, "/name"));
            errors.invalid(FIELD, &kept.into(), &why);
        }
    }
    for (at, name) in kept.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let it = name.as_str().unwrap_or_default();
            let why = format!(
                "missing from spec.versions; {it} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {it} and removes {it} from status.storedVersions"
            );
            errors.invalid(format!("{FIELD}[{at}]"), name, &why);
        }
    }
}

fn validate_versions(spec: &Value, errors: &mut FieldErrors) {
    let versions = fields::list(spec, "/versions");
    let is_unique = versions.iter().enumerate().all(|(at, version)| {
        !versions[..at].iter().any(|earlier| earlier["name"] == version["name"])
    });
    if !is_unique {
        errors.invalid("spec.versions", &shown(versions), "must contain unique version names");
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.invalid("spec.versions", &shown(versions), why);
    }
    // Where all versions have one schema, the real server keeps it, and names it, once.
    let schema = |version: &Value| version["schema"].clone();
    let first = versions.first().map(schema).unwrap_or_default();
    let is_shared = versions.iter().all(|version| schema(version) == first);
    for (at, version) in versions.iter().enumerate() {
        let name = fields::text(version, "/name");
        for why in names::name_problems(NameRule::Label1035, name) {
            errors.invalid(format!("spec.versions[{at}].name"), &name.into(), &why);
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        if !schema.is_object() {
            errors.required(format!("spec.versions[{at}].schema.openAPIV3Schema"), "");
        } else if !is_shared {
            let path = format!("spec.versions[{at}].schema.openAPIV3Schema");
            validate_schema(schema, &path, Place::Root, errors);
        } else if at == 0 {
            validate_schema(schema, "spec.validation.openAPIV3Schema", Place::Root, errors);
        }
    }
}

/// Versions as the real server shows them: by its internal type.
fn shown(versions: &[Value]) -> Value {
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

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Root,
    Field,
    Item,
}

fn validate_schema(schema: &Value, path: &str, place: Place, errors: &mut FieldErrors) {
    let kind = fields::text(schema, "/type");
    let is_free = schema["x-kubernetes-preserve-unknown-fields"] == true
        || schema["x-kubernetes-int-or-string"] == true;
    if kind.is_empty() {
        if place == Place::Root {
            errors.required(format!("{path}.type"), "must not be empty at the root");
        } else if !is_free {
            let of = if place == Place::Item { "array items" } else { "object fields" };
            errors
                .required(format!("{path}.type"), &format!("must not be empty for specified {of}"));
        }
    } else if !TYPES.contains(&kind) {
        errors.not_supported(format!("{path}.type"), kind, &TYPES);
    } else if place == Place::Root && kind != "object" {
        errors.invalid(format!("{path}.type"), &kind.into(), "must be object at the root");
    }
    if kind == "array" && !schema["items"].is_object() {
        errors.required(format!("{path}.items"), "must be specified");
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && let Err(why) = regex::Regex::new(pattern)
    {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.invalid(format!("{path}.pattern"), &pattern.into(), &why);
    }
    for (name, property) in fields::map(schema, "/properties").into_iter().flatten() {
        validate_schema(property, &format!("{path}.properties[{name}]"), Place::Field, errors);
    }
    if schema["items"].is_object() {
        validate_schema(&schema["items"], &format!("{path}.items"), Place::Item, errors);
    }
    if schema["additionalProperties"].is_object() {
        let path = format!("{path}.additionalProperties");
        validate_schema(&schema["additionalProperties"], &path, Place::Field, errors);
    }
    if place == Place::Root
        && let Some(path) = custom::find_unsupported(schema, path)
    {
        errors.forbidden(path, "this simulated API server does not evaluate CEL rules");
    }
}

fn validate_names(names: &Value, errors: &mut FieldErrors) {
    let problems = |text: &str| names::name_problems(NameRule::Label1035, text);
    for field in ["plural", "singular"] {
        let text = names[field].as_str().unwrap_or_default();
        if text.is_empty() {
            errors.required(format!("spec.names.{field}"), "");
        } else {
            for why in problems(text) {
                errors.invalid(format!("spec.names.{field}"), &text.into(), &why);
            }
        }
    }
    for field in ["kind", "listKind"] {
        let text = names[field].as_str().unwrap_or_default();
        if text.is_empty() {
            errors.required(format!("spec.names.{field}"), "");
        } else {
            for why in problems(&text.to_lowercase()) {
                let why = format!("may have mixed case, but should otherwise match: {why}");
                errors.invalid(format!("spec.names.{field}"), &text.into(), &why);
            }
        }
    }
    for field in ["shortNames", "categories"] {
        for (at, text) in names[field].as_array().into_iter().flatten().enumerate() {
            for why in problems(text.as_str().unwrap_or_default()) {
                errors.invalid(format!("spec.names.{field}[{at}]"), text, &why);
            }
        }
    }
}

fn validate_conversion(conversion: &Value, errors: &mut FieldErrors) {
    match fields::text(conversion, "/strategy") {
        "None" => {}
        "Webhook" => {
            if !conversion["webhook"]["clientConfig"].is_object() {
                errors.required(
                    "spec.conversion.webhookClientConfig",
                    "required when strategy is set to Webhook",
                );
            }
            if fields::list(conversion, "/webhook/conversionReviewVersions").is_empty() {
                errors.required("spec.conversion.conversionReviewVersions", "");
            }
        }
        other => {
            errors.not_supported("spec.conversion.strategy", other, &["None", "Webhook"]);
        }
    }
}

/// An established definition keeps its place.
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

/// The definition once its names have been looked at, if that changes anything.
///
/// Follows `apiextensions-apiserver: pkg/controller/status/naming_controller.go`.
pub(in crate::objects) fn accepted(
    store: &Store,
    definition: &Value,
    now: Timestamp,
) -> Option<Value> {
    let wanted = &definition["spec"]["names"];
    let id = defined(definition);
    let clash = store
        .resources()
        .filter(|def| def.id.group == id.group && def.id != id)
        .find_map(|def| conflict(def, wanted));
    let was_established = is_established(definition);
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let condition = |kind: &str, is_true: bool, reason: &str, message: &str| {
        let status = if is_true { "True" } else { "False" };
        let old = fields::list(definition, "/status/conditions");
        let old = old.iter().find(|it| it["type"] == kind && it["status"] == status);
        let since = old.map_or_else(|| now.as_str().into(), |it| it["lastTransitionTime"].clone());
        json!({
            "type": kind, "status": status, "lastTransitionTime": since, "reason": reason,
            "message": message,
        })
    };
    let mut object = definition.clone();
    let status = fields::map_mut(&mut object, "status");
    let conditions = match &clash {
        None => {
            status.insert("acceptedNames".into(), wanted.clone());
            json!([
                condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
                condition(
                    "Established",
                    true,
                    "InitialNamesAccepted",
                    "the initial names have been accepted",
                ),
            ])
        }
        Some((reason, name)) => {
            let message = format!("{name:?} is already in use");
            let names = condition("NamesAccepted", false, reason, &message);
            let established = if was_established {
                let message = "the initial names have been accepted";
                condition("Established", true, "InitialNamesAccepted", message)
            } else {
                condition("Established", false, "NotAccepted", "not all names are accepted")
            };
            json!([names, established])
        }
    };
    status.insert("conditions".into(), conditions);
    (object != *definition).then_some(object)
}

/// A name that a resource of the same group has already.
fn conflict(def: &ResourceDef, wanted: &Value) -> Option<(&'static str, String)> {
    let text = |field: &str| wanted[field].as_str().unwrap_or_default().to_owned();
    let taken: Vec<&str> =
        [&*def.id.resource, &*def.singular].into_iter().chain(def.all_short_names()).collect();
    let list_kind = format!("{}List", def.kind);
    if taken.contains(&text("plural").as_str()) {
        return Some(("PluralConflict", text("plural")));
    }
    if taken.contains(&text("singular").as_str()) {
        return Some(("SingularConflict", text("singular")));
    }
    let short = wanted["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(name) = short.into_iter().find(|name| taken.contains(name)) {
        return Some(("ShortNamesConflict", name.to_owned()));
    }
    if text("kind") == def.kind || text("kind") == list_kind {
        return Some(("KindConflict", text("kind")));
    }
    (text("listKind") == list_kind || text("listKind") == def.kind)
        .then(|| ("ListKindConflict", text("listKind")))
}
