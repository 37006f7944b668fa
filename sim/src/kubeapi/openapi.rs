//! OpenAPI v3: a document for each group and version that is served.
//!
//! Schemas of built-in kinds are those that the real server publishes; those of custom kinds come
//! from their definitions. Paths say what `kubectl explain`, `kubectl apply` and generators of
//! clients look at: verbs, kinds, parameters of writes. OpenAPI v2 is not served.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::LazyLock;

use http::header::{CACHE_CONTROL, ETAG, LOCATION};
use http::{HeaderValue, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha512};
use sim_world::objects::{OPENAPI, ResourceDef};

use super::query::Query;
use super::route::Review;
use super::{Request, answer, discovery};
use crate::{Reply, WorldHandle};

/// Schemas by name, as text. Never changes once it is read.
static SCHEMAS: LazyLock<BTreeMap<&'static str, &'static RawValue>> = LazyLock::new(|| {
    // A test holds that the file can be read.
    serde_json::from_str(OPENAPI).unwrap_or_default()
});

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const REFERENCE: &str = "#/components/schemas/";

/// `/openapi/v3`: the documents that there are.
pub(super) fn index(world: &WorldHandle) -> Reply {
    let mut paths = Map::new();
    for (group, version) in discovery::group_versions(world) {
        let path = path_of(&group, &version);
        let hash = Document::collect(world, &group, &version).hash();
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    // The real server does not say that this is JSON.
    answer::typed(StatusCode::OK, "text/plain; charset=utf-8", &json!({"paths": paths}))
}

/// `/openapi/v3/<path>`: one document.
///
/// A request with the hash of another state of the document is sent to the present one.
pub(super) fn document(world: &WorldHandle, path: &str, request: &Request) -> Reply {
    let Some((group, version)) = discovery::group_versions(world)
        .into_iter()
        .find(|(group, version)| path_of(group, version) == path)
    else {
        return Reply::new(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "")
            .with_fault("NotFound");
    };
    if let Err(status) = request.wanted() {
        return answer::failure(&status);
    }
    let document = Document::collect(world, &group, &version);
    let hash = document.hash();
    let asked = Query::get(&request.query, "hash");
    let mut reply = if asked.is_empty() || asked == hash {
        Reply::new(StatusCode::OK, answer::JSON, document.write())
    } else {
        Reply::new(StatusCode::MOVED_PERMANENTLY, answer::JSON, "")
    };
    let headers = reply.response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{hash}\"")) {
        headers.insert(ETAG, tag);
    }
    if !asked.is_empty() && asked != hash {
        let location = format!("/openapi/v3/{path}?hash={hash}");
        if let Ok(location) = HeaderValue::from_str(&location) {
            headers.insert(LOCATION, location);
        }
    }
    reply
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// What a document is about.
struct Document {
    group: String,
    version: String,
    kinds: Vec<Kind>,
}

struct Kind {
    resource: String,
    kind: String,
    namespaced: bool,
    /// Whether it is only answered, and not kept.
    is_review: bool,
    status: bool,
    scale: bool,
    /// The schema of a custom kind.
    custom: Option<Value>,
    selectable: Vec<String>,
}

