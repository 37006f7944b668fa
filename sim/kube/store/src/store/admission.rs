//! Admission webhooks, which fill in or refuse objects before the store keeps them. Rust functions
//! replace the webhooks that the operator of a kind would run.

use std::sync::Arc;

use serde_json::Value;

use crate::Ids;
use crate::values::text::sorted;
use crate::{FieldErrors, GroupResource, Key, ResourceDef, Status, Store};

/// Functions that replace the admission webhooks of a kind. They get objects in the stored version.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// Name of the validating webhook in messages.
    pub validating: &'static str,
    /// Name of the mutating webhook in messages.
    pub mutating: &'static str,
    /// URL paths of the validating and of the mutating webhook, in this order.
    pub paths: [&'static str; 2],
    /// Fills in a new object. The function derives identifiers from the [`Ids`] and the text, which
    /// consists of the object's path and a revision.
    pub default: fn(&mut Value, Ids, &str),
    /// Checks an object (first argument). The second argument is the existing object on an update,
    /// `None` on creation.
    pub validate: fn(&Value, Option<&Value>, &mut FieldErrors),
}

/// An outage of all admission and conversion webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// URL of the service, without the path.
    pub service: &'static str,
    /// Error text of every call.
    pub why: &'static str,
}

impl Store {
    /// Makes all calls of webhooks fail as `outage` says; `None` makes the webhooks answer again.
    ///
    /// The outage belongs to this store and its clones; a snapshot does not keep it.
    pub fn set_webhook_outage(&mut self, outage: Option<Outage>) {
        self.outage = outage;
    }

    /// Uses `admission` in place of the webhooks of `resource`.
    ///
    /// The functions belong to this store and its clones; a snapshot does not keep them.
    pub fn admit_with(&mut self, resource: GroupResource, admission: Admission) {
        self.admissions.insert(resource, admission);
    }

    /// Returns a new object as the mutating webhook of its kind fills it in. Returns the object
    /// unchanged if the kind has no [`Admission`].
    ///
    /// # Errors
    /// 500 if the webhook does not answer, 500 or 501 if the object cannot be converted.
    pub(crate) fn mutated(
        &self,
        def: &ResourceDef,
        version: &str,
        key: &Key,
        object: Value,
    ) -> Result<Value, Status> {
        let Some(admission) = self.admissions.get(&def.id) else { return Ok(object) };
        self.check_webhook_answers(admission.mutating, admission.paths[1])?;
        let mut kept = self.to_stored_version(def, object)?;
        let serial = format!("{}#{}", key.path(), self.revision + 1);
        (admission.default)(&mut kept, self.ids, &serial);
        let object = self.in_version(def, version, &Arc::new(sorted(kept)))?;
        Ok(Arc::unwrap_or_clone(object))
    }

    /// Checks an object by the validating webhook of its kind, if the kind has an [`Admission`].
    ///
    /// # Errors
    /// 422 if the webhook refuses the object, 500 if it does not answer, 500 or 501 if the object
    /// cannot be converted.
    pub(crate) fn check_admission(
        &self,
        def: &ResourceDef,
        object: &Value,
        existing: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(admission) = self.admissions.get(&def.id) else { return Ok(()) };
        self.check_webhook_answers(admission.validating, admission.paths[0])?;
        let object = self.to_stored_version(def, object.clone())?;
        let existing =
            existing.map(|existing| self.to_stored_version(def, existing.clone())).transpose()?;
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

    /// Fails during an outage, with the real server's error for a required webhook that does not
    /// answer.
    fn check_webhook_answers(&self, name: &str, path: &str) -> Result<(), Status> {
        match self.outage {
            None => Ok(()),
            Some(Outage { service, why }) => Err(Status::internal(&format!(
                "failed calling webhook \"{name}\": failed to call webhook: Post \"{service}{path}?timeout=10s\": {why}"
            ))),
        }
    }
}
