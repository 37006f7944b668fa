//! Admission: what webhooks of a kind's operator make of objects before they are kept, and what they refuse.

use std::sync::Arc;

use serde_json::Value;

use super::{FieldErrors, Key, ResourceDef, Status, Store, custom};
use crate::Ids;

/// The webhooks of a kind. They see objects in the stored version.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// The name of the one that refuses, for the message.
    pub validating: &'static str,
    /// The name of the one that fills in.
    pub mutating: &'static str,
    /// The paths of the two: that of the one that refuses, that of the one that fills in.
    pub paths: [&'static str; 2],
    /// Fills in a new object; identifiers come from the last two, what they are of and which one it is.
    pub default: fn(&mut Value, Ids, &str),
    /// Looks at a new object, or at a change of an old one.
    pub validate: fn(&Value, Option<&Value>, &mut FieldErrors),
}

/// Webhooks that do not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Where they are called, up to the path.
    pub service: &'static str,
    /// What becomes of a call.
    pub why: &'static str,
}

impl Store {
    /// Lets nothing that stands for a webhook answer; `None` lets it answer again.
    ///
    /// It belongs to this store and its clones; a snapshot does not keep it.
    pub fn cut_off_webhooks(&mut self, outage: Option<Outage>) {
        self.outage = outage;
    }

    /// Lets `admission` stand for the webhooks of `resource`.
    ///
    /// It belongs to this store and its clones; a snapshot does not keep it.
    pub fn admit_with(&mut self, resource: super::GroupResource, admission: Admission) {
        self.admissions.insert(resource, admission);
    }

    /// A new object, filled in.
    pub(super) fn defaulted(
        &self,
        def: &ResourceDef,
        version: &str,
        key: &Key,
        object: Value,
    ) -> Result<Value, Status> {
        let Some(admission) = self.admissions.get(&def.id) else { return Ok(object) };
        self.reached(admission.mutating, admission.paths[1])?;
        let mut kept = self.stored(def, object)?;
        let serial = format!("{}#{}", key.path(), self.revision + 1);
        (admission.default)(&mut kept, self.ids, &serial);
        let object = self.in_version(def, version, &Arc::new(custom::sorted(kept)))?;
        Ok(Arc::unwrap_or_clone(object))
    }

    /// Refuses what a webhook refuses.
    pub(super) fn admitted(
        &self,
        def: &ResourceDef,
        object: &Value,
        existing: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(admission) = self.admissions.get(&def.id) else { return Ok(()) };
        self.reached(admission.validating, admission.paths[0])?;
        let object = self.stored(def, object.clone())?;
        let existing = existing.map(|existing| self.stored(def, existing.clone())).transpose()?;
        let mut errors = FieldErrors::default();
        (admission.validate)(&object, existing.as_ref(), &mut errors);
        if errors.is_empty() {
            return Ok(());
        }
        let why = errors.joined();
        let message =
            format!("admission webhook \"{}\" denied the request: {why}", admission.validating);
        Err(Status::new(422, why, message))
    }

    /// Fails as the real server does when a webhook that must answer does not.
    fn reached(&self, name: &str, path: &str) -> Result<(), Status> {
        match self.outage {
            None => Ok(()),
            Some(Outage { service, why }) => Err(Status::internal(&format!(
                "failed calling webhook \"{name}\": failed to call webhook: Post \"{service}{path}?timeout=10s\": {why}"
            ))),
        }
    }
}
