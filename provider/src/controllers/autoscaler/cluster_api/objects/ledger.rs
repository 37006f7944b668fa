//! The Machines for whose deletion the size of a group was lowered.
//!
//! Cluster API deletes marked Machines when a size is lowered, and any Machine if none is marked. So
//! the server must know for certain whether it has lowered the size for a Machine. It writes the
//! Machine into an annotation of the group in the same request that lowers the size: a repetition
//! after a crash or a lost answer finds it there, and never lowers the size again.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{super::keys::COUNTED, Machine};

/// UIDs of Machines by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger(BTreeMap<String, String>);

impl Ledger {
    /// Reads the ledger of the object of a group.
    pub(crate) fn read(object: &Value) -> Self {
        let text = object["metadata"]["annotations"][COUNTED].as_str().unwrap_or("{}");
        Self(serde_json::from_str(text).unwrap_or_default())
    }

    pub(crate) fn has(&self, machine: &Machine) -> bool {
        self.0.get(&machine.name) == Some(&machine.uid)
    }

    /// Returns names and UIDs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, uid)| (name.as_str(), uid.as_str()))
    }

    /// Returns the ledger with these Machines, and without those that `is_gone` says are gone.
    pub(crate) fn with<'a>(
        &self,
        machines: impl IntoIterator<Item = &'a Machine>,
        is_gone: impl Fn(&str) -> bool,
    ) -> Self {
        let kept = self.0.iter().filter(|(_, uid)| !is_gone(uid));
        let mut counted: BTreeMap<_, _> =
            kept.map(|(name, uid)| (name.clone(), uid.clone())).collect();
        let new = machines.into_iter().map(|it| (it.name.clone(), it.uid.clone()));
        counted.extend(new);
        Self(counted)
    }

    /// Returns the value of the annotation.
    pub(crate) fn text(&self) -> String {
        Value::from_iter(self.0.iter().map(|(name, uid)| (name.clone(), uid.clone()))).to_string()
    }
}
