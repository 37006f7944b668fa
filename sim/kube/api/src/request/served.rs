//! Table of the resources and subresources that kube-apiserver 1.36.3 serves, by group and version,
//! from its discovery.
//!
//! The table distinguishes a resource that only this server lacks from one that the real server
//! does not have either.

use std::collections::BTreeMap;
use std::sync::LazyLock;

type Resources = BTreeMap<&'static str, Vec<&'static str>>;

/// Resources with their subresources, by group and version, such as `v1` or `apps/v1`. Read from
/// the file once, at the first use.
static SERVED: LazyLock<BTreeMap<&'static str, Resources>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("served.json")).expect("served.json is readable")
});

/// Documents of the real server outside its groups and resources that this server does not
/// implement: the path without the leading slash, and the name of the document.
///
/// The list omits `/logs` and `/debug` itself, which a real server serves only if it is configured
/// to. [`other`] adds `/debug/pprof`.
const OTHERS: [(&str, &str); 8] = [
    ("openapi/v2", "OpenAPI v2"),
    ("metrics", "metrics"),
    ("metrics/slis", "metrics"),
    ("flagz", "flagz"),
    ("statusz", "statusz"),
    (".well-known/openid-configuration", "OpenID discovery"),
    ("openid/v1/jwks", "OpenID keys"),
    ("debug/flags/v", "debug/flags"),
];

/// True if the real server has this resource.
pub(crate) fn has_resource(group: &str, version: &str, resource: &str) -> bool {
    parts(group, version, resource).is_some()
}

/// True if the real server has this subresource, such as `log` of `pods`.
pub(crate) fn has_part(group: &str, version: &str, resource: &str, part: &str) -> bool {
    parts(group, version, resource).is_some_and(|parts| parts.contains(&part))
}

/// True if the real server has this named group in any version; false for the core group.
pub(crate) fn has_group(group: &str) -> bool {
    SERVED.keys().any(|it| it.split_once('/').is_some_and(|(name, _)| name == group))
}

/// Name of a document that the real server serves at `path` and this server does not implement,
/// such as `metrics`; `None` for any other path, and for resources. `path` has no leading slash.
pub(crate) fn other(path: &str) -> Option<&'static str> {
    // All profiles are pages below `debug/pprof`.
    if path == "debug/pprof" || path.starts_with("debug/pprof/") {
        return Some("debug/pprof");
    }
    OTHERS.iter().find(|(served, _)| *served == path).map(|(_, what)| *what)
}

fn parts(group: &str, version: &str, resource: &str) -> Option<&'static Vec<&'static str>> {
    let resources = match group {
        "" => SERVED.get(version),
        group => SERVED.get(format!("{group}/{version}").as_str()),
    };
    resources?.get(resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_served_table_lists_the_resources_of_a_real_server() {
        assert_eq!(SERVED.len(), 22);
        assert_eq!(SERVED.values().map(BTreeMap::len).sum::<usize>(), 68);
        for (group, version, resource, part, want) in [
            ("", "v1", "pods", "log", true),
            ("", "v1", "pods", "scale", false),
            ("apps", "v1", "deployments", "scale", true),
            ("apps", "v2", "deployments", "scale", false),
            ("apps", "v1", "pods", "log", false),
            ("example.com", "v1", "widgets", "status", false),
        ] {
            assert_eq!(has_part(group, version, resource, part), want, "{group} {resource}/{part}");
        }
        assert!(has_group("apps") && !has_group("v1") && !has_group("example.com"));
    }
}
