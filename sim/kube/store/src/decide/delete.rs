//! Deletion of an object: at once, or after its finalizers and its grace period.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Request, seconds, unchanged};
use crate::object::{fields, meta};
use crate::{
    Decision, Deletion, Effect, Event, GroupResource, Key, Op, Preconditions, Propagation, Status,
    Store,
};

impl Store {
    pub(super) fn delete(
        &self,
        request: &Request<'_>,
        preconditions: &Preconditions,
        how: &Deletion,
    ) -> Result<Decision, Status> {
        let Request { def, key, .. } = request;
        if let Some(why) = (def.strategy.refuse_delete)(&key.name) {
            return Err(Status::forbidden(&def.id, &key.name, why));
        }
        let existing = self.get(key).ok_or_else(|| Status::not_found(&def.id, &key.name))?;
        let existing = self.in_version(def, &def.version, existing)?;
        check_preconditions(request, preconditions, &existing)?;
        Ok(self.delete_object(request, &existing, how))
    }

    /// Decides the deletion of the object at the key of the request, in the state `existing`.
    pub(super) fn delete_object(
        &self,
        request: &Request<'_>,
        existing: &Arc<Value>,
        how: &Deletion,
    ) -> Decision {
        let Request { def, key, now, .. } = request;
        if let Some(begin) = def.strategy.begin_delete {
            return self.begin_delete(request, begin, existing, how);
        }
        let (grace, is_pending) = grace(request, existing, how);
        if is_pending {
            return unchanged(existing);
        }
        let mut object = existing.as_ref().clone();
        if let Some(grace) = grace {
            mark(&mut object, *now, grace);
        }
        let is_collected = def.strategy.uses_gc_finalizers && set_gc_finalizers(&mut object, how);
        if !meta::has_finalizers(&object) && grace.is_none_or(|seconds| seconds == 0) {
            return self.remove(request, existing, object, grace.is_some());
        }
        if grace.is_none() {
            if meta::is_terminating(existing) && !is_collected {
                return unchanged(existing);
            }
            mark(&mut object, *now, 0);
        }
        super::body::arrange(def, &def.version, &mut object);
        self.change(key.clone(), Op::Modified, Effect::Terminating, object)
    }

    /// Returns the removal of the object at `key` at the end of its lifetime; `None` if no object
    /// of this revision exists there. Does not mark the object for deletion first and ignores its
    /// finalizers.
    pub fn expire(&self, key: &Key, revision: u64) -> Option<Event> {
        let last = self.get(key)?;
        if meta::text(last, "resourceVersion") != revision.to_string() {
            return None;
        }
        let last = last.as_ref().clone();
        self.change(key.clone(), Op::Deleted, Effect::Deleted, last).events.pop()
    }

    /// Removes the object at once. If `is_marked` (for kinds with a grace period), first records
    /// `object`, which is `existing` with its deletion mark, so that watchers see it terminating
    /// before it is gone.
    fn remove(
        &self,
        request: &Request<'_>,
        existing: &Arc<Value>,
        mut object: Value,
        is_marked: bool,
    ) -> Decision {
        let Request { def, key, .. } = request;
        if !is_marked {
            let last = existing.as_ref().clone();
            return self.change(key.clone(), Op::Deleted, Effect::Deleted, last);
        }
        super::body::arrange(def, &def.version, &mut object);
        let mut decision = self.change(key.clone(), Op::Modified, Effect::Deleted, object);
        let revision = self.revision + 2;
        let mut last = decision.reply.object.as_ref().clone();
        meta::set_revision(&mut last, revision);
        let object = Arc::new(last);
        decision.reply.object = object.clone();
        decision.events.push(Event { key: key.clone(), op: Op::Deleted, revision, object });
        decision
    }

    /// Deletes an object of a kind whose deletion always takes two steps: marks the object. If the
    /// object is already marked, removes it, unless finalizers or `Strategy::is_held` prevent the
    /// removal. `begin` is the kind's `Strategy::begin_delete`.
    fn begin_delete(
        &self,
        request: &Request<'_>,
        begin: fn(&mut Value, &Value),
        existing: &Arc<Value>,
        how: &Deletion,
    ) -> Decision {
        let Request { def, key, now, .. } = request;
        if meta::is_terminating(existing) {
            if meta::has_finalizers(existing) || (def.strategy.is_held)(existing) {
                return unchanged(existing);
            }
            let last = existing.as_ref().clone();
            return self.change(key.clone(), Op::Deleted, Effect::Deleted, last);
        }
        let mut object = existing.as_ref().clone();
        if def.strategy.uses_gc_finalizers {
            set_gc_finalizers(&mut object, how);
        }
        let now = seconds(*now);
        fields::map_mut(&mut object, "metadata").insert("deletionTimestamp".into(), now.clone());
        begin(&mut object, &now);
        super::body::arrange(def, &def.version, &mut object);
        self.change(key.clone(), Op::Modified, Effect::Terminating, object)
    }
}

