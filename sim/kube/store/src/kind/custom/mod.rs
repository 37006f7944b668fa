//! Kinds from CustomResourceDefinitions.
//!
//! The store keeps a definition as an object like any other and derives [`Custom`] from it. Schemas
//! are structural. [`rules`] evaluates `x-kubernetes-validations`. A Rust function ([`Conversion`])
//! replaces a conversion webhook. Without this function, the store refuses requests for which a real
//! server calls the webhook.

mod embedded;
pub(crate) mod formats;
mod numbers;
mod order;
pub(crate) mod rules;
mod structural;
mod validate;

use std::sync::Arc;

use serde_json::Value;

pub use order::compare_versions;
use order::priority;

pub(crate) use embedded::validate as validate_embedded;
pub(crate) use structural::{Structural, has_unknown};
pub(crate) use validate::{int32_at, validate_value};

use crate::object::{fields, meta};
use crate::schema::{Decoded, GoDecoder, decode_metadata};
use crate::values::text::{quote, sorted};
use crate::{Check, FieldErrors, GroupResource, NameRule, ResourceDef, Status, Strategy};

/// Function that converts an object (first argument) to a group and version (second argument), such
/// as `example.com/v1`.
///
/// The store takes all metadata of the result from the original object, except labels and
/// annotations, and sets the apiVersion itself.
///
/// # Errors
/// The reason for the failure, which becomes part of the answer's message.
pub type Conversion = fn(&Value, &str) -> Result<Value, String>;

/// A kind as its CustomResourceDefinition describes it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Custom {
    /// Short names of the resource, such as `cm`, which kubectl accepts.
    pub short_names: Vec<String>,
    /// Categories of the resource, such as `all`.
    pub categories: Vec<String>,
    /// The kind of lists, such as `WidgetList`.
    pub list_kind: String,
    /// All versions, preferred ones first.
    pub versions: Vec<CustomVersion>,
    /// True if the definition asks for a conversion webhook. Otherwise a conversion only sets the
    /// apiVersion and applies the schema of the new version.
    pub is_converted: bool,
    /// Revision of the definition at the last change of the versions or their schemas; after
    /// [`Store::restore`](crate::Store::restore), the revision of the definition in the snapshot.
    /// Objects with a later revision conform to the schemas. Every read completes older objects.
    pub since: u64,
}

/// One version of a kind from a CustomResourceDefinition.
#[derive(Debug)]
pub struct CustomVersion {
    /// Name, such as `v1beta1`.
    pub name: String,
    /// True if the API server serves this version.
    pub is_served: bool,
    /// True if the store writes objects in this version.
    pub is_stored: bool,
    /// Warning for clients of this version; empty if none.
    pub warning: String,
    /// True if the version has a status subresource.
    pub status: bool,
    /// Scale subresource, if the version has one.
    pub scale: Option<Scale>,
    /// `additionalPrinterColumns` of this version in the definition.
    pub columns: Vec<Value>,
    /// Fields that field selectors may name: name and JSON pointer of each.
    pub selectable: Vec<(String, String)>,
    /// `openAPIV3Schema` of this version in the definition.
    pub published: Value,
    schema: Structural,
}

/// JSON pointers to the replicas of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scale {
    /// JSON pointer to the desired number of replicas.
    pub spec_replicas: String,
    /// JSON pointer to the actual number of replicas.
    pub status_replicas: String,
    /// JSON pointer to the label selector of the replicas; empty if the definition names none.
    pub selector: String,
}

impl Custom {
    /// The versions that are served, preferred ones first.
    pub fn served(&self) -> impl Iterator<Item = &CustomVersion> {
        self.versions.iter().filter(|version| version.is_served)
    }

    /// Returns the version `name`; `None` if the kind does not have it.
    pub fn version(&self, name: &str) -> Option<&CustomVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// Returns the version that the object's apiVersion names; `None` if the kind does not have it.
    fn version_of(&self, def: &ResourceDef, object: &Value) -> Option<&CustomVersion> {
        let given = object["apiVersion"].as_str().unwrap_or_default();
        self.versions.iter().find(|version| def.api_version(&version.name) == given)
    }

