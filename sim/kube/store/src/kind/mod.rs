//! Definitions of kinds of objects: their names, their strategy, and rules for merging lists.

pub(crate) mod custom;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use custom::{Custom, Scale};

use crate::schema::{Struct, Types};
use crate::{FieldErrors, GroupResource, Key, NameRule, Status};

/// Definition of a kind of object: its properties as data, and its behavior as a `Strategy`.
#[derive(Clone, Debug)]
pub struct ResourceDef {
    /// API group and plural name of the resource.
    pub id: GroupResource,
    /// A version of the kind, such as `v1`: the only one of a built-in kind, the stored one of a
    /// custom kind, or the one that the caller of [`Self::in_version`] chose.
    pub version: Cow<'static, str>,
    /// The kind, such as `Node`.
    pub kind: Cow<'static, str>,
    /// Singular name in lower case.
    pub singular: Cow<'static, str>,
    /// Short names of a built-in kind for kubectl; see also [`Self::all_short_names`].
    pub short_names: &'static [&'static str],
    /// Categories of a built-in kind, such as `all`; see also [`Self::all_categories`].
    pub categories: &'static [&'static str],
    /// True if the objects belong to namespaces.
    pub namespaced: bool,
    /// True if the objects contain values that messages must not repeat.
    pub hides_content_in_errors: bool,
    /// True if the answer to a deletion is the object instead of a `Status`.
    pub returns_deleted: bool,
    /// True if the kind has a status subresource in [`Self::version`].
    pub status: bool,
    /// True if a built-in kind has a scale subresource; see [`Self::scale`].
    pub scales: bool,
    /// Path of the objects in the real server's storage, which some messages contain.
    pub registry: Cow<'static, str>,
    /// The kind as its CustomResourceDefinition describes it; `None` for a built-in kind.
    pub custom: Option<Arc<Custom>>,
    /// Warning for clients of a built-in kind; empty if none. See also [`Self::warning`].
    pub deprecation: &'static str,
    /// Fields of a built-in kind that a field selector may name, besides `metadata.name` and
    /// `metadata.namespace`.
    pub selectable: &'static [SelectableField],
    /// Behavior that is specific to the kind.
    pub(crate) strategy: Strategy,
}

/// Places of the replicas in a built-in kind with a scale subresource.
static BUILT_IN_SCALE: LazyLock<Scale> = LazyLock::new(|| Scale {
    spec_replicas: "/spec/replicas".into(),
    status_replicas: "/status/replicas".into(),
    selector: "/spec/selector".into(),
});

impl ResourceDef {
    /// Returns the definition of a built-in kind with version `v1` and namespaces, and without
    /// short names, status and behavior.
    pub(crate) fn builtin(group: &'static str, resource: &'static str, kind: &'static str) -> Self {
        Self {
            id: GroupResource::of(group, resource),
            version: "v1".into(),
            kind: kind.into(),
            singular: kind.to_ascii_lowercase().into(),
            short_names: &[],
            categories: &[],
            namespaced: true,
            hides_content_in_errors: false,
            returns_deleted: false,
            status: false,
            scales: false,
            registry: resource.into(),
            custom: None,
            deprecation: "",
            selectable: &[],
            strategy: Strategy::PLAIN,
        }
    }

