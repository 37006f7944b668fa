//! What there is: versions, groups, resources. Plain and aggregated documents come from one registry.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use sim_world::objects::{GroupResource, ResourceDef, Store, compare_versions};

use super::route::Review;
use super::{Request, answer};
use crate::{Reply, WorldHandle};

/// The order in which the real server tells its own groups; others follow by name.
const GROUPS: [&str; 20] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Custom resources have the same in another order.
const CUSTOM_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// What can be done with a part of an object.
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

const SCALE: &str = "scale";

/// One resource, or a part of one, as both kinds of documents tell it.
struct Row {
    group: String,
    version: String,
    name: String,
    /// `status`, `scale`; empty for the resource itself.
    subresource: &'static str,
    singular: String,
    namespaced: bool,
    kind: String,
    verbs: Vec<&'static str>,
    short_names: Vec<String>,
    categories: Vec<String>,
    is_custom: bool,
    /// The version in which its objects are kept, if they are kept.
    stored: Option<String>,
}

/// Every row, resources by name, their parts after them.
fn rows(store: &Store) -> Vec<Row> {
    let mut rows: Vec<Row> = store
        .resources()
        .flat_map(|def| def.versions().into_iter().flat_map(|version| rows_of(def, version)))
        .collect();
    rows.extend(Review::ALL.iter().map(|review| Row {
        group: review.group().into(),
        version: "v1".into(),
        name: review.resource().into(),
        subresource: "",
        singular: review.kind().to_ascii_lowercase(),
        namespaced: *review == Review::LocalSubjectAccess,
        kind: review.kind().into(),
        verbs: vec!["create"],
        short_names: Vec::new(),
        categories: Vec::new(),
        is_custom: false,
        stored: None,
    }));
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

fn rows_of(def: &ResourceDef, version: &str) -> Vec<Row> {
    let is_custom = def.custom.is_some();
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    let row = |subresource, verbs: &[&'static str]| Row {
        group: def.id.group.clone().into_owned(),
        version: version.to_owned(),
        name: def.id.resource.clone().into_owned(),
        subresource,
        singular: def.singular.clone().into_owned(),
        namespaced: def.namespaced,
        kind: def.kind.clone().into_owned(),
        verbs: verbs.to_vec(),
        short_names: owned(def.all_short_names()),
        categories: owned(def.all_categories()),
        is_custom,
        stored: Some(def.version.clone().into_owned()),
    };
    let mut whole = row("", if is_custom { &CUSTOM_VERBS } else { &VERBS });
    let is_namespaces = def.id == GroupResource::core("namespaces");
    if is_namespaces {
        // Nobody deletes all namespaces at once.
        whole.verbs.retain(|verb| *verb != "deletecollection");
    }
    let mut rows = vec![whole];
    if is_namespaces {
        rows.push(row("finalize", &["update"]));
    }
    if def.has_status(version) {
        rows.push(row("status", &PART_VERBS));
    }
    if def.scale(version).is_some() {
        rows.push(row(SCALE, &PART_VERBS));
    }
    rows
}

/// Groups and their versions, best first.
fn groups_of(rows: &[Row]) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for row in rows {
        let at = match groups.iter().position(|(group, _)| *group == row.group) {
            Some(at) => at,
            None => {
                groups.push((row.group.clone(), Vec::new()));
                groups.len() - 1
            }
        };
        if let Some((_, versions)) = groups.get_mut(at)
            && !versions.contains(&row.version)
        {
            versions.push(row.version.clone());
        }
    }
    let place = |group: &str| GROUPS.iter().position(|it| *it == group).unwrap_or(GROUPS.len());
    groups.sort_by(|(a, _), (b, _)| (place(a), a).cmp(&(place(b), b)));
    for (_, versions) in &mut groups {
        versions.sort_by(|a, b| compare_versions(a, b));
    }
    groups
}

/// Every group and version, the core one first, then by name.
pub(super) fn group_versions(world: &WorldHandle) -> Vec<(String, String)> {
    let rows = world.read(|world| rows(&world.cluster));
    let mut groups = groups_of(&rows);
    groups.sort();
    let each = |(group, versions): (String, Vec<String>)| {
        versions.into_iter().map(move |version| (group.clone(), version))
    };
    groups.into_iter().flat_map(each).collect()
}

/// `/version`. Commit and date are those of a build that has none.
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
    let rows = world.read(|world| rows(&world.cluster));
    let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into()];
    for (group, versions) in groups_of(&rows).into_iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    answer::json(StatusCode::OK, &json!({"paths": paths}))
}

/// `/api`.
pub(super) fn core(world: &WorldHandle, request: &Request) -> Reply {
    match request.aggregated_discovery() {
        Ok(Some(version)) => return aggregated(world, version, |group| group.is_empty()),
        Ok(None) => {}
        Err(status) => return answer::failure(&status),
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
    match request.aggregated_discovery() {
        Ok(Some(version)) => return aggregated(world, version, |group| !group.is_empty()),
        Ok(None) => {}
        Err(status) => return answer::failure(&status),
    }
    let rows = world.read(|world| rows(&world.cluster));
    let groups: Vec<Value> = groups_of(&rows)
        .into_iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| Value::Object(described(&group, &versions)))
        .collect();
    let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    answer::json(StatusCode::OK, &list)
}

