//! Definitions of kinds, and the paths of their objects.

use serde_json::Value;

/// Kinds of a management cluster of our provider, as CustomResourceDefinitions without header.
const OURS: &str = include_str!("definitions.yaml");

/// Kinds that an API server serves.
#[derive(Clone, Debug, Default)]
pub struct Definitions(pub Vec<Value>);

/// One object: the path of its collection, and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    collection: String,
    /// Name of the object.
    pub name: String,
    /// Resource in paths and in the names of operations, such as `machinesets`.
    pub resource: String,
}

impl ObjectRef {
    /// Returns the path of the object.
    pub fn path(&self) -> String {
        format!("{}/{}", self.collection, self.name)
    }

    /// Returns the path of the status of the object.
    pub fn status(&self) -> String {
        format!("{}/status", self.path())
    }

    /// Returns the path of the collection.
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// Returns the same object in another version of its group.
    #[must_use]
    pub fn in_version(&self, from: &str, to: &str) -> Self {
        let collection = self.collection.replacen(&format!("/{from}/"), &format!("/{to}/"), 1);
        Self { collection, ..self.clone() }
    }
}

impl Definitions {
    /// Returns the definitions of our provider's management cluster.
    ///
    /// # Panics
    /// Never, because the definitions are part of this program.
    pub fn ours() -> Self {
        let all: Vec<Value> = serde_saphyr::from_str(OURS).expect("the definitions are YAML");
        let header = |mut definition: Value| {
            definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
            definition["kind"] = "CustomResourceDefinition".into();
            definition
        };
        Self(all.into_iter().map(header).collect())
    }

    /// Returns the definition of a kind.
    pub fn of_kind(&self, group: &str, kind: &str) -> Option<&Value> {
        let is_meant =
            |it: &&Value| it["spec"]["group"] == group && it["spec"]["names"]["kind"] == kind;
        self.0.iter().find(is_meant)
    }

    /// True if a version of the object's kind has the subresource `status`.
    pub fn has_status(&self, object: &ObjectRef) -> bool {
        let is_meant = |it: &&Value| {
            let (group, plural) = (&it["spec"]["group"], &it["spec"]["names"]["plural"]);
            *plural == *object.resource
                && group
                    .as_str()
                    .is_some_and(|group| object.collection.starts_with(&format!("/apis/{group}/")))
        };
        let versions =
            self.0.iter().filter(is_meant).flat_map(|it| it["spec"]["versions"].as_array());
        versions.flatten().any(|it| it["subresources"]["status"].is_object())
    }

    /// Returns where an object of this content is, in this namespace if its kind has namespaces.
    pub fn object(&self, content: &Value, namespace: &str) -> ObjectRef {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let version = text(&content["apiVersion"]);
        let (kind, name) = (text(&content["kind"]), text(&content["metadata"]["name"]));
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let definition = self.of_kind(group, &kind);
        let resource = match definition {
            Some(definition) => text(&definition["spec"]["names"]["plural"]),
            None => plural(&kind),
        };
        let is_namespaced = match definition {
            Some(definition) => definition["spec"]["scope"] == "Namespaced",
            None => !["Namespace", "ClusterVirtualMachineImage"].contains(&kind.as_str()),
        };
        let root = if group.is_empty() { "/api" } else { "/apis" };
        let own = content["metadata"]["namespace"].as_str().unwrap_or(namespace);
        let collection = if is_namespaced {
            format!("{root}/{version}/namespaces/{own}/{resource}")
        } else {
            format!("{root}/{version}/{resource}")
        };
        ObjectRef { collection, name, resource }
    }
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if kind.ends_with('s') { format!("{kind}es") } else { format!("{kind}s") }
}
