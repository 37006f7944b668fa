//! Properties of managed objects: their names and current values.
//!
//! One table per type has the names and the getters. A path is valid if a table of the type or of
//! its base types has it, or if it leads into a property whose fields no table lists. It is set if
//! its getter returns a value. The read of a leaf does not build the object around it.

mod compute;
mod entity;
mod machine;
mod manager;

pub(crate) use manager::user_session;

use sim_world::State;
use sim_world::vcenter::{Data, Entity, MoRef, Task, VCenter};

use crate::vcenter::vim::data::{Field, Object, Value, types};

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
    /// A value without fields, from its getter.
    Leaf(Getter),
    /// A value whose fields no table lists. [`read`] follows a deeper path into the value itself.
    Data(Getter),
    /// A data object: its type, a condition without which it is unset, and a table of its fields.
    Node(&'static str, fn(Subject<'_>) -> bool, &'static [Prop]),
}

const fn leaf(name: &'static str, getter: Getter) -> Prop {
    Prop { name, shape: Shape::Leaf(getter), typed: false }
}

const fn data(name: &'static str, getter: Getter) -> Prop {
    Prop { name, shape: Shape::Data(getter), typed: false }
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

/// Returns a property that the vim25 schema declares and the sim never sets.
const fn unset(name: &'static str) -> Prop {
    Prop { name, shape: Shape::Data(|_, _| None), typed: false }
}

/// Returns the properties of a type, without those of its base types.
fn table(kind: &str) -> &'static [Prop] {
    match kind {
        "ManagedEntity" => entity::MANAGED_ENTITY,
        "ExtensibleManagedObject" => entity::EXTENSIBLE,
        "Folder" => entity::FOLDER,
        "Datacenter" => entity::DATACENTER,
        "Datastore" => entity::DATASTORE,
        "Network" => entity::NETWORK,
        "ComputeResource" => compute::COMPUTE_RESOURCE,
        "ClusterComputeResource" => compute::CLUSTER,
        "HostSystem" => compute::HOST,
        "ResourcePool" => compute::POOL,
        "VirtualMachine" => machine::MACHINE,
        "VirtualApp" => entity::VIRTUAL_APP,
        "DistributedVirtualSwitch" => entity::SWITCH,
        "DistributedVirtualPortgroup" => entity::PORT_GROUP,
        "Task" => manager::TASK,
        "ServiceInstance" => manager::SERVICE_INSTANCE,
        "SessionManager" => manager::SESSION_MANAGER,
        "TaskManager" => manager::TASK_MANAGER,
        "ViewManager" => manager::VIEW_MANAGER,
        "ManagedObjectView" => manager::MANAGED_OBJECT_VIEW,
        "ContainerView" => manager::CONTAINER_VIEW,
        "PropertyCollector" => manager::PROPERTY_COLLECTOR,
        "AuthorizationManager" => manager::AUTHORIZATION_MANAGER,
        _ => &[],
    }
}

/// Returns all properties of a type, those of its base types first.
pub(crate) fn properties(kind: &str) -> impl Iterator<Item = &'static Prop> {
    types::chain(kind).into_iter().rev().flat_map(table)
}

fn find(kind: &str, name: &str) -> Option<&'static Prop> {
    properties(kind).find(|prop| prop.name == name)
}

/// Splits a path: `config.hardware.device[4000].key` → `config`, `hardware`, `device[4000]`, `key`.
///
/// A dot inside brackets belongs to the key.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_u32);
    for (at, c) in path.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '.' if depth == 0 => {
                parts.push(&path[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&path[start..]);
    parts
}

/// Splits a part into name and key: `device[4000]` → `device`, `4000`. The key is `None` if the
/// part has no bracket. Returns `None` if the key is empty or its bracket is not closed.
fn keyed(part: &str) -> Option<(&str, Option<&str>)> {
    match part.split_once('[') {
        None => Some((part, None)),
        Some((name, rest)) => {
            let key = rest.strip_suffix(']')?;
            (!key.is_empty()).then_some((name, Some(key)))
        }
    }
}

/// True if objects of type `kind` have the property `path`. Accepts every path below a property of
/// the shape [`Shape::Data`], whose fields no table lists.
pub(crate) fn is_valid(kind: &str, path: &str) -> bool {
    let parts = parts(path);
    let mut prop: Option<&'static Prop> = None;
    for (n, part) in parts.iter().enumerate() {
        let Some((name, key)) = keyed(part) else { return false };
        let found = match prop {
            None => find(kind, name),
            Some(Prop { shape: Shape::Node(_, _, fields), .. }) => {
                fields.iter().find(|field| field.name == name)
            }
            Some(Prop { shape: Shape::Data(_), .. }) => return true,
            Some(Prop { shape: Shape::Leaf(_), .. }) => None,
        };
        let Some(found) = found else { return false };
        if key.is_some() && !matches!(found.shape, Shape::Data(_)) {
            return false;
        }
        prop = Some(found);
        if key.is_some() && n + 1 < parts.len() {
            return true;
        }
    }
    prop.is_some()
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

/// Returns the names of all properties of a type.
pub(crate) fn names(kind: &str) -> impl Iterator<Item = &'static str> {
    properties(kind).map(|prop| prop.name)
}

fn value_of(reader: &Reader<'_>, subject: Subject<'_>, prop: &Prop) -> Option<Value> {
    match &prop.shape {
        Shape::Leaf(getter) | Shape::Data(getter) => getter(reader, subject),
        Shape::Node(kind, present, fields) => {
            present(subject).then(|| Value::Object(build(reader, subject, kind, fields)))
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_checked_against_the_declared_type() {
        for (kind, path, want) in [
            ("VirtualMachine", "summary.runtime.powerState", true),
            ("VirtualMachine", "config.hardware.device[4000].deviceInfo.label", true),
            ("VirtualMachine", r#"config.extraConfig["guestinfo.metadata"].value"#, true),
            ("VirtualMachine", "config.nosuch", false),
            ("VirtualMachine", "name.more", false),
            ("VirtualMachine", "name[0]", false),
            ("VirtualMachine", "", false),
            ("VirtualMachine", "config.hardware.device[", false),
            ("ManagedEntity", "parent", true),
            ("ManagedEntity", "config", false),
            ("ClusterComputeResource", "host", true),
            ("SessionManager", "currentSession", true),
        ] {
            assert_eq!(is_valid(kind, path), want, "{kind} {path}");
        }
    }

    #[test]
    fn a_dot_in_a_key_belongs_to_the_key() {
        assert_eq!(parts(r#"a["b.c"].d"#), [r#"a["b.c"]"#, "d"]);
    }
}
