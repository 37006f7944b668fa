//! Commands to the store, its decisions about them, and the resulting events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::size::size;
use crate::{GroupResource, Key};

/// A request that may change an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Key of the object. A creation ignores the name in the key: it takes the name from the body,
    /// or generates one from `generateName`.
    pub key: Key,
    /// Operation on the object: create, update, patch or delete.
    pub action: Action,
    /// Target subresource; absent for the object itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<Subresource>,
    /// True for a dry run, which changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// API version of the body and of the answer, such as `v1`; empty for the stored version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Treatment of unknown and duplicate fields of the body.
    #[serde(default, skip_serializing_if = "FieldValidation::is_usual")]
    pub validation: FieldValidation,
    /// Paths of duplicate fields in the body. The caller finds them in the JSON text, because a
    /// parsed body has only one field of each name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub duplicates: Vec<String>,
    /// Field manager that `metadata.managedFields` records for the write. With an empty name the
    /// store records nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manager: String,
}

/// Treatment of unknown and duplicate fields of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FieldValidation {
    /// Drops unknown fields. Of duplicate fields, the last one counts.
    #[default]
    Ignore,
    /// Like [`Self::Ignore`], and adds warnings about these fields to the answer or to the error.
    Warn,
    /// Refuses a body that has an unknown or a duplicate field.
    Strict,
}

impl FieldValidation {
    /// True for the default. Commands of the simulation itself have the default.
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// An operation on an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// Creates the object.
    Create {
        /// Body of the new object.
        object: Value,
    },
    /// Replaces the object. Creates a missing object if the kind allows it.
    Update {
        /// The whole new object; a Scale for [`Subresource::Scale`].
        object: Value,
    },
    /// Changes parts of the object.
    Patch {
        /// Format of the patch, which decides how it is applied.
        kind: PatchKind,
        /// Body of the patch, in this format.
        patch: Value,
    },
    /// Removes the object, or only marks it for deletion if finalizers or a grace period hold it,
    /// or if its kind is always deleted in two steps.
    Delete {
        /// Conditions that the object must meet.
        #[serde(default)]
        preconditions: Preconditions,
        /// Propagation and grace period of the deletion.
        #[serde(default, skip_serializing_if = "Deletion::is_usual")]
        how: Deletion,
    },
}

/// Options of a deletion: propagation and grace period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Deletion {
    /// Treatment of the objects that the deleted one owns; `None` leaves the finalizers of the
    /// garbage collector as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation: Option<Propagation>,
    /// Requested grace period in seconds; `None` for that of the object. A negative value counts as
    /// 1 s. Kinds without grace periods ignore it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<i64>,
}

impl Deletion {
    /// True if no option is set.
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// Treatment of the objects that a deleted object owns.
///
/// A simulated cluster has no garbage collector, so owned objects stay in any case. The store only
/// sets or removes the collector's finalizers, as a real API server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// The garbage collector deletes the owned objects after their owner.
    Background,
    /// The garbage collector deletes the owned objects before their owner.
    Foreground,
    /// The owned objects stay.
    Orphan,
}

/// Format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PatchKind {
    /// JSON merge patch (RFC 7386).
    Merge,
    /// Strategic merge patch of Kubernetes: merges the elements of lists that have a merge rule;
    /// directives in the patch delete, replace or order elements.
    StrategicMerge,
    /// JSON patch (RFC 6902).
    Json,
}

/// A part of an object that has its own URL path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Subresource {
    /// `/status`.
    Status,
    /// `/finalize` of a Namespace, through which clients change the finalizers in its `spec`.
    Finalize,
    /// `/scale`: the desired and the actual number of replicas, in the same form for every kind.
    Scale,
    /// `/eviction` of a pod, whose creation deletes the pod if its disruption budget allows it.
    Eviction,
    /// `/binding` of a pod, whose creation assigns the pod to a Node.
    Binding,
}

