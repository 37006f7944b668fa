//! Changes of an existing object by update or by patch.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::body::OtherType;
use super::create::settle_namespace;
use super::managed::track;
use super::{Request, body, no_such_resource, unchanged, warned};
use crate::object::{fields, meta};
use crate::patch::{check as check_patch, typed_merge_patch};
use crate::{
    Check, Decision, Effect, FieldErrors, Key, NameRule, Op, PatchKind, ResourceDef, Status, Store,
    Subresource, json_patch, merge_patch, parse_uint,
};

impl Store {
    pub(super) fn update(
        &self,
        mut request: Request<'_>,
        object: Value,
    ) -> Result<Decision, Status> {
        request.forgets_managers = forgets_managers(&object);
        let body::Body { object, warnings } = body::read(&request, object)?;
        warned(self.update_checked(request, object), warnings)
    }

    /// Decides the update of an object from a decoded body. Creates a missing object if the kind
    /// allows it, else fails with 404.
    fn update_checked(&self, request: Request<'_>, mut object: Value) -> Result<Decision, Status> {
        let Request { def, key, .. } = &request;
        settle_namespace(key, &mut object)?;
        body::check_name(key, &object)?;
        let given_uid = meta::text(&object, "uid").to_owned();
        let Some(existing) = self.get(key) else {
            if !def.strategy.create_on_update || request.subresource.is_some() {
                return Err(Status::not_found(&def.id, &key.name));
            }
            if !given_uid.is_empty() {
                return Err(other_uid(&request, &given_uid, ""));
            }
            let given = meta::text(&object, "resourceVersion");
            if !given.is_empty() {
                parse_uint(given).map_err(no_number)?;
            }
            fields::map_mut(&mut object, "metadata").shift_remove("resourceVersion");
            return self.create_checked(request, object);
        };
        let uid = meta::text(existing, "uid");
        if !given_uid.is_empty() && given_uid != uid {
            return Err(other_uid(&request, &given_uid, uid));
        }
        let existing = &self.in_version(def, &request.version, existing)?;
        self.replace(request, existing, object)
    }

    pub(super) fn patch(
        &self,
        mut request: Request<'_>,
        kind: PatchKind,
        patch: &Value,
    ) -> Result<Decision, Status> {
        let Request { def, key, .. } = &request;
        if kind == PatchKind::StrategicMerge && def.structure().is_none() {
            return Err(no_strategic_merge());
        }
        let existing = self.get(key).ok_or_else(|| Status::not_found(&def.id, &key.name))?;
        let existing = &self.in_version(def, &request.version, existing)?;
        let unknown = check_patch(patch, kind, request.validation)?;
        let patched = match (kind, def.structure()) {
            (PatchKind::Merge, _) => merge_patch(existing, patch)?,
            (PatchKind::Json, _) => json_patch(existing, patch)?,
            (PatchKind::StrategicMerge, Some(root)) => typed_merge_patch(existing, patch, root)?,
            (PatchKind::StrategicMerge, None) => return Err(no_strategic_merge()),
        };
        if !patched.is_object() {
            return Err(no_such_resource());
        }
        let forgets_managers = forgets_managers(&patched);
        let body::Body { mut object, warnings } =
            body::read_patched(&request, patched, kind, patch, unknown)?;
        settle_namespace(key, &mut object)?;
        body::check_name(key, &object)?;
        request.forgets_managers = forgets_managers;
        request.other_type = OtherType::find(&request, &object);
        warned(self.replace(request, existing, object), warnings)
    }

    pub(super) fn replace(
        &self,
        request: Request<'_>,
        existing: &Arc<Value>,
        mut object: Value,
    ) -> Result<Decision, Status> {
        let Request { def, version, subresource, .. } = &request;
        body::fill_in(def, &mut object);
        self.check_version(&request, existing, &object)?;
        let managed = managed(&request, existing, &object);
        if let (None, Some(allocate)) = (subresource, def.strategy.allocate) {
            allocate(self, &mut object, Some(existing))?;
            body::reorder(def, &mut object);
        }
        match subresource {
            // The status subresource of custom kinds changes nothing but the status.
            Some(Subresource::Status) if def.custom.is_some() => {
                keep_all_but(existing, &mut object, &["status"]);
            }
            Some(Subresource::Status) => {
                keep_all_but(existing, &mut object, &["metadata", "status"]);
            }
            Some(Subresource::Finalize) => {
                keep_all_but(existing, &mut object, &["metadata", "spec"])
            }
            Some(Subresource::Scale | Subresource::Eviction | Subresource::Binding) => {}
            None if def.has_status(version) => fields::copy(existing, &mut object, "status"),
            None => {}
        }
        keep_system_fields(existing, &mut object);
        if request.forgets_managers {
            fields::map_mut(&mut object, "metadata").shift_remove("managedFields");
        }
        if matches!(subresource, None | Some(Subresource::Scale)) {
            (def.strategy.carry_over)(existing, &mut object);
        }
        body::arrange(def, version, &mut object);
        let mut warnings = check(&request, &object, existing)?;
        if request.subresource.is_none() {
            self.check_admission(def, &object, Some(existing))?;
        }
        if let Some(managed) = managed
            && object != **existing
        {
            fields::map_mut(&mut object, "metadata").insert("managedFields".into(), managed);
            body::arrange(request.def, &request.version, &mut object);
        }
        let strategy = &request.def.strategy;
        let mut of_kind = match request.subresource {
            None => (strategy.warn)(&object),
            Some(_) => Vec::new(),
        };
        if !strategy.repeats_warnings && !of_kind.is_empty() {
            let known = (strategy.warn)(existing);
            of_kind.retain(|it| !known.contains(it));
        }
        warnings.append(&mut of_kind);
        warned(self.finish(request, existing, object), warnings)
    }

