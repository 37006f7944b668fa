//! Rules that say which fields a conversion restores from the annotation.

use serde_json::{Value, json};

use super::document::{Document, list, text, value_at};

/// A rule for fields to restore from the kept object, which is the content of the annotation. All
/// rules but [`Fill`](Self::Fill) also remove a field that the kept object does not have.
pub(super) enum Rule {
    /// Restores fields of a structure if both objects have the structure.
    Take(&'static str, &'static [&'static str]),
    /// Restores fields of a structure if the kept object has the structure. Creates it in the
    /// restored object if necessary.
    Made(&'static str, &'static [&'static str]),
    /// Restores one field if the object does not have it, and creates the structures on the path to
    /// it.
    Fill(&'static str),
    /// Restores fields of list elements. An element of one list corresponds to the element of the
    /// other list with the same `name`.
    ByName(&'static str, &'static [&'static str]),
}

/// A rule with the first and the last older version to which it applies.
pub(super) type Dated = (u8, u8, Rule);

/// Applies the rules that apply to `version`, in order.
pub(super) fn restore(object: &mut Document, kept: &Value, version: u8, rules: &[Dated]) {
    for (first, last, rule) in rules {
        if (*first..=*last).contains(&version) {
            rule.follow(object, kept);
        }
    }
}

impl Rule {
    fn follow(&self, object: &mut Document, kept: &Value) {
        match self {
            Self::Take(path, fields) => {
                if value_at(&object.0, path).is_some() && value_at(kept, path).is_some() {
                    copy(object, kept, path, fields);
                }
            }
            Self::Made(path, fields) => {
                if value_at(kept, path).is_none() {
                    return;
                }
                if value_at(&object.0, path).is_none() {
                    object.put(path, json!({}));
                }
                copy(object, kept, path, fields);
            }
            Self::Fill(path) => {
                if let (None, Some(value)) = (value_at(&object.0, path), value_at(kept, path)) {
                    object.put(path, value.clone());
                }
            }
            Self::ByName(path, fields) => {
                for element in object.elements(path) {
                    // If several elements have the name, the last one counts.
                    let same = |it: &&Value| text(it, "/name") == text(element, "/name");
                    if let Some(kept) = list(kept, path).iter().rfind(same) {
                        let mut whole = Document(element.take());
                        copy(&mut whole, kept, "", fields);
                        *element = whole.0;
                    }
                }
            }
        }
    }
}

fn copy(object: &mut Document, kept: &Value, path: &str, fields: &[&str]) {
    for field in fields {
        let pointer = format!("{path}/{field}");
        object.put_found(&pointer, value_at(kept, &pointer));
    }
}