/// Conditions that an object must meet to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// Uid that the object must have; `None` for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// ResourceVersion that the object must have; `None` for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl Command {
    /// Returns a command that creates `object` in `namespace` (empty for cluster-wide resources).
    pub fn create(
        resource: impl Into<GroupResource>,
        namespace: impl Into<String>,
        object: Value,
    ) -> Self {
        Self::new(Key::new(resource, namespace, ""), Action::Create { object })
    }

    /// Returns a command that replaces the object at `key`.
    pub fn update(key: Key, object: Value) -> Self {
        Self::new(key, Action::Update { object })
    }

    /// Returns a command that applies `patch` to the object at `key`.
    pub fn patch(key: Key, kind: PatchKind, patch: Value) -> Self {
        Self::new(key, Action::Patch { kind, patch })
    }

    /// Returns a command that deletes the object at `key` without preconditions.
    pub fn delete(key: Key) -> Self {
        Self::delete_if(key, Preconditions::default())
    }

    /// Returns a command that deletes the object at `key` if it meets `preconditions`.
    pub fn delete_if(key: Key, preconditions: Preconditions) -> Self {
        Self::new(key, Action::Delete { preconditions, how: Deletion::default() })
    }

    /// Makes the status subresource the target of the command.
    #[must_use]
    pub fn on_status(self) -> Self {
        Self { subresource: Some(Subresource::Status), ..self }
    }

    /// Sets the treatment of unknown and duplicate fields.
    #[must_use]
    pub fn validated(self, validation: FieldValidation) -> Self {
        Self { validation, ..self }
    }

    /// Sets the field manager.
    #[must_use]
    pub fn by(self, manager: impl Into<String>) -> Self {
        Self { manager: manager.into(), ..self }
    }

    /// Sets the API version of the body and of the answer.
    #[must_use]
    pub fn in_version(self, version: impl Into<String>) -> Self {
        Self { version: version.into(), ..self }
    }

    /// Turns the command into a dry run.
    #[must_use]
    pub fn dry_run(self) -> Self {
        Self { dry_run: true, ..self }
    }

    fn new(key: Key, action: Action) -> Self {
        Self {
            key,
            action,
            subresource: None,
            dry_run: false,
            version: String::new(),
            validation: FieldValidation::Ignore,
            duplicates: Vec::new(),
            manager: String::new(),
        }
    }
}

/// The result of a command that the store accepts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Decision {
    /// Changes in order; empty if nothing changes, and for a dry run.
    pub events: Vec<Event>,
    /// Answer to the client.
    pub reply: Reply,
}

/// The answer to an accepted command.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The object after the command; its last state if the command removed it; its Scale for
    /// [`Subresource::Scale`]. After a dry run: the object as the command would leave it.
    pub object: Arc<Value>,
    /// Effect on the object; for a dry run, the effect that the command would have.
    pub effect: Effect,
    /// Warnings for the client: first those of the decoder, then those of the kind.
    pub warnings: Vec<String>,
}

/// Effect of a command on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The command created the object.
    Created,
    /// The command changed the object.
    Updated,
    /// The command left the object unchanged, with its resourceVersion.
    Unchanged,
    /// The command marked the object for deletion but did not remove it.
    Terminating,
    /// The command removed the object.
    Deleted,
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Key of the object.
    pub key: Key,
    /// Type of the change.
    pub op: Op,
    /// Revision of the store after the change; the object's resourceVersion.
    pub revision: u64,
    /// The object after the change. If the change removed it: its last state, with the new
    /// resourceVersion.
    pub object: Arc<Value>,
}

impl Event {
    /// Size of the object as JSON, in bytes. A character that JSON escapes counts with its
    /// unescaped length.
    pub fn size(&self) -> usize {
        size(&self.object)
    }
}

/// Type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Op {
    /// The object was created.
    Added,
    /// The object changed.
    Modified,
    /// The object was removed.
    Deleted,
}
