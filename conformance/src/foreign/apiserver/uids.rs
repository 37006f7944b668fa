//! Which uid of the world is which of the real server.
//!
//! Objects name others by uid: a lease its node, an event what it is about. It may come after the other has gone, so that
//! nothing is forgotten while a case lasts.

use std::collections::HashMap;

use serde_json::Value;

/// Both ways.
#[derive(Debug, Default)]
pub(super) struct Uids {
    there: HashMap<String, String>,
    here: HashMap<String, String>,
}

impl Uids {
    /// From now on these two objects are one.
    pub(super) fn pair(&mut self, ours: &Value, theirs: &Value) {
        let (ours, theirs) = (of(ours).to_owned(), of(theirs).to_owned());
        self.there.insert(ours.clone(), theirs.clone());
        self.here.insert(theirs, ours);
    }

    /// An object of the world as the real server would have it.
    pub(super) fn there(&self, object: &Value) -> Value {
        renamed(object, &self.there)
    }

    /// An object of the real server as the world would have it.
    pub(super) fn here(&self, object: &Value) -> Value {
        renamed(object, &self.here)
    }
}

/// An object's own uid.
pub(super) fn of(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn renamed(object: &Value, names: &HashMap<String, String>) -> Value {
    let mut object = object.clone();
    for field in ["involvedObject", "related"] {
        if let Some(reference) = object.get_mut(field) {
            rename(reference, names);
        }
    }
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    owners.into_iter().flatten().for_each(|owner| rename(owner, names));
    object
}

fn rename(reference: &mut Value, names: &HashMap<String, String>) {
    let known = reference["uid"].as_str().and_then(|uid| names.get(uid));
    if let Some(known) = known.cloned() {
        reference["uid"] = known.into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_follow_whom_they_are_about() {
        let node = |uid: &str| json!({"metadata": {"name": "node-1", "uid": uid}});
        let mut uids = Uids::default();
        uids.pair(&node("world"), &node("real"));
        let event = |uid: &str| json!({"involvedObject": {"name": "node-1", "uid": uid}});
        let lease = |uid: &str| json!({"metadata": {"ownerReferences": [{"uid": uid}]}});
        for it in [&event as &dyn Fn(&str) -> Value, &lease] {
            assert_eq!(uids.here(&it("real")), it("world"));
            assert_eq!(uids.there(&it("world")), it("real"));
            assert_eq!(uids.here(&it("of somebody else")), it("of somebody else"));
        }
    }
}
