//! Effects of a change of a CustomResourceDefinition, and conversion of custom objects between
//! versions.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::kind::custom;
use crate::object::meta;
use crate::resources::customresourcedefinitions as definitions;
use crate::{Decision, Event, GroupResource, Key, Op, Outage, ResourceDef, Status, Store};

impl Store {
    /// Returns an object as clients of `version` see it, without hidden fields.
    ///
    /// First the current schema of the version in which the object is stored completes it. After a
    /// conversion, the schema of `version` removes unknown fields but fills in no defaults.
    ///
    /// # Errors
    /// 500 or 501 if the object cannot be converted.
    pub fn to_client(
        &self,
        def: &ResourceDef,
        version: &str,
        object: &Arc<Value>,
    ) -> Result<Arc<Value>, Status> {
        let object = self.in_version(def, version, object)?;
        let hidden = def.strategy.hide.and_then(|hide| hide(&object));
        Ok(hidden.map_or(object, Arc::new))
    }

    /// Returns an object converted to `version`; unlike [`to_client`](Self::to_client), hides no
    /// fields.
    pub(crate) fn in_version(
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
        self.check_conversion_webhook(def, custom, &object)?;
        let conversion = self.conversions.get(&def.id).copied();
        let mut shown = custom::convert(def, custom, conversion, &object, version)?;
        if let Some(version) = custom.version(version) {
            version.prune(&mut shown);
        }
        Ok(Arc::new(custom::sorted(shown)))
    }

    /// Returns a stored object as a read gives it: completed by the current schema of its version.
    pub(crate) fn read(&self, resource: &GroupResource, object: &Arc<Value>) -> Arc<Value> {
        match self.resources.get(resource) {
            Some(def) => {
                def.custom.as_ref().map_or_else(|| object.clone(), |it| it.completed(def, object))
            }
            None => object.clone(),
        }
    }

    /// Converts an object to the stored version and completes the result by that version's schema.
    /// Returns an object that already has this version unchanged.
    pub(crate) fn to_stored_version(
        &self,
        def: &ResourceDef,
        object: Value,
    ) -> Result<Value, Status> {
        let Some(custom) = &def.custom else { return Ok(object) };
        if object["apiVersion"] == def.api_version(&def.version).as_str() {
            return Ok(object);
        }
        self.check_conversion_webhook(def, custom, &object)?;
        let conversion = self.conversions.get(&def.id).copied();
        let mut stored = custom::convert(def, custom, conversion, &object, &def.version)?;
        if let Some(version) = custom.version(&def.version) {
            version.complete(&mut stored);
        }
        Ok(custom::sorted(stored))
    }

    /// Fails with the real server's error if the kind has a conversion webhook and webhooks do not
    /// answer ([`Store::set_webhook_outage`]).
    fn check_conversion_webhook(
        &self,
        def: &ResourceDef,
        custom: &custom::Custom,
        object: &Value,
    ) -> Result<(), Status> {
        match &self.outage {
            Some(outage) if custom.is_converted => {
                let from = object["apiVersion"].as_str().unwrap_or_default();
                Err(conversion_outage_error(def, from, outage))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error that a client of `version` gets while the conversion webhook of the kind
    /// does not answer; `None` if `version` is the stored version or the kind has no such webhook.
    pub fn conversion_outage_error(
        &self,
        def: &ResourceDef,
        version: &str,
        outage: &Outage,
    ) -> Option<Status> {
        let kept = &self.resources.get(&def.id)?.version;
        let is_converted = def.custom.as_ref().is_some_and(|custom| custom.is_converted);
        (is_converted && kept != version)
            .then(|| conversion_outage_error(def, &def.api_version(kept), outage))
    }

    /// True if the object is stored in the current stored version and conforms to the current
    /// schema, so that writing it again would not change it.
    pub(super) fn is_current(&self, def: &ResourceDef, object: &Arc<Value>) -> bool {
        let Some(custom) = &def.custom else { return true };
        object["apiVersion"] == def.api_version(&def.version).as_str()
            && custom.completed(def, object) == *object
    }

    /// Adds the changes that the real server's controllers make right after a change of a
    /// definition. They accept its names and establish it, unless another resource of its group has
    /// one of these names. If the definition is being deleted, they delete the objects of its kind
    /// and then the definition.
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
            self.delete_with_objects(&event, &mut decision.events);
        } else if let Some(mut object) = definitions::accepted(self, &event.object, now) {
            let revision = event.revision + 1;
            meta::set_revision(&mut object, revision);
            let object = Arc::new(object);
            let key = event.key;
            decision.events.push(Event { key, op: Op::Modified, revision, object });
        }
        Ok(decision)
    }

    /// Deletes the objects of a definition's kind regardless of their finalizers, which no client
    /// could remove any more. Then deletes the definition itself, or only removes its cleanup
    /// finalizer if it has others.
    fn delete_with_objects(&self, definition: &Event, events: &mut Vec<Event>) {
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

/// Returns status 500 with the text of the real server
/// (`apiextensions-apiserver: pkg/apiserver/conversion/webhook_converter.go`).
fn conversion_outage_error(def: &ResourceDef, from: &str, outage: &Outage) -> Status {
    let (Outage { service, why }, kind) = (outage, &def.kind);
    let call = format!("Post \"{service}/convert?timeout=30s\": {why}");
    Status::new(500, "", format!("conversion webhook for {from}, Kind={kind} failed: {call}"))
}
