//! Kinds that come from CustomResourceDefinitions.
//!
//! A definition is an object like others; [`Custom`] is what follows from it, and nothing else is
//! kept: whoever has the objects can make it again. Schemas are structural. Not implemented, and
//! refused when a definition is created: `x-kubernetes-validations`. A conversion by webhook needs a
//! function of this process ([`Conversion`]); without one the other versions are refused.

mod embedded;
pub(super) mod formats;
mod numbers;
mod order;
mod structural;
mod validate;

use std::sync::Arc;

use serde_json::Value;

pub use order::compare_versions;
use order::priority;

pub(super) use embedded::validate as validate_embedded;
pub(super) use structural::{Structural, has_unknown};
pub(super) use validate::{int32_at, validate, validate_status, validate_value};

use super::schema::{Decoded, Words, decode_metadata};
use super::{
    Check, FieldErrors, GroupResource, NameRule, ResourceDef, Status, Strategy, fields, meta,
};

/// Turns an object into another version, which is the group and version handed in
/// (`example.com/v1`). Of metadata only labels and annotations may be changed; the version itself needs no care.
///
/// # Errors
/// Why it cannot be done, for the message of the answer.
pub type Conversion = fn(&Value, &str) -> Result<Value, String>;

/// What a CustomResourceDefinition says about its kind.
#[derive(Debug)]
pub struct Custom {
    /// What kubectl users type.
    pub short_names: Vec<String>,
    /// Groups of resources that it belongs to.
    pub categories: Vec<String>,
    /// The kind of lists, `WidgetList`.
    pub list_kind: String,
    /// All versions, preferred ones first.
    pub versions: Vec<CustomVersion>,
    /// Whether versions differ by more than their name.
    pub is_converted: bool,
    /// The revision of the definition at which the schemas became what they are, as far as is known:
    /// after a restore it is that of its latest change. What was written later is as they ask; what is
    /// older is completed whenever it is read.
    pub since: u64,
}

/// One version of a kind from a CustomResourceDefinition.
#[derive(Debug)]
pub struct CustomVersion {
    /// `v1beta1`.
    pub name: String,
    /// Whether requests for it are answered.
    pub is_served: bool,
    /// Whether objects are kept in it.
    pub is_stored: bool,
    /// What to tell whoever uses it; empty if nothing.
    pub warning: String,
    /// Whether it has a status subresource.
    pub status: bool,
    /// Its scale subresource, if it has one.
    pub scale: Option<Scale>,
    /// `additionalPrinterColumns` as the definition has them.
    pub columns: Vec<Value>,
    /// JSON pointers of the fields that selectors may name, with those names.
    pub selectable: Vec<(String, String)>,
    /// `openAPIV3Schema` as the definition has it.
    pub published: Value,
    schema: Structural,
}

/// Where the replicas of an object are, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// How many there shall be.
    pub spec_replicas: String,
    /// How many there are.
    pub status_replicas: String,
    /// Which they are, as a label selector; empty if nobody says.
    pub selector: String,
}

impl Custom {
    /// The versions that are served, preferred ones first.
    pub fn served(&self) -> impl Iterator<Item = &CustomVersion> {
        self.versions.iter().filter(|version| version.is_served)
    }

    /// The version of that name.
    pub fn version(&self, name: &str) -> Option<&CustomVersion> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The version that an object says it is of.
    fn version_of(&self, def: &ResourceDef, object: &Value) -> Option<&CustomVersion> {
        let given = object["apiVersion"].as_str().unwrap_or_default();
        self.versions.iter().find(|version| def.api_version(&version.name) == given)
    }

    /// An object as the schema of its version asks for today. Costs nothing unless that is another
    /// one than when it was written.
    pub(super) fn completed(&self, def: &ResourceDef, object: &Arc<Value>) -> Arc<Value> {
        if meta::revision(object) > self.since {
            return object.clone();
        }
        let Some(version) = self.version_of(def, object) else { return object.clone() };
        let mut completed = object.as_ref().clone();
        version.complete(&mut completed);
        if completed == **object { object.clone() } else { Arc::new(sorted(completed)) }
    }

