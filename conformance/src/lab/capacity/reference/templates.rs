//! The status of templates: which ones are written, and how.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Flaw, Worker};
use crate::lab::autoscaler::Quantity;
use crate::lab::capacity::api::{ApiError, merge};
use crate::lab::capacity::subject::Configuration;

const PAUSED: &str = "cluster.x-k8s.io/paused";

/// Values that a status must have, by key. `None` removes a key.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) capacity: BTreeMap<String, Option<String>>,
    pub(super) node_info: BTreeMap<String, Option<String>>,
}

/// Objects that templates name, as one look has read them.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// Classes or flavors.
    pub(super) sizes: Vec<Value>,
    /// Images; `None` if they could not be read.
    pub(super) images: Option<Vec<Value>>,
}

/// Returns a text of an object.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the name of an object with its namespace.
pub(super) fn name(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]))
}

/// True if the object has the annotation that pauses controllers.
pub(super) fn is_paused(object: &Value) -> bool {
    object["metadata"]["annotations"].get(PAUSED).is_some()
}

impl Worker {
    /// Returns the objects of a list; none if it cannot be read.
    pub(super) async fn list(&self, path: &str) -> Result<Vec<Value>, ApiError> {
        let mut list = self.api.get(path).await?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }

    /// Looks at all templates once.
    pub(super) async fn look_at_templates(&mut self) {
        let (path, inputs) = match self.example {
            Some(example) => (example.templates(), example.inputs(self).await),
            None => (super::vsphere::TEMPLATES.to_owned(), self.vsphere_inputs().await),
        };
        let (Ok(templates), Some(inputs)) = (self.list(&path).await, inputs) else { return };
        let names = || templates.iter().map(name).collect();
        let early = self.seen.early.get_or_insert_with(names).clone();
        for template in &templates {
            let id = name(template);
            let is_new = !early.contains(&id) && self.has(Flaw::OnlyEarlyTemplates);
            if is_new || !self.is_selected(template, &id) {
                continue;
            }
            let wanted = match self.example {
                Some(example) => example.wanted(template, &inputs),
                None => self.vsphere_wanted(template, &inputs),
            };
            match wanted {
                Some(wanted) => self.write(&path, template, wanted).await,
                None => {
                    self.seen.is_hot |= self.has(Flaw::HotLoop);
                    self.seen.waiting.insert(id);
                }
            }
        }
    }

    /// True if the template is one that the reconciler writes.
    fn is_selected(&mut self, template: &Value, id: &str) -> bool {
        if is_paused(template) && !self.has(Flaw::IgnoresPause) {
            self.seen.paused.insert(id.to_owned());
            return false;
        }
        let label = &template["metadata"]["labels"]["cluster.x-k8s.io/watch-filter"];
        let is_filtered = match &self.configuration {
            Configuration::WatchFilter(value) => label != value && !self.has(Flaw::IgnoresFilter),
            _ => false,
        };
        let is_forgotten = (self.has(Flaw::ForgetsPaused) && self.seen.paused.contains(id))
            || (self.has(Flaw::ForgetsMissingClass) && self.seen.waiting.contains(id))
            || (self.has(Flaw::GivesUpAfterConflict) && self.seen.refused.contains(id))
            || (self.has(Flaw::NeverUpdates) && self.seen.written.contains(id));
        !is_filtered && !is_forgotten
    }

    /// Writes what differs from the wanted values.
    async fn write(&mut self, collection: &str, template: &Value, mut wanted: Wanted) {
        let id = name(template);
        if self.has(Flaw::NodeInfoOnce) && self.seen.informed.contains(&id) {
            wanted.node_info.clear();
        }
        let status = &template["status"];
        let mut patch = Map::new();
        let is_same = if self.has(Flaw::ComparesText) { is_same_text } else { is_same_amount };
        let capacity = differences(&status["capacity"], &wanted.capacity, is_same);
        let node_info = differences(&status["nodeInfo"], &wanted.node_info, is_same_text);
        patch.extend(capacity.map(|it| ("capacity".to_owned(), it)));
        patch.extend(node_info.map(|it| ("nodeInfo".to_owned(), it)));
        self.add_empty_parts(&mut patch, status, &wanted);
        if patch.is_empty() && !self.has(Flaw::RepeatsWrites) {
            return;
        }
        let is_update = status["capacity"].is_object();
        if self.has(Flaw::UpdatesOne) && is_update && !self.seen.written.is_empty() {
            return;
        }
        if is_update {
            self.seen.written.insert(id.clone());
        }
        if self.has(Flaw::NeverUpdates) {
            self.seen.written.insert(id.clone());
        }
        self.seen.informed.insert(id.clone());
        let path = path(collection, template);
        if self.has(Flaw::AnnotatesTemplates) {
            let note = json!({"metadata": {"annotations": {"written-by": "reference"}}});
            let _ = self.api.patch(&path, &note).await;
        }
        self.send(&path, template, patch.into(), &id).await;
    }