    /// Decides the effect of a checked update: removal, no change, or a change. Fails with 500 or
    /// 501 if the object cannot be converted to the stored version.
    fn finish(
        &self,
        request: Request<'_>,
        existing: &Arc<Value>,
        mut object: Value,
    ) -> Result<Decision, Status> {
        let Request { def, key, version, .. } = request;
        let is_terminating = meta::is_terminating(existing);
        if is_terminating && !meta::has_finalizers(&object) && !(def.strategy.is_held)(&object) {
            return self.remove_last_finalizer(def, key, existing, object);
        }
        if object == **existing {
            let kept = self.get(&key).unwrap_or(existing);
            if self.is_current(def, kept) {
                return Ok(unchanged(kept));
            }
        }
        let counts_status = def.custom.is_some() && !def.has_status(&version);
        let annotations = |object: &Value| object["metadata"]["annotations"].clone();
        let is_other = is_other_spec(&object, existing, counts_status)
            || def.strategy.counts_annotations && annotations(&object) != annotations(existing);
        if def.strategy.generation && is_other {
            meta::bump_generation(&mut object);
        }
        let object = self.to_stored_version(def, object)?;
        Ok(self.change(key, Op::Modified, Effect::Updated, object))
    }

    /// Removes an object that is marked for deletion and that nothing holds any more. Watchers get
    /// the object as it was before the update, with the new resourceVersion. The client gets the
    /// updated object with the old resourceVersion.
    fn remove_last_finalizer(
        &self,
        def: &ResourceDef,
        key: Key,
        existing: &Arc<Value>,
        object: Value,
    ) -> Result<Decision, Status> {
        // Takes the object from the store, because converting `existing` back could change it.
        let kept = self.get(&key).unwrap_or(existing);
        let last = self.in_version(def, &def.version, kept)?.as_ref().clone();
        let mut decision = self.change(key, Op::Deleted, Effect::Deleted, last);
        decision.reply.object = Arc::new(self.to_stored_version(def, object)?);
        Ok(decision)
    }

    /// Checks that the resourceVersion in the body, if any, is that of the existing object
    /// (optimistic lock).
    ///
    /// # Errors
    /// 409 if it differs, 422 if it is missing or 0 and the kind requires it, 500 if it is not a
    /// number.
    fn check_version(
        &self,
        request: &Request<'_>,
        existing: &Value,
        object: &Value,
    ) -> Result<(), Status> {
        let Request { def, key, .. } = request;
        match meta::text(object, "resourceVersion") {
            "" | "0" if def.strategy.unconditional_update => Ok(()),
            "" | "0" => {
                let mut errors = FieldErrors::default();
                errors.invalid(
                    "metadata.resourceVersion",
                    &0.into(),
                    "must be specified for an update",
                );
                // The real server names the resource where other messages name the kind.
                Err(Status::invalid(&def.id.group, &def.id.resource, &key.name, errors))
            }
            given if given == meta::text(existing, "resourceVersion") => Ok(()),
            given => {
                parse_uint(given).map_err(no_number)?;
                Err(Status::modified(&def.id, &key.name))
            }
        }
    }
}

/// True if a document clears `metadata.managedFields` by an empty list or by one empty entry.
fn forgets_managers(document: &Value) -> bool {
    let managed = document["metadata"]["managedFields"].as_array();
    managed.is_some_and(|all| {
        let is_nothing = |it: &Value| it.as_object().is_some_and(serde_json::Map::is_empty);
        all.is_empty() || all.len() == 1 && is_nothing(&all[0])
    })
}

/// Returns `metadata.managedFields` with this write recorded. Returns `None` if nothing is to be
/// recorded: the write names no manager or clears the field, or the existing object has no entries.
fn managed(request: &Request<'_>, existing: &Value, object: &Value) -> Option<Value> {
    let is_tracked = !fields::list(existing, "/metadata/managedFields").is_empty();
    if request.manager.is_empty() || !is_tracked || request.forgets_managers {
        return None;
    }
    let Request { def, version, .. } = request;
    Some(
        track(def, version, Some(existing), object, &request.writer(&super::seconds(request.now)))
            .into(),
    )
}