/// Checks uid and resourceVersion against the preconditions.
///
/// # Errors
/// 409 if the uid or the resourceVersion differs.
pub(super) fn check_preconditions(
    request: &Request<'_>,
    preconditions: &Preconditions,
    existing: &Value,
) -> Result<(), Status> {
    let Request { def, key, .. } = request;
    let Preconditions { uid, resource_version } = preconditions;
    let two_steps = def.strategy.begin_delete.is_some();
    let unmet = |what: &str, given: &str, recorded: &str, then: &str| {
        if two_steps {
            let why = format!(
                "Precondition failed: {what} in precondition: {given}, {what} in object meta: {recorded}"
            );
            return Status::conflict(&def.id, &key.name, &why);
        }
        // The real server puts the kind where other messages have the resource.
        let kind = GroupResource { group: def.id.group.clone(), resource: def.kind.clone() };
        let why = format!(
            "the {what} in the precondition ({given}) does not match the {what} in record ({recorded}). The object might have been {then}"
        );
        Status::conflict(&kind, &key.name, &why)
    };
    let recorded = meta::text(existing, "uid");
    if let Some(uid) = uid.as_deref().filter(|uid| *uid != recorded) {
        return Err(unmet("UID", uid, recorded, "deleted and then recreated"));
    }
    let recorded = meta::text(existing, "resourceVersion");
    if let Some(version) = resource_version.as_deref().filter(|version| *version != recorded) {
        return Err(unmet("ResourceVersion", version, recorded, "modified"));
    }
    Ok(())
}

/// Returns the new grace period in seconds; `None` if the kind has none or the request does not
/// change it. The second value is true if the object is terminating already, with a grace period
/// above 0 that the request does not shorten.
fn grace(request: &Request<'_>, existing: &Value, how: &Deletion) -> (Option<i64>, bool) {
    let Some(grace) = request.def.strategy.grace else { return (None, false) };
    let asked = how.grace_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
    if !meta::is_terminating(existing) {
        return (Some(grace(existing, asked)), false);
    }
    let left = existing["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default();
    match asked {
        _ if left == 0 => (None, false),
        Some(asked) if asked < left => (Some(asked), false),
        _ => (None, true),
    }
}

/// Marks the object for deletion, or shortens the grace period of a marked object: sets
/// `deletionTimestamp` and `deletionGracePeriodSeconds`. A new mark also increments
/// `metadata.generation`, if the object has one.
fn mark(object: &mut Value, now: Timestamp, mut grace: i64) {
    let was_terminating = meta::is_terminating(object);
    let metadata = fields::map_mut(object, "metadata");
    let before = metadata.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    let then: Option<Timestamp> =
        metadata.get("deletionTimestamp").and_then(Value::as_str).and_then(|it| it.parse().ok());
    let after = |from: Timestamp, n: i64| from.checked_add(SignedDuration::from_secs(n));
    let end = match then {
        // The object had no grace period left, so its end stays.
        Some(then) if before == 0 => then,
        // A shorter grace period counts from the start of the first one, and ends no earlier than
        // now.
        Some(then) => {
            let end = after(then, grace - before).unwrap_or(now);
            if end < now && grace > 0 {
                grace = 1;
            }
            end.max(now)
        }
        None => after(now, grace).unwrap_or(now),
    };
    metadata.insert("deletionTimestamp".into(), seconds(end));
    metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
    if !was_terminating && metadata.get("generation").and_then(Value::as_i64).unwrap_or(0) > 0 {
        meta::bump_generation(object);
    }
}

/// Sets or removes the garbage collector's finalizers as the requested propagation demands; returns
/// true if the finalizers changed.
fn set_gc_finalizers(object: &mut Value, how: &Deletion) -> bool {
    let before = fields::list(object, "/metadata/finalizers").to_vec();
    let is_system = |it: &Value| it == meta::ORPHAN || it == meta::FOREGROUND;
    let wanted = match how.propagation {
        Some(Propagation::Orphan) => Some(meta::ORPHAN),
        Some(Propagation::Foreground) => Some(meta::FOREGROUND),
        Some(Propagation::Background) => None,
        // Without a requested propagation, the existing finalizers decide.
        None => return false,
    };
    let mut after: Vec<Value> = before.iter().filter(|it| !is_system(it)).cloned().collect();
    after.extend(wanted.map(Value::from));
    let is_same = after.len() == before.len() && after.iter().all(|it| before.contains(it));
    if is_same {
        return false;
    }
    fields::map_mut(object, "metadata").insert("finalizers".into(), after.into());
    true
}
