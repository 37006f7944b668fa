//! Lowers the size of a group, and so deletes exactly the named Machines.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use provider_vcenter::Chain;
use serde_json::{Value, json};

use super::super::{
    super::{
        super::capacity::text,
        group::Group,
        instance::one_line,
        plan::{Cause, MachineChange, Victim},
    },
    AT_A_TIME, ClusterApiMachines, Shared,
    keys::{COUNTED, LAST_CHANGE, PAUSED},
    objects::{
        Ledger, Machine,
        group::{id, replicas},
    },
    view::{GroupState, Member},
};
use super::{
    error::{ChangeError, PAUSE, is_lost},
    record::SizeChange,
};
use crate::cluster::{ClusterError, PatchKind};

/// Number of times that a size is read again which another client changes meanwhile, or that could not be
/// read.
const MOST_READS: usize = 20;

/// A change that lowers a size.
pub(crate) struct Lowering<'a> {
    pub(crate) victims: &'a [Victim],
    /// Number of machines without Machine to give up, and the call that asks for it.
    pub(crate) n_without_machine: u32,
    pub(crate) cause: Option<Cause>,
    /// True if none of the victims may exist in the infrastructure.
    pub(crate) only_pending: bool,
    /// Size below which the change is refused.
    pub(crate) floor: u32,
}

/// The Machines of a change.
struct Marked {
    members: Vec<Arc<Member>>,
    n_without_machine: u32,
    only_pending: bool,
    floor: u32,
}

impl ClusterApiMachines {
    /// Marks the victims, lowers the size by them, and has their Machines deleted.
    ///
    /// # Errors
    ///
    /// The size is then as before, and the marks are taken back soon. After [`ChangeError::Late`] the
    /// change may have taken effect as a whole.
    pub(crate) async fn lower(
        &self,
        group: &Group,
        change: Lowering<'_>,
        budget: Duration,
    ) -> Result<(), ChangeError> {
        let Lowering { victims, n_without_machine, cause, only_pending, floor } = change;
        let snapshot = self.0.snapshot();
        let state = snapshot.states.get(&group.id).ok_or(ChangeError::Gone)?;
        let (mut members, mut causes) = (Vec::new(), Vec::new());
        for Victim { id, cause } in victims {
            match snapshot.find(id.as_str(), "") {
                Some(member) => {
                    members.push(Arc::clone(member));
                    causes.push(cause);
                }
                None if self.0.view().had(id.as_str()) => {}
                // The machine has got its provider ID since the request was checked.
                None => return Err(ChangeError::Exists),
            }
        }
        if members.is_empty() && n_without_machine == 0 {
            return Ok(());
        }
        let marked = Marked { members, n_without_machine, only_pending, floor };
        let lowered = self.0.lower(state, &marked, budget);
        let result = tokio::time::timeout(budget, lowered).await;
        let result = result.unwrap_or(Err(ChangeError::Late { budget }));
        let id = group.id.as_str();
        let done = match &result {
            Ok(_) => MachineChange::Deleted,
            Err(err) => MachineChange::NotDeleted(one_line(&Chain(err).to_string())),
        };
        for (member, cause) in marked.members.iter().zip(causes) {
            self.0.record_machine(id, &member.machine, &done, cause);
        }
        let to = match result {
            Ok(to) => to,
            Err(err) => {
                // The sweeper removes the marks that are left after this change.
                self.0.wake.notify_one();
                return Err(err);
            }
        };
        if let Some(cause) = cause.filter(|_| n_without_machine > 0) {
            self.0.record_size(id, state, &SizeChange::Lowered { to }, &cause);
        }
        tracing::info!(group = %group.id, size = to, n_machines = marked.members.len(), "lowered the size of the group");
        // The Machines are deleted after this change.
        self.0.wake.notify_one();
        Ok(())
    }
}

