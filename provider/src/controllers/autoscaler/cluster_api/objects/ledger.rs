//! The Machines for whose deletion the size of a group was lowered.
//!
//! Cluster API deletes marked Machines when a size is lowered, and any Machine if none is marked. So
//! the server must know for certain whether it has lowered the size for a Machine. It writes the
//! Machine into an annotation of the group in the same request that lowers the size: a repetition
//! after a crash or a lost answer finds it there, and never lowers the size again.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{super::keys::COUNTED, Machine};

/// Reason why the ledger of a group cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the annotation {COUNTED} cannot be read, and the server deletes no Machine until it can: {0}; write a JSON object of names and UIDs of Machines, or remove the annotation once the marked Machines are gone"
)]
pub(crate) struct UnreadableLedger(String);

/// UIDs of Machines by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger(BTreeMap<String, String>);

impl Ledger {
    /// Reads the ledger of the object of a group.
    ///
    /// # Errors
    ///
    /// If the annotation is there and is no ledger.
    pub(crate) fn read(object: &Value) -> Result<Self, UnreadableLedger> {
        let Some(value) = object["metadata"]["annotations"].get(COUNTED) else {
            return Ok(Self::default());
        };
        let counted = serde_json::from_str(value.as_str().unwrap_or_default());
        counted.map(Self).map_err(|err| UnreadableLedger(err.to_string()))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_ledger_that_is_there_and_unreadable_is_an_error() {
        let read = |annotations: Value| {
            let object = json!({"metadata": {"annotations": annotations}});
            Ledger::read(&object).map(|it| it.text()).map_err(|err| err.to_string())
        };
        assert_eq!(read(Value::Null).unwrap(), "{}");
        assert_eq!(read(json!({"other": "x"})).unwrap(), "{}");
        assert_eq!(read(json!({COUNTED: r#"{"m": "u"}"#})).unwrap(), r#"{"m":"u"}"#);
        for text in ["", "m", "[]", r#"{"m": 1}"#, r#"{"m": "u""#] {
            let refused = read(json!({COUNTED: text})).unwrap_err();
            assert!(refused.starts_with(&format!("the annotation {COUNTED} cannot be read")));
        }
    }
}
