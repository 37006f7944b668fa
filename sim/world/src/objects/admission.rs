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
    /// Fills in a new object; identifiers come from the last two, what they are of and which one it is.
    pub default: fn(&mut Value, Ids, &str),
    /// Looks at a new object, or at a change of an old one.
    pub validate: fn(&Value, Option<&Value>, &mut FieldErrors),
}

impl Store {
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
}
