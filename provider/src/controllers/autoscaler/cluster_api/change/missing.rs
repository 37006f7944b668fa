//! Machines that are not there: those that Cluster API has not made, and those that are gone.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{
    super::{
        Shared,
        keys::MACHINES,
        objects::{Ledger, group::id},
        view::{GroupState, Member},
    },
    error::ChangeError,
};

/// Largest number of Machines of the ledger that one change looks up.
const MOST_ASKED: usize = 20;

impl Shared {
    /// Refuses to give up machines without Machine that have one by now. One that Cluster API makes
    /// between this check and the lower size is no Node yet, and Cluster API deletes Machines
    /// without Node before others.
    pub(crate) fn check_missing(
        &self,
        object: &Value,
        ledger: &Ledger,
        state: &GroupState,
        n_without_machine: u32,
        size: u32,
    ) -> Result<(), ChangeError> {
        let replicas_in_status = object["status"]["replicas"].as_u64().unwrap_or_default();
        let snapshot = self.snapshot();
        let state = snapshot.states.get(&id(state.kind, &state.namespace, &state.name));
        let counts = |it: &&Arc<Member>| it.instance.state.counts();
        let n_known = state.map_or(0, |it| it.members.iter().filter(counts).count() as u64);
        // The status also counts Machines that the size no longer counts.
        let is_leaving = |it: &&Arc<Member>| it.machine.is_deleting || ledger.has(&it.machine);
        let n_leaving = state.map_or(0, |it| it.members.iter().filter(is_leaving).count() as u64);
        let n_made = replicas_in_status.saturating_sub(n_leaving).max(n_known);
        let n_missing = u64::from(n_without_machine);
        if n_missing > 0 && n_made + n_missing > u64::from(size) {
            return Err(ChangeError::Exists);
        }
        Ok(())
    }

    /// Returns the UIDs in the ledger of Machines that are gone, so that it does not grow for ever.
    pub(crate) async fn gone(&self, state: &GroupState, ledger: &Ledger) -> BTreeSet<String> {
        let is_member = |uid: &str| state.members.iter().any(|it| it.machine.uid == uid);
        let absent = ledger.iter().filter(|(_, uid)| !is_member(uid));
        let (mut gone, mut n_asked) = (BTreeSet::new(), 0);
        for (name, uid) in absent {
            let is_known = self.view().is_gone(uid);
            // Only the API server knows it for those that were gone before this process began.
            let is_gone = is_known || {
                n_asked += 1;
                if n_asked > MOST_ASKED {
                    continue;
                }
                let path = self.path(&MACHINES.into(), &state.namespace, name);
                match self.changes.get(&path).await {
                    Ok(object) => object["metadata"]["uid"] != *uid,
                    Err(err) => err.says_gone(name),
                }
            };
            if is_gone {
                gone.insert(uid.to_owned());
            }
        }
        gone
    }
}
