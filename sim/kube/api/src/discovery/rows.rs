//! Rows of discovery: one for each version of a resource, and one for each version of a
//! subresource. Each row gives an entry of plain and of aggregated discovery.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube_sim_store::{GroupResource, ResourceDef, Store, compare_versions};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::request::route::Review;

/// Order in which the real server lists its built-in groups. Other groups follow by name.
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

/// Verbs of built-in resources, except reviews; namespaces lack `deletecollection`.
const VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Verbs of custom resources: those of built-in resources in another order.
const CUSTOM_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Verbs of the subresources `status` and `scale`.
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

const SCALE: &str = "scale";

/// A version of a resource or subresource, with the data of plain and aggregated discovery.
pub(super) struct Row {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) name: String,
    /// Name of the subresource, such as `status`; empty for the resource itself.
    pub(super) subresource: &'static str,
    singular: String,
    namespaced: bool,
    kind: String,
    verbs: Vec<&'static str>,
    short_names: Vec<String>,
    categories: Vec<String>,
    is_custom: bool,
    /// Version in which the server stores the objects; `None` for reviews, which it does not store.
    stored: Option<String>,
}

/// Every row, sorted by the name of the resource. The row of a resource stands before the rows of
/// its subresources in the same version.
pub(super) fn rows(store: &Store) -> Vec<Row> {
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
        // The collection of namespaces cannot be deleted.
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
    if def.id == GroupResource::core("pods") {
        rows.extend(POSTED.map(|(part, _, _, _)| row(part, &["create"])));
    }
    if !is_custom {
        rows.sort_by_key(|row| row.subresource);
    }
    rows
}

/// Parts of a pod that a client can only create: name, group, version and kind.
const POSTED: [(&str, &str, &str, &str); 2] =
    [("binding", "", "", "Binding"), ("eviction", "policy", "v1", "Eviction")];

/// Group, version and kind of the body of a subresource that has another kind than its resource;
/// group and version are empty if they are those of the resource.
fn part_type(part: &str) -> Option<(&'static str, &'static str, &'static str)> {
    if part == SCALE {
        return Some(("autoscaling", "v1", "Scale"));
    }
    let found = POSTED.iter().find(|(name, ..)| *name == part);
    found.map(|(_, group, version, kind)| (*group, *version, *kind))
}

/// The groups of the rows, each with its versions, the preferred version first. The groups are in
/// the order of [`GROUPS`]; all other groups, also the core group, follow by name.
pub(super) fn groups_of(rows: &[Row]) -> Vec<(String, Vec<String>)> {
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

impl Row {
    /// An entry of `APIResourceList`.
    pub(super) fn plain(&self) -> Map<String, Value> {
        let mut entry = Map::new();
        let (name, singular) = match self.subresource {
            "" => (self.name.clone(), self.singular.as_str()),
            subresource => (format!("{}/{subresource}", self.name), ""),
        };
        entry.insert("name".into(), name.into());
        entry.insert("singularName".into(), singular.into());
        entry.insert("namespaced".into(), self.namespaced.into());
        let (group, version, kind) =
            part_type(self.subresource).unwrap_or(("", "", self.kind.as_str()));
        if !group.is_empty() {
            entry.insert("group".into(), group.into());
            entry.insert("version".into(), version.into());
        }
        entry.insert("kind".into(), kind.into());
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

    /// Hash of group, stored version (`version`) and kind. It changes if the server stores the
    /// objects in another version, so that clients notice.
    ///
    /// After `apiserver: pkg/endpoints/discovery/storageversionhash.go`.
    fn storage_hash(&self, version: &str) -> String {
        let Self { group, kind, .. } = self;
        let digest = Sha256::digest(format!("{group}/{version}/{kind}"));
        STANDARD.encode(digest.get(..8).unwrap_or_default())
    }

    /// Group, version and kind of the objects in answers. Group and version are empty for a
    /// built-in resource and its subresources, except `scale`.
    fn response_kind(&self) -> Value {
        let (group, version, kind) = match (part_type(self.subresource), self.is_custom) {
            (Some(other), _) => other,
            (_, true) => (self.group.as_str(), self.version.as_str(), self.kind.as_str()),
            (_, false) => ("", "", self.kind.as_str()),
        };
        json!({"group": group, "version": version, "kind": kind})
    }

    /// An entry of aggregated discovery. `rows` contains the subresources that the entry lists.
    pub(super) fn rich(&self, rows: &[Row]) -> Value {
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
