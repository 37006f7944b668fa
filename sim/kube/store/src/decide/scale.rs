//! The scale subresource: the number of replicas, in the same form for every kind.

use serde_json::{Value, json};

use super::{Request, no_such_resource};
use crate::object::{fields, meta};
use crate::{
    Action, Decision, LabelSelector, PatchKind, ResourceDef, Scale, Status, Store, json_patch,
    merge_patch,
};

impl Store {
    /// Returns the scale of an object as an `autoscaling/v1` Scale. `object` must have the form
    /// that [`to_client`](Store::to_client) returns for `version`.
    ///
    /// # Errors
    /// 404 if the kind has no scale subresource in this version.
    pub fn scale_of(
        &self,
        def: &ResourceDef,
        version: &str,
        object: &Value,
    ) -> Result<Value, Status> {
        let scale = def.scale(version).ok_or_else(no_such_resource)?;
        Ok(write(scale, object))
    }

    /// Decides an update or a patch of the scale, which changes the desired number of replicas. The
    /// reply contains the new Scale.
    ///
    /// # Errors
    /// 404 if the kind has no scale in this version, the object does not exist, or `action` is a
    /// creation or a deletion; 422 for a negative number; else the failures of a patch, and of an
    /// update of the object.
    pub(super) fn scale(&self, request: Request<'_>, action: Action) -> Result<Decision, Status> {
        let Request { def, key, version, .. } = &request;
        let scale = def.scale(version).ok_or_else(no_such_resource)?;
        let existing = self.get(key).ok_or_else(|| Status::not_found(&def.id, &key.name))?;
        let mut object = self.to_client(def, version, existing)?.as_ref().clone();
        let before = write(scale, &object);
        let wanted = match action {
            Action::Update { object } => object,
            Action::Patch { kind: PatchKind::Merge, patch } => merge_patch(&before, &patch)?,
            Action::Patch { kind: PatchKind::Json, patch } => json_patch(&before, &patch)?,
            // A scale has no lists, so a strategic merge patch acts as a merge patch.
            Action::Patch { kind: PatchKind::StrategicMerge, patch } => {
                merge_patch(&before, &patch)?
            }
            Action::Create { .. } | Action::Delete { .. } => return Err(no_such_resource()),
        };
        let replicas = wanted.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or_default();
        if replicas < 0 {
            let mut errors = crate::FieldErrors::default();
            let why = "must be greater than or equal to 0";
            errors.invalid("spec.replicas", &replicas.into(), why);
            return Err(Status::invalid("autoscaling", "Scale", &key.name, errors));
        }
        set(&mut object, &scale.spec_replicas, replicas.into());
        let given = meta::text(&wanted, "resourceVersion");
        let metadata = fields::map_mut(&mut object, "metadata");
        if !given.is_empty() {
            metadata.insert("resourceVersion".into(), given.into());
        }
        let scale = scale.clone();
        let existing = self.to_client(def, version, existing)?;
        let (def, version) = (*def, version.clone());
        let mut decision = self.replace(request, &existing, object)?;
        let changed = self.to_client(def, &version, &decision.reply.object)?;
        decision.reply.object = std::sync::Arc::new(write(&scale, &changed));
        Ok(decision)
    }
}

fn write(scale: &Scale, object: &Value) -> Value {
    let number =
        |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    let old = &object["metadata"];
    let mut metadata = serde_json::Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if !old[field].is_null() {
            metadata.insert(field.into(), old[field].clone());
        }
    }
    let mut spec = json!({});
    let replicas = number(&scale.spec_replicas);
    if replicas != 0 {
        spec["replicas"] = replicas.into();
    }
    let mut status = json!({"replicas": number(&scale.status_replicas)});
    let selector = object.pointer(&scale.selector).filter(|_| !scale.selector.is_empty());
    let selector = selector.map(|it| selector_text(object, it)).unwrap_or_default();
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": metadata, "spec": spec, "status": status,
    })
}

/// Returns the selector of an object as text: a custom kind keeps it as text, a
/// ReplicationController as a map of labels, and the other built-in kinds as a structure.
fn selector_text(object: &Value, selector: &Value) -> String {
    match selector {
        Value::String(text) => text.clone(),
        labels if object["kind"] == "ReplicationController" => {
            LabelSelector::from_labels(labels).text()
        }
        structure => LabelSelector::from_object(structure).unwrap_or_default().text(),
    }
}

/// Puts `value` at a JSON pointer. On the way, creates missing maps and replaces values that are
/// not maps.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut steps = pointer.trim_start_matches('/').split('/').peekable();
    let mut here = object;
    while let Some(step) = steps.next() {
        let map = fields::as_map(here);
        if steps.peek().is_none() {
            map.insert(step.into(), value);
            return;
        }
        here = map.entry(step).or_insert(Value::Null);
    }
}
