//! An OpenAPI document: the kinds of a group and version, and the schemas that they refer to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use kube_sim_store::{OPENAPI, ResourceDef};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};

use crate::backend::Cluster;
use crate::request::route::Review;

/// Schemas of built-in kinds and of their parts by name, as text. Read from the file once, at the
/// first use.
static SCHEMAS: LazyLock<BTreeMap<&'static str, &'static RawValue>> = LazyLock::new(|| {
    // A test parses the file.
    serde_json::from_str(OPENAPI).expect("schemas/openapi.json is readable")
});

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
pub(super) const REFERENCE: &str = "#/components/schemas/";

/// Content of a document: a group and version with its kinds.
pub(super) struct Document {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kinds: Vec<Kind>,
}

pub(super) struct Kind {
    pub(super) resource: String,
    pub(super) kind: String,
    pub(super) namespaced: bool,
    /// True for a review, which the server answers and does not store.
    pub(super) is_review: bool,
    pub(super) status: bool,
    pub(super) scale: bool,
    /// The schema of a custom kind; `None` for a built-in kind and a review.
    custom: Option<Value>,
    selectable: Vec<String>,
}

impl Document {
    pub(super) fn collect(cluster: &Cluster, group: &str, version: &str) -> Self {
        let mut kinds: Vec<Kind> = cluster.read(|store| {
            let is_ours = |def: &&ResourceDef| def.id.group == group && def.serves(version);
            let kinds = store.resources().filter(is_ours).map(|def| Kind::of(def, version));
            kinds.collect()
        });
        for review in Review::ALL.iter().filter(|it| it.group() == group) {
            kinds.push(Kind {
                resource: review.resource().into(),
                kind: review.kind().into(),
                namespaced: *review == Review::LocalSubjectAccess,
                is_review: true,
                status: false,
                scale: false,
                custom: None,
                selectable: Vec::new(),
            });
        }
        Self { group: group.into(), version: version.into(), kinds }
    }

    /// Returns a hash that changes when the document changes. To compute the hash costs a fraction
    /// of the time that [`write`](Self::write) takes.
    pub(super) fn hash(&self) -> String {
        let mut digest = Sha512::new();
        digest.update(&self.group);
        digest.update(&self.version);
        for kind in &self.kinds {
            let Kind { resource, kind, status, scale, custom, selectable, .. } = kind;
            let custom = custom.as_ref().map(Value::to_string).unwrap_or_default();
            let line = format!("\n{resource} {kind} {status} {scale} {custom} {selectable:?}");
            digest.update(line);
        }
        let mut text = String::new();
        for byte in digest.finalize() {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02X}");
        }
        text
    }

    pub(super) fn write(&self) -> String {
        let mut names: BTreeSet<String> =
            ["DeleteOptions", "Status"].map(|name| format!("{META}.{name}")).into();
        let mut own: BTreeMap<String, Value> = BTreeMap::new();
        for kind in &self.kinds {
            let name = self.schema_name(kind);
            match &kind.custom {
                None => {
                    names.insert(format!("{name}List"));
                    names.insert(name);
                }
                Some(published) => {
                    let list = format!("{name}List");
                    own.insert(list, self.list_schema(kind, &name));
                    own.insert(name, self.custom_schema(kind, published));
                    names.insert(format!("{META}.ObjectMeta"));
                    names.insert(format!("{META}.ListMeta"));
                }
            }
        }
        let mut texts: BTreeMap<String, String> =
            own.into_iter().map(|(name, schema)| (name, schema.to_string())).collect();
        let mut todo: Vec<String> = names.into_iter().collect();
        while let Some(name) = todo.pop() {
            let Some(schema) = SCHEMAS.get(name.as_str()) else { continue };
            if texts.contains_key(&name) {
                continue;
            }
            todo.extend(references(schema.get()).map(str::to_owned));
            texts.insert(name, schema.get().to_owned());
        }
        let schemas: Vec<String> =
            texts.iter().map(|(name, text)| format!("{}:{text}", Value::from(&**name))).collect();
        let info = json!({"title": "Kubernetes", "version": "1.36"});
        let paths = Value::Object(self.paths());
        format!(
            "{{\"openapi\":\"3.0.0\",\"info\":{info},\"paths\":{paths},\"components\":{{\"schemas\":{{{}}}}}}}\n",
            schemas.join(",")
        )
    }

    /// Name of a kind's schema, such as `io.k8s.api.core.v1.Node` or `com.example.v1.Widget`.
    pub(super) fn schema_name(&self, kind: &Kind) -> String {
        if kind.custom.is_some() {
            let mut parts: Vec<&str> = self.group.split('.').collect();
            parts.reverse();
            return format!("{}.{}.{}", parts.join("."), self.version, kind.kind);
        }
        let package = match self.group.as_str() {
            "" => "io.k8s.api.core",
            "apiextensions.k8s.io" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
            group => {
                let name = group.split('.').next().unwrap_or_default();
                return format!("io.k8s.api.{name}.{}.{}", self.version, kind.kind);
            }
        };
        format!("{package}.{}.{}", self.version, kind.kind)
    }

    pub(super) fn identity(&self, kind: &str) -> Value {
        json!({"group": self.group, "kind": kind, "version": self.version})
    }

    fn custom_schema(&self, kind: &Kind, published: &Value) -> Value {
        let mut schema = published.clone();
        complete(&mut schema);
        let mut properties = schema["properties"].as_object().cloned().unwrap_or_default();
        properties.extend(type_meta());
        let metadata = json!({
            "description": "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
            "allOf": [{"$ref": format!("{REFERENCE}{META}.ObjectMeta")}],
        });
        properties.insert("metadata".into(), metadata);
        if let Some(map) = schema.as_object_mut() {
            map.insert("properties".into(), properties.into());
            map.insert(
                "x-kubernetes-group-version-kind".into(),
                json!([self.identity(&kind.kind)]),
            );
            if !kind.selectable.is_empty() {
                let fields: Vec<Value> =
                    kind.selectable.iter().map(|path| json!({"fieldPath": path})).collect();
                map.insert("x-kubernetes-selectable-fields".into(), fields.into());
            }
        }
        schema
    }

    fn list_schema(&self, kind: &Kind, name: &str) -> Value {
        let mut properties = type_meta();
        properties.insert(
            "items".into(),
            json!({
                "description": format!("List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md", kind.resource),
                "type": "array",
                "items": {"$ref": format!("{REFERENCE}{name}")},
            }),
        );
        properties.insert(
            "metadata".into(),
            json!({
                "description": "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
                "allOf": [{"$ref": format!("{REFERENCE}{META}.ListMeta")}],
            }),
        );
        json!({
            "description": format!("{}List is a list of {}", kind.kind, kind.kind),
            "type": "object",
            "required": ["items"],
            "properties": properties,
            "x-kubernetes-group-version-kind": [self.identity(&format!("{}List", kind.kind))],
        })
    }
}