/// `/apis/<group>`.
pub(super) fn group(world: &WorldHandle, name: &str) -> Reply {
    let rows = world.read(|world| rows(&world.cluster));
    let Some((_, versions)) =
        groups_of(&rows).into_iter().find(|(group, _)| group == name && !name.is_empty())
    else {
        return answer::page_not_found();
    };
    let mut group = Map::new();
    group.insert("kind".into(), "APIGroup".into());
    group.insert("apiVersion".into(), "v1".into());
    group.extend(described(name, &versions));
    answer::json(StatusCode::OK, &group)
}

/// `/api/v1`, `/apis/<group>/<version>`; none if nothing is served there.
pub(super) fn group_version(world: &WorldHandle, group: &str, version: &str) -> Option<Reply> {
    let rows = world.read(|world| rows(&world.cluster));
    let resources: Vec<Value> = rows
        .iter()
        .filter(|row| row.group == group && row.version == version)
        .map(|row| Value::Object(row.plain()))
        .collect();
    if resources.is_empty() {
        return None;
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
    Some(answer::json(StatusCode::OK, &list))
}

fn described(group: &str, versions: &[String]) -> Map<String, Value> {
    let version = |version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let mut map = Map::new();
    map.insert("name".into(), group.into());
    map.insert("versions".into(), versions.iter().map(version).collect());
    map.insert("preferredVersion".into(), versions.first().map(version).unwrap_or_default());
    map
}

impl Row {
    /// An entry of `APIResourceList`.
    fn plain(&self) -> Map<String, Value> {
        let mut entry = Map::new();
        let (name, singular) = match self.subresource {
            "" => (self.name.clone(), self.singular.as_str()),
            subresource => (format!("{}/{subresource}", self.name), ""),
        };
        entry.insert("name".into(), name.into());
        entry.insert("singularName".into(), singular.into());
        entry.insert("namespaced".into(), self.namespaced.into());
        if self.subresource == SCALE {
            entry.insert("group".into(), "autoscaling".into());
            entry.insert("version".into(), "v1".into());
            entry.insert("kind".into(), "Scale".into());
        } else {
            entry.insert("kind".into(), self.kind.as_str().into());
        }
        entry.insert("verbs".into(), json!(self.verbs));
        if self.subresource.is_empty() {
            self.add_names(&mut entry);
            if let Some(stored) = &self.stored {
                entry.insert("storageVersionHash".into(), self.storage_hash(stored).into());
            }
        }
        entry
    }

    fn add_names(&self, entry: &mut Map<String, Value>) {
        if !self.short_names.is_empty() {
            entry.insert("shortNames".into(), json!(self.short_names));
        }
        if !self.categories.is_empty() {
            entry.insert("categories".into(), json!(self.categories));
        }
    }

    /// After `apiserver: pkg/endpoints/discovery/storageversionhash.go`.
    fn storage_hash(&self, version: &str) -> String {
        let Self { group, kind, .. } = self;
        let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
        STANDARD.encode(digest.get(..8).unwrap_or_default())
    }

    /// What the answer is; built-in resources leave out that it is of their own group.
    fn response_kind(&self) -> Value {
        let (group, version, kind) = match (self.subresource, self.is_custom) {
            (SCALE, _) => ("autoscaling", "v1", "Scale"),
            (_, true) => (self.group.as_str(), self.version.as_str(), self.kind.as_str()),
            (_, false) => ("", "", self.kind.as_str()),
        };
        json!({"group": group, "version": version, "kind": kind})
    }

    /// An entry of aggregated discovery, with its parts.
    fn rich(&self, rows: &[Row]) -> Value {
        let mut entry = Map::new();
        let scope = if self.namespaced { "Namespaced" } else { "Cluster" };
        entry.insert("resource".into(), self.name.as_str().into());
        entry.insert("responseKind".into(), self.response_kind());
        entry.insert("scope".into(), scope.into());
        entry.insert("singularResource".into(), self.singular.as_str().into());
        entry.insert("verbs".into(), json!(self.verbs));
        self.add_names(&mut entry);
        let is_part = |it: &&Row| {
            !it.subresource.is_empty()
                && (&it.group, &it.version, &it.name) == (&self.group, &self.version, &self.name)
        };
        let parts: Vec<Value> = rows
            .iter()
            .filter(is_part)
            .map(|it| {
                json!({
                    "subresource": it.subresource,
                    "responseKind": it.response_kind(),
                    "verbs": it.verbs,
                })
            })
            .collect();
        if !parts.is_empty() {
            entry.insert("subresources".into(), parts.into());
        }
        entry.into()
    }
}

fn aggregated(world: &WorldHandle, version: &str, is_wanted: impl Fn(&str) -> bool) -> Reply {
    let rows = world.read(|world| rows(&world.cluster));
    let resources = |group: &str, version: &str| -> Vec<Value> {
        rows.iter()
            .filter(|it| it.group == group && it.version == version && it.subresource.is_empty())
            .map(|it| it.rich(&rows))
            .collect()
    };
    let items: Vec<Value> = groups_of(&rows)
        .iter()
        .filter(|(group, _)| is_wanted(group))
        .map(|(group, versions)| {
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    json!({
                        "version": version,
                        "resources": resources(group, version),
                        "freshness": "Current",
                    })
                })
                .collect();
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
    let mut reply = answer::typed(StatusCode::OK, &content_type, &list);
    // Clients keep the document for as long as its digest is the same.
    let digest: String =
        Sha256::digest(list.to_string()).iter().map(|it| format!("{it:02X}")).collect();
    let headers = reply.response.headers_mut();
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{digest}\"")) {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    reply
}
