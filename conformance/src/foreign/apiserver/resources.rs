//! What is mirrored, and where a Kubernetes API has it.

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde_json::Value;
use sim::world::objects::{GroupResource, Key};

use super::client::Client;

/// A resource that a case puts into its workload cluster, or a provider does.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resource {
    group: &'static str,
    plural: &'static str,
    is_namespaced: bool,
    /// Whether its status is written through a door of its own.
    pub(super) has_status: bool,
}

/// In an order in which nothing comes before what it needs. All are of version `v1`.
pub(super) const MIRRORED: [Resource; 7] = [
    Resource { group: "", plural: "namespaces", is_namespaced: false, has_status: true },
    Resource { group: "", plural: "serviceaccounts", is_namespaced: true, has_status: false },
    Resource { group: "", plural: "secrets", is_namespaced: true, has_status: false },
    Resource { group: "", plural: "configmaps", is_namespaced: true, has_status: false },
    Resource { group: "", plural: "nodes", is_namespaced: false, has_status: true },
    Resource {
        group: "coordination.k8s.io",
        plural: "leases",
        is_namespaced: true,
        has_status: false,
    },
    Resource { group: "", plural: "events", is_namespaced: true, has_status: false },
];

impl Resource {
    /// The one of this name, if it is mirrored.
    pub(super) fn of(id: &GroupResource) -> Option<&'static Self> {
        MIRRORED.iter().find(|it| it.group == id.group && it.plural == id.resource)
    }

    pub(super) fn id(&self) -> GroupResource {
        GroupResource::of(self.group, self.plural)
    }

    /// Where all its objects of a namespace are, or of all namespaces.
    pub(super) fn collection(&self, namespace: &str) -> String {
        let root = match self.group {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/v1"),
        };
        match namespace {
            "" => format!("{root}/{}", self.plural),
            namespace => format!("{root}/namespaces/{namespace}/{}", self.plural),
        }
    }

    /// Where an object is.
    pub(super) fn path(&self, key: &Key) -> String {
        format!("{}/{}", self.collection(&key.namespace), key.name)
    }

    /// Which object this is.
    pub(super) fn key(&self, object: &Value) -> Key {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        Key::new(self.id(), text("namespace"), text("name"))
    }
}

/// What a path is about: a resource, a namespace and a name, which are empty where the path has none.
pub(super) fn about(path: &str) -> Option<(&'static Resource, String, String)> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, rest) = match parts.as_slice() {
        ["api", "v1", rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return None,
    };
    let (namespace, plural, name) = match rest {
        ["namespaces", namespace, plural, rest @ ..]
            if !matches!(*plural, "status" | "finalize") =>
        {
            (*namespace, *plural, rest.first())
        }
        [plural, rest @ ..] => ("", *plural, rest.first()),
        [] => return None,
    };
    // The same objects under two names.
    let group = if (group, plural) == ("events.k8s.io", "events") { "" } else { group };
    let resource = MIRRORED.iter().find(|it| it.group == group && it.plural == plural)?;
    let name = name.copied().unwrap_or_default();
    Some((resource, namespace.to_owned(), name.to_owned()))
}

/// The paths of everything that is mirrored and there.
pub(super) async fn all(client: &Client) -> anyhow::Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for resource in &MIRRORED {
        for object in client.list(&resource.collection("")).await? {
            all.insert(resource.path(&resource.key(&object)));
        }
    }
    Ok(all)
}

/// Removes everything that is mirrored but what the server has by itself. Namespaces stay: nobody empties them here, and
/// an empty one is seen by nobody.
pub(super) async fn clear(client: &Client, own: &BTreeSet<String>) -> anyhow::Result<()> {
    for resource in MIRRORED.iter().filter(|it| it.plural != "namespaces").rev() {
        for mut object in client.list(&resource.collection("")).await? {
            let path = resource.path(&resource.key(&object));
            if own.contains(&path) {
                continue;
            }
            let metadata = object["metadata"].as_object_mut();
            if let Some(metadata) = metadata
                && metadata.remove("finalizers").is_some()
            {
                client.put(&path, &object).await.context("finalizers of a case that is over")?;
            }
            client.delete(&path, None).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_what_it_is_about() {
        for (path, want) in [
            ("/api/v1/nodes", Some(("nodes", "", ""))),
            ("/api/v1/nodes/node-1/status", Some(("nodes", "", "node-1"))),
            ("/api/v1/namespaces/default/events", Some(("events", "default", ""))),
            ("/apis/events.k8s.io/v1/namespaces/a/events/e", Some(("events", "a", "e"))),
            ("/apis/coordination.k8s.io/v1/namespaces/a/leases/l", Some(("leases", "a", "l"))),
            ("/api/v1/namespaces/a", Some(("namespaces", "", "a"))),
            ("/api/v1/namespaces/a/status", Some(("namespaces", "", "a"))),
            ("/api/v1/pods/p", None),
            ("/apis/events.k8s.io/v1", None),
            ("/version", None),
        ] {
            let found = about(path);
            let found =
                found.as_ref().map(|(it, of, name)| (it.plural, of.as_str(), name.as_str()));
            assert_eq!(found, want, "{path}");
        }
    }

    #[test]
    fn a_path_of_an_object_leads_back_to_it() {
        for key in [
            Key::node("node-1"),
            Key::new(GroupResource::of("coordination.k8s.io", "leases"), "kube-node-lease", "l"),
        ] {
            let resource = Resource::of(&key.resource).unwrap();
            let (found, namespace, name) = about(&resource.path(&key)).unwrap();
            assert_eq!(Key::new(found.id(), namespace, name), key);
        }
    }
}
