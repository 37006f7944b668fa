//! An object during its conversion, with access to fields by JSON pointers.

use serde_json::{Map, Value, json};

/// The text at a pointer; empty if the pointer has no text.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a pointer; empty if the pointer has no list.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The value at a pointer; `None` if it is absent or null.
pub(super) fn value_at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    object.pointer(pointer).filter(|value| !value.is_null())
}

/// True if the value is a structure without fields.
pub(super) fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

/// The object that a conversion writes.
#[derive(Debug)]
pub(super) struct Document(pub(super) Value);

impl Document {
    /// Sets a field. Creates the structures on the path to it, in place of values on the path that
    /// are not structures.
    pub(super) fn put(&mut self, pointer: &str, value: impl Into<Value>) {
        let mut slot = &mut self.0;
        for step in pointer.split('/').skip(1) {
            if !slot.is_object() {
                *slot = json!({});
            }
            slot = &mut slot[step];
        }
        *slot = value.into();
    }

    /// Sets a field to `value`, or removes it if `value` is `None`.
    pub(super) fn put_found(&mut self, pointer: &str, value: Option<&Value>) {
        match value {
            Some(value) => self.put(pointer, value.clone()),
            None => drop(self.remove(pointer)),
        }
    }

    pub(super) fn remove(&mut self, pointer: &str) -> Option<Value> {
        let (parent, field) = pointer.rsplit_once('/')?;
        self.0.pointer_mut(parent)?.as_object_mut()?.shift_remove(field)
    }

    /// Removes the structure at `pointer` if it has no fields.
    pub(super) fn forget_empty(&mut self, pointer: &str) {
        if value_at(&self.0, pointer).is_some_and(is_empty) {
            self.remove(pointer);
        }
    }

    /// The elements of the list at a pointer; empty if the pointer has no list.
    pub(super) fn elements(&mut self, pointer: &str) -> impl Iterator<Item = &mut Value> {
        self.0.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten()
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.0.pointer("/metadata/annotations")?.get(key)?.as_str()
    }

    pub(super) fn annotate(&mut self, key: &str, value: String) {
        let annotations = self.remove("/metadata/annotations").filter(Value::is_object);
        let mut annotations = annotations.unwrap_or_else(|| json!({}));
        annotations[key] = value.into();
        self.put("/metadata/annotations", annotations);
    }

    /// Removes an annotation and returns its text; `None` if the object does not have it.
    pub(super) fn take_annotation(&mut self, key: &str) -> Option<String> {
        let annotations = self.0.pointer_mut("/metadata/annotations")?.as_object_mut()?;
        annotations.shift_remove(key)?.as_str().map(str::to_owned)
    }

    /// Moves the value of an annotation to another key.
    pub(super) fn rename_annotation(&mut self, from: &str, to: &str) {
        if let Some(value) = self.take_annotation(from) {
            self.annotate(to, value);
        }
    }
}
