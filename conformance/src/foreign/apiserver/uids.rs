//! Maps UIDs between the world and the real server.
//!
//! Objects refer to other objects by UID: a lease to its Node, an event to its object. A reference
//! may appear after its object has been deleted, so the map keeps every UID for the whole case.

use std::collections::HashMap;

use serde_json::Value;

/// UIDs of both sides, mapped in both directions.
#[derive(Debug, Default)]
pub(super) struct Uids {
    /// UIDs of the real server, by those of the world.
    there: HashMap<String, String>,
    /// UIDs of the world, by those of the real server.
    here: HashMap<String, String>,
}

impl Uids {
    /// Records that the two objects are copies of each other.
    pub(super) fn pair(&mut self, ours: &Value, theirs: &Value) {
        let (ours, theirs) = (uid(ours).to_owned(), uid(theirs).to_owned());
        self.there.insert(ours.clone(), theirs.clone());
        self.here.insert(theirs, ours);
    }

    /// Returns an object of the world with the known UIDs in its references changed to those of the
    /// real server.
    pub(super) fn for_server(&self, object: &Value) -> Value {
        renamed(object, &self.there)
    }

    /// Returns an object of the real server with the known UIDs in its references changed to those
    /// of the world.
    pub(super) fn for_world(&self, object: &Value) -> Value {
        renamed(object, &self.here)
    }
}

/// Returns the UID of an object; empty if it has none.
pub(super) fn uid(object: &Value) -> &str {
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
    fn a_reference_gets_the_uid_of_the_paired_object_on_the_other_side() {
        let node = |uid: &str| json!({"metadata": {"name": "node-1", "uid": uid}});
        let mut uids = Uids::default();
        uids.pair(&node("world"), &node("real"));
        let event = |uid: &str| json!({"involvedObject": {"name": "node-1", "uid": uid}});
        let lease = |uid: &str| json!({"metadata": {"ownerReferences": [{"uid": uid}]}});
        for it in [&event as &dyn Fn(&str) -> Value, &lease] {
            assert_eq!(uids.for_world(&it("real")), it("world"));
            assert_eq!(uids.for_server(&it("world")), it("real"));
            assert_eq!(uids.for_world(&it("of somebody else")), it("of somebody else"));
        }
    }
}
