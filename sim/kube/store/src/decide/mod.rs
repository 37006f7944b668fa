//! Decisions about commands: the changes that a command makes, or the `Status` that refuses it.

mod binding;
mod body;
mod bootstrap;
mod create;
mod definitions;
mod delete;
mod eviction;
mod managed;
mod options;
mod scale;
mod update;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use managed::Writer;
pub use options::DeleteOptions;

use crate::object::{fields, meta, size};
use crate::resources::core::pods;
use crate::{
    Action, Command, Decision, Effect, Event, FieldValidation, GroupResource, Key, Op, Reply,
    ResourceDef, Status, Store, Subresource,
};

/// A command that the store is deciding, with the definition of its resource and the current time.
struct Request<'a> {
    def: &'a ResourceDef,
    key: Key,
    /// API version of the body and of the answer, such as `v1`.
    version: String,
    subresource: Option<Subresource>,
    validation: FieldValidation,
    duplicates: Vec<String>,
    now: Timestamp,
    dry_run: bool,
    manager: String,
    /// True if the client clears `metadata.managedFields`.
    forgets_managers: bool,
    /// Set if a patch changes the kind or apiVersion of a custom object.
    other_type: Option<body::OtherType>,
    /// Group and version of the body, such as `apps/v1`.
    api_version: String,
}

impl Request<'_> {
    /// Returns the writer that `metadata.managedFields` records for this request at `now`.
    fn writer<'a>(&'a self, now: &'a Value) -> Writer<'a> {
        let (subresource, closed) = match self.subresource {
            Some(Subresource::Status) => ("status", "spec"),
            Some(Subresource::Finalize) => ("finalize", "status"),
            Some(Subresource::Scale) => ("scale", "status"),
            Some(Subresource::Eviction) => ("eviction", ""),
            Some(Subresource::Binding) => ("binding", ""),
            None if self.def.has_status(&self.version) => ("", "status"),
            None => ("", ""),
        };
        let Self { manager, api_version, .. } = self;
        Writer { manager, subresource, api_version, now, closed }
    }
}

impl Store {
    /// Returns the changes that `command` would make at `now`, and the answer. Does not change the
    /// store.
    ///
    /// # Errors
    /// The `Status` with which the real API server refuses the command, or 501 if the command needs
    /// a conversion webhook that no function replaces.
    pub fn decide(&self, now: Timestamp, command: Command) -> Result<Decision, Status> {
        let Command { key, action, subresource, dry_run, version, validation, duplicates, manager } =
            command;
        let def = self.resources.get(&key.resource).ok_or_else(no_such_resource)?;
        let version = if version.is_empty() { def.version.clone().into_owned() } else { version };
        if !def.serves(&version) && version != def.version {
            return Err(no_such_resource());
        }
        if subresource == Some(Subresource::Status) && !def.has_status(&version) {
            return Err(no_such_resource());
        }
        let is_there = match subresource {
            Some(Subresource::Finalize) => def.id == GroupResource::core("namespaces"),
            Some(Subresource::Eviction | Subresource::Binding) => {
                def.id == GroupResource::core("pods")
            }
            _ => true,
        };
        if !is_there {
            return Err(no_such_resource());
        }
        let request = Request {
            def,
            key,
            version: version.clone(),
            subresource,
            validation,
            duplicates,
            now,
            dry_run,
            manager,
            forgets_managers: false,
            other_type: None,
            api_version: def.api_version(&version),
        };
        let is_deletion = matches!(action, Action::Delete { .. });
        // A Scale or a Status.
        let has_other_answer = matches!(
            subresource,
            Some(Subresource::Scale | Subresource::Eviction | Subresource::Binding)
        );
        let mut decision = match action {
            _ if subresource == Some(Subresource::Scale) => self.scale(request, action),
            Action::Create { object } => match subresource {
                Some(Subresource::Eviction) => self.evict(request, object),
                Some(Subresource::Binding) => self.bind(&request, object),
                _ => self.create(request, object),
            },
            _ if has_other_answer => return Err(no_such_resource()),
            Action::Update { object } => self.update(request, object),
            Action::Patch { kind, patch } => self.patch(request, kind, &patch),
            Action::Delete { preconditions, how } => self.delete(&request, &preconditions, &how),
        }?;
        if !has_other_answer {
            let object = &decision.reply.object;
            // The real server hides no fields of the object in its answer in three cases: the
            // deletion has to wait, an update removes the object, or the client wrote the status.
            let as_kept = match decision.reply.effect {
                Effect::Terminating => true,
                Effect::Deleted => !is_deletion,
                _ => subresource == Some(Subresource::Status),
            };
            decision.reply.object = match as_kept {
                true => self.in_version(def, &version, object)?,
                false => self.to_client(def, &version, object)?,
            };
        }
        decision = self.follow_up(now, decision)?;
        // Skips the limit for initial objects, which are small, and for a dry run, which does not
        // reach etcd.
        if !self.skips_validation && !dry_run {
            let kept = decision.events.iter().filter(|event| event.op != Op::Deleted);
            kept.map(|event| &event.object).try_for_each(|object| size::check(object))?;
        }
        if dry_run {
            self.hide_revision(&mut decision);
            decision.events.clear();
        }
        Ok(decision)
    }

    /// Removes the new revision from the answer to a dry run, which makes no revision. The answer
    /// gets the revision of the existing object, or none if the object is new.
    fn hide_revision(&self, decision: &mut Decision) {
        let Some(event) = decision.events.first() else { return };
        let object = Arc::make_mut(&mut decision.reply.object);
        match self.get(&event.key) {
            Some(existing) => {
                let version = existing["metadata"]["resourceVersion"].clone();
                fields::map_mut(object, "metadata").insert("resourceVersion".into(), version);
            }
            None => {
                fields::map_mut(object, "metadata").shift_remove("resourceVersion");
            }
        }
    }

    /// Returns a decision with one change, which gives `object` the next revision. The reply has
    /// the same object.
    fn change(&self, key: Key, op: Op, effect: Effect, mut object: Value) -> Decision {
        let revision = self.revision + 1;
        meta::set_revision(&mut object, revision);
        let object = Arc::new(object);
        let event = Event { key, op, revision, object: object.clone() };
        Decision { events: vec![event], reply: Reply { object, effect, warnings: Vec::new() } }
    }
}

/// Puts `warnings` before the warnings of the outcome, which is a decision or an error.
fn warned(outcome: Result<Decision, Status>, warnings: Vec<String>) -> Result<Decision, Status> {
    match outcome {
        Ok(mut decision) => {
            decision.reply.warnings.splice(0..0, warnings);
            Ok(decision)
        }
        Err(mut status) => {
            status.warnings.splice(0..0, warnings);
            Err(status)
        }
    }
}

/// Returns a decision without changes, whose reply is `object`.
fn unchanged(object: &Arc<Value>) -> Decision {
    let reply = Reply { object: object.clone(), effect: Effect::Unchanged, warnings: Vec::new() };
    Decision { events: Vec::new(), reply }
}

/// Returns status 404 for a resource or a subresource that does not exist.
fn no_such_resource() -> Status {
    let mut status =
        Status::new(404, "NotFound", "the server could not find the requested resource");
    status.details = Some(Box::default());
    status
}

/// Formats an instant for `metadata`, truncated to whole seconds.
fn seconds(now: Timestamp) -> Value {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    now.to_string().into()
}
