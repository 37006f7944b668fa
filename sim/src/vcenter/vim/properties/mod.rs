//! Current values of the properties of managed objects.
//!
//! One table per type has getters. The schema of vim25 says which properties exist; one without a
//! getter, or whose getter returns no value, is unset. The read of a leaf does not build the object
//! around it.

mod compute;
mod entity;
mod machine;
mod manager;
#[cfg(test)]
mod tests;

pub(crate) use manager::user_session;

use sim_world::State;
use sim_world::vcenter::{Data, Entity, MoRef, Setting, Task, VCenter};

use crate::call::vim25::{self, Version, keyed, parts};
use crate::vcenter::vim::data::{Field, Object, Value, setting as settings};

/// Source of property values: the state of a vCenter as one caller sees it.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) state: &'a State,
    pub(crate) vc: &'a VCenter,
    /// Token and session of the caller; `None` if the session has ended.
    pub(crate) session: Option<(&'a str, &'a sim_world::vcenter::Session)>,
    /// User of the session; `None` if the session is anonymous. Lists of references omit the
    /// objects that the user may not see.
    pub(crate) user: Option<&'a str>,
}

/// A managed object whose properties are read.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    Entity(MoRef, &'a Entity),
    Task(MoRef, &'a Task),
    /// A singleton such as `SessionManager`, by type.
    Manager(&'static str),
    /// A view, with its members.
    View(&'a super::views::View),
}

type Getter = fn(&Reader<'_>, Subject<'_>) -> Option<Value>;

/// A property of a managed object, or a field of a property.
pub(crate) struct Prop {
    name: &'static str,
    shape: Shape,
    /// True if the declared type is wider than the type of the value.
    typed: bool,
}

enum Shape {
    /// A value from its getter. [`read`] follows a deeper path into the value itself.
    Leaf(Getter),
    /// A setting of a machine at this path. Without one the value is that of the getter; a data object
    /// has the fields of both.
    Setting(&'static str, Getter),
    /// A data object: its type, a condition without which it is unset, and a table of its fields.
    Node(&'static str, fn(Subject<'_>) -> bool, &'static [Prop]),
}

const fn leaf(name: &'static str, getter: Getter) -> Prop {
    Prop { name, shape: Shape::Leaf(getter), typed: false }
}

/// Returns a property that is unset until a client sets it.
const fn setting(name: &'static str, path: &'static str) -> Prop {
    setting_or(name, path, |_, _| None)
}

/// Returns a property with a default that a client may change.
const fn setting_or(name: &'static str, path: &'static str, default: Getter) -> Prop {
    Prop { name, shape: Shape::Setting(path, default), typed: false }
}

const fn node(name: &'static str, kind: &'static str, fields: &'static [Prop]) -> Prop {
    Prop { name, shape: Shape::Node(kind, |_| true, fields), typed: false }
}

const fn node_if(
    name: &'static str,
    kind: &'static str,
    present: fn(Subject<'_>) -> bool,
    fields: &'static [Prop],
) -> Prop {
    Prop { name, shape: Shape::Node(kind, present, fields), typed: false }
}

/// Returns the properties of a type, without those of its base types.
fn table(kind: &str) -> &'static [Prop] {
    match kind {
        "ManagedEntity" => entity::MANAGED_ENTITY,
        "Folder" => entity::FOLDER,
        "Datacenter" => entity::DATACENTER,
        "Datastore" => entity::DATASTORE,
        "Network" => entity::NETWORK,
        "ComputeResource" => compute::COMPUTE_RESOURCE,
        "HostSystem" => compute::HOST,
        "ResourcePool" => compute::POOL,
        "VirtualMachine" => machine::MACHINE,
        "VirtualApp" => entity::VIRTUAL_APP,
        "Task" => manager::TASK,
        "ServiceInstance" => manager::SERVICE_INSTANCE,
        "SessionManager" => manager::SESSION_MANAGER,
        "TaskManager" => manager::TASK_MANAGER,
        "ManagedObjectView" => manager::MANAGED_OBJECT_VIEW,
        "ContainerView" => manager::CONTAINER_VIEW,
        _ => &[],
    }
}

/// Returns the properties of a type that have a getter, those of its base types first.
pub(crate) fn properties(kind: &str) -> impl Iterator<Item = &'static Prop> {
    let mut types: Vec<_> = vim25::find(kind).into_iter().flat_map(vim25::Type::chain).collect();
    types.reverse();
    types.into_iter().flat_map(|it| table(it.name))
}

fn find(kind: &str, name: &str) -> Option<&'static Prop> {
    properties(kind).find(|prop| prop.name == name)
}

/// Returns the value of a property; `None` if it is unset or unknown.
pub(crate) fn read(reader: &Reader<'_>, subject: Subject<'_>, path: &str) -> Option<Value> {
    let parts = parts(path);
    let (first, key) = keyed(parts.first()?)?;
    let mut prop = find(subject.kind(), first)?;
    let mut rest = &parts[1..];
    let mut key = key;
    loop {
        match &prop.shape {
            Shape::Node(_, present, fields) if !rest.is_empty() => {
                if !present(subject) {
                    return None;
                }
                let (name, next) = keyed(rest[0])?;
                prop = fields.iter().find(|field| field.name == name)?;
                (key, rest) = (next, &rest[1..]);
            }
            _ => {
                let value = value_of(reader, subject, prop)?;
                return descend(value, key, rest);
            }
        }
    }
}

/// Returns every property that is set, by name, for a spec with `all=true`.
pub(crate) fn read_all(
    reader: &Reader<'_>,
    subject: Subject<'_>,
) -> impl Iterator<Item = (&'static str, Value)> {
    properties(subject.kind())
        .filter_map(move |prop| value_of(reader, subject, prop).map(|value| (prop.name, value)))
}

/// Returns the names of the properties of a type that have a getter.
pub(crate) fn names(kind: &str) -> impl Iterator<Item = &'static str> {
    properties(kind).map(|prop| prop.name)
}

