//! Marks Machines so that Cluster API deletes them first, and takes marks back.
//!
//! Two rules keep Cluster API from deleting a Machine that no request names, also if this process or
//! another one of the server dies or stalls between two requests:
//!
//! - A size is lowered at the version of the group's object that was read before the marks were
//!   written.
//! - A mark is taken back only after a write to the group's object, and only if the Machine has not
//!   changed since.
//!
//! So either the lower size finds the marks, or it finds a newer version of the group and is refused.

use std::sync::Arc;

use provider_vcenter::Chain;
use serde_json::{Value, json};

use super::super::{
    super::{
        super::capacity::text,
        group::Group,
        plan::{MachineChange, Victim},
    },
    Shared,
    keys::{DELETE_MACHINE, LAST_CHANGE, MACHINES, MARKED, REPLACE_AT},
    objects::{Ledger, Machine, Mark},
    view::{GroupState, Member},
};
use super::error::ChangeError;
use crate::cluster::{ObjectChange, PatchKind, without_managed_fields};

/// Number of times that a Machine is read again which changes between the read and its mark.
const MOST_READS: usize = 3;

impl Shared {
    /// Marks a Machine. `only_pending` refuses one that exists in the infrastructure. A mark of another
    /// client stays as it is.
    pub(crate) async fn mark(
        &self,
        machine: &Machine,
        only_pending: bool,
    ) -> Result<(), ChangeError> {
        let path = self.machine_path(machine);
        let mut last = None;
        for _ in 0..MOST_READS {
            let token = self.token();
            let mut patch = json!({"metadata": {
                "uid": machine.uid,
                "annotations": {DELETE_MACHINE: token, MARKED: token},
            }});
            let is_read = only_pending || machine.mark.is_foreign();
            if is_read {
                let object = self.changes.get(&path).await?;
                let now = Machine::read(&object).filter(|it| it.uid == machine.uid);
                match now {
                    Some(now) if !only_pending || !now.is_materialized() => {
                        patch["metadata"]["resourceVersion"] = now.version.into();
                        if now.mark.is_foreign() {
                            patch["metadata"]["annotations"] = json!({MARKED: token});
                        }
                    }
                    _ if only_pending => return Err(ChangeError::Exists),
                    // The UID in the patch refuses it.
                    _ => {}
                }
            }
            match self.changes.patch(&path, PatchKind::Merge, &patch).await {
                Ok(object) => {
                    self.apply_machine(object);
                    return Ok(());
                }
                Err(err) if err.is_conflict() && is_read => last = Some(err),
                Err(err) => return Err(err.into()),
            }
        }
        Err(last.filter(|_| !only_pending).map_or(ChangeError::Exists, ChangeError::Request))
    }

    /// Has the server delete a failed Machine from this time on, without a lower size, so that Cluster
    /// API replaces it.
    async fn replace_at(&self, machine: &Machine, at: jiff::Timestamp) -> Result<(), ChangeError> {
        let patch = json!({"metadata": {
            "uid": machine.uid, "annotations": {REPLACE_AT: at.to_string()},
        }});
        let path = self.machine_path(machine);
        let object = self.changes.patch(&path, PatchKind::Merge, &patch).await?;
        self.apply_machine(object);
        Ok(())
    }

    /// Has failed Machines deleted after a pause, without a lower size.
    pub(crate) async fn replace(
        &self,
        group: &Group,
        failed: &[Victim],
    ) -> Result<(), ChangeError> {
        if failed.is_empty() {
            return Ok(());
        }
        let pause = self.replacements.pause(group.id.as_str());
        let at = self.clock.now().checked_add(pause).unwrap_or(jiff::Timestamp::MAX);
        let snapshot = self.snapshot();
        for Victim { id, cause } in failed {
            let Some(member) = snapshot.find(id.as_str(), "") else { continue };
            self.replace_at(&member.machine, at).await?;
            let change = MachineChange::Deleted;
            self.record_machine(group.id.as_str(), &member.machine, &change, cause);
        }
        Ok(())
    }

