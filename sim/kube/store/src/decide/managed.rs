//! `metadata.managedFields`: for each manager, the fields that it was the last to set.
//!
//! Follows `apimachinery: pkg/util/managedfields` and `structured-merge-diff` for updates;
//! server-side apply is not implemented. A write that names a manager changes the entries. Writes
//! of the simulation itself name none and change no entry. As in the real server, an object without
//! entries gets none later. The real server merges the oldest entries above a limit of ten; this
//! module keeps all entries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::ResourceDef;
use crate::object::fields;
use crate::schema::{GoDecoder, OPENAPI, decode};

/// Fields of metadata that have no manager.
const UNMANAGED: [&str; 8] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// The writer of a change: its manager and the endpoint that it uses.
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) subresource: &'a str,
    /// Group and version of the written body, such as `apps/v1`.
    pub(crate) api_version: &'a str,
    /// The current time in whole seconds.
    pub(crate) now: &'a Value,
    /// The top-level field of the object that this endpoint cannot write; empty if none.
    pub(crate) closed: &'a str,
}

/// Returns the entries of `managedFields` after a write that turns `old` (`None` on creation) into
/// `new`.
pub(crate) fn track(
    def: &ResourceDef,
    version: &str,
    old: Option<&Value>,
    new: &Value,
    writer: &Writer<'_>,
) -> Vec<Value> {
    let before = old.map_or(&[][..], |old| fields::list(old, "/metadata/managedFields"));
    let nothing = zero(def);
    let (mut changed, mut removed) = (Set::default(), Set::default());
    let schema = schema(def, version);
    compare_root(schema, old.unwrap_or(&nothing), new, writer.closed, &mut changed, &mut removed);
    if changed.is_empty() && removed.is_empty() {
        return before.to_vec();
    }
    let mut after = Vec::new();
    let mut is_known = false;
    for entry in before {
        let mut set = Set::read_root(&entry["fieldsV1"]);
        let is_mine = writer.owns(entry);
        set.remove(&removed);
        if is_mine {
            set.add(&changed);
            is_known = true;
        } else {
            set.remove(&changed);
        }
        if set.is_empty() {
            continue;
        }
        let mut entry = entry.clone();
        entry["fieldsV1"] = set.write();
        if is_mine && !changed.is_empty() {
            entry["time"] = writer.now.clone();
        }
        after.push(entry);
    }
    if !is_known && !changed.is_empty() {
        after.push(writer.entry(&changed));
    }
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    after.sort_by_cached_key(|entry| {
        ["operation", "time", "manager", "apiVersion", "subresource"]
            .map(|field| text(entry, field))
    });
    after
}

impl Writer<'_> {
    fn owns(&self, entry: &Value) -> bool {
        let is = |field: &str, text: &str| entry[field].as_str().unwrap_or_default() == text;
        is("manager", self.manager)
            && is("operation", "Update")
            && is("apiVersion", self.api_version)
            && is("subresource", self.subresource)
    }

    fn entry(&self, set: &Set) -> Value {
        let mut entry = json!({
            "manager": self.manager, "operation": "Update", "apiVersion": self.api_version,
            "time": self.now, "fieldsType": "FieldsV1", "fieldsV1": set.write(),
        });
        if !self.subresource.is_empty() {
            entry["subresource"] = self.subresource.into();
        }
        entry
    }
}

/// Returns the object with which a creation is compared: the zero value of the kind's Go structure,
/// or an empty object for a custom kind.
fn zero(def: &ResourceDef) -> Value {
    let empty = json!({});
    let zero = def.structure().and_then(|root| decode(root, &empty, GoDecoder::Json).ok());
    zero.map_or(empty, |zero| zero.object)
}

/// A set of fields in the form of `fieldsV1`: names of fields (`f:`), and keys (`k:`) and values
/// (`v:`) of list elements.
#[derive(Clone, Debug, Default, PartialEq)]
struct Set {
    is_member: bool,
    below: BTreeMap<String, Self>,
}

impl Set {
    fn read_root(fields: &Value) -> Self {
        Self { is_member: false, ..Self::read(fields) }
    }

    fn read(fields: &Value) -> Self {
        let Some(map) = fields.as_object() else { return Self::default() };
        let below = map.iter().filter(|(name, _)| *name != ".");
        Self {
            is_member: map.is_empty() || map.contains_key("."),
            below: below.map(|(name, it)| (name.clone(), Self::read(it))).collect(),
        }
    }

    fn write(&self) -> Value {
        let mut map = Map::new();
        if self.is_member && !self.below.is_empty() {
            map.insert(".".into(), json!({}));
        }
        map.extend(self.below.iter().map(|(name, it)| (name.clone(), it.write())));
        Value::Object(map)
    }

    fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }

    fn add(&mut self, other: &Self) {
        self.is_member |= other.is_member;
        for (name, it) in &other.below {
            self.below.entry(name.clone()).or_default().add(it);
        }
    }

    fn remove(&mut self, other: &Self) {
        self.is_member &= !other.is_member;
        for (name, it) in &other.below {
            if let Some(mine) = self.below.get_mut(name) {
                mine.remove(it);
                if mine.is_empty() {
                    self.below.remove(name);
                }
            }
        }
    }

    fn put(&mut self, name: String, below: Self) {
        if !below.is_empty() {
            self.below.insert(name, below);
        }
    }
}