/// Runs the checks of an update in the order of the real server. Returns warnings.
///
/// # Errors
/// 422 with all errors that the checks found.
fn check(request: &Request<'_>, object: &Value, existing: &Value) -> Result<Vec<String>, Status> {
    let Request { def, version, subresource, .. } = request;
    let mut errors = FieldErrors::default();
    let mut warnings = Vec::new();
    // An earlier write has already checked unchanged metadata.
    if object["metadata"] != existing["metadata"] {
        meta::validate(object, NameRule::PathSegment, def.namespaced, &mut errors);
        meta::validate_update(object, existing, &mut errors);
    }
    if let Some(OtherType { group, kind, problems }) = &request.other_type {
        errors.append(problems.clone());
        return Err(Status::invalid(group, kind, meta::text(object, "name"), errors));
    }
    // The kind's checks of metadata repeat the ones above. They run only after an error, which the
    // real server then reports again. The rule for finalizers runs whenever metadata has changed.
    let is_fine = errors.is_empty();
    let strategy = &def.strategy;
    let checks = match subresource {
        Some(Subresource::Status) => strategy.status_checks,
        _ => strategy.checks,
    };
    let check_finalizers = |errors: &mut FieldErrors| {
        if strategy.requires_standard_finalizers && object["metadata"] != existing["metadata"] {
            meta::validate_finalizers(object, errors);
        }
    };
    for check in checks {
        match check {
            Check::Metadata => {
                if !is_fine {
                    meta::validate(object, strategy.names, def.namespaced, &mut errors);
                }
                check_finalizers(&mut errors);
            }
            Check::MetadataChange => {
                if !is_fine {
                    meta::validate_update(object, existing, &mut errors);
                }
                check_finalizers(&mut errors);
            }
            Check::Whole => {
                warnings = body::validate(def, version, object, Some(existing), &mut errors);
            }
            Check::Change => (strategy.validate_update)(object, existing, &mut errors),
            Check::Status => {
                if let Some(custom) = def.custom.as_ref().and_then(|it| it.version(version)) {
                    warnings = custom.check_status(object, existing, &mut errors);
                }
                (strategy.validate_status)(object, existing, &mut errors);
            }
        }
    }
    if *subresource == Some(Subresource::Finalize) {
        (strategy.validate_finalize)(object, &mut errors);
    }
    if errors.is_empty() {
        return Ok(warnings);
    }
    let refused = Status::invalid(&def.id.group, &def.kind, meta::text(object, "name"), errors);
    warned(Err(refused), warnings).map(|_| Vec::new())
}

/// Returns status 409 for a body whose uid is not that of the existing object.
fn other_uid(request: &Request<'_>, given: &str, uid: &str) -> Status {
    let Request { def, key, .. } = request;
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object meta: {uid}",
        def.registry,
        key.path(),
    );
    Status::conflict(&def.id, &key.name, &why)
}

/// Returns status 500 for a resourceVersion that is not a number.
fn no_number(why: String) -> Status {
    Status::new(500, "", why)
}

/// Keeps only the fields `parts` of the new object; takes all other fields from the existing one.
fn keep_all_but(existing: &Value, object: &mut Value, parts: &[&str]) {
    let given = fields::as_map(object);
    let mut kept = Map::new();
    for (field, value) in existing.as_object().into_iter().flatten() {
        let part = parts.contains(&field.as_str()).then(|| given.shift_remove(field));
        if let Some(value) = part.unwrap_or_else(|| Some(value.clone())) {
            kept.insert(field.clone(), value);
        }
    }
    for field in parts {
        if let Some(value) = given.shift_remove(*field) {
            kept.insert((*field).into(), value);
        }
    }
    *given = kept;
}

/// Restores from the existing object the metadata that an update cannot change. Leaves a changed
/// uid, and a deletion mark on an object that is not being deleted, to later checks.
fn keep_system_fields(existing: &Value, object: &mut Value) {
    let old = &existing["metadata"];
    let metadata = fields::map_mut(object, "metadata");
    if metadata.get("uid").is_none_or(|uid| uid.as_str() == Some("")) {
        metadata.insert("uid".into(), old["uid"].clone());
    }
    for field in ["managedFields", "selfLink"] {
        metadata.shift_remove(field);
    }
    for field in ["resourceVersion", "generation", "creationTimestamp"] {
        match &old[field] {
            Value::Null => metadata.shift_remove(field),
            value => metadata.insert(field.into(), value.clone()),
        };
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"] {
        if !old[field].is_null() {
            metadata.insert(field.into(), old[field].clone());
        }
    }
}

/// True if any field except `metadata` differs; `status` counts only with `counts_status`.
fn is_other_spec(new: &Value, old: &Value, counts_status: bool) -> bool {
    let counts =
        |field: &&String| field.as_str() != "metadata" && (counts_status || *field != "status");
    let fields =
        |object: &Value| object.as_object().into_iter().flat_map(Map::keys).filter(counts).count();
    let differs = |field: &String| new.get(field) != old.get(field);
    fields(new) != fields(old)
        || new.as_object().into_iter().flat_map(Map::keys).filter(counts).any(differs)
}

/// Returns status 415 for a strategic merge patch of a kind without a Go structure, such as a
/// custom kind.
fn no_strategic_merge() -> Status {
    let message = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    Status::new(415, "UnsupportedMediaType", message)
}