impl Document {
    fn collect(world: &WorldHandle, group: &str, version: &str) -> Self {
        let mut kinds: Vec<Kind> = world.read(|world| {
            let is_ours = |def: &&ResourceDef| def.id.group == group && def.serves(version);
            let kinds = world.cluster.resources().filter(is_ours).map(|def| Kind::of(def, version));
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

    /// Changes when the document does, at a fraction of its cost.
    fn hash(&self) -> String {
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

    fn write(&self) -> String {
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

    /// `io.k8s.api.core.v1.Node`, `com.example.v1.Widget`.
    fn schema_name(&self, kind: &Kind) -> String {
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

    fn identity(&self, kind: &str) -> Value {
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

    fn paths(&self) -> Map<String, Value> {
        let root = path_of(&self.group, &self.version);
        let mut paths = Map::new();
        for kind in &self.kinds {
            let Kind { resource, namespaced, is_review, .. } = kind;
            let all = match *namespaced {
                true => format!("/{root}/namespaces/{{namespace}}/{resource}"),
                false => format!("/{root}/{resource}"),
            };
            if *is_review {
                paths.insert(all, json!({"post": self.operation(kind, "post", "")}));
                continue;
            }
            if *namespaced {
                let list = self.operation(kind, "list", "");
                paths.insert(format!("/{root}/{resource}"), json!({"get": list}));
            }
            paths.insert(
                all.clone(),
                json!({
                    "get": self.operation(kind, "list", ""),
                    "post": self.operation(kind, "post", ""),
                    "delete": self.operation(kind, "deletecollection", ""),
                }),
            );
            let one = format!("{all}/{{name}}");
            paths.insert(
                one.clone(),
                json!({
                    "get": self.operation(kind, "get", ""),
                    "put": self.operation(kind, "put", ""),
                    "patch": self.operation(kind, "patch", ""),
                    "delete": self.operation(kind, "delete", ""),
                }),
            );
            for (door, is_there) in [("status", kind.status), ("scale", kind.scale)] {
                if is_there {
                    let operation = |action| self.operation(kind, action, door);
                    paths.insert(
                        format!("{one}/{door}"),
                        json!({
                            "get": operation("get"),
                            "put": operation("put"),
                            "patch": operation("patch"),
                        }),
                    );
                }
            }
        }
        paths
    }

    fn operation(&self, kind: &Kind, action: &str, door: &str) -> Value {
        let schema = match (door, action) {
            ("scale", _) => json!({"type": "object"}),
            (_, "list") => json!({"$ref": format!("{REFERENCE}{}List", self.schema_name(kind))}),
            (_, "delete" | "deletecollection") => {
                json!({"$ref": format!("{REFERENCE}{META}.Status")})
            }
            _ => json!({"$ref": format!("{REFERENCE}{}", self.schema_name(kind))}),
        };
        let of = match door {
            "scale" => json!({"group": "autoscaling", "kind": "Scale", "version": "v1"}),
            _ => self.identity(&kind.kind),
        };
        let parameters: &[&str] = match action {
            "post" | "put" | "patch" => &["dryRun", "fieldManager", "fieldValidation"],
            "delete" => &["dryRun", "gracePeriodSeconds", "propagationPolicy"],
            "list" | "deletecollection" => {
                &["continue", "fieldSelector", "labelSelector", "limit", "resourceVersion"]
            }
            _ => &[],
        };
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|name| {
                let of = match *name {
                    "limit" | "gracePeriodSeconds" => "integer",
                    _ => "string",
                };
                json!({"name": name, "in": "query", "schema": {"type": of, "uniqueItems": true}})
            })
            .collect();
        let content = json!({"application/json": {"schema": schema}});
        let mut operation = json!({
            "description": format!("{action} {}", kind.resource),
            "parameters": parameters,
            "responses": {
                "200": {"description": "OK", "content": content},
                "401": {"description": "Unauthorized"},
            },
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": of,
        });
        if matches!(action, "post" | "put") {
            operation["requestBody"] = json!({"content": {"*/*": {"schema": schema}}});
        }
        operation
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

/// The fields that say what an object is, in the words of the real server.
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

/// Spells out what a structural schema says by an extension alone.
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

/// The schemas that a schema refers to.
fn references(schema: &str) -> impl Iterator<Item = &str> {
    schema.split(REFERENCE).skip(1).filter_map(|rest| rest.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::{SCHEMAS, references};

    #[test]
    fn every_schema_that_is_referred_to_is_there() {
        assert!(SCHEMAS.len() > 100);
        for schema in SCHEMAS.values() {
            for name in references(schema.get()) {
                assert!(SCHEMAS.contains_key(name), "{name}");
            }
        }
    }
}
