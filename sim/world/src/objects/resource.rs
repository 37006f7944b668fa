//! Kinds of objects as the store sees them: names, merge keys, and a strategy.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::schema::{Struct, Types};
use super::{Custom, FieldErrors, Scale, Status, Store};

/// A resource and its API group; `nodes`, `leases.coordination.k8s.io`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupResource {
    /// API group; empty for the core group.
    pub group: Cow<'static, str>,
    /// Plural name in lower case.
    pub resource: Cow<'static, str>,
}

impl GroupResource {
    /// A resource of the core group.
    pub const fn core(resource: &'static str) -> Self {
        Self::of("", resource)
    }

    /// A resource of `group`.
    pub const fn of(group: &'static str, resource: &'static str) -> Self {
        Self { group: Cow::Borrowed(group), resource: Cow::Borrowed(resource) }
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_ref() {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

impl From<&str> for GroupResource {
    fn from(text: &str) -> Self {
        let (resource, group) = text.split_once('.').unwrap_or((text, ""));
        Self { group: group.to_owned().into(), resource: resource.to_owned().into() }
    }
}

impl Serialize for GroupResource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GroupResource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(String::deserialize(deserializer)?.as_str().into())
    }
}

/// A kind of object as data and a few functions.
#[derive(Clone, Debug)]
pub struct ResourceDef {
    /// Group and plural name.
    pub id: GroupResource,
    /// The served and stored version.
    pub version: Cow<'static, str>,
    /// The kind, `Node`.
    pub kind: Cow<'static, str>,
    /// Singular name in lower case.
    pub singular: Cow<'static, str>,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// Categories of the resource, such as `all`.
    pub categories: &'static [&'static str],
    /// True if the objects belong to namespaces.
    pub namespaced: bool,
    /// True if the objects hold values that no message may repeat.
    pub confidential: bool,
    /// True if a deletion answers with the object instead of a `Status`.
    pub returns_deleted: bool,
    /// True if the kind has a status subresource.
    pub status: bool,
    /// Path of the objects in the real server's storage, which some messages contain.
    pub registry: Cow<'static, str>,
    /// The kind as its CustomResourceDefinition describes it, if it comes from one.
    pub custom: Option<Arc<Custom>>,
    /// Warning for clients of the kind; empty if none.
    pub deprecation: &'static str,
    /// Fields that a field selector may name besides `metadata.name` and `metadata.namespace`.
    pub selectable: &'static [SelectableField],
    /// Behavior that is particular to the kind.
    pub strategy: Strategy,
}

impl ResourceDef {
    /// True if both come from the same state of a definition, in whatever version.
    pub fn is_same_as(&self, other: &Self) -> bool {
        match (&self.custom, &other.custom) {
            (None, None) => self.id == other.id,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// The Go structure of a built-in kind.
    pub(super) fn structure(&self) -> Option<&'static Struct> {
        if self.custom.is_some() {
            return None;
        }
        Types::builtin().kind(&self.id.group, &self.kind)
    }

    /// True if clients see objects as they are kept: no conversion, no hidden fields.
    pub fn is_shown_as_kept(&self) -> bool {
        self.custom.is_none() && self.strategy.hide.is_none()
    }

    /// True if requests for this version are answered.
    pub fn serves(&self, version: &str) -> bool {
        match &self.custom {
            None => self.version == version,
            Some(custom) => custom.served().any(|one| one.name == version),
        }
    }

    /// The served versions, preferred ones first.
    pub fn versions(&self) -> Vec<&str> {
        match &self.custom {
            None => vec![&self.version],
            Some(custom) => custom.served().map(|one| one.name.as_str()).collect(),
        }
    }

    /// Returns the resource as clients of this version see it.
    #[must_use]
    pub fn in_version(self, version: &str) -> Self {
        if self.custom.is_none() || self.version == version {
            return self;
        }
        let status = self.has_status(version);
        Self { version: version.to_owned().into(), status, ..self }
    }

    /// Warning for clients of this version; empty if none.
    pub fn warning(&self, version: &str) -> &str {
        match self.custom.as_ref().and_then(|custom| custom.version(version)) {
            None => self.deprecation,
            Some(version) => &version.warning,
        }
    }

    /// JSON pointers to the replicas in this version, if it has a scale subresource.
    pub fn scale(&self, version: &str) -> Option<&Scale> {
        self.custom.as_ref()?.version(version)?.scale.as_ref()
    }

    /// True if this version has a status subresource.
    pub fn has_status(&self, version: &str) -> bool {
        match self.custom.as_ref().and_then(|custom| custom.version(version)) {
            None => self.status,
            Some(version) => version.status,
        }
    }

    /// Short names for kubectl.
    pub fn all_short_names(&self) -> Vec<&str> {
        match &self.custom {
            None => self.short_names.to_vec(),
            Some(custom) => custom.short_names.iter().map(String::as_str).collect(),
        }
    }

    /// Categories of the resource.
    pub fn all_categories(&self) -> Vec<&str> {
        match &self.custom {
            None => self.categories.to_vec(),
            Some(custom) => custom.categories.iter().map(String::as_str).collect(),
        }
    }

    /// The apiVersion of the group with this version: `v1`, `coordination.k8s.io/v1`.
    pub fn api_version(&self, version: &str) -> String {
        match self.id.group.as_ref() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        }
    }
}

/// Assigns values that only the store knows. The arguments after the store are the new object and the
/// existing one, if any.
pub type Allocate = fn(&Store, &mut Value, Option<&Value>) -> Result<(), Status>;

