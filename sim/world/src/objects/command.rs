//! What is asked of the store, what it decides, and what happens then.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::GroupResource;

/// Names one object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Which resource.
    pub resource: GroupResource,
    /// Namespace; empty for cluster-wide resources.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Key {
    /// The object `name` of `resource`; `namespace` is empty for cluster-wide resources.
    pub fn new(
        resource: impl Into<GroupResource>,
        namespace: impl Into<String>,
        name: impl Into<String>,
    ) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }

    /// Where the object is among those of its resource: `namespace/name`, or just the name.
    pub fn path(&self) -> String {
        match self.namespace.as_str() {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// The object at a [`Key::path`] of a resource.
    pub(super) fn at(resource: GroupResource, path: &str) -> Self {
        let (namespace, name) = path.split_once('/').unwrap_or(("", path));
        Self::new(resource, namespace, name)
    }

    /// The node `name`.
    pub fn node(name: impl Into<String>) -> Self {
        Self::new(GroupResource::core("nodes"), "", name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, namespace, name } = self;
        match namespace.as_str() {
            "" => write!(f, "{resource}/{name}"),
            _ => write!(f, "{resource}/{namespace}/{name}"),
        }
    }
}

/// A request that may change an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// The object. Its name is empty where the body names it (or only its `generateName`).
    pub key: Key,
    /// What to do.
    pub action: Action,
    /// Through which door; the main one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<Subresource>,
    /// Only say what would happen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The version that bodies and the answer are in; empty for the stored one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// What to do about fields that nobody knows.
    #[serde(default, skip_serializing_if = "FieldValidation::is_usual")]
    pub validation: FieldValidation,
    /// Paths of fields that stood twice in the body, found when it was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub duplicates: Vec<String>,
    /// Who writes, for `metadata.managedFields`; nobody is tracked if it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manager: String,
}

/// What to do about unknown and duplicate fields of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FieldValidation {
    /// Drop them.
    #[default]
    Ignore,
    /// Drop them and say so in [`Reply::warnings`].
    Warn,
    /// Refuse the body.
    Strict,
}

impl FieldValidation {
    /// Whether it is what commands do that nobody sent over the wire.
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// Make it.
    Create {
        /// The new object.
        object: Value,
    },
    /// Replace it.
    Update {
        /// The whole new object.
        object: Value,
    },
    /// Change parts of it.
    Patch {
        /// How to read the patch.
        kind: PatchKind,
        /// The patch.
        patch: Value,
    },
    /// Remove it, or mark it so where finalizers hold it.
    Delete {
        /// What must be so.
        #[serde(default)]
        preconditions: Preconditions,
        /// How.
        #[serde(default, skip_serializing_if = "Deletion::is_usual")]
        how: Deletion,
    },
}

/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Deletion {
    /// What becomes of the objects that it owns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation: Option<Propagation>,
    /// Seconds that it may take to end, where the kind knows such a thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_seconds: Option<i64>,
}

impl Deletion {
    /// Whether nothing particular is asked for.
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// What becomes of the objects that a deleted one owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

/// How to read a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// Kubernetes' own: lists of maps merge by key, directives delete and replace.
    StrategicMerge,
    /// RFC 6902.
    Json,
}

/// A part of an object with a door of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Subresource {
    /// `/status`.
    Status,
    /// `/finalize` of a namespace: who still has to say that it may go.
    Finalize,
    /// `/scale`: how many replicas there shall be, of whatever kind.
    Scale,
}

/// What must be so for a deletion to go ahead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// The object's uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The object's resourceVersion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl Command {
    /// Creates `object` in `namespace` (empty for cluster-wide resources).
    pub fn create(
        resource: impl Into<GroupResource>,
        namespace: impl Into<String>,
        object: Value,
    ) -> Self {
        Self::new(Key::new(resource, namespace, ""), Action::Create { object })
    }

    /// Replaces the object at `key`.
    pub fn update(key: Key, object: Value) -> Self {
        Self::new(key, Action::Update { object })
    }

    /// Changes parts of the object at `key`.
    pub fn patch(key: Key, kind: PatchKind, patch: Value) -> Self {
        Self::new(key, Action::Patch { kind, patch })
    }

    /// Deletes the object at `key`, whatever its state.
    pub fn delete(key: Key) -> Self {
        Self::delete_if(key, Preconditions::default())
    }

    /// Deletes the object at `key` if it is as it should be.
    pub fn delete_if(key: Key, preconditions: Preconditions) -> Self {
        Self::new(key, Action::Delete { preconditions, how: Deletion::default() })
    }

    /// Deletes the object at `key` in this way.
    pub fn delete_how(key: Key, how: Deletion) -> Self {
        Self::new(key, Action::Delete { preconditions: Preconditions::default(), how })
    }

    /// The same through the status subresource.
    #[must_use]
    pub fn on_status(self) -> Self {
        Self { subresource: Some(Subresource::Status), ..self }
    }

    /// The same with another treatment of unknown fields.
    #[must_use]
    pub fn validated(self, validation: FieldValidation) -> Self {
        Self { validation, ..self }
    }

    /// The same by this manager of fields.
    #[must_use]
    pub fn by(self, manager: impl Into<String>) -> Self {
        Self { manager: manager.into(), ..self }
    }

    /// The same in this version of the resource.
    #[must_use]
    pub fn in_version(self, version: impl Into<String>) -> Self {
        Self { version: version.into(), ..self }
    }

    /// The same without effect.
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

/// What a command would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What happens, in order; empty if nothing changes.
    pub events: Vec<Event>,
    /// The answer.
    pub reply: Reply,
}

/// The answer to an accepted command.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The object as it is afterwards; its last state if it is gone.
    pub object: Arc<Value>,
    /// What became of it.
    pub effect: Effect,
    /// What the client should be told, in the order of the body.
    pub warnings: Vec<String>,
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is new.
    Created,
    /// It changed.
    Updated,
    /// It is as it was, resourceVersion included.
    Unchanged,
    /// It is marked for deletion and waits for its finalizers.
    Terminating,
    /// It is gone.
    Deleted,
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Which object.
    pub key: Key,
    /// What happened to it.
    pub op: Op,
    /// The store's revision after it; the object's resourceVersion.
    pub revision: u64,
    /// The object afterwards; its last state, with the new resourceVersion, if it is gone.
    pub object: Arc<Value>,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Op {
    /// It was created.
    Added,
    /// It changed.
    Modified,
    /// It is gone.
    Deleted,
}