    /// Reads an object by the schema of the version that it says it is of: unknown fields fall out, nulls
    /// and defaults are settled. Of a version that nobody knows nothing but metadata is left; another
    /// kind is left as it comes.
    ///
    /// # Errors
    /// What Go says about metadata of the wrong type.
    pub(super) fn read(
        &self,
        def: &ResourceDef,
        object: &Value,
        words: Words,
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

    /// Where the field is that a selector names.
    pub(super) fn selectable(&self, name: &str) -> Option<String> {
        let mut fields = self.versions.iter().flat_map(|version| &version.selectable);
        fields.find(|(given, _)| given == name).map(|(_, pointer)| pointer.clone())
    }

    /// Whether both have the same schemas in the same versions.
    fn has_schemas_of(&self, other: &Self) -> bool {
        fn schemas(custom: &Custom) -> impl Iterator<Item = (&str, &Value)> {
            custom.versions.iter().map(|it| (it.name.as_str(), &it.published))
        }
        schemas(self).eq(schemas(other))
    }

    /// The resource that an established definition makes; `before` is what it made until now.
    pub(super) fn define(definition: &Value, before: Option<&Self>) -> Option<ResourceDef> {
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
            confidential: false,
            returns_deleted: false,
            status,
            registry: format!("{group}/{plural}").into(),
            deprecation: "",
            selectable: &[],
            strategy: Strategy {
                names: NameRule::Subdomain,
                generation: true,
                unconditional_update: false,
                checks: &[Check::MetadataChange, Check::Whole],
                status_checks: &[Check::MetadataChange, Check::Status],
                knows_finalizers: false,
                ..Strategy::PLAIN
            },
            custom: Some(Arc::new(custom)),
        })
    }
}

impl CustomVersion {
    /// Checks what the schema asks for.
    pub(super) fn check(&self, object: &Value, errors: &mut FieldErrors) {
        validate(&self.schema, object, errors);
        if let Some(scale) = &self.scale {
            int32_at(object, &scale.spec_replicas, errors);
            int32_at(object, &scale.status_replicas, errors);
        }
    }

    /// Checks what the schema asks for of a status.
    pub(super) fn check_status(&self, object: &Value, errors: &mut FieldErrors) {
        validate_status(&self.schema, object, errors);
        if let Some(scale) = &self.scale {
            int32_at(object, &scale.status_replicas, errors);
        }
    }

    /// Makes an object what this schema asks for: unknown fields fall out, nulls and defaults are
    /// settled.
    pub(super) fn complete(&self, object: &mut Value) {
        self.prune(object);
        self.schema.settle(object);
    }

    /// Removes what this schema does not know, as from the answer of a conversion.
    pub(super) fn prune(&self, object: &mut Value) {
        self.schema.prune_root(object, &mut Vec::new());
        self.schema.remove_nulls(object);
    }
}

fn read(schema: &Structural, object: &Value, words: Words) -> Result<Decoded, String> {
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
    let complaint = |path: String| format!("unknown field {}", super::text::quote(&path));
    unknown.extend(pruned.into_iter().map(complaint));
    schema.settle(&mut object);
    Ok(Decoded { object: sorted(object), unknown })
}

/// Converts an object for a client or for the store.
///
/// # Errors
/// 500 if the definition says that versions differ and nobody can say how, or if that function fails.
pub(super) fn convert(
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
        // As much of it as a conversion may change.
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
        schema: Structural::read(&published),
        published,
        name,
    }
}

/// What the real server says of a deprecated version: the next newer one that is served.
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

/// `.spec.color` as `/spec/color`.
fn pointer(path: &str) -> String {
    if path.is_empty() { String::new() } else { path.replace('.', "/") }
}

/// `.spec.color` as `spec.color`.
fn name_of_path(path: &str) -> String {
    path.strip_prefix('.').unwrap_or(path).to_owned()
}

fn texts(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Sorts all keys, as Go writes objects for which it has no structure.
pub(crate) fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(entries.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}