/// One check of an update. The real server checks metadata several times, and each of its errors then occurs
/// several times among the causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Metadata, as on creation.
    Metadata,
    /// Changes of immutable metadata.
    MetadataChange,
    /// [`Strategy::validate`].
    Whole,
    /// [`Strategy::validate_update`].
    Change,
    /// [`Strategy::validate_status`].
    Status,
}

/// Behavior that is particular to a kind.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// Rule for names.
    pub names: NameRule,
    /// True if `metadata.generation` counts changes of everything except metadata and status.
    pub generation: bool,
    /// True if an update of a missing object creates it.
    pub create_on_update: bool,
    /// True if an update without resourceVersion is accepted.
    pub unconditional_update: bool,
    /// Fills in omitted fields from the body alone.
    pub default: Option<fn(&mut Value)>,
    /// Assigns values that need the whole store: unique numbers, values of other objects.
    pub allocate: Option<Allocate>,
    /// Sets the initial state of a new object.
    pub begin: fn(&mut Value),
    /// Carries over the fields that an update does not change, from the existing to the new object.
    pub carry_over: fn(&Value, &mut Value),
    /// Checks the new object on creation, and on updates with [`Check::Whole`].
    pub validate: fn(&Value, &mut FieldErrors),
    /// Checks a change: the new and the existing object.
    pub validate_update: fn(&Value, &Value, &mut FieldErrors),
    /// Checks a change through the status subresource: the new and the existing object.
    pub validate_status: fn(&Value, &Value, &mut FieldErrors),
    /// Hides fields that are kept but not shown; `None` if this object has none. Writes apply to the object
    /// as it is kept.
    pub hide: Option<fn(&Value) -> Option<Value>>,
    /// Checks a change through `finalize`: the new object.
    pub validate_finalize: fn(&Value, &mut FieldErrors),
    /// Returns the warnings for a client that writes such an object.
    pub warn: fn(&Value) -> Vec<String>,
    /// True if an update repeats warnings that applied to the existing object already.
    pub repeats_warnings: bool,
    /// Checks of an update, in this order.
    pub checks: &'static [Check],
    /// Checks of a change through the status subresource, in this order.
    pub status_checks: &'static [Check],
    /// True if finalizers without a domain have to be known ones.
    pub knows_finalizers: bool,
    /// True if a deletion in the foreground, or one that orphans dependents, waits for a garbage collector.
    pub collectable: bool,
    /// Returns the grace period of a deletion in seconds, given the requested one; kinds without a function
    /// have none.
    pub grace: Option<fn(&Value, Option<i64>) -> i64>,
    /// True if something besides finalizers keeps a deleted object.
    pub is_held: fn(&Value) -> bool,
    /// Marks an object that begins to terminate at this moment. Deletion of these kinds always takes this
    /// step first; objects of other kinds go at once unless a finalizer or a grace period holds them.
    pub begin_delete: Option<fn(&mut Value, &Value)>,
    /// Returns the reason why the object of this name must not be deleted.
    pub refuse_delete: fn(&str) -> Option<&'static str>,
}

impl Strategy {
    /// A strategy that adds nothing to the machinery.
    pub const PLAIN: Self = Self {
        names: NameRule::Subdomain,
        generation: false,
        create_on_update: false,
        unconditional_update: true,
        default: None,
        allocate: None,
        begin: |_| {},
        carry_over: |_, _| {},
        validate: |_, _| {},
        validate_update: |_, _, _| {},
        validate_status: |_, _, _| {},
        hide: None,
        validate_finalize: |_, _| {},
        warn: |_| Vec::new(),
        repeats_warnings: true,
        checks: &[Check::MetadataChange, Check::Change, Check::Metadata, Check::Whole],
        status_checks: &[Check::MetadataChange, Check::Status],
        knows_finalizers: true,
        collectable: true,
        grace: None,
        is_held: |_| false,
        begin_delete: None,
        refuse_delete: |_| None,
    };
}

/// Rule for the names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain.
    Subdomain,
    /// RFC 1123 label.
    Label,
    /// RFC 1035 label.
    Label1035,
    /// Any text that fits into a path segment.
    PathSegment,
}

impl NameRule {
    /// True if the rule allows `name`.
    pub fn allows(self, name: &str) -> bool {
        super::names::name_problems(self, name).is_empty()
    }
}

/// Merge rule of the list at a path. Elements of lists do not count as steps of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRule {
    /// A list of maps; equal values of `key` mean the same element.
    ByKey {
        /// Dotted path from the object's root, `status.conditions`.
        path: &'static str,
        /// The field that identifies elements, `type`.
        key: &'static str,
        /// True if patches of the elements contain `$retainKeys`; the directive is honored in any case.
        retain_keys: bool,
    },
    /// A list of scalars that is a set.
    Set {
        /// Dotted path from the object's root, `metadata.finalizers`.
        path: &'static str,
    },
}

impl MergeRule {
    /// Returns the rule for a list of maps at `path`, whose elements `key` identifies.
    pub const fn by_key(path: &'static str, key: &'static str) -> Self {
        Self::ByKey { path, key, retain_keys: false }
    }

    /// Returns the rule for a set of scalars at `path`.
    pub const fn set(path: &'static str) -> Self {
        Self::Set { path }
    }

    /// Path of the list.
    pub fn path(&self) -> &'static str {
        match self {
            Self::ByKey { path, .. } | Self::Set { path } => path,
        }
    }
}

/// A field that a field selector may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// Name in selectors, `involvedObject.name`.
    pub name: &'static str,
    /// JSON pointer to the value.
    pub pointer: &'static str,
    /// Value of an object without the field.
    pub default: &'static str,
}
