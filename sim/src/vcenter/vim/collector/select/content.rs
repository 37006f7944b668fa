//! Values of selected objects, and properties that a rule makes unreadable.

use super::{Obj, PropertySelection, Views, subject};
use crate::faults::Effects;
use crate::vcenter::vim::data::{Object, Reference, Value, VimFault};
use crate::vcenter::vim::properties::{self, Reader, Subject};

/// Returns the `ObjectContent` of one object; `None` if the object does not exist.
pub(crate) fn object_content(
    reader: &Reader<'_>,
    views: &Views,
    obj: &Obj,
    wanted: &PropertySelection,
    effects: &Effects,
) -> Option<Object> {
    let subject = subject(reader, views, obj)?;
    let (values, missing) = values(reader, subject, wanted, effects);
    let set = |(name, value): (String, Value)| {
        Object::new("DynamicProperty").with("name", name).with_typed("val", value).into()
    };
    let content = Object::new("ObjectContent").with("obj", reference(obj, subject));
    let content = with_list(content, "propSet", "DynamicProperty", values.into_iter().map(set));
    Some(with_list(content, "missingSet", "MissingProperty", missing.into_iter().map(Value::from)))
}

/// Returns the wanted values that are set, and the properties that cannot be read.
pub(crate) fn values(
    reader: &Reader<'_>,
    subject: Subject<'_>,
    wanted: &PropertySelection,
    effects: &Effects,
) -> (Vec<(String, Value)>, Vec<Object>) {
    let mut values = Vec::new();
    let mut missing = Vec::new();
    let mut take = |path: &str, value: Option<Value>| match unreadable(effects, path) {
        Some(fault) => missing.push(missing_property(path, fault)),
        None => values.extend(value.map(|value| (path.to_owned(), value))),
    };
    if wanted.all {
        for (name, value) in properties::read_all(reader, subject) {
            take(name, Some(value));
        }
    } else {
        for path in &wanted.paths {
            take(path, properties::read(reader, subject, path));
        }
    }
    (values, missing)
}

/// Returns the `MissingProperty` for a path that cannot be read.
pub(crate) fn missing_property(path: &str, fault: &str) -> Object {
    let fault = VimFault::named(fault, None).localized();
    Object::new("MissingProperty").with("path", path).with("fault", fault)
}

/// Returns the fault with which a rule makes `path` unreadable; `None` if no rule does.
pub(crate) fn unreadable<'e>(effects: &'e Effects, path: &str) -> Option<&'e str> {
    let covered = |missing: &String| sim_world::vcenter::touches(missing, path);
    effects
        .missing_set
        .iter()
        .find(|missing| missing.paths.iter().any(covered))
        .map(|missing| missing.fault.as_str())
}

/// Returns the reference to an object that exists.
pub(crate) fn reference(obj: &Obj, subject: Subject<'_>) -> Reference {
    match obj {
        Obj::Mo(id) => (*id).into(),
        Obj::Named(id) => Reference::new(subject.kind(), id.clone()),
    }
}

/// Adds a list field, unless the list is empty.
pub(crate) fn with_list(
    object: Object,
    name: &'static str,
    item: &'static str,
    values: impl Iterator<Item = Value>,
) -> Object {
    let items: Vec<Value> = values.collect();
    if items.is_empty() { object } else { object.with(name, Value::List(item, items)) }
}