    fn add_empty_parts(&self, patch: &mut Map<String, Value>, status: &Value, wanted: &Wanted) {
        let is_absent = |key: &str, patch: &Map<String, Value>| {
            status.get(key).is_none() && patch.get(key).is_none()
        };
        let has_flaw = self.has(Flaw::EmptyCapacity) && wanted.capacity.is_empty();
        if has_flaw && is_absent("capacity", patch) {
            patch.insert("capacity".to_owned(), json!({}));
        }
        let has_flaw = self.has(Flaw::EmptyNodeInfo) && wanted.node_info.is_empty();
        if has_flaw && is_absent("nodeInfo", patch) {
            patch.insert("nodeInfo".to_owned(), json!({}));
        }
        if self.has(Flaw::WritesNumbers)
            && let Some(cpu) = patch.get_mut("capacity").and_then(|it| it.get_mut("cpu"))
            && let Ok(number) = text(cpu).parse::<u32>()
            && number > 8
        {
            *cpu = number.into();
        }
    }

    /// Sends a patch of the status, for the version of the template that was read.
    async fn send(&mut self, path: &str, template: &Value, patch: Value, id: &str) {
        let path = format!("{path}/status");
        let version = &template["metadata"]["resourceVersion"];
        let sent = if self.has(Flaw::ReplacesStatus) {
            let mut object = template.clone();
            let known = ["capacity", "nodeInfo"].map(|key| (key, template["status"][key].clone()));
            let known = known.into_iter().filter(|(_, value)| !value.is_null());
            object["status"] =
                known.map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>().into();
            merge(&mut object["status"], &patch);
            self.api.replace(&path, &object).await
        } else {
            let patch = json!({"metadata": {"resourceVersion": version}, "status": patch});
            self.api.patch(&path, &patch).await
        };
        match sent {
            Err(err) if err.is_conflict() => self.answer_conflict(&path, template, patch, id).await,
            Err(err) if err.is_not_found() && self.has(Flaw::RepeatsAfterDeletion) => {
                for _ in 0..20 {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    let _ = self.api.patch(&path, &json!({"status": patch})).await;
                }
            }
            // The next look sees what is left to do.
            _ => {}
        }
    }

    async fn answer_conflict(&mut self, path: &str, template: &Value, patch: Value, id: &str) {
        self.seen.refused.insert(id.to_owned());
        if !self.has(Flaw::OverwritesAfterConflict) {
            return;
        }
        let Ok(current) = self.api.get(path.trim_end_matches("/status")).await else { return };
        let mut object = template.clone();
        object["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
        merge(&mut object["status"], &patch);
        let _ = self.api.replace(path, &object).await;
    }
}

/// Returns the path of an object of a collection of all namespaces.
pub(super) fn path(collection: &str, object: &Value) -> String {
    let (root, resource) = collection.rsplit_once('/').unwrap_or(("", collection));
    let metadata = &object["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    format!("{root}/namespaces/{namespace}/{resource}/{name}")
}

/// Returns the merge patch that gives an object the wanted values; `None` if it has them.
fn differences(
    current: &Value,
    wanted: &BTreeMap<String, Option<String>>,
    is_same: fn(&str, &str) -> bool,
) -> Option<Value> {
    let mut patch = Map::new();
    for (key, value) in wanted {
        match (value, current.get(key)) {
            (Some(value), Some(Value::String(old))) if is_same(old, value) => {}
            (None, None) => {}
            (value, _) => {
                patch.insert(key.clone(), value.clone().map_or(Value::Null, Value::String));
            }
        }
    }
    (!patch.is_empty()).then(|| patch.into())
}

fn is_same_amount(one: &str, other: &str) -> bool {
    let amount = |text: &str| Quantity { text: text.to_owned() }.amount();
    amount(one).is_some() && amount(one) == amount(other)
}

fn is_same_text(one: &str, other: &str) -> bool {
    one == other
}
