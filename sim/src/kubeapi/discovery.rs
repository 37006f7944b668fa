//! What there is: versions, groups, resources.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Map, Value, json};
use sim_world::objects::ResourceDef;

use super::{Request, answer};
use crate::{Reply, WorldHandle};

/// Resources that are answered and not kept: group, name, kind.
const REVIEWS: [(&str, &str, &str); 3] = [
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
];

const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// `/version`. Pretty, as the real one; commit and date are those of a build that has none.
pub(super) fn version() -> Reply {
    let info = json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": "v1.36.3",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "gc",
        "platform": "linux/amd64",
    });
    let text = serde_json::to_string_pretty(&info).unwrap_or_default();
    Reply::new(StatusCode::OK, answer::JSON, text)
}

/// `/`.
pub(super) fn root(world: &WorldHandle) -> Reply {
    let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into()];
    for group in group_names(world) {
        paths.push(format!("/apis/{group}"));
        paths.push(format!("/apis/{group}/v1"));
    }
    paths.extend(["/healthz", "/livez", "/readyz", "/version"].map(str::to_owned));
    answer::json(StatusCode::OK, &json!({"paths": paths}))
}

/// `/api`.
pub(super) fn core(world: &WorldHandle, request: &Request) -> Reply {
    if let Some(version) = request.aggregated_discovery() {
        return aggregated(world, version, &[String::new()]);
    }
    answer::json(
        StatusCode::OK,
        &json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [
                {"clientCIDR": "0.0.0.0/0", "serverAddress": "10.96.0.1:443"},
            ],
        }),
    )
}

/// `/apis`.
pub(super) fn groups(world: &WorldHandle, request: &Request) -> Reply {
    let names: Vec<String> = group_names(world).into_iter().collect();
    if let Some(version) = request.aggregated_discovery() {
        return aggregated(world, version, &names);
    }
    let groups: Vec<Value> = names.iter().map(|name| Value::Object(described(name))).collect();
    let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    answer::json(StatusCode::OK, &list)
}

/// `/apis/<group>`.
pub(super) fn group(world: &WorldHandle, name: &str) -> Reply {
    if !group_names(world).contains(name) {
        return answer::page_not_found();
    }
    let mut group = Map::new();
    group.insert("kind".into(), "APIGroup".into());
    group.insert("apiVersion".into(), "v1".into());
    group.extend(described(name));
    answer::json(StatusCode::OK, &group)
}

/// `/api/v1`, `/apis/<group>/<version>`.
pub(super) fn group_version(world: &WorldHandle, group: &str, version: &str) -> Reply {
    let mut resources = world.read(|world| {
        let is_ours = |def: &&ResourceDef| def.id.group == group && def.version == version;
        world.cluster.resources().filter(is_ours).flat_map(plain).collect::<Vec<_>>()
    });
    if version == "v1" {
        for (_, name, kind) in REVIEWS.iter().filter(|(theirs, ..)| *theirs == group) {
            resources.push(json!({
                "name": name, "singularName": kind.to_ascii_lowercase(), "namespaced": false,
                "kind": kind, "verbs": ["create"],
            }));
        }
    }
    if resources.is_empty() {
        return answer::page_not_found();
    }
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = Map::new();
    list.insert("kind".into(), "APIResourceList".into());
    if !group.is_empty() {
        list.insert("apiVersion".into(), "v1".into());
    }
    list.insert("groupVersion".into(), group_version.into());
    list.insert("resources".into(), resources.into());
    answer::json(StatusCode::OK, &list)
}

fn group_names(world: &WorldHandle) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = world.read(|world| {
        world.cluster.resources().map(|def| def.id.group.clone().into_owned()).collect()
    });
    names.extend(REVIEWS.iter().map(|(group, ..)| (*group).to_owned()));
    names.remove("");
    names
}

fn described(group: &str) -> Map<String, Value> {
    let version = json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
    let mut map = Map::new();
    map.insert("name".into(), group.into());
    map.insert("versions".into(), json!([version]));
    map.insert("preferredVersion".into(), version);
    map
}

fn plain(def: &ResourceDef) -> Vec<Value> {
    let mut resource = json!({
        "name": def.id.resource,
        "singularName": def.singular,
        "namespaced": def.namespaced,
        "kind": def.kind,
        "verbs": VERBS,
    });
    if !def.short_names.is_empty() {
        resource["shortNames"] = json!(def.short_names);
    }
    if !def.categories.is_empty() {
        resource["categories"] = json!(def.categories);
    }
    let mut resources = vec![resource];
    if def.status {
        resources.push(json!({
            "name": format!("{}/status", def.id.resource),
            "singularName": "",
            "namespaced": def.namespaced,
            "kind": def.kind,
            "verbs": STATUS_VERBS,
        }));
    }
    resources
}

fn aggregated(world: &WorldHandle, version: &str, groups: &[String]) -> Reply {
    let items: Vec<Value> = groups
        .iter()
        .map(|group| {
            let mut resources: Vec<Value> = world.read(|world| {
                let is_ours = |def: &&ResourceDef| def.id.group == group.as_str();
                world.cluster.resources().filter(is_ours).map(rich).collect()
            });
            for (_, name, kind) in REVIEWS.iter().filter(|(theirs, ..)| theirs == group) {
                resources.push(json!({
                    "resource": name,
                    "responseKind": {"group": group, "version": "v1", "kind": kind},
                    "scope": "Cluster",
                    "singularResource": kind.to_ascii_lowercase(),
                    "verbs": ["create"],
                }));
            }
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({
                "metadata": metadata,
                "versions": [{"version": "v1", "resources": resources, "freshness": "Current"}],
            })
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    });
    let content_type =
        format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    answer::typed(StatusCode::OK, &content_type, &list)
}

fn rich(def: &ResourceDef) -> Value {
    let kind = json!({"group": def.id.group, "version": def.version, "kind": def.kind});
    let mut resource = json!({
        "resource": def.id.resource,
        "responseKind": kind,
        "scope": if def.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": def.singular,
        "verbs": VERBS,
    });
    if !def.short_names.is_empty() {
        resource["shortNames"] = json!(def.short_names);
    }
    if !def.categories.is_empty() {
        resource["categories"] = json!(def.categories);
    }
    if def.status {
        resource["subresources"] =
            json!([{"subresource": "status", "responseKind": kind, "verbs": STATUS_VERBS}]);
    }
    resource
}