/// Schemas of built-in kinds.
static BUILT_IN: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(OPENAPI).expect("schemas/openapi.json is readable"));

/// Schema of a value without a schema: maps have a manager per field, lists have one manager as a
/// whole.
static UNKNOWN: Value = Value::Null;

fn schema<'a>(def: &'a ResourceDef, version: &str) -> &'a Value {
    match def.custom.as_ref().and_then(|custom| custom.version(version)) {
        Some(version) => &version.published,
        None => def.structure().map_or(&UNKNOWN, |root| &BUILT_IN[root.full]),
    }
}

/// Follows `$ref` from a schema of a built-in kind until a schema has none.
fn resolve(mut schema: &'static Value) -> &'static Value {
    loop {
        let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
        let Some(name) = reference.and_then(|it| it.rsplit('/').next()) else { return schema };
        schema = &BUILT_IN[name];
    }
}

/// Returns the schema to which `schema` refers, or `schema` itself if it is not a reference.
/// Schemas of custom kinds have no references.
fn part(schema: &Value) -> &Value {
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    match reference.and_then(|it| it.rsplit('/').next()) {
        Some(name) => resolve(&BUILT_IN[name]),
        None => schema,
    }
}

fn field<'a>(schema: &'a Value, name: &str) -> &'a Value {
    match schema["properties"].get(name) {
        Some(known) => known,
        None => &schema["additionalProperties"],
    }
}

fn compare_root(
    schema: &Value,
    old: &Value,
    new: &Value,
    closed: &str,
    changed: &mut Set,
    removed: &mut Set,
) {
    const METADATA: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    for name in names(Some(old), Some(new)) {
        if matches!(name, "apiVersion" | "kind") || name == closed {
            continue;
        }
        let (mut more, mut less) = (Set::default(), Set::default());
        if name == "metadata" {
            let (old, new) = (&old[name], &new[name]);
            for name in names(Some(old), Some(new)).into_iter().filter(|it| !UNMANAGED.contains(it))
            {
                let schema = field(&BUILT_IN[METADATA], name);
                let (mut a, mut b) = (Set::default(), Set::default());
                compare(schema, old.get(name), new.get(name), &mut a, &mut b);
                more.put(format!("f:{name}"), a);
                less.put(format!("f:{name}"), b);
            }
        } else {
            compare(field(schema, name), old.get(name), new.get(name), &mut more, &mut less);
        }
        changed.put(format!("f:{name}"), more);
        removed.put(format!("f:{name}"), less);
    }
}

