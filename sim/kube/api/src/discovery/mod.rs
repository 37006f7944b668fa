//! Discovery of versions, groups and resources. Plain and aggregated documents show the same rows.

mod rows;
pub(crate) mod served;

use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::answer::{self, Reply};
use crate::backend::Cluster;
use crate::request::Request;
use rows::{groups_of, rows};

/// Every version of every group: the groups by name, the core group first; of each group, the
/// preferred version first.
pub(crate) fn group_versions(cluster: &Cluster) -> Vec<(String, String)> {
    let rows = cluster.read(rows);
    let mut groups = groups_of(&rows);
    groups.sort();
    let each = |(group, versions): (String, Vec<String>)| {
        versions.into_iter().map(move |version| (group.clone(), version))
    };
    groups.into_iter().flat_map(each).collect()
}

/// Answers `/version`. Commit and build date are those of a Go build without that information.
pub(crate) fn version() -> Reply {
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

/// Answers `/`: the list of paths.
pub(crate) fn root(cluster: &Cluster) -> Reply {
    let rows = cluster.read(rows);
    let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into()];
    for (group, versions) in groups_of(&rows).into_iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    answer::json(StatusCode::OK, &json!({"paths": paths}))
}

/// Answers `/api`: the versions of the core group, or, if the client prefers it, the aggregated
/// document, which adds the resources of each version.
pub(crate) fn core(cluster: &Cluster, request: &Request) -> Reply {
    match request.aggregated_discovery() {
        Ok(Some(version)) => {
            return aggregated(cluster, request, version, |group| group.is_empty());
        }
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

/// Answers `/apis`: the groups with their versions, or, if the client prefers it, the aggregated
/// document, which adds the resources of each version. Both omit the core group.
pub(crate) fn groups(cluster: &Cluster, request: &Request) -> Reply {
    match request.aggregated_discovery() {
        Ok(Some(version)) => {
            return aggregated(cluster, request, version, |group| !group.is_empty());
        }
        Ok(None) => {}
        Err(status) => return answer::failure(&status),
    }
    let rows = cluster.read(rows);
    let groups: Vec<Value> = groups_of(&rows)
        .into_iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| Value::Object(described(&group, &versions)))
        .collect();
    let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
    answer::json(StatusCode::OK, &list)
}

/// Answers `/apis/<group>`: the versions of a group, or a 404 page for an unknown group.
pub(crate) fn group(cluster: &Cluster, name: &str) -> Reply {
    let rows = cluster.read(rows);
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

/// Answers `/api/v1` and `/apis/<group>/<version>`: the resources of a version; `None` if the
/// version has none.
pub(crate) fn group_version(cluster: &Cluster, group: &str, version: &str) -> Option<Reply> {
    let rows = cluster.read(rows);
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

fn aggregated(
    cluster: &Cluster,
    request: &Request,
    version: &str,
    is_wanted: impl Fn(&str) -> bool,
) -> Reply {
    let rows = cluster.read(rows);
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
    // Clients cache the document until this digest changes.
    let digest: String =
        Sha256::digest(list.to_string()).iter().map(|it| format!("{it:02X}")).collect();
    let tag = HeaderValue::from_str(&format!("\"{digest}\""));
    let mut reply = match &tag {
        // Unlike OpenAPI, discovery accepts neither a list of tags nor a weak tag.
        Ok(tag) if request.if_none_match.as_bytes() == tag.as_bytes() => answer::unchanged(tag),
        _ => answer::typed(StatusCode::OK, &content_type, &list),
    };
    let headers = reply.response.headers_mut();
    if let Ok(tag) = tag {
        headers.insert(header::ETAG, tag);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    reply
}
