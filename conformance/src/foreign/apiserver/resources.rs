//! The resources that the mirror carries, and their paths in the Kubernetes API.

use std::collections::BTreeSet;

use anyhow::Context as _;
use serde_json::Value;
use sim::world::objects::{GroupResource, Key};

use super::client::Client;

/// A Kubernetes resource of the workload cluster whose objects the mirror carries.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resource {
    group: &'static str,
    plural: &'static str,
    is_namespaced: bool,
    /// True if the resource has a status subresource.
    pub(super) has_status: bool,
}

/// The mirrored resources. Each comes after the resources that its objects need. All have version
/// `v1`.
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
    /// Returns the mirrored resource with this ID, or `None` if the mirror does not carry it.
    pub(super) fn find(id: &GroupResource) -> Option<&'static Self> {
        MIRRORED.iter().find(|it| it.group == id.group && it.plural == id.resource)
    }

    pub(super) fn id(&self) -> GroupResource {
        GroupResource::of(self.group, self.plural)
    }

    /// Returns the path of the collection in a namespace, or in all namespaces if `namespace` is
    /// empty.
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

    /// Returns the path of an object.
    pub(super) fn path(&self, key: &Key) -> String {
        format!("{}/{}", self.collection(&key.namespace), key.name)
    }

    /// Returns the key of an object.
    pub(super) fn key(&self, object: &Value) -> Key {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        Key::new(self.id(), text("namespace"), text("name"))
    }
}

/// Returns the resource, namespace and name in a path, or `None` if the path is not that of a
/// mirrored resource. A namespace or name that the path lacks is empty.
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
    // The core group and `events.k8s.io` serve the same Event objects.
    let group = if (group, plural) == ("events.k8s.io", "events") { "" } else { group };
    let resource = MIRRORED.iter().find(|it| it.group == group && it.plural == plural)?;
    let name = name.copied().unwrap_or_default();
    Some((resource, namespace.to_owned(), name.to_owned()))
}

/// Returns the paths of all existing objects of mirrored resources.
pub(super) async fn all(client: &Client) -> anyhow::Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for resource in &MIRRORED {
        for object in client.list(&resource.collection("")).await? {
            all.insert(resource.path(&resource.key(&object)));
        }
    }
    Ok(all)
}

/// Removes all mirrored objects from the server except those with the paths in `own`, which the
/// server creates by itself. Namespaces stay: no controller manager runs that would complete their
/// deletion, and an empty namespace has no effect.
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
                client.put(&path, &object).await.with_context(|| {
                    format!(
                        "cannot remove the finalizers of {path} from the real API server, to \
                         delete the object"
                    )
                })?;
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
    fn a_path_is_parsed_into_resource_namespace_and_name() {
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
    fn the_path_of_an_object_is_parsed_into_its_key() {
        for key in [
            Key::node("node-1"),
            Key::new(GroupResource::of("coordination.k8s.io", "leases"), "kube-node-lease", "l"),
        ] {
            let resource = Resource::find(&key.resource).unwrap();
            let (found, namespace, name) = about(&resource.path(&key)).unwrap();
            assert_eq!(Key::new(found.id(), namespace, name), key);
        }
    }
}