    /// Returns an object completed by the current schema of its version: without unknown fields and
    /// disallowed nulls, with defaults. Returns an object unchanged if it was written after the
    /// latest change of the schemas, or if the kind no longer has its version.
    pub(crate) fn completed(&self, def: &ResourceDef, object: &Arc<Value>) -> Arc<Value> {
        if meta::revision(object) > self.since {
            return object.clone();
        }
        let Some(version) = self.version_of(def, object) else { return object.clone() };
        let mut completed = object.as_ref().clone();
        version.complete(&mut completed);
        if completed == **object { object.clone() } else { Arc::new(sorted(completed)) }
    }

    /// Decodes an object by the schema of the version in its apiVersion: drops and reports unknown
    /// fields, removes disallowed nulls and fills in defaults. An object of an unknown version
    /// keeps only apiVersion, kind and metadata. An object of another group or kind keeps all
    /// fields.
    ///
    /// # Errors
    /// The real server's error text if the metadata, or the apiVersion, kind or metadata of an
    /// embedded object, has the wrong type.
    pub(crate) fn read(
        &self,
        def: &ResourceDef,
        object: &Value,
        words: GoDecoder,
    ) -> Result<Decoded, String> {
        let given = object["apiVersion"].as_str().unwrap_or_default();
        let (group, _) = given.split_once('/').unwrap_or(("", given));
        let is_other = def.id.group != group || object["kind"] != *def.kind;
        match self.version_of(def, object) {
            _ if is_other => read(&Structural::any(), object, words),
            Some(version) => read(&version.schema, object, words),
            None => read(&Structural::default(), object, words),
        }
    }

    /// Returns the JSON pointer of the field that field selectors call `name`; `None` if no version
    /// declares such a selectable field.
    pub(crate) fn selectable(&self, name: &str) -> Option<String> {
        let mut fields = self.versions.iter().flat_map(|version| &version.selectable);
        fields.find(|(given, _)| given == name).map(|(_, pointer)| pointer.clone())
    }

    /// True if both kinds have the same versions with the same schemas.
    fn has_schemas_of(&self, other: &Self) -> bool {
        fn schemas(custom: &Custom) -> impl Iterator<Item = (&str, &Value)> {
            custom.versions.iter().map(|it| (it.name.as_str(), &it.published))
        }
        schemas(self).eq(schemas(other))
    }

    /// Returns the resource that an established definition describes; `None` if the definition is
    /// not established or has no stored version. `before` is the kind as it was registered before
    /// the latest change of the definition.
    pub(crate) fn define(definition: &Value, before: Option<&Self>) -> Option<ResourceDef> {
        let conditions = fields::list(definition, "/status/conditions");
        if !conditions.iter().any(|it| it["type"] == "Established" && it["status"] == "True") {
            return None;
        }
        let spec = &definition["spec"];
        let names = &definition["status"]["acceptedNames"];
        let text = |field: &str| names[field].as_str().unwrap_or_default().to_owned();
        let group = fields::text(spec, "/group").to_owned();
        let mut versions: Vec<CustomVersion> =
            fields::list(spec, "/versions").iter().map(|it| version(spec, &group, it)).collect();
        versions.sort_by_key(|version| std::cmp::Reverse(priority(&version.name)));
        let stored = versions.iter().find(|version| version.is_stored)?;
        let (version, status) = (stored.name.clone(), stored.status);
        let plural = text("plural");
        let mut custom = Self {
            short_names: texts(&names["shortNames"]),
            categories: texts(&names["categories"]),
            list_kind: text("listKind"),
            versions,
            is_converted: spec["conversion"]["strategy"] == "Webhook",
            since: meta::revision(definition),
        };
        if let Some(before) = before.filter(|before| before.has_schemas_of(&custom)) {
            custom.since = before.since;
        }
        Some(ResourceDef {
            id: GroupResource { group: group.clone().into(), resource: plural.clone().into() },
            version: version.into(),
            kind: text("kind").into(),
            singular: text("singular").into(),
            short_names: &[],
            categories: &[],
            namespaced: spec["scope"] == "Namespaced",
            hides_content_in_errors: false,
            returns_deleted: false,
            status,
            scales: false,
            registry: format!("{group}/{plural}").into(),
            deprecation: "",
            selectable: &[],
            strategy: Strategy {
                names: NameRule::Subdomain,
                generation: true,
                unconditional_update: false,
                checks: &[Check::MetadataChange, Check::Whole],
                status_checks: &[Check::MetadataChange, Check::Status],
                requires_standard_finalizers: false,
                ..Strategy::PLAIN
            },
            custom: Some(Arc::new(custom)),
        })
    }
}