impl Shared {
    /// Lowers the size, and returns the new one.
    async fn lower(
        &self,
        state: &GroupState,
        change: &Marked,
        budget: Duration,
    ) -> Result<u32, ChangeError> {
        if state.is_rolling_out {
            return Err(ChangeError::RollingOut);
        }
        let path = self.group_path(state);
        let mut last = None;
        let mut tokens = Vec::new();
        let mut n_reads = 0;
        while n_reads < MOST_READS {
            let object = self.answered(self.changes.get(&path), &path, budget).await;
            let object = match object.and_then(|it| require_identity(it, &path)) {
                Ok(object) => object,
                // The lower size may have taken effect, so only a read can end this.
                Err(err) if !tokens.is_empty() => {
                    tracing::warn!(path, error = %Chain(&err), "reading a size after a lost answer failed; retrying");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Err(err) if is_lost(&err) => {
                    n_reads += 1;
                    last = Some(err);
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Err(err) => return Err(err.into()),
            };
            state.require_uid(text(&object["metadata"]["uid"]))?;
            let last_change = &object["metadata"]["annotations"][LAST_CHANGE];
            if tokens.iter().any(|it| last_change == it) {
                // The answer to an earlier request was lost.
                let size = replicas(&object);
                self.apply_group(state, object);
                return Ok(size);
            }
            if object["metadata"]["annotations"].get(PAUSED).is_some() {
                return Err(ChangeError::Paused { kind: state.kind.name() });
            }
            let snapshot = self.snapshot();
            let now = snapshot.states.get(&id(state.kind, &state.namespace, &state.name));
            let now = now.unwrap_or(state);
            if now.is_rolling_out {
                return Err(ChangeError::RollingOut);
            }
            let (patch, token) = match self.prepare(&object, now, change).await {
                Ok(Some(prepared)) => prepared,
                // The object has another version.
                Ok(None) => {
                    n_reads += 1;
                    continue;
                }
                Err(ChangeError::Request(err)) if is_lost(&err) => {
                    n_reads += 1;
                    last = Some(err);
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Err(err) => return Err(err),
            };
            tokens.push(token);
            let sent = self.changes.patch(&path, PatchKind::Merge, &patch);
            let answer = self.answered(sent, &path, budget).await;
            match answer.and_then(|it| require_identity(it, &path)) {
                Ok(object) => {
                    let size = replicas(&object);
                    self.apply_group(state, object);
                    return Ok(size);
                }
                Err(err) if err.is_conflict() => {
                    n_reads += 1;
                    last = Some(err);
                }
                Err(err) if is_lost(&err) => {
                    last = Some(err);
                    tokio::time::sleep(PAUSE).await;
                }
                Err(err) if tokens.len() == 1 => return Err(err.into()),
                // An earlier request without answer may still take effect.
                Err(err) => {
                    last = Some(err);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        Err(last.map_or(ChangeError::Late { budget }, ChangeError::Request))
    }

    /// Marks the Machines of a change for this state of the group's object, and returns the patch that
    /// lowers the size, and its token. `None` if other marks had to be taken back first.
    async fn prepare(
        &self,
        object: &Value,
        state: &GroupState,
        change: &Marked,
    ) -> Result<Option<(Value, String)>, ChangeError> {
        let ledger = Ledger::read(object)?;
        if self.clear_others(state, change).await? {
            return Ok(None);
        }
        let machines: Vec<&Machine> =
            change.members.iter().map(|it| &it.machine).filter(|it| !ledger.has(it)).collect();
        let n_machines = u32::try_from(machines.len()).unwrap_or(u32::MAX);
        let fewer = n_machines.saturating_add(change.n_without_machine);
        let size = replicas(object);
        let left = size.checked_sub(fewer).filter(|left| *left >= change.floor || fewer == 0);
        let floor = change.floor;
        let left = left.ok_or(ChangeError::Below { replicas: size, fewer, floor })?;
        self.check_missing(object, &ledger, state, change.n_without_machine, size)?;
        let marks = machines.iter().map(|it| self.mark(it, change.only_pending).boxed());
        let marks: Vec<_> = marks.collect();
        let marks = futures::stream::iter(marks).buffer_unordered(AT_A_TIME);
        marks.try_collect::<()>().await?;
        let gone = self.gone(state, &ledger).await;
        let counted = ledger.with(machines, |uid| gone.contains(uid));
        let token = self.token();
        let patch = json!({
            "metadata": {
                "resourceVersion": object["metadata"]["resourceVersion"],
                "annotations": {COUNTED: counted.text(), LAST_CHANGE: token},
            },
            "spec": {"replicas": left},
        });
        Ok(Some((patch, token)))
    }

    /// Makes sure that Cluster API has no mark to follow but those of this change. Returns true if it
    /// took marks back.
    async fn clear_others(&self, state: &GroupState, change: &Marked) -> Result<bool, ChangeError> {
        let is_victim = |it: &Arc<Member>| {
            change.members.iter().any(|victim| victim.machine.uid == it.machine.uid)
        };
        let mut others = state.members.iter().filter(|it| !is_victim(it));
        let is_foreign =
            |it: &&Arc<Member>| it.machine.mark.is_foreign() && it.instance.state.counts();
        if let Some(other) = others.find(is_foreign) {
            return Err(ChangeError::ForeignMark { machine: other.machine.name.clone() });
        }
        let open: Vec<_> = state.open().into_iter().filter(|it| !is_victim(it)).collect();
        self.release(state, &open).await?;
        Ok(!open.is_empty())
    }
}

/// Refuses an answer without UID or version: it would read as a group of size 0.
fn require_identity(object: Value, path: &str) -> Result<Value, ClusterError> {
    let is_missing = |key: &&str| text(&object["metadata"][*key]).is_empty();
    match ["uid", "resourceVersion"].into_iter().find(is_missing) {
        None => Ok(object),
        Some(key) => {
            let what = format!("the object has no metadata.{key}");
            Err(ClusterError::Malformed { path: path.to_owned(), what })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_uid_or_version_is_malformed() {
        let check = |object: Value| {
            require_identity(object, "/p").map_err(|err| (is_lost(&err), err.to_string()))
        };
        let whole = json!({"metadata": {"uid": "u", "resourceVersion": "1"}});
        assert_eq!(check(whole.clone()), Ok(whole));
        for (object, key) in [
            (json!({}), "uid"),
            (json!([]), "uid"),
            (json!({"metadata": {"uid": "u"}}), "resourceVersion"),
        ] {
            let what =
                format!("/p was answered with invalid content: the object has no metadata.{key}");
            assert_eq!(check(object), Err((true, what)));
        }
    }
}
