//! The objects that the controller has read, and which of them a change concerns.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{
    kind::{Kind, ObjectName},
    plan::{Referent, is_owned, template_name, text},
};
use crate::cluster;

/// State of the list of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The first attempt has not ended.
    #[default]
    Pending,
    /// The objects are known.
    Listed,
    /// The API server does not serve the kind.
    Absent,
    /// The objects were never listed, for this reason.
    Failing(String),
}

/// Objects of one kind.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) progress: Progress,
    /// Version in which the API server serves the kind; empty if it does not.
    pub(crate) version: String,
    /// Resource version of the last list or event.
    seen_at: String,
    by_name: BTreeMap<ObjectName, Arc<Value>>,
}

/// An object to which the controller writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) name: ObjectName,
}

/// Objects of all kinds.
#[derive(Debug, Default)]
pub(crate) struct Known(BTreeMap<Kind, Objects>);

impl Objects {
    pub(crate) fn get(&self, name: &ObjectName) -> Option<&Arc<Value>> {
        self.by_name.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectName, &Value)> {
        self.by_name.iter().map(|(name, object)| (name, &**object))
    }

    /// Takes the state of an object, unless a newer one is known. Returns true if the state is new.
    pub(crate) fn apply(&mut self, object: Value) -> bool {
        let name = name(&object);
        if let Some(known) = self.by_name.get(&name)
            && (**known == object || is_earlier(&object, known))
        {
            return false;
        }
        self.by_name.insert(name, Arc::new(object));
        true
    }

    /// Removes an object, unless it was created again meanwhile.
    pub(crate) fn remove(&mut self, object: &Value) {
        let name = name(object);
        let uid = &object["metadata"]["uid"];
        if self.by_name.get(&name).is_some_and(|known| known["metadata"]["uid"] == *uid) {
            self.by_name.remove(&name);
        }
    }

    /// Takes a list and its resource version. Returns the names of the objects that are new, changed
    /// or gone.
    pub(crate) fn replace(&mut self, listed: Vec<Value>, version: &str) -> Vec<ObjectName> {
        // The API server was restored from a backup, so that older states are the current ones.
        let is_restored = cluster::is_earlier(version, &self.seen_at);
        let old = std::mem::take(&mut self.by_name);
        let (mut by_name, mut changed) = (BTreeMap::new(), Vec::new());
        for object in listed {
            let (name, object) = (name(&object), Arc::new(object));
            let known = old.get(&name).filter(|it| !is_restored && is_earlier(&object, it));
            let state = known.unwrap_or(&object);
            if old.get(&name) != Some(state) {
                changed.push(name.clone());
            }
            by_name.insert(name, Arc::clone(state));
        }
        changed.extend(old.into_keys().filter(|name| !by_name.contains_key(name)));
        self.by_name = by_name;
        self.progress = Progress::Listed;
        version.clone_into(&mut self.seen_at);
        changed
    }

    /// Notes the resource version of an event.
    pub(crate) fn confirm(&mut self, version: &str) {
        version.clone_into(&mut self.seen_at);
    }

    /// Forgets all objects, because the API server no longer serves the kind.
    pub(crate) fn clear(&mut self) -> Vec<ObjectName> {
        self.version.clear();
        std::mem::take(&mut self.by_name).into_keys().collect()
    }
}

impl Known {
    pub(crate) fn of(&self, kind: Kind) -> Option<&Objects> {
        self.0.get(&kind)
    }

    /// Objects of a kind, which from now on is one of those that the controller reads.
    pub(crate) fn of_mut(&mut self, kind: Kind) -> &mut Objects {
        self.0.entry(kind).or_default()
    }

    pub(crate) fn get(&self, target: &Target) -> Option<Arc<Value>> {
        self.of(target.kind)?.get(&target.name).cloned()
    }

    /// True if the first attempt to list has ended for every kind.
    pub(crate) fn is_settled(&self) -> bool {
        self.0.values().all(|objects| objects.progress != Progress::Pending)
    }

    /// Returns an object that another one names.
    pub(crate) fn referent(&self, kind: Kind, name: &ObjectName) -> Referent {
        let Some(objects) = self.of(kind) else { return Referent::Missing };
        match (objects.get(name), &objects.progress) {
            (Some(object), _) => Referent::Object(Arc::clone(object)),
            (None, Progress::Listed | Progress::Absent) => Referent::Missing,
            (None, Progress::Pending) => Referent::Unread(format!("{kind} were not listed yet")),
            (None, Progress::Failing(why)) => {
                Referent::Unread(format!("{kind} cannot be listed: {why}"))
            }
        }
    }

