//! Consequences of a change of a CustomResourceDefinition, and versions of custom objects.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::objects::resources::customresourcedefinitions as definitions;
use crate::objects::{
    Decision, Event, GroupResource, Key, Op, Outage, ResourceDef, Status, Store, custom, meta,
};

impl Store {
    /// Returns an object as clients of `version` see it. The stored object is read by the schema of its own
    /// version, and then converted. The schema of the other version removes unknown fields and fills in nothing.
    ///
    /// # Errors
    /// 500 or 501 if the object cannot be converted.
    pub fn shown(
        &self,
        def: &ResourceDef,
        version: &str,
        object: &Arc<Value>,
    ) -> Result<Arc<Value>, Status> {
        let object = self.in_version(def, version, object)?;
        let hidden = def.strategy.hide.and_then(|hide| hide(&object));
        Ok(hidden.map_or(object, Arc::new))
    }

    /// Returns an object converted to another version; unlike [`shown`](Self::shown), hides no fields.
    pub(in crate::objects) fn in_version(
        &self,
        def: &ResourceDef,
        version: &str,
        object: &Arc<Value>,
    ) -> Result<Arc<Value>, Status> {
        let Some(custom) = &def.custom else { return Ok(object.clone()) };
        let object = custom.completed(def, object);
        if object["apiVersion"] == def.api_version(version).as_str() {
            return Ok(object);
        }
        self.converting(def, custom, &object)?;
        let conversion = self.conversions.get(&def.id).copied();
        let mut shown = custom::convert(def, custom, conversion, &object, version)?;
        if let Some(version) = custom.version(version) {
            version.prune(&mut shown);
        }
        Ok(Arc::new(custom::sorted(shown)))
    }

    /// Returns an object as it is read from the store.
    pub(in crate::objects) fn read(
        &self,
        resource: &GroupResource,
        object: &Arc<Value>,
    ) -> Arc<Value> {
        match self.resources.get(resource) {
            Some(def) => {
                def.custom.as_ref().map_or_else(|| object.clone(), |it| it.completed(def, object))
            }
            None => object.clone(),
        }
    }

    /// Converts an object to the stored version, in the form in which it will be read.
    pub(in crate::objects) fn stored(
        &self,
        def: &ResourceDef,
        object: Value,
    ) -> Result<Value, Status> {
        let Some(custom) = &def.custom else { return Ok(object) };
        if object["apiVersion"] == def.api_version(&def.version).as_str() {
            return Ok(object);
        }
        self.converting(def, custom, &object)?;
        let conversion = self.conversions.get(&def.id).copied();
        let mut stored = custom::convert(def, custom, conversion, &object, &def.version)?;
        if let Some(version) = custom.version(&def.version) {
            version.complete(&mut stored);
        }
        Ok(custom::sorted(stored))
    }

    /// Fails as the real server does when a conversion webhook does not answer.
    fn converting(
        &self,
        def: &ResourceDef,
        custom: &custom::Custom,
        object: &Value,
    ) -> Result<(), Status> {
        match &self.outage {
            Some(outage) if custom.is_converted => {
                let from = object["apiVersion"].as_str().unwrap_or_default();
                Err(unconverted(def, from, outage))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error for a reader of `version` while the conversion webhook of a kind does not answer; `None`
    /// if that version needs no conversion.
    pub fn unconverted(&self, def: &ResourceDef, version: &str, outage: &Outage) -> Option<Status> {
        let kept = &self.resources.get(&def.id)?.version;
        let is_converted = def.custom.as_ref().is_some_and(|custom| custom.is_converted);
        (is_converted && kept != version).then(|| unconverted(def, &def.api_version(kept), outage))
    }

    /// True if writing the same object again would not change it: it is kept in the current stored version and
    /// follows the current schema.
    pub(super) fn is_current(&self, def: &ResourceDef, object: &Arc<Value>) -> bool {
        let Some(custom) = &def.custom else { return true };
        object["apiVersion"] == def.api_version(&def.version).as_str()
            && custom.completed(def, object) == *object
    }

    /// Adds the immediate actions of the real server's controllers after a change of a definition. They accept its
    /// names and establish it; if the definition is being deleted, they delete its objects first.
    pub(super) fn follow_up(
        &self,
        now: Timestamp,
        mut decision: Decision,
    ) -> Result<Decision, Status> {
        let Some(event) = decision.events.first() else { return Ok(decision) };
        if event.key.resource != definitions::id() || event.op == Op::Deleted {
            return Ok(decision);
        }
        let event = event.clone();
        if definitions::is_cleaned_up(&event.object) {
            self.clear_out(&event, &mut decision.events);
        } else if let Some(mut object) = definitions::accepted(self, &event.object, now) {
            let revision = event.revision + 1;
            meta::set_revision(&mut object, revision);
            let object = Arc::new(object);
            let key = event.key;
            decision.events.push(Event { key, op: Op::Modified, revision, object });
        }
        Ok(decision)
    }

    /// Deletes the objects of a definition regardless of their finalizers, which no client could remove any more.
    /// Then deletes the definition itself, unless it has other finalizers.
    fn clear_out(&self, definition: &Event, events: &mut Vec<Event>) {
        let id = definitions::defined(&definition.object);
        let mut revision = definition.revision;
        let mut push = |key: Key, op: Op, mut object: Value| {
            revision += 1;
            meta::set_revision(&mut object, revision);
            events.push(Event { key, op, revision, object: Arc::new(object) });
        };
        if self.resources.get(&id).is_some_and(|def| def.custom.is_some()) {
            for object in self.all(&id) {
                let (namespace, name) =
                    (meta::text(object, "namespace"), meta::text(object, "name"));
                let key = Key::new(id.clone(), namespace, name);
                push(key, Op::Deleted, self.read(&id, object).as_ref().clone());
            }
        }
        let mut rest = definition.object.as_ref().clone();
        definitions::clean_up(&mut rest);
        if meta::has_finalizers(&rest) {
            push(definition.key.clone(), Op::Modified, rest);
        } else {
            push(definition.key.clone(), Op::Deleted, definition.object.as_ref().clone());
        }
    }
}

/// 500 in the words of the real server (`apiextensions-apiserver: pkg/apiserver/conversion/webhook_converter.go`).
fn unconverted(def: &ResourceDef, from: &str, outage: &Outage) -> Status {
    let (Outage { service, why }, kind) = (outage, &def.kind);
    let call = format!("Post \"{service}/convert?timeout=30s\": {why}");
    Status::new(500, "", format!("conversion webhook for {from}, Kind={kind} failed: {call}"))
}