impl CustomVersion {
    /// Checks an object against the schema, its numbers of replicas against the range of a
    /// nonnegative `i32`, and then the rules. `old` is the object before an update: what it does not
    /// change may stay invalid. Returns the warnings of rules about such values.
    pub(crate) fn check(
        &self,
        object: &Value,
        old: Option<&Value>,
        errors: &mut FieldErrors,
    ) -> Vec<String> {
        validate::check_schema(&self.schema, object, old, errors);
        if let Some(scale) = &self.scale {
            int32_at(object, &scale.spec_replicas, errors);
            int32_at(object, &scale.status_replicas, errors);
        }
        validate_embedded(&self.schema, object, "", errors);
        validate::check_lists_of(&self.schema, object, old, errors);
        self.check_rules(object, old, errors)
    }

    /// Checks the status of an object against the schema, the actual number of replicas against the
    /// range of a nonnegative `i32`, and then the rules of the whole object. Returns the warnings of
    /// rules about values that the update does not change.
    pub(crate) fn check_status(
        &self,
        object: &Value,
        old: &Value,
        errors: &mut FieldErrors,
    ) -> Vec<String> {
        validate::check_status(&self.schema, object, old, errors);
        if let Some(scale) = &self.scale {
            int32_at(object, &scale.status_replicas, errors);
        }
        validate::check_lists_of(&self.schema, object, Some(old), errors);
        self.check_rules(object, Some(old), errors)
    }

    fn check_rules(
        &self,
        object: &Value,
        old: Option<&Value>,
        errors: &mut FieldErrors,
    ) -> Vec<String> {
        if !self.schema.has_rules {
            return Vec::new();
        }
        if errors.block_rules() {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.invalid("<nil>", &Value::Null, why);
            return Vec::new();
        }
        let mut found = rules::Found::default();
        rules::validate(&self.schema, object, old, &mut found);
        errors.append(found.errors);
        found.warnings.texts()
    }

    /// Makes an object conform to this schema: drops unknown fields, removes disallowed nulls and
    /// fills in defaults.
    pub(crate) fn complete(&self, object: &mut Value) {
        self.prune(object);
        self.schema.apply_defaults(object);
    }

    /// Removes unknown fields, and disallowed nulls that no default replaces, for example from the
    /// result of a conversion. Fills in no defaults.
    pub(crate) fn prune(&self, object: &mut Value) {
        self.schema.prune_root(object, &mut Vec::new());
        self.schema.remove_nulls(object);
    }
}

fn read(schema: &Structural, object: &Value, words: GoDecoder) -> Result<Decoded, String> {
    let mut unknown = Vec::new();
    let mut object = object.clone();
    if let Some(metadata) = object.get("metadata") {
        let read = decode_metadata(metadata, words)?;
        unknown.extend(read.unknown);
        fields::as_map(&mut object).insert("metadata".into(), read.object);
    }
    embedded::coerce(schema, &mut object, "", &mut unknown)?;
    let mut pruned = Vec::new();
    schema.prune_root(&mut object, &mut pruned);
    pruned.sort();
    let complaint = |path: String| format!("unknown field {}", quote(&path));
    unknown.extend(pruned.into_iter().map(complaint));
    schema.apply_defaults(&mut object);
    Ok(Decoded { object: sorted(object), unknown })
}