fn value_of(reader: &Reader<'_>, subject: Subject<'_>, prop: &Prop) -> Option<Value> {
    match &prop.shape {
        Shape::Leaf(getter) => getter(reader, subject),
        Shape::Setting(path, getter) => {
            let default = getter(reader, subject);
            let kept = subject.machine().and_then(|it| it.config.settings.get(*path));
            match kept.and_then(|kept| setting_value(path, kept)) {
                None => default,
                Some(kept) => Some(match default {
                    Some(default) => settings::overlay(default, kept),
                    None => kept,
                }),
            }
        }
        Shape::Node(kind, present, fields) => {
            present(subject).then(|| Value::Object(build(reader, subject, kind, fields)))
        }
    }
}

/// Returns a setting of a machine as a value of the declared type of the property at `path`.
fn setting_value(path: &str, kept: &Setting) -> Option<Value> {
    let declared = vim25::property("VirtualMachine", path, Version::LATEST)?;
    settings::value(kept, &declared)
}

fn build(
    reader: &Reader<'_>,
    subject: Subject<'_>,
    kind: &'static str,
    props: &'static [Prop],
) -> Object {
    let fields = props
        .iter()
        .filter_map(|prop| {
            let value = value_of(reader, subject, prop)?;
            Some(Field { name: prop.name, value, typed: prop.typed })
        })
        .collect();
    Object { kind, fields }
}

/// Follows a path into a value: takes the list element with `key`, if any, and then the fields in
/// `rest`. Returns `None` if the element or a field does not exist.
fn descend(value: Value, key: Option<&str>, rest: &[&str]) -> Option<Value> {
    let value = match (key, value) {
        (None, value) => value,
        (Some(key), Value::List(_, items)) => items.into_iter().find(|item| has_key(item, key))?,
        (Some(_), _) => return None,
    };
    let Some((next, rest)) = rest.split_first() else { return Some(value) };
    let (name, key) = keyed(next)?;
    let Value::Object(object) = value else { return None };
    let field = object.fields.into_iter().find(|field| field.name == name)?;
    descend(field.value, key, rest)
}

/// True if an element has this `key`: text keys are quoted, integers are not.
fn has_key(item: &Value, key: &str) -> bool {
    let Value::Object(object) = item else { return false };
    match object.get("key") {
        Some(Value::Int(int)) => key.parse() == Ok(*int),
        Some(Value::Text(text)) => {
            key.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) == Some(text.as_str())
        }
        _ => false,
    }
}

impl<'a> Subject<'a> {
    /// Name of the vim25 type of the object, such as `VirtualMachine`.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Entity(id, _) | Self::Task(id, _) => id.kind.type_name(),
            Self::Manager(kind) => kind,
            Self::View(view) => view.kind(),
        }
    }

    fn entity(self) -> Option<(MoRef, &'a Entity)> {
        match self {
            Self::Entity(id, entity) => Some((id, entity)),
            _ => None,
        }
    }

    fn data(self) -> Option<&'a Data> {
        self.entity().map(|(_, entity)| &entity.data)
    }

    fn machine(self) -> Option<&'a sim_world::vcenter::Machine> {
        self.entity().and_then(|(_, entity)| entity.machine())
    }
}