fn compare(
    schema: &Value,
    old: Option<&Value>,
    new: Option<&Value>,
    changed: &mut Set,
    removed: &mut Set,
) {
    let outer = schema;
    let schema = part(schema);
    match (old, new) {
        (None, None) => return,
        (Some(_), None) => removed.is_member = true,
        (None, Some(_)) => changed.is_member = true,
        (Some(_), Some(_)) => {}
    }
    let is_whole = [outer, schema].iter().any(|it| it["x-kubernetes-map-type"] == "atomic");
    // For a list without `omitempty`, Go writes the zero value as null: the list exists and has no
    // elements.
    let is_map = |it: Option<&Value>| it.is_none_or(|it| it.is_object() || it.is_null());
    let is_list = |it: Option<&Value>| it.is_none_or(|it| it.is_array() || it.is_null());
    let kind = outer["x-kubernetes-list-type"].as_str();
    let mut child = |name: String, schema: &Value, old: Option<&Value>, new: Option<&Value>| {
        let (mut more, mut less) = (Set::default(), Set::default());
        compare(schema, old, new, &mut more, &mut less);
        changed.put(name.clone(), more);
        removed.put(name, less);
    };
    if is_map(old) && is_map(new) && !is_whole {
        for name in names(old, new) {
            let get = |it: Option<&'_ Value>| it.and_then(|it| it.get(name)).cloned();
            child(format!("f:{name}"), field(schema, name), get(old).as_ref(), get(new).as_ref());
        }
    } else if let (true, true, Some("map" | "set")) = (is_list(old), is_list(new), kind) {
        let keys: Vec<&str> = outer["x-kubernetes-list-map-keys"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let (old, new) = (elements(old, &keys), elements(new, &keys));
        let all: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in all {
            child(name.clone(), &outer["items"], old.get(name), new.get(name));
        }
    } else if old.is_some() && new.is_some() && old != new {
        changed.is_member = true;
    }
}

/// Names of the fields that occur in either map.
fn names<'a>(old: Option<&'a Value>, new: Option<&'a Value>) -> BTreeSet<&'a str> {
    let maps = [old, new].into_iter().flatten().filter_map(Value::as_object);
    maps.flat_map(|map| map.keys().map(String::as_str)).collect()
}

/// Returns the elements of a list by their name in `fieldsV1`, which contains the key or the value.
/// Elements with the same name count as one.
fn elements(list: Option<&Value>, keys: &[&str]) -> BTreeMap<String, Value> {
    let mut found: BTreeMap<String, Value> = BTreeMap::new();
    for element in list.and_then(Value::as_array).into_iter().flatten() {
        let name = if keys.is_empty() {
            format!("v:{element}")
        } else {
            let key: BTreeMap<&str, &Value> =
                keys.iter().filter_map(|key| Some((*key, element.get(*key)?))).collect();
            format!("k:{}", serde_json::to_string(&key).unwrap_or_default())
        };
        match found.get_mut(&name) {
            Some(Value::Array(same)) => same.push(element.clone()),
            Some(first) => *first = Value::Array(vec![first.take(), element.clone()]),
            None => {
                found.insert(name, element.clone());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::Ids;
    use crate::{Command, GroupResource, Key, PatchKind, Store};

    struct Lab(Store);

    impl Lab {
        /// Applies `command` at this second after 08:00. Returns manager and subresource, fields,
        /// and time of each entry of `managedFields`.
        fn managers(&mut self, second: u8, command: Command) -> Vec<(String, Value, String)> {
            let now = format!("2026-03-01T08:00:{second:02}Z").parse().unwrap();
            let decision = self.0.decide(now, command).unwrap();
            decision.events.iter().for_each(|event| self.0.fold(event));
            let managed = decision.reply.object["metadata"]["managedFields"].clone();
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            let entry = |it: &Value| {
                let door = format!("{} {}", text(&it["manager"]), text(&it["subresource"]));
                (door.trim().to_owned(), it["fieldsV1"].clone(), text(&it["time"]))
            };
            managed.as_array().into_iter().flatten().map(entry).collect()
        }
    }

    fn map(data: Value) -> Value {
        json!({"metadata": {"name": "m"}, "data": data})
    }

    #[test]
    fn the_last_writer_owns_a_field() {
        let mut lab = Lab(Store::new(Ids::new(1)));
        let create =
            Command::create(GroupResource::core("configmaps"), "default", map(json!({"a": "1"})));
        let found = lab.managers(1, create.by("one"));
        let whole = json!({"f:data": {".": {}, "f:a": {}}});
        assert_eq!(found, [("one".into(), whole.clone(), "2026-03-01T08:00:01Z".into())]);
        let key = Key::new("configmaps", "default", "m");
        let patch =
            |data: Value| Command::patch(key.clone(), PatchKind::Merge, json!({"data": data}));
        let found = lab.managers(2, patch(json!({"a": "2", "b": "1"})).by("two"));
        let fields: Vec<_> = found.iter().map(|(who, fields, _)| (who.as_str(), fields)).collect();
        let both = json!({"f:data": {"f:a": {}, "f:b": {}}});
        assert_eq!(fields, [("one", &json!({"f:data": {}})), ("two", &both)]);
        // A write without a change leaves all times as they are; removed fields have no manager.
        let before = lab.managers(3, patch(json!({"a": "2"})).by("two"));
        assert_eq!(before, found);
        let found = lab.managers(4, patch(json!({"b": null})).by("one"));
        let fields: Vec<_> = found.iter().map(|(who, fields, _)| (who.as_str(), fields)).collect();
        let rest = json!({"f:data": {"f:a": {}}});
        assert_eq!(fields, [("one", &json!({"f:data": {}})), ("two", &rest)]);
        // An empty list removes all entries, and later writes add none.
        let mut object = map(json!({"a": "9"}));
        object["metadata"]["managedFields"] = json!([]);
        assert!(lab.managers(5, Command::update(key.clone(), object).by("one")).is_empty());
        assert!(lab.managers(6, patch(json!({"a": "3"})).by("one")).is_empty());
    }

    #[test]
    fn elements_of_a_list_without_omitempty_have_managers() {
        let mut lab = Lab(Store::new(Ids::new(1)));
        let containers =
            json!([{"name": "c", "image": "i:1", "env": [{"name": "A", "value": "b"}]}]);
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
        let create = Command::create(GroupResource::core("pods"), "default", pod);
        let found = lab.managers(1, create.by("one"));
        let container = json!({
            ".": {}, "f:name": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:resources": {},
            "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
            "f:env": {".": {}, "k:{\"name\":\"A\"}": {".": {}, "f:name": {}, "f:value": {}}},
        });
        assert_eq!(found[0].1["f:spec"]["f:containers"], json!({"k:{\"name\":\"c\"}": container}));
    }

    #[test]
    fn an_object_created_by_the_simulation_has_no_managed_fields() {
        let mut lab = Lab(Store::new(Ids::new(1)));
        let create = Command::create(GroupResource::core("configmaps"), "default", map(json!({})));
        assert!(lab.managers(1, create).is_empty());
        let patch = json!({"data": {"a": "1"}});
        let key = Key::new("configmaps", "default", "m");
        let patch = Command::patch(key, PatchKind::Merge, patch).by("one");
        assert!(lab.managers(2, patch).is_empty());
    }
}