    /// True if both describe the same built-in kind, or come from the same registration of a custom
    /// kind. A store registers a custom kind again when the spec, the accepted names or the
    /// establishment of its definition changes. The versions of the two may differ.
    pub fn is_same_as(&self, other: &Self) -> bool {
        match (&self.custom, &other.custom) {
            (None, None) => self.id == other.id,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// The Go structure of a built-in kind; `None` for a custom kind.
    pub(crate) fn structure(&self) -> Option<&'static Struct> {
        if self.custom.is_some() {
            return None;
        }
        Types::builtin().kind(&self.id.group, &self.kind)
    }

    /// True if clients see objects exactly as the store keeps them: for a built-in kind without
    /// hidden fields. False for every custom kind, whose objects may need a conversion.
    pub fn is_shown_as_kept(&self) -> bool {
        self.custom.is_none() && self.strategy.hide.is_none()
    }

    /// True if clients do not see some of the fields that the store keeps.
    pub fn hides_fields(&self) -> bool {
        self.strategy.hide.is_some()
    }

    /// True if the API server serves this version.
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

    /// Returns the definition as clients of `version` see it.
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

    /// JSON pointers to the replicas in this version; `None` if the version has no scale
    /// subresource.
    pub fn scale(&self, version: &str) -> Option<&Scale> {
        match &self.custom {
            None => self.scales.then(|| &*BUILT_IN_SCALE),
            Some(custom) => custom.version(version)?.scale.as_ref(),
        }
    }

    /// True if this version has a status subresource.
    pub fn has_status(&self, version: &str) -> bool {
        match self.custom.as_ref().and_then(|custom| custom.version(version)) {
            None => self.status,
            Some(version) => version.status,
        }
    }

    /// Short names for kubectl, of a built-in or a custom kind.
    pub fn all_short_names(&self) -> Vec<&str> {
        match &self.custom {
            None => self.short_names.to_vec(),
            Some(custom) => custom.short_names.iter().map(String::as_str).collect(),
        }
    }

    /// Categories of a built-in or a custom kind.
    pub fn all_categories(&self) -> Vec<&str> {
        match &self.custom {
            None => self.categories.to_vec(),
            Some(custom) => custom.categories.iter().map(String::as_str).collect(),
        }
    }

    /// The apiVersion of the kind's group with `version`, such as `v1` or `coordination.k8s.io/v1`.
    pub fn api_version(&self, version: &str) -> String {
        match self.id.group.as_ref() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        }
    }
}

/// Function that assigns values which depend on other objects of the store. Its arguments are the
/// store, the new object, and the existing object (`None` on creation). An error refuses the write.
pub(crate) type Allocate = fn(&dyn ObjectReader, &mut Value, Option<&Value>) -> Result<(), Status>;

/// One check of an update. The real server checks metadata several times, so an error in metadata
/// occurs several times among the causes. The store checks changed metadata once before all checks.
/// Only if that finds an error do `Metadata` and `MetadataChange` check metadata again. In any
/// case, both apply [`Strategy::requires_standard_finalizers`] to changed metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Metadata, as on creation.
    Metadata,
    /// The change of metadata: immutable fields, labels, annotations, owners and finalizers.
    MetadataChange,
    /// The schema of a custom kind, then [`Strategy::validate`].
    Whole,
    /// The change itself, by [`Strategy::validate_update`].
    Change,
    /// The status in the schema of a custom kind, then [`Strategy::validate_status`].
    Status,
}

/// Read access to the stored objects, for the functions in a [`Strategy`].
pub(crate) trait ObjectReader {
    /// Returns the object at `key`; `None` if no object exists there.
    fn get(&self, key: &Key) -> Option<&Arc<Value>>;

    /// Returns all objects of a resource, in the order of [`Key::path`].
    fn all<'a>(
        &'a self,
        resource: &'a GroupResource,
    ) -> Box<dyn Iterator<Item = &'a Arc<Value>> + 'a>;

    /// Returns a text that distinguishes an object created next at `key` from all earlier objects
    /// of its name; `None` if the store knows that no object of this name has been deleted.
    fn incarnation(&self, key: &Key) -> Option<String>;
}

