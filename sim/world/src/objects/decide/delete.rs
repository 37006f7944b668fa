//! Removing an object, at once or when its finalizers are done.

use super::{Request, seconds, unchanged};
use crate::objects::{
    Decision, Effect, GroupResource, Op, Preconditions, Status, Store, fields, meta,
};

impl Store {
    pub(super) fn delete(
        &self,
        request: &Request<'_>,
        preconditions: &Preconditions,
    ) -> Result<Decision, Status> {
        let Request { def, key, now, .. } = request;
        if let Some(why) = (def.strategy.refuse_delete)(&key.name) {
            return Err(Status::forbidden(&def.id, &key.name, why));
        }
        let existing = self.get(key).ok_or_else(|| Status::not_found(&def.id, &key.name))?;
        let unmet = |why: &str| {
            // The real server puts the kind where others have the resource.
            let kind = GroupResource { group: def.id.group.clone(), resource: def.kind.clone() };
            Status::conflict(&kind, &key.name, why)
        };
        let Preconditions { uid, resource_version } = preconditions;
        let recorded = meta::text(existing, "uid");
        if let Some(uid) = uid.as_deref().filter(|uid| *uid != recorded) {
            return Err(unmet(&format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({recorded}). The object might have been deleted and then recreated"
            )));
        }
        let recorded = meta::text(existing, "resourceVersion");
        if let Some(version) = resource_version.as_deref().filter(|version| *version != recorded) {
            return Err(unmet(&format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({recorded}). The object might have been modified"
            )));
        }
        if !meta::has_finalizers(existing) && !(def.strategy.is_held)(existing) {
            let last = existing.as_ref().clone();
            return Ok(self.change(key.clone(), Op::Deleted, Effect::Deleted, last));
        }
        if meta::is_terminating(existing) {
            return Ok(unchanged(existing));
        }
        let mut object = existing.as_ref().clone();
        let metadata = fields::map_mut(&mut object, "metadata");
        metadata.insert("deletionTimestamp".into(), seconds(*now));
        metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
        if def.strategy.generation {
            meta::bump_generation(&mut object);
        }
        (def.strategy.begin_delete)(&mut object);
        super::body::arrange(def, &def.version, &mut object);
        Ok(self.change(key.clone(), Op::Modified, Effect::Terminating, object))
    }
}
