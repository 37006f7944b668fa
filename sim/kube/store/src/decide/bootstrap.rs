//! The initial objects of every cluster: system namespaces, and the RBAC roles and bindings that
//! the real server creates on its first start.
//!
//! All roles and bindings have the first revision of the store, so that they do not shift the
//! revisions of later objects. Their data comes from a real server; see `schemas/generate.py`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::object::{fields, meta};
use crate::resources::builtin;
use crate::resources::core::namespaces;
use crate::resources::rbac::clusterroles::GROUP;
use crate::schema::{GoDecoder, decode};
use crate::{Command, GroupResource, Ids, Key, Store};

/// The roles and bindings by resource, with their fields in the order in which the real server
/// writes them. [`add_roles`] adds the uid, the resourceVersion and the creationTimestamp.
static OBJECTS: LazyLock<Vec<(String, Vec<Value>)>> = LazyLock::new(|| {
    let text = include_str!("../../schemas/rbac.json");
    let file: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(text).expect("schemas/rbac.json is readable");
    let builtin = builtin();
    let kind = |resource: &str| {
        let mut all = builtin.iter();
        all.find(|def| def.id.group == GROUP && def.id.resource == resource)
    };
    file.into_iter()
        .filter_map(|(resource, objects)| {
            let def = kind(&resource)?;
            let arranged = |mut object: Value| {
                let head = fields::as_map(&mut object);
                head.insert("kind".into(), def.kind.as_ref().into());
                head.insert("apiVersion".into(), def.api_version(&def.version).into());
                decode(def.structure()?, &object, GoDecoder::Json).ok().map(|read| read.object)
            };
            Some((resource, objects.into_iter().filter_map(arranged).collect()))
        })
        .collect()
});

impl Store {
    /// Returns a store with the built-in resources and the initial objects of every cluster: RBAC
    /// roles, RBAC bindings and system namespaces, all created at the Unix epoch.
    pub fn new(ids: Ids) -> Self {
        Self::new_at(ids, Timestamp::UNIX_EPOCH)
    }

    /// Returns a store like that of [`Store::new`], whose initial objects were created at `now`.
    pub fn new_at(ids: Ids, now: Timestamp) -> Self {
        let mut store = Self::empty(ids, builtin());
        add_roles(&mut store, now);
        add_namespaces(&mut store, now);
        store
    }
}

/// Adds the roles and bindings to an empty store.
fn add_roles(store: &mut Store, now: Timestamp) {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    for (resource, objects) in OBJECTS.iter() {
        let id = GroupResource { group: GROUP.into(), resource: resource.as_str().into() };
        for object in objects {
            let mut object = object.clone();
            let key =
                Key::new(id.clone(), meta::text(&object, "namespace"), meta::text(&object, "name"));
            let path = format!("{GROUP}/{resource}/{}/{}#0", key.namespace, key.name);
            let old = std::mem::take(fields::map_mut(&mut object, "metadata"));
            let mut metadata = Map::new();
            // The order of the real server: first names, then identity, then all other fields.
            let (names, rest): (Vec<_>, Vec<_>) = old
                .into_iter()
                .partition(|(name, _)| matches!(name.as_str(), "name" | "namespace"));
            metadata.extend(names);
            metadata.insert("uid".into(), store.ids.uuid("object", &path).to_string().into());
            metadata.insert("resourceVersion".into(), store.revision.to_string().into());
            metadata.insert("creationTimestamp".into(), now.as_str().into());
            metadata.extend(rest);
            *fields::map_mut(&mut object, "metadata") = metadata;
            store.objects.entry(id.clone()).or_default().insert(key.path(), Arc::new(object));
        }
    }
}

fn add_namespaces(store: &mut Store, now: Timestamp) {
    for name in namespaces::SYSTEM {
        let object = json!({"metadata": {"name": name}});
        let command = Command::create(GroupResource::core("namespaces"), "", object);
        let Ok(decision) = store.decide(now, command) else { continue };
        for event in &decision.events {
            store.fold(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OBJECTS;
    use crate::Ids;
    use crate::{GroupResource, Key, Store};

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