    /// Returns the objects whose content depends on an object that has changed.
    pub(crate) fn targets(&self, kind: Kind, name: &ObjectName) -> Vec<Target> {
        let named = |key: &'static str| {
            move |template: &Value| text(&template["spec"]["template"]["spec"][key]) == name.name
        };
        match kind {
            Kind::SupervisorTemplate | Kind::MachineDeployment | Kind::MachineSet => {
                vec![Target { kind, name: name.clone() }]
            }
            Kind::Class => self.select(Kind::SupervisorTemplate, name, named("className")),
            Kind::Image | Kind::ClusterImage => {
                self.select(Kind::SupervisorTemplate, name, named("imageName"))
            }
            Kind::GovmomiTemplate => {
                let uses = |group: &Value| {
                    template_name(group) == Some(name.name.as_str()) && !is_owned(group)
                };
                let mut targets = self.select(Kind::MachineDeployment, name, uses);
                targets.extend(self.select(Kind::MachineSet, name, uses));
                targets
            }
        }
    }

    /// Returns the objects of a kind that meet the condition, in the namespace of `name` if it has
    /// one.
    fn select(
        &self,
        kind: Kind,
        name: &ObjectName,
        is_meant: impl Fn(&Value) -> bool,
    ) -> Vec<Target> {
        let objects = self.of(kind).into_iter().flat_map(|it| &it.by_name);
        let is_near =
            |other: &ObjectName| name.namespace.is_empty() || name.namespace == other.namespace;
        let meant = objects.filter(|(other, object)| is_near(other) && is_meant(object));
        meant.map(|(other, _)| Target { kind, name: other.clone() }).collect()
    }
}

/// Returns the name of an object.
pub(crate) fn name(object: &Value) -> ObjectName {
    let metadata = &object["metadata"];
    ObjectName::new(text(&metadata["namespace"]), text(&metadata["name"]))
}

/// True if both are states of one object, and the first is the older one.
fn is_earlier(object: &Value, than: &Value) -> bool {
    let is_same_object = object["metadata"]["uid"] == than["metadata"]["uid"];
    let is_lower = cluster::is_earlier(
        text(&object["metadata"]["resourceVersion"]),
        text(&than["metadata"]["resourceVersion"]),
    );
    is_same_object && is_lower
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, uid: &str, version: &str) -> Value {
        json!({"metadata": {
            "namespace": "n", "name": name, "uid": uid, "resourceVersion": version,
        }})
    }

    #[test]
    fn an_older_state_of_an_object_does_not_replace_a_newer_one() {
        let mut objects = Objects::default();
        for (name, state, is_new) in [
            ("first", object("a", "1", "10"), true),
            ("again", object("a", "1", "10"), false),
            ("older", object("a", "1", "9"), false),
            ("newer", object("a", "1", "11"), true),
            ("another object of the name", object("a", "2", "5"), true),
        ] {
            assert_eq!(objects.apply(state), is_new, "{name}");
        }
        objects.remove(&object("a", "1", "12"));
        assert!(objects.get(&ObjectName::new("n", "a")).is_some(), "the deleted one is older");
        objects.remove(&object("a", "2", "13"));
        assert!(objects.get(&ObjectName::new("n", "a")).is_none());
    }

    #[test]
    fn a_list_tells_what_is_new_changed_or_gone() {
        let mut objects = Objects::default();
        let names =
            |changed: Vec<ObjectName>| changed.iter().map(ToString::to_string).collect::<Vec<_>>();
        objects.replace(vec![object("a", "1", "11"), object("b", "2", "12")], "20");
        let changed = objects.replace(vec![object("b", "2", "12"), object("c", "3", "13")], "21");
        assert_eq!(names(changed), ["n/c", "n/a"]);
        objects.apply(object("b", "2", "30"));
        let changed = objects.replace(vec![object("b", "2", "12"), object("c", "3", "13")], "22");
        assert_eq!(names(changed), [""; 0], "the list began before the last change");
        let changed = objects.replace(vec![object("b", "2", "5")], "9");
        assert_eq!(names(changed), ["n/b", "n/c"], "the API server was restored from a backup");
        objects.apply(object("b", "2", "50"));
        objects.confirm("50");
        let changed = objects.replace(vec![object("b", "2", "40")], "45");
        assert_eq!(names(changed), ["n/b"], "restored to a state after the last list");
    }

    #[test]
    fn a_change_concerns_the_objects_that_name_the_changed_one() {
        let mut known = Known::default();
        for (namespace, name, class) in
            [("n", "a", "small"), ("n", "b", "big"), ("m", "c", "small")]
        {
            let spec = json!({"className": class, "imageName": "vmi-1"});
            known.of_mut(Kind::SupervisorTemplate).apply(json!({
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"template": {"spec": spec}},
            }));
        }
        for (kind, name, targets) in [
            (Kind::Class, ObjectName::new("n", "small"), &["n/a"][..]),
            (Kind::Class, ObjectName::new("n", "none"), &[]),
            (Kind::Image, ObjectName::new("n", "vmi-1"), &["n/a", "n/b"]),
            (Kind::ClusterImage, ObjectName::new("", "vmi-1"), &["m/c", "n/a", "n/b"]),
            (Kind::SupervisorTemplate, ObjectName::new("n", "b"), &["n/b"]),
        ] {
            let concerned = known.targets(kind, &name);
            let names: Vec<String> = concerned.iter().map(|it| it.name.to_string()).collect();
            assert_eq!(names, targets, "{kind} {name}");
        }
    }
}
