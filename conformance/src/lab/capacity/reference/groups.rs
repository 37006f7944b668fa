//! Templates for vCenter: annotations of the groups that use them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::templates::{path, text};
use super::{Flaw, Worker};

const TEMPLATES: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/vspheremachinetemplates";
const GROUPS: [&str; 2] = [
    "/apis/cluster.x-k8s.io/v1beta2/machinedeployments",
    "/apis/cluster.x-k8s.io/v1beta2/machinesets",
];
const MAX_SIZE: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
const CAPACITY: &str = "capacity.cluster-autoscaler.kubernetes.io/";
/// Annotation with the values that the reference has written, as JSON.
const WRITTEN: &str = "reference/written";
const KEYS: [&str; 3] = ["cpu", "memory", "ephemeral-disk"];

type Values = BTreeMap<String, String>;

impl Worker {
    /// Looks at all groups once.
    pub(super) async fn look_at_groups(&self) {
        let Ok(templates) = self.list(TEMPLATES).await else { return };
        for collection in GROUPS {
            let Ok(groups) = self.list(collection).await else { continue };
            for group in &groups {
                let owners = group["metadata"]["ownerReferences"].as_array();
                let is_owned = owners.is_some_and(|it| !it.is_empty());
                if is_owned && !self.has(Flaw::AnnotatesOwnedSets) {
                    continue;
                }
                let wanted = self.wanted(group, &templates);
                if let Some(patch) = self.annotations(group, &wanted) {
                    // The next look sees what is left to do.
                    let _ = self.api.patch(&path(collection, group), &patch).await;
                }
            }
        }
    }

    fn wanted(&self, group: &Value, templates: &[Value]) -> Values {
        let has_maximum = group["metadata"]["annotations"].get(MAX_SIZE).is_some();
        let name = &group["spec"]["template"]["spec"]["infrastructureRef"]["name"];
        let template = templates.iter().find(|it| it["metadata"]["name"] == *name);
        match template.filter(|_| has_maximum || self.has(Flaw::AnnotatesEveryGroup)) {
            Some(template) => self.of_clone(&template["spec"]["template"]["spec"]),
            None => Values::new(),
        }
    }

    /// Returns what a clone of the template gets.
    fn of_clone(&self, spec: &Value) -> Values {
        let number = |key: &str| spec[key].as_u64().unwrap_or_default();
        let least = if self.has(Flaw::KeepsSmallNumbers) { 1 } else { 2 };
        let memory = number("memoryMiB");
        let memory = if memory == 0 { 2048 } else { memory };
        let mut values = Values::from([
            ("cpu".to_owned(), number("numCPUs").max(least).to_string()),
            ("memory".to_owned(), format!("{memory}Mi")),
        ]);
        let is_full = spec["cloneMode"] == "fullClone" || self.has(Flaw::DiskOfLinkedClone);
        if number("diskGiB") > 0 && is_full {
            values.insert("ephemeral-disk".to_owned(), format!("{}Gi", number("diskGiB")));
        }
        values
    }

    /// Returns the patch of the annotations of a group; `None` if they are right.
    fn annotations(&self, group: &Value, wanted: &Values) -> Option<Value> {
        let current = &group["metadata"]["annotations"];
        let written: Values = serde_json::from_str(text(&current[WRITTEN])).unwrap_or_default();
        if wanted.is_empty() && self.has(Flaw::KeepsAnnotations) {
            return None;
        }
        let (mut patch, mut own) = (Map::new(), Values::new());
        for key in KEYS {
            let name = format!("{CAPACITY}{key}");
            let present = current[name.as_str()].as_str();
            let is_ours = present.is_none()
                || present == written.get(key).map(String::as_str)
                || self.has(Flaw::OverwritesUsers);
            if !is_ours {
                continue;
            }
            let value = wanted.get(key);
            if let Some(value) = value {
                own.insert(key.to_owned(), value.clone());
            }
            if present != value.map(String::as_str) {
                patch.insert(name, value.map_or(Value::Null, |it| it.as_str().into()));
            }
        }
        if own != written {
            let text = (!own.is_empty()).then(|| json!(own).to_string());
            patch.insert(WRITTEN.to_owned(), text.map_or(Value::Null, Value::String));
        }
        let version = &group["metadata"]["resourceVersion"];
        let metadata = json!({"resourceVersion": version, "annotations": patch});
        (!patch.is_empty()).then(|| json!({"metadata": metadata}))
    }
}