/// Behavior that is specific to a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strategy {
    /// Rule that the names of objects must follow.
    pub names: NameRule,
    /// True if `metadata.generation` begins at 1 and counts changes of everything except metadata
    /// and status. For a custom kind without a status subresource, it counts changes of the status
    /// too.
    pub generation: bool,
    /// True if `metadata.generation` counts changes of annotations, too.
    pub counts_annotations: bool,
    /// True if an update of a missing object creates the object. An update of a subresource never
    /// does.
    pub create_on_update: bool,
    /// True if an update without resourceVersion, or with resourceVersion 0, is accepted.
    pub unconditional_update: bool,
    /// Fills in omitted fields of a body, and removes fields that the store does not keep. Depends
    /// on nothing but the body. `None` if the kind has no defaults.
    pub default: Option<fn(&mut Value)>,
    /// Assigns values that depend on other objects of the store, such as unique numbers. `None` if
    /// the kind has no such values.
    pub allocate: Option<Allocate>,
    /// Sets the values of a new object that depend on its uid, which is the second argument. `None`
    /// if the kind has no such values.
    pub identify: Option<fn(&mut Value, &str)>,
    /// Sets the initial state of a new object.
    pub begin: fn(&mut Value),
    /// Adjusts the new object of an update (second argument) to the existing one (first argument),
    /// for example restores a field that updates cannot change. Not called for changes through the
    /// subresources status and finalize.
    pub carry_over: fn(&Value, &mut Value),
    /// Checks the new object on creation, and on updates with [`Check::Whole`].
    pub validate: fn(&Value, &mut FieldErrors),
    /// Checks an update. The arguments are the new and the existing object.
    pub validate_update: fn(&Value, &Value, &mut FieldErrors),
    /// Checks a change through the status subresource. The arguments are the new and the existing
    /// object.
    pub validate_status: fn(&Value, &Value, &mut FieldErrors),
    /// Returns the object without the stored fields that clients do not see, or `None` if it has no
    /// such field. Updates and patches apply to the object with these fields. Kinds without this
    /// function hide nothing.
    pub hide: Option<fn(&Value) -> Option<Value>>,
    /// Checks the new object of a change through the finalize subresource.
    pub validate_finalize: fn(&Value, &mut FieldErrors),
    /// Returns the warnings for a client that writes this object.
    pub warn: fn(&Value) -> Vec<String>,
    /// True if an update returns all warnings about the new object; false if it leaves out those
    /// that already applied to the existing object.
    pub repeats_warnings: bool,
    /// Checks of an update, and of a change through the subresources scale and finalize, in this
    /// order.
    pub checks: &'static [Check],
    /// Checks of a change through the status subresource, in this order.
    pub status_checks: &'static [Check],
    /// True if a finalizer without a domain must be a standard one, such as `orphan`.
    pub requires_standard_finalizers: bool,
    /// True if a deletion with propagation `Foreground` or `Orphan` adds a finalizer of the garbage
    /// collector. A simulated cluster has no garbage collector, so the object stays until a client
    /// removes this finalizer.
    pub uses_gc_finalizers: bool,
    /// Returns the grace period of a deletion in seconds, from the object and the requested grace
    /// period. Kinds without this function have no grace period.
    pub grace: Option<fn(&Value, Option<i64>) -> i64>,
    /// True if something besides finalizers prevents the removal of an object that is marked for
    /// deletion.
    pub is_held: fn(&Value) -> bool,
    /// Changes an object when it is marked for deletion; the second argument is the time. Objects
    /// of a kind with this function are always deleted in two steps: first the mark, then the
    /// removal. The store removes objects of other kinds at once, unless a finalizer or a grace
    /// period holds them.
    pub begin_delete: Option<fn(&mut Value, &Value)>,
    /// Returns the reason why clients must not delete the object of this name; `None` if they may.
    pub refuse_delete: fn(&str) -> Option<&'static str>,
}

impl Strategy {
    /// Strategy of a kind without specific behavior.
    pub(crate) const PLAIN: Self = Self {
        names: NameRule::Subdomain,
        generation: false,
        counts_annotations: false,
        create_on_update: false,
        unconditional_update: true,
        default: None,
        allocate: None,
        identify: None,
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
        requires_standard_finalizers: true,
        uses_gc_finalizers: true,
        grace: None,
        is_held: |_| false,
        begin_delete: None,
        refuse_delete: |_| None,
    };
}

/// Merge rule of the list at a path. Elements of lists do not count as steps of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeRule {
    /// A list of maps. Two maps with equal values of `key` are the same element.
    ByKey {
        /// Dotted path from the object's root, such as `status.conditions`.
        path: &'static str,
        /// The field that identifies elements, such as `type`.
        key: &'static str,
    },
    /// A list of scalars that is a set.
    Set {
        /// Dotted path from the object's root, such as `metadata.finalizers`.
        path: &'static str,
    },
}

impl MergeRule {
    /// Returns the rule for a list of maps at `path`, whose elements `key` identifies.
    pub const fn by_key(path: &'static str, key: &'static str) -> Self {
        Self::ByKey { path, key }
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
#[non_exhaustive]
pub struct SelectableField {
    /// Name in selectors, such as `involvedObject.name`.
    pub name: &'static str,
    /// JSON pointer to the value.
    pub pointer: &'static str,
    /// Value that selectors compare with if the field is missing, null or an empty text.
    pub default: &'static str,
}
