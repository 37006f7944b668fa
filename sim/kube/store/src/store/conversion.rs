//! Conversion of custom objects between versions, and the forms in which clients see objects.

use std::sync::Arc;

use serde_json::Value;

use crate::kind::custom::convert;
use crate::values::text::sorted;
use crate::{Custom, GroupResource, Outage, ResourceDef, Status, Store};

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
    /// fields. Fails with 500 or 501 if the object cannot be converted.
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
        let mut shown = convert(def, custom, conversion, &object, version)?;
        if let Some(version) = custom.version(version) {
            version.prune(&mut shown);
        }
        Ok(Arc::new(sorted(shown)))
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

    /// Converts a custom object to the stored version and completes the result by that version's
    /// schema. An object of a built-in kind, or one that already has the stored version, stays
    /// unchanged. Fails with 500 or 501 if the object cannot be converted.
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
        let mut stored = convert(def, custom, conversion, &object, &def.version)?;
        if let Some(version) = custom.version(&def.version) {
            version.complete(&mut stored);
        }
        Ok(sorted(stored))
    }

    /// Fails with the real server's error if the kind has a conversion webhook and webhooks do not
    /// answer ([`Store::set_webhook_outage`]).
    fn check_conversion_webhook(
        &self,
        def: &ResourceDef,
        custom: &Custom,
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
    pub(crate) fn is_current(&self, def: &ResourceDef, object: &Arc<Value>) -> bool {
        let Some(custom) = &def.custom else { return true };
        object["apiVersion"] == def.api_version(&def.version).as_str()
            && custom.completed(def, object) == *object
    }
}

/// Returns status 500 with the text of the real server
/// (`apiextensions-apiserver: pkg/apiserver/conversion/webhook_converter.go`).
fn conversion_outage_error(def: &ResourceDef, from: &str, outage: &Outage) -> Status {
    let (Outage { service, why }, kind) = (outage, &def.kind);
    let call = format!("Post \"{service}/convert?timeout=30s\": {why}");
    Status::new(500, "", format!("conversion webhook for {from}, Kind={kind} failed: {call}"))
}
