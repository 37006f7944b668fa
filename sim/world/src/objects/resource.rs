//! What the store must know about a kind of object: names, merge keys, and a strategy.

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
    /// Name of one, in lower case.
    pub singular: Cow<'static, str>,
    /// What kubectl users type.
    pub short_names: &'static [&'static str],
    /// Groups of resources that it belongs to, `all`.
    pub categories: &'static [&'static str],
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Whether its objects hold what no message may repeat.
    pub confidential: bool,
    /// Whether a deletion answers the object instead of a `Status`.
    pub returns_deleted: bool,
    /// Whether it has a status subresource.
    pub status: bool,
    /// Where the real server keeps its objects; it stands in some messages.
    pub registry: Cow<'static, str>,
    /// What a CustomResourceDefinition says about it, if it comes from one.
    pub custom: Option<Arc<Custom>>,
    /// What to tell whoever uses it; empty if nothing.
    pub deprecation: &'static str,
    /// Fields that a field selector may name besides `metadata.name` and `metadata.namespace`.
    pub selectable: &'static [SelectableField],
    /// What is particular about it.
    pub strategy: Strategy,
}

impl ResourceDef {
    /// Whether both come from the same state of a definition, in whatever version they are seen.
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

    /// Whether readers see what is kept, and nothing has to be converted or hidden.
    pub fn is_shown_as_kept(&self) -> bool {
        self.custom.is_none() && self.strategy.hide.is_none()
    }

    /// Whether requests for this version are answered.
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

    /// The same resource as those see it who ask for this version.
    #[must_use]
    pub fn in_version(self, version: &str) -> Self {
        if self.custom.is_none() || self.version == version {
            return self;
        }
        let status = self.has_status(version);
        Self { version: version.to_owned().into(), status, ..self }
    }

    /// What to tell whoever uses this version; empty if nothing.
    pub fn warning(&self, version: &str) -> &str {
        match self.custom.as_ref().and_then(|custom| custom.version(version)) {
            None => self.deprecation,
            Some(version) => &version.warning,
        }
    }

    /// Where its replicas are in this version, if it has a scale subresource.
    pub fn scale(&self, version: &str) -> Option<&Scale> {
        self.custom.as_ref()?.version(version)?.scale.as_ref()
    }

    /// Whether it has a status subresource in this version.
    pub fn has_status(&self, version: &str) -> bool {
        match self.custom.as_ref().and_then(|custom| custom.version(version)) {
            None => self.status,
            Some(version) => version.status,
        }
    }

    /// What kubectl users type.
    pub fn all_short_names(&self) -> Vec<&str> {
        match &self.custom {
            None => self.short_names.to_vec(),
            Some(custom) => custom.short_names.iter().map(String::as_str).collect(),
        }
    }

    /// Groups of resources that it belongs to.
    pub fn all_categories(&self) -> Vec<&str> {
        match &self.custom {
            None => self.categories.to_vec(),
            Some(custom) => custom.categories.iter().map(String::as_str).collect(),
        }
    }

    /// `v1`, `coordination.k8s.io/v1`: its group with this version.
    pub fn api_version(&self, version: &str) -> String {
        match self.id.group.as_ref() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        }
    }
}

/// Gives out to an object what the store knows: as it would be, and as it is, if it is there.
pub type Allocate = fn(&Store, &mut Value, Option<&Value>) -> Result<(), Status>;

/// One thing that an update checks. The real server checks metadata several times, and what is wrong
/// with it then stands several times among the causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Metadata as on creation.
    Metadata,
    /// What nobody may change of metadata.
    MetadataChange,
    /// [`Strategy::validate`].
    Whole,
    /// [`Strategy::validate_update`].
    Change,
    /// [`Strategy::validate_status`].
    Status,
}

