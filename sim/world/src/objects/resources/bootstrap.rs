//! The roles and bindings that the real server makes when it starts for the first time.
//!
//! They are as old as the store: all have its first revision, so that they move no other number.
//! The data comes from a real server, see `schemas/generate.py`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::clusterroles::GROUP;
use crate::objects::{GroupResource, Key, Store, fields, meta};

/// Objects by resource, as the real server lists them. Never changes once it is read.
static OBJECTS: LazyLock<BTreeMap<String, Vec<Map<String, Value>>>> = LazyLock::new(|| {
    // A test holds that the file can be read.
    serde_json::from_str(include_str!("../../../schemas/rbac.json")).unwrap_or_default()
});

/// Puts them into an empty store.
pub(super) fn found(store: &mut Store, now: Timestamp) {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    for (resource, objects) in OBJECTS.iter() {
        let id = GroupResource { group: GROUP.into(), resource: resource.as_str().into() };
        let Some(kind) = store.resource(&id).map(|def| def.kind.clone()) else { continue };
        for object in objects {
            let mut object = Value::Object(object.clone());
            let key =
                Key::new(id.clone(), meta::text(&object, "namespace"), meta::text(&object, "name"));
            let metadata = fields::map_mut(&mut object, "metadata");
            let path = format!("{GROUP}/{resource}/{}/{}#0", key.namespace, key.name);
            metadata.insert("uid".into(), store.ids.uuid("object", &path).to_string().into());
            metadata.insert("creationTimestamp".into(), now.as_str().into());
            meta::set_revision(&mut object, store.revision);
            meta::arrange(&mut object, &format!("{GROUP}/v1"), &kind);
            store.objects.entry(id.clone()).or_default().insert(key.path(), Arc::new(object));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OBJECTS;
    use crate::Ids;
    use crate::objects::{GroupResource, Key, Store};

    #[test]
    fn every_cluster_begins_with_the_roles_of_the_real_server() {
        let n_objects: Vec<_> = OBJECTS.iter().map(|(id, all)| (id.as_str(), all.len())).collect();
        let want =
            [("clusterrolebindings", 50), ("clusterroles", 69), ("rolebindings", 7), ("roles", 7)];
        assert_eq!(n_objects, want);
        let store = Store::new(Ids::new(1));
        let id = GroupResource::of("rbac.authorization.k8s.io", "clusterroles");
        for name in ["cluster-admin", "admin", "edit", "view", "system:node", "system:discovery"] {
            let role = store.get(&Key::new(id.clone(), "", name)).unwrap();
            assert!(!role["rules"].as_array().unwrap().is_empty(), "{name}");
        }
    }
}
