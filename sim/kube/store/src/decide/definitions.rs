//! Effects of a change of a CustomResourceDefinition.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::object::meta;
use crate::resources::customresourcedefinitions as definitions;
use crate::{Decision, Event, Key, Op, Status, Store};

impl Store {
    /// Adds to `decision`, if it changes a definition, the changes that the real server's
    /// controllers make right afterwards. The controllers accept the names in the definition and
    /// establish the definition, unless another resource of the group has one of these names. If
    /// the definition is being deleted, they delete the objects of its kind and then the
    /// definition.
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
        } else if let Some(mut object) = definitions::accepted(self.resources(), &event.object, now)
        {
            let revision = event.revision + 1;
            meta::set_revision(&mut object, revision);
            let object = Arc::new(object);
            let key = event.key;
            decision.events.push(Event { key, op: Op::Modified, revision, object });
        }
        Ok(decision)
    }

    /// Adds to `events` the deletions of the objects of a definition's kind, regardless of their
    /// finalizers, which no client could remove any more. Then adds the deletion of the definition
    /// itself, or only the removal of its cleanup finalizer if it has others.
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
