//! What is brought back from the annotation, as data.

use serde_json::{Value, json};

use super::document::{Document, found, list, text};

/// One thing to bring back. What was kept and is not there any more goes from the object as well.
pub(super) enum Rule {
    /// Fields of a structure, if both have that.
    Take(&'static str, &'static [&'static str]),
    /// Fields of a structure, which is made if only what was kept has it.
    Made(&'static str, &'static [&'static str]),
    /// One field that the object does not have; structures on the way to it are made.
    Fill(&'static str),
    /// Fields of those elements of a list that have the same name.
    ByName(&'static str, &'static [&'static str]),
}

/// A rule with the first and the last version that follow it.
pub(super) type Dated = (u8, u8, Rule);

/// Follows the rules for a version, one after the other.
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
                if found(&object.0, path).is_some() && found(kept, path).is_some() {
                    copy(object, kept, path, fields);
                }
            }
            Self::Made(path, fields) => {
                if found(kept, path).is_none() {
                    return;
                }
                if found(&object.0, path).is_none() {
                    object.put(path, json!({}));
                }
                copy(object, kept, path, fields);
            }
            Self::Fill(path) => {
                if let (None, Some(value)) = (found(&object.0, path), found(kept, path)) {
                    object.put(path, value.clone());
                }
            }
            Self::ByName(path, fields) => {
                for element in object.elements(path) {
                    // Of several with one name, the last counts.
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
        object.put_found(&pointer, found(kept, &pointer));
    }
}