/// Converts an object to `version`, for a client or for the store.
///
/// # Errors
/// 500 if the conversion function fails, 501 if the definition asks for a webhook and no function
/// replaces the webhook.
pub(crate) fn convert(
    def: &ResourceDef,
    custom: &Custom,
    conversion: Option<Conversion>,
    object: &Value,
    version: &str,
) -> Result<Value, Status> {
    let wanted = def.api_version(version);
    if object["apiVersion"] == wanted.as_str() {
        return Ok(object.clone());
    }
    let mut converted = match (custom.is_converted, conversion) {
        (false, _) => object.clone(),
        (true, Some(convert)) => convert(object, &wanted).map_err(|why| {
            let from = object["apiVersion"].as_str().unwrap_or_default();
            let kind = &def.kind;
            let message = format!("conversion webhook for {from}, Kind={kind} failed: {why}");
            Status::new(500, "", message)
        })?,
        (true, None) => {
            let message = format!(
                "this simulated API server does not implement conversion webhooks; no function converts {}",
                def.id
            );
            return Err(Status::new(501, "NotImplemented", message));
        }
    };
    let map = fields::as_map(&mut converted);
    map.insert("apiVersion".into(), wanted.into());
    if let Some(metadata) = object.get("metadata") {
        // Of the metadata, only these fields may change in a conversion.
        if let Some(changed) = map.insert("metadata".into(), metadata.clone()) {
            let metadata = fields::map_mut(&mut converted, "metadata");
            for field in ["labels", "annotations"] {
                match changed.get(field) {
                    Some(changed) => metadata.insert(field.into(), changed.clone()),
                    None => metadata.shift_remove(field),
                };
            }
        }
    }
    Ok(sorted(converted))
}

fn version(spec: &Value, group: &str, version: &Value) -> CustomVersion {
    let name = fields::text(version, "/name").to_owned();
    let kind = spec["names"]["kind"].as_str().unwrap_or_default();
    let published = version["schema"]["openAPIV3Schema"].clone();
    let warning = match (version["deprecated"] == true, version["deprecationWarning"].as_str()) {
        (false, _) => String::new(),
        (true, Some(warning)) => warning.to_owned(),
        (true, None) => deprecation(spec, group, kind, &name),
    };
    let scale = &version["subresources"]["scale"];
    let column = |it: &Value| it["jsonPath"].as_str().map(|it| (name_of_path(it), pointer(it)));
    CustomVersion {
        is_served: version["served"] == true,
        is_stored: version["storage"] == true,
        warning,
        status: version["subresources"]["status"].is_object(),
        scale: scale.is_object().then(|| Scale {
            spec_replicas: pointer(fields::text(scale, "/specReplicasPath")),
            status_replicas: pointer(fields::text(scale, "/statusReplicasPath")),
            selector: pointer(fields::text(scale, "/labelSelectorPath")),
        }),
        columns: fields::list(version, "/additionalPrinterColumns").to_vec(),
        selectable: fields::list(version, "/selectableFields").iter().filter_map(column).collect(),
        schema: Structural::read_root(&published),
        published,
        name,
    }
}

/// Returns the real server's warning about the deprecated version `name`. The warning recommends
/// the most preferred version that is served, not deprecated and preferred to `name`, if one
/// exists.
fn deprecation(spec: &Value, group: &str, kind: &str, name: &str) -> String {
    let mut others: Vec<&str> = fields::list(spec, "/versions")
        .iter()
        .filter(|it| it["served"] == true && it["deprecated"] != true)
        .filter_map(|it| it["name"].as_str())
        .filter(|other| priority(other) > priority(name))
        .collect();
    others.sort_by_key(|other| std::cmp::Reverse(priority(other)));
    match others.first() {
        Some(newer) => format!("{group}/{name} {kind} is deprecated; use {group}/{newer} {kind}"),
        None => format!("{group}/{name} {kind} is deprecated"),
    }
}

/// Returns the JSON pointer of a path: `/spec/color` for `.spec.color`.
fn pointer(path: &str) -> String {
    if path.is_empty() { String::new() } else { path.replace('.', "/") }
}

/// Returns a path without its leading dot: `spec.color` for `.spec.color`.
fn name_of_path(path: &str) -> String {
    path.strip_prefix('.').unwrap_or(path).to_owned()
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}