    /// Takes the marks of these Machines back, except of those for which the size was lowered.
    pub(crate) async fn release(
        &self,
        group: &GroupState,
        members: &[Arc<Member>],
    ) -> Result<(), ChangeError> {
        if members.is_empty() {
            return Ok(());
        }
        let path = self.group_path(group);
        let object = self.changes.get(&path).await?;
        group.require_uid(text(&object["metadata"]["uid"]))?;
        let ledger = Ledger::read(&object)?;
        // The version of the object changes, so that a request which is still under way is refused.
        let patch = json!({"metadata": {
            "resourceVersion": object["metadata"]["resourceVersion"],
            "annotations": {LAST_CHANGE: self.token()},
        }});
        let object = self.changes.patch(&path, PatchKind::Merge, &patch).await?;
        self.apply_group(group, object);
        let mut failed = None;
        for member in members.iter().filter(|it| !ledger.has(&it.machine)) {
            let machine = &member.machine;
            let mut annotations = json!({MARKED: Value::Null});
            if machine.mark == Mark::Own {
                annotations[DELETE_MACHINE] = Value::Null;
            }
            let patch = json!({"metadata": {
                "uid": machine.uid, "resourceVersion": machine.version, "annotations": annotations,
            }});
            let path = self.machine_path(machine);
            match self.changes.patch(&path, PatchKind::Merge, &patch).await {
                Ok(object) => {
                    self.apply_machine(object);
                    tracing::info!(machine = %machine.name, namespace = %machine.namespace, "took the mark of a change that did not end back");
                }
                Err(err) if err.says_gone(&machine.name) => {}
                Err(err) => failed = failed.or(Some(err)),
            }
        }
        failed.map_or(Ok(()), |err| Err(err.into()))
    }

    /// Deletes Machines for which the size was lowered, or that Cluster API is to replace. Cluster API
    /// deletes the former itself, unless another client raises the size first.
    pub(crate) async fn delete_machine(&self, machine: &Machine) {
        let path = self.machine_path(machine);
        match self.changes.delete(&path, Some(&machine.uid)).await {
            Ok(object) if object["metadata"]["deletionTimestamp"].is_string() => {
                self.apply_machine(object);
            }
            Ok(_) => self.remove_machine(machine),
            Err(err) if err.says_gone(&machine.name) => self.remove_machine(machine),
            // After a conflict because another Machine has the name, the watch corrects the view.
            Err(err) => {
                tracing::warn!(machine = %machine.name, error = %Chain(&err), "deleting a Machine failed; retrying later");
            }
        }
    }

    fn apply_machine(&self, object: Value) {
        let mut view = self.view();
        // The answer to a write may arrive after the end of the object.
        if Machine::read(&object).is_some() && !view.is_gone(text(&object["metadata"]["uid"])) {
            view.apply(&MACHINES.into(), without_managed_fields(&object));
        }
        drop(view);
        self.changed.notify_one();
    }

    fn remove_machine(&self, machine: &Machine) {
        let Machine { namespace, name, uid, .. } = machine;
        let object = json!({"metadata": {"namespace": namespace, "name": name, "uid": uid}});
        let gone = ObjectChange::Deleted(&object);
        self.view().change(&MACHINES.into(), gone, &self.settings);
        self.changed.notify_one();
    }

    pub(crate) fn apply_group(&self, group: &GroupState, object: Value) {
        let object = without_managed_fields(&object);
        if text(&object["metadata"]["uid"]) == group.uid {
            self.view().apply(&group.kind.resource(), object);
        }
        self.changed.notify_one();
    }
}

impl GroupState {
    /// Refuses an object of the same name with another UID: marks and sizes of this group say nothing
    /// about it.
    pub(crate) fn require_uid(&self, uid: &str) -> Result<(), ChangeError> {
        if uid == self.uid {
            return Ok(());
        }
        Err(ChangeError::Recreated { kind: self.kind.name(), name: self.name.clone() })
    }

    /// Returns the Machines that have a mark of this server, although the size was not lowered for
    /// them. There are none while the ledger cannot tell.
    pub(crate) fn open(&self) -> Vec<Arc<Member>> {
        if self.unreadable_ledger.is_some() {
            return Vec::new();
        }
        let is_open = |it: &&Arc<Member>| it.machine.mark.is_noted() && it.instance.state.counts();
        self.members.iter().filter(is_open).cloned().collect()
    }
}
