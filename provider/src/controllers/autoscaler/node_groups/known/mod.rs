//! The NodeGroup objects that the server knows, and its last decisions about them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    GROUP, RESOURCE,
    decide::{Decision, name},
};
use crate::{
    cluster::ObjectChange,
    controllers::capacity::{ObjectName, Objects, Progress},
};

/// The objects, and the last decisions.
#[derive(Debug, Default)]
pub(super) struct Known {
    objects: Objects,
    /// `None` before the first decision, which follows the first list.
    decisions: Option<Vec<Decision>>,
}

/// The decisions, of which at least one differs from the last ones.
#[derive(Debug)]
pub(super) struct Changed {
    /// Each with true if it is new.
    pub(super) decisions: Vec<(Decision, bool)>,
}

impl Known {
    /// Says why the groups cannot be used. A failure after the first list leaves the known groups.
    pub(super) fn usable(&self) -> Result<(), String> {
        match &self.objects.progress {
            Progress::Absent => Err(format!(
                "the API server does not serve {RESOURCE}.{GROUP}; install the definition that \
                 `provider autoscaler --print-crd` prints"
            )),
            Progress::Failing(why) => Err(format!("cannot list {RESOURCE}.{GROUP}: {why}")),
            Progress::Listed if self.is_decided() => Ok(()),
            Progress::Pending | Progress::Listed => {
                Err(format!("the {RESOURCE}.{GROUP} have not been listed yet"))
            }
        }
    }

    /// True if the objects were decided upon.
    pub(super) fn is_decided(&self) -> bool {
        self.decisions.is_some()
    }

    /// True if the API server has the objects.
    pub(super) fn is_served(&self) -> bool {
        self.objects.progress == Progress::Listed
    }

    /// Decides about the objects; `None` before the first list, and if each decision is the last one.
    pub(super) fn decide(
        &mut self,
        decide: impl FnOnce(&mut dyn Iterator<Item = &Value>) -> Vec<Decision>,
    ) -> Option<Changed> {
        if self.decisions.is_none() && !self.is_served() {
            return None;
        }
        let now = decide(&mut self.objects.iter().map(|(_, object)| object));
        let before = self.decisions.as_deref().unwrap_or_default();
        let by_name: BTreeMap<&ObjectName, &Decision> =
            before.iter().map(|it| (&it.object, it)).collect();
        let is_known =
            |it: &Decision| by_name.get(&it.object).is_some_and(|before| before.is_same(it));
        let decisions: Vec<_> = now.iter().map(|it| (it.clone(), !is_known(it))).collect();
        let is_first = self.decisions.is_none();
        let is_changed = before.len() != now.len() || decisions.iter().any(|(_, is_new)| *is_new);
        self.decisions = Some(now);
        (is_first || is_changed).then_some(Changed { decisions })
    }

    /// Returns the last decisions about objects that still have the same UID, each with the object.
    pub(super) fn decided(&self) -> Vec<(Decision, Value)> {
        let decisions = self.decisions.iter().flatten();
        let with_object = |it: &Decision| {
            let object = self.objects.get(&it.object)?;
            (object["metadata"]["uid"] == it.uid).then(|| (it.clone(), (**object).clone()))
        };
        decisions.filter_map(with_object).collect()
    }

    /// Notes that the kind is absent, or that its objects cannot be listed. A failure after the first
    /// list changes nothing. Returns true if the progress is new.
    pub(super) fn set_progress(&mut self, progress: Progress) -> bool {
        let is_late = self.is_served() && progress != Progress::Absent;
        if is_late || self.objects.progress == progress {
            return false;
        }
        self.objects.progress = progress;
        true
    }

    /// Takes a list. Returns true if it has to be decided upon.
    pub(super) fn replace(&mut self, listed: Vec<Value>, version: &str) -> bool {
        let is_new = !self.is_served();
        let before: Vec<State> = self.states();
        self.objects.replace(listed, version);
        is_new || before != self.states()
    }

    /// Takes a change of an object. Returns true if it has to be decided upon: a change of the status
    /// alone does not count.
    pub(super) fn change(&mut self, change: ObjectChange<'_>) -> bool {
        let state_of = |known: &Self, at: &ObjectName| known.objects.get(at).map(|it| state(it));
        let (ObjectChange::Applied(object) | ObjectChange::Deleted(object)) = &change;
        let at = name(object);
        let before = state_of(self, &at);
        match change {
            ObjectChange::Applied(object) => drop(self.objects.apply(object.clone())),
            ObjectChange::Deleted(object) => self.objects.remove(object),
        }
        before != state_of(self, &at)
    }

    /// Takes the answer of a write.
    pub(super) fn wrote(&mut self, object: Value) {
        self.objects.apply(object);
    }

    pub(super) fn confirm(&mut self, version: &str) {
        self.objects.confirm(version);
    }

    fn states(&self) -> Vec<State> {
        self.objects.iter().map(|(_, object)| state(object)).collect()
    }
}

/// Parts of an object on which decisions depend.
type State = [Value; 5];

fn state(object: &Value) -> State {
    ["namespace", "name", "uid", "generation", "deletionTimestamp"]
        .map(|key| object["metadata"][key].clone())
}

#[cfg(test)]
mod tests;