/// What is particular about a kind.
#[derive(Clone, Copy, Debug)]
pub struct Strategy {
    /// How its names look.
    pub names: NameRule,
    /// Whether `metadata.generation` counts changes of everything but metadata and status.
    pub generation: bool,
    /// Whether an update of a missing object creates it.
    pub create_on_update: bool,
    /// Whether an update without resourceVersion is accepted.
    pub unconditional_update: bool,
    /// Fills in what a body leaves out, if anything; it sees nothing but the body.
    pub default: Option<fn(&mut Value)>,
    /// Gives out what only the whole store can: numbers that no other object has, what another one says.
    pub allocate: Option<Allocate>,
    /// Sets the state that creation begins with.
    pub begin: fn(&mut Value),
    /// Carries over from the object as it is what an update does not touch.
    pub carry_over: fn(&Value, &mut Value),
    /// What is always checked: the object as it would be.
    pub validate: fn(&Value, &mut FieldErrors),
    /// What is checked of a change: the object as it would be, and as it is.
    pub validate_update: fn(&Value, &Value, &mut FieldErrors),
    /// What is checked of a change through the status: as it would be, and as it is.
    pub validate_status: fn(&Value, &Value, &mut FieldErrors),
    /// Hides what is kept but not shown, if there is such a thing in this object. Who changes an object
    /// changes what is kept.
    pub hide: Option<fn(&Value) -> Option<Value>>,
    /// What is checked of a change through `finalize`: the object as it would be.
    pub validate_finalize: fn(&Value, &mut FieldErrors),
    /// What to tell whoever writes an object like this.
    pub warn: fn(&Value) -> Vec<String>,
    /// Whether an update tells again what could be told of the object before.
    pub repeats_warnings: bool,
    /// What an update checks, in this order.
    pub checks: &'static [Check],
    /// What a change through the status checks, in this order.
    pub status_checks: &'static [Check],
    /// Whether finalizers without a domain have to be known ones.
    pub knows_finalizers: bool,
    /// Whether deleting in the foreground, or orphaning what it owns, waits for a garbage collector.
    pub collectable: bool,
    /// How many seconds a deletion waits, of so many asked for; kinds without it do not wait.
    pub grace: Option<fn(&Value, Option<i64>) -> i64>,
    /// Whether something besides finalizers keeps a deleted object.
    pub is_held: fn(&Value) -> bool,
    /// Marks an object that begins to terminate at this moment, which is always its first step; kinds
    /// without it go at once unless a finalizer holds them.
    pub begin_delete: Option<fn(&mut Value, &Value)>,
    /// Says why the object of this name must not be deleted.
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

/// How the names of a kind look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain.
    Subdomain,
    /// RFC 1123 label.
    Label,
    /// RFC 1035 label.
    Label1035,
    /// Anything that fits into a path.
    PathSegment,
}

impl NameRule {
    /// Whether something may be called so.
    pub fn allows(self, name: &str) -> bool {
        super::names::name_problems(self, name).is_empty()
    }
}

/// How the list at a path merges. Elements of lists do not count as steps of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRule {
    /// A list of maps; equal values of `key` mean the same element.
    ByKey {
        /// Dotted path from the object's root, `status.conditions`.
        path: &'static str,
        /// The field that tells elements apart, `type`.
        key: &'static str,
        /// Whether `$retainKeys` comes with patches of its elements; they are honored anyway.
        retain_keys: bool,
    },
    /// A list of scalars that is a set.
    Set {
        /// Dotted path from the object's root, `metadata.finalizers`.
        path: &'static str,
    },
}

impl MergeRule {
    /// A list of maps at `path`, told apart by `key`.
    pub const fn by_key(path: &'static str, key: &'static str) -> Self {
        Self::ByKey { path, key, retain_keys: false }
    }

    /// A set of scalars at `path`.
    pub const fn set(path: &'static str) -> Self {
        Self::Set { path }
    }

    /// The path this rule is about.
    pub fn path(&self) -> &'static str {
        match self {
            Self::ByKey { path, .. } | Self::Set { path } => path,
        }
    }
}

/// A field that a field selector may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// Its name in selectors, `involvedObject.name`.
    pub name: &'static str,
    /// Where the value is, as a JSON pointer.
    pub pointer: &'static str,
    /// Its value where the object has none.
    pub default: &'static str,
}