impl Kind {
    fn of(def: &ResourceDef, version: &str) -> Self {
        let custom = def.custom.as_ref().and_then(|custom| custom.version(version));
        Self {
            resource: def.id.resource.clone().into_owned(),
            kind: def.kind.clone().into_owned(),
            namespaced: def.namespaced,
            is_review: false,
            status: def.has_status(version),
            scale: custom.is_some_and(|version| version.scale.is_some()),
            custom: custom.map(|version| version.published.clone()),
            selectable: custom
                .map(|version| version.selectable.iter().map(|(name, _)| name.clone()).collect())
                .unwrap_or_default(),
        }
    }
}

/// Schemas of `apiVersion` and `kind`, in the words of the real server.
fn type_meta() -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("apiVersion".into(), json!({
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources",
        "type": "string",
    }));
    fields.insert("kind".into(), json!({
        "description": "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds",
        "type": "string",
    }));
    fields
}

/// Adds the `anyOf` of integer and string to every schema that has `x-kubernetes-int-or-string` and
/// no `anyOf`: to `schema` itself, and to the schemas below it.
fn complete(schema: &mut Value) {
    if schema["x-kubernetes-int-or-string"] == true && schema.get("anyOf").is_none() {
        schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    }
    for (_, property) in schema["properties"].as_object_mut().into_iter().flatten() {
        complete(property);
    }
    for field in ["items", "additionalProperties"] {
        if schema[field].is_object() {
            complete(&mut schema[field]);
        }
    }
}

/// Names of the schemas that a schema refers to.
fn references(schema: &str) -> impl Iterator<Item = &str> {
    schema.split(REFERENCE).skip(1).filter_map(|rest| rest.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::{SCHEMAS, references};

    #[test]
    fn every_reference_between_openapi_schemas_resolves() {
        assert!(SCHEMAS.len() > 100);
        for schema in SCHEMAS.values() {
            for name in references(schema.get()) {
                assert!(SCHEMAS.contains_key(name), "{name}");
            }
        }
    }
}
