//! Creation of objects.

use serde_json::Value;

use super::managed::track;
use super::{Request, body, seconds, warned};
use crate::object::{fields, meta};
use crate::{
    Cause, Decision, Effect, FieldErrors, GroupResource, Key, Op, ResourceDef, Status, Store,
};

/// Number of generated names that the real server tries before it gives up.
const MAX_GENERATED: u32 = 8;

/// Alphabet of generated suffixes: letters and digits that do not spell words.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const MAX_GENERATED_BASE: usize = 63 - SUFFIX_LENGTH;

/// Fields of `metadata` that the server sets and clients cannot.
const SYSTEM_FIELDS: [&str; 6] = [
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "uid",
    "selfLink",
    "managedFields",
];

impl Store {
    pub(super) fn create(&self, request: Request<'_>, object: Value) -> Result<Decision, Status> {
        let body::Body { object, warnings } = body::read(&request, object)?;
        warned(self.create_checked(request, object), warnings)
    }

    /// Decides the creation of an object from a decoded body: settles its name and namespace, fills
    /// in server fields, and runs the checks of the kind, of admission webhooks and of quotas.
    pub(super) fn create_checked(
        &self,
        request: Request<'_>,
        mut object: Value,
    ) -> Result<Decision, Status> {
        let metadata = fields::map_mut(&mut object, "metadata");
        for field in SYSTEM_FIELDS {
            metadata.shift_remove(field);
        }
        body::fill_in(request.def, &mut object);
        let managed = (!request.manager.is_empty()).then(|| {
            let now = seconds(request.now);
            let writer = request.writer(&now);
            track(request.def, &request.version, None, &object, &writer)
        });
        let Request { def, mut key, version, now, dry_run, .. } = request;
        settle_namespace(&key, &mut object)?;
        if def.namespaced {
            self.check_namespace(&key.namespace, &def.id, meta::text(&object, "name"))?;
        }
        let is_generated = self.settle_name(&mut key, &mut object);
        if let Some(allocate) = def.strategy.allocate {
            allocate(self, &mut object, None)?;
        }
        if def.custom.is_some() && def.has_status(&version) {
            fields::as_map(&mut object).shift_remove("status");
        }
        if def.custom.is_some() {
            object = self.mutated(def, &version, &key, object)?;
        }
        if let Some(identify) = def.strategy.identify {
            identify(&mut object, &self.uid_of(&key, dry_run));
        }
        (def.strategy.begin)(&mut object);
        body::reorder(def, &mut object);
        body::arrange(def, &version, &mut object);
        let mut errors = FieldErrors::default();
        meta::validate(&object, def.strategy.names, def.namespaced, &mut errors);
        if def.strategy.requires_standard_finalizers {
            meta::validate_finalizers(&object, &mut errors);
        }
        if !self.skips_validation {
            body::validate(def, &version, &object, None, &mut errors);
        }
        if !errors.is_empty() {
            return Err(Status::invalid(&def.id.group, &def.kind, &key.name, errors));
        }
        self.check_admission(def, &object, None)?;
        self.within_quotas(def, &key.namespace, &key.name)?;
        if meta::text(&object, "resourceVersion").parse().is_ok_and(|version: u64| version != 0) {
            // The real server gives no reason in this answer.
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(500, "", why));
        }
        let warnings = (def.strategy.warn)(&object);
        if let Some(existing) = self.get(&key) {
            return warned(Err(already_there(def, existing, is_generated)), warnings);
        }
        if let Some(managed) = managed {
            fields::map_mut(&mut object, "metadata").insert("managedFields".into(), managed.into());
        }
        self.stamp(def, &version, &key, &mut object, seconds(now), dry_run);
        let object = self.to_stored_version(def, object)?;
        warned(Ok(self.change(key, Op::Added, Effect::Created, object)), warnings)
    }

    fn stamp(
        &self,
        def: &ResourceDef,
        version: &str,
        key: &Key,
        object: &mut Value,
        now: Value,
        dry_run: bool,
    ) {
        let uid = self.uid_of(key, dry_run);
        let metadata = fields::map_mut(object, "metadata");
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), now);
        if def.strategy.generation {
            metadata.insert("generation".into(), 1.into());
        }
        meta::set_revision(object, 0);
        body::arrange(def, version, object);
    }

    /// Returns the uid of the object that a creation makes at `key`. A dry run must not use the uid
    /// that a later object will get.
    fn uid_of(&self, key: &Key, dry_run: bool) -> String {
        let serial = self.graves.incarnation(key, self.revision + 1).unwrap_or_else(|| "0".into());
        let Key { resource, namespace, name } = key;
        let GroupResource { group, resource } = resource;
        let path = format!("{group}/{resource}/{namespace}/{name}#{serial}");
        self.ids.uuid(if dry_run { "dry run" } else { "object" }, &path).to_string()
    }

    /// Sets the name in `key` to that of the body, or generates a name for `key` and body. If the
    /// first [`MAX_GENERATED`] generated names are all taken, keeps the last one. Returns true if
    /// the name was generated.
    fn settle_name(&self, key: &mut Key, object: &mut Value) -> bool {
        let base = meta::text(object, "generateName").to_owned();
        let name = meta::text(object, "name").to_owned();
        let is_generated = name.is_empty() && !base.is_empty();
        key.name = name;
        if is_generated {
            let end = base.len().min(MAX_GENERATED_BASE);
            let base = base.get(..end).unwrap_or(&base);
            for attempt in 0..MAX_GENERATED {
                key.name = format!("{base}{}", self.suffix(key, base, attempt));
                if self.get(key).is_none() {
                    break;
                }
            }
            fields::map_mut(object, "metadata").insert("name".into(), key.name.as_str().into());
        }
        is_generated
    }

    fn suffix(&self, key: &Key, base: &str, attempt: u32) -> String {
        let Key { resource, namespace, .. } = key;
        let path = format!("{resource}/{namespace}/{base}#{}#{attempt}", self.revision);
        let digest = self.ids.uuid("generateName", &path);
        let letter = |byte: &u8| {
            let at = usize::from(*byte) % SUFFIX_ALPHABET.len();
            char::from(SUFFIX_ALPHABET[at])
        };
        digest.as_bytes().iter().take(SUFFIX_LENGTH).map(letter).collect()
    }

    /// Checks that the namespace exists and is not terminating. `resource` and `name` are those of
    /// the new object, for the message.
    ///
    /// # Errors
    /// 404 if the namespace does not exist, 403 if it is terminating.
    fn check_namespace(
        &self,
        namespace: &str,
        resource: &GroupResource,
        name: &str,
    ) -> Result<(), Status> {
        let namespaces = GroupResource::core("namespaces");
        let Some(found) = self.get(&Key::new(namespaces.clone(), "", namespace)) else {
            return Err(Status::not_found(&namespaces, namespace));
        };
        if !found["metadata"]["deletionTimestamp"].is_string() {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut status = Status::forbidden(resource, name, &why);
        if let Some(details) = &mut status.details {
            details.causes.push(Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".into(),
            });
        }
        Err(status)
    }
}

/// Returns status 409 for a new object whose name the existing object has. The message also says if
/// the server generated the name or if the existing object is being deleted.
fn already_there(def: &ResourceDef, existing: &Value, is_generated: bool) -> Status {
    let mut status = Status::already_exists(&def.id, meta::text(existing, "name"));
    if is_generated {
        let why = ", the server was not able to generate a unique name for the object";
        status.message.push_str(why);
        if let Some(details) = &mut status.details {
            details.retry_after_seconds = 1;
        }
    }
    if meta::is_terminating(existing) {
        status.message.insert_str(0, "object is being deleted: ");
    }
    status
}

/// Sets the namespace of the body to that of the key, or removes it for a cluster-wide resource.
///
/// # Errors
/// 400 if the body has a different namespace than the key.
pub(super) fn settle_namespace(key: &Key, object: &mut Value) -> Result<(), Status> {
    let given = meta::text(object, "namespace").to_owned();
    let metadata = fields::map_mut(object, "metadata");
    if key.namespace.is_empty() {
        metadata.shift_remove("namespace");
    } else if given.is_empty() {
        metadata.insert("namespace".into(), key.namespace.as_str().into());
    } else if given != key.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}
