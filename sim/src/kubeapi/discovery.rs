//! What there is: versions, groups, resources.

use std::collections::BTreeSet;

use http::StatusCode;
use serde_json::{Map, Value, json};
use sim_world::objects::{ResourceDef, compare_versions};

use super::{Request, answer};
use crate::{Reply, WorldHandle};

/// Resources that are answered and not kept: group, name, kind.
pub(super) const REVIEWS: [(&str, &str, &str); 3] = [
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
        for version in versions_of(world, &group) {
            paths.push(format!("/apis/{group}/{version}"));
        }
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
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
    let groups: Vec<Value> =
        names.iter().map(|name| Value::Object(described(world, name))).collect();
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
    group.extend(described(world, name));
    answer::json(StatusCode::OK, &group)
}

/// `/api/v1`, `/apis/<group>/<version>`.
pub(super) fn group_version(world: &WorldHandle, group: &str, version: &str) -> Reply {
    let mut resources = world.read(|world| {
        let is_ours = |def: &&ResourceDef| def.id.group == group && def.serves(version);
        let ours = world.cluster.resources().filter(is_ours);
        ours.flat_map(|def| plain(def, version)).collect::<Vec<_>>()
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

/// The names of all groups but the core one.
pub(super) fn group_names(world: &WorldHandle) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = world.read(|world| {
        world.cluster.resources().map(|def| def.id.group.clone().into_owned()).collect()
    });
    names.extend(REVIEWS.iter().map(|(group, ..)| (*group).to_owned()));
    names.remove("");
    names
}

/// The served versions of a group, preferred ones first.
pub(super) fn versions_of(world: &WorldHandle, group: &str) -> Vec<String> {
    let mut versions: Vec<String> = world.read(|world| {
        let ours = world.cluster.resources().filter(|def| def.id.group == group);
        ours.flat_map(|def| def.versions().into_iter().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    });
    if REVIEWS.iter().any(|(theirs, ..)| *theirs == group) {
        versions.push("v1".into());
    }
    versions.sort_by(|a, b| compare_versions(a, b));
    versions.dedup();
    versions
}

fn described(world: &WorldHandle, group: &str) -> Map<String, Value> {
    let version =
        |name: &String| json!({"groupVersion": format!("{group}/{name}"), "version": name});
    let versions: Vec<Value> = versions_of(world, group).iter().map(version).collect();
    let mut map = Map::new();
    map.insert("name".into(), group.into());
    map.insert("preferredVersion".into(), versions.first().cloned().unwrap_or_default());
    map.insert("versions".into(), versions.into());
    // The real server has the preferred one last.
    if let Some(preferred) = map.shift_remove("preferredVersion") {
        map.insert("preferredVersion".into(), preferred);
    }
    map
}

/// What can be done with objects; custom kinds say it in another order.
fn verbs(def: &ResourceDef) -> [&'static str; 8] {
    const CUSTOM: [&str; 8] =
        ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
    if def.custom.is_some() { CUSTOM } else { VERBS }
}

fn plain(def: &ResourceDef, version: &str) -> Vec<Value> {
    let mut resource = json!({
        "name": def.id.resource,
        "singularName": def.singular,
        "namespaced": def.namespaced,
        "kind": def.kind,
        "verbs": verbs(def),
    });
    name_aliases(def, &mut resource);
    let mut resources = vec![resource];
    if def.has_status(version) {
        resources.push(json!({
            "name": format!("{}/status", def.id.resource),
            "singularName": "",
            "namespaced": def.namespaced,
            "kind": def.kind,
            "verbs": STATUS_VERBS,
        }));
    }
    if def.scale(version).is_some() {
        resources.push(json!({
            "name": format!("{}/scale", def.id.resource),
            "singularName": "",
            "namespaced": def.namespaced,
            "group": "autoscaling",
            "version": "v1",
            "kind": "Scale",
            "verbs": STATUS_VERBS,
        }));
    }
    resources
}

fn name_aliases(def: &ResourceDef, resource: &mut Value) {
    let (short_names, categories) = (def.all_short_names(), def.all_categories());
    if !short_names.is_empty() {
        resource["shortNames"] = json!(short_names);
    }
    if !categories.is_empty() {
        resource["categories"] = json!(categories);
    }
}

fn aggregated(world: &WorldHandle, version: &str, groups: &[String]) -> Reply {
    let items: Vec<Value> = groups
        .iter()
        .map(|group| {
            let of = |version: &String| {
                let mut resources: Vec<Value> = world.read(|world| {
                    let is_ours =
                        |def: &&ResourceDef| def.id.group == group.as_str() && def.serves(version);
                    let ours = world.cluster.resources().filter(is_ours);
                    ours.map(|def| rich(def, version)).collect()
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
                json!({"version": version, "resources": resources, "freshness": "Current"})
            };
            let versions: Vec<Value> = versions_of(world, group).iter().map(of).collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
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

fn rich(def: &ResourceDef, version: &str) -> Value {
    let kind = json!({"group": def.id.group, "version": version, "kind": def.kind});
    let mut resource = json!({
        "resource": def.id.resource,
        "responseKind": kind,
        "scope": if def.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": def.singular,
        "verbs": verbs(def),
    });
    name_aliases(def, &mut resource);
    let mut doors = Vec::new();
    if def.has_status(version) {
        doors.push(json!({"subresource": "status", "responseKind": kind, "verbs": STATUS_VERBS}));
    }
    if def.scale(version).is_some() {
        let kind = json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
        doors.push(json!({"subresource": "scale", "responseKind": kind, "verbs": STATUS_VERBS}));
    }
    if !doors.is_empty() {
        resource["subresources"] = doors.into();
    }
    resource
}
