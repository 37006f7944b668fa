//! Paths and operations of an OpenAPI document: the parts that kubectl and client generators read.

use serde_json::{Map, Value, json};

use super::document::{Document, Kind, META, REFERENCE};
use super::path_of;

impl Document {
    pub(super) fn paths(&self) -> Map<String, Value> {
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
