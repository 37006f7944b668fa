//! Conversion of planned updates to the data objects of a reply.

use std::sync::Arc;

use super::Collector;
use super::follow::Filter;
use super::position::{Planned, UpdateKind};
use crate::faults::Effects;
use crate::vcenter::vim::collector::select::{
    self, Obj, Views, missing_property, unreadable, with_list,
};
use crate::vcenter::vim::data::{Object, Reference, Value};
use crate::vcenter::vim::properties::{self, Reader};

impl Collector {
    pub(super) fn filter_update<'p>(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
        id: &Arc<str>,
        planned: impl Iterator<Item = &'p Planned>,
    ) -> Option<Value> {
        let filter = self.filters.get(id)?;
        let mut objects = planned
            .filter_map(|update| object_update(reader, views, effects, filter, update))
            .map(Value::from)
            .peekable();
        objects.peek()?;
        let update = Object::new("PropertyFilterUpdate").with("filter", filter.reference.clone());
        Some(with_list(update, "objectSet", "ObjectUpdate", objects).into())
    }
}

fn object_update(
    reader: &Reader<'_>,
    views: &Views,
    effects: &Effects,
    filter: &Filter,
    update: &Planned,
) -> Option<Object> {
    let subject = select::subject(reader, views, &update.obj);
    let kind = |kind| Value::Enum("ObjectUpdateKind", kind);
    match (&update.kind, subject) {
        (UpdateKind::Leave, _) => {
            let reference = match &update.obj {
                Obj::Mo(id) => (*id).into(),
                Obj::Named(id) => Reference::new("ManagedObject", id.clone()),
            };
            Some(Object::new("ObjectUpdate").with("kind", kind("leave")).with("obj", reference))
        }
        // The object was deleted after the plan was made. The next reply reports that it left.
        (_, None) => None,
        (UpdateKind::Enter, Some(subject)) => {
            let wanted = filter.spec.wanted(subject.kind())?;
            let (values, missing) = select::values(reader, subject, &wanted, effects);
            let changes = values.into_iter().map(|(name, value)| assign(&name, Some(value)));
            let object = Object::new("ObjectUpdate")
                .with("kind", kind("enter"))
                .with("obj", select::reference(&update.obj, subject));
            let object = with_list(object, "changeSet", "PropertyChange", changes);
            let missing = missing.into_iter().map(Value::from);
            Some(with_list(object, "missingSet", "MissingProperty", missing))
        }
        (UpdateKind::Modify(paths), Some(subject)) => {
            let object = Object::new("ObjectUpdate")
                .with("kind", kind("modify"))
                .with("obj", select::reference(&update.obj, subject));
            let (unread, read): (Vec<_>, Vec<_>) =
                paths.iter().partition(|path| unreadable(effects, path).is_some());
            let changes =
                read.iter().map(|path| assign(path, properties::read(reader, subject, path)));
            let missing = unread.iter().map(|path| {
                missing_property(path, unreadable(effects, path).unwrap_or("SystemError")).into()
            });
            let object = with_list(object, "changeSet", "PropertyChange", changes);
            Some(with_list(object, "missingSet", "MissingProperty", missing))
        }
    }
}

/// Returns a `PropertyChange`. `None` as value says that the property has become unset.
fn assign(name: &str, value: Option<Value>) -> Value {
    let change = Object::new("PropertyChange")
        .with("name", name)
        .with("op", Value::Enum("PropertyChangeOp", "assign"));
    match value {
        Some(value) => change.with_typed("val", value).into(),
        None => change.into(),
    }
}
