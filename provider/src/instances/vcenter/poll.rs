//! Keeps the machines of linked nodes current by periodic reads instead of updates. One read of all
//! machines serves every caller.
//!
//! A question that needs a current answer, such as the one about existence, starts a read if the
//! last read ended more than [`WINDOW`] before the question. Without questions, a read happens
//! every [`IDLE`]. Machines of new nodes are read at once. Concurrent callers wait for one read.
//!
//! The age of an answer counts from the end of the call that read the machine. A whole read takes
//! several calls for many machines, and one that takes longer than the maximum age would otherwise
//! serve no question. After a failed read, only [`run`] tries again, at growing intervals, and
//! callers get the failure until a read succeeds. A machine that a read does not return is not
//! visible, and that alone proves nothing.

use std::{collections::BTreeSet, time::Duration};

use provider_vcenter::{
    Backoff, CallError, Chain, FaultKind, FilterSpec, Jitter, MoRef, ObjectContent, PropertyChange,
    Retry,
};
use tokio::time::Instant;

use super::{
    Shared,
    state::{
        Link, ReadFailure, VcenterIndex, VcenterState,
        machine::{Machine, PATHS},
    },
    view::{idle::keep_alive, mark_not_visible},
};
use crate::model::{NodeIdentity, NodeName, Unknown};

/// Maximum age of an answer about existence or power state, from the end of its read to the
/// question; also the maximum age for the initialization of a node.
pub(super) const WINDOW: Duration = Duration::from_secs(5);
/// Interval of reads without a question. An answer about addresses may be twice as old.
pub(super) const IDLE: Duration = Duration::from_secs(300);
/// Longest time that a question waits for a read, so that the answer comes before its caller gives
/// up.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time for which the polling task collects changes of the linked machines before one read.
const SETTLE: Duration = Duration::from_millis(20);
/// Maximum number of machines that one call reads.
const CHUNK: usize = 1000;

impl VcenterState {
    /// True if the last read of the machine ended after `asked_at`, or at most `limit` before
    /// `asked_at`.
    pub(super) fn is_current(&self, machine: &MoRef, asked_at: Instant, limit: Duration) -> bool {
        let read_at = self.read_times.get(machine);
        read_at.is_some_and(|at| asked_at.saturating_duration_since(*at) <= limit)
    }

    /// Removes and returns the names of the nodes that wait for a read of these machines.
    fn take_read_wanted(&mut self, machines: &[MoRef]) -> BTreeSet<NodeName> {
        let names = machines.iter().filter_map(|machine| self.linked.get(machine));
        names.filter_map(|name| self.read_wanted.take(name)).collect()
    }
}

/// Returns why the last read of the linked machine cannot answer a question now; `None` if that
/// read ended at most `limit` ago. If the last read of this vCenter failed, the reason is that
/// failure. Otherwise notes that node `name` waits for a newer read, and returns `Pending`.
pub(super) fn why_not_current(
    vcenter: &mut VcenterState,
    link: &Link,
    name: &NodeName,
    limit: Duration,
) -> Option<Unknown> {
    if vcenter.is_current(&link.machine, Instant::now(), limit) {
        return None;
    }
    if let Some(failure) = &vcenter.read_failure {
        return Some(Unknown::Unavailable(failure.why.clone()));
    }
    vcenter.read_wanted.insert(name.clone());
    Some(Unknown::Pending)
}

/// Makes sure that the linked machine of a node, if any, was read within [`WINDOW`] before this
/// question, or since. Stores the time of the question, so that the following question about the
/// power state accepts the same read.
///
/// The read only shows whether the machine is visible. The proof of absence makes further reads in
/// [`super::proof`].
///
/// Cancel safe: the next question restarts an interrupted read.
///
/// # Errors
///
/// If the machine could not be read, or not within [`PATIENCE`]. At once if the last read failed.
pub(super) async fn refresh(shared: &Shared, node: &NodeIdentity) -> Result<(), Unknown> {
    let asked_at = Instant::now();
    let stale = {
        let mut state = shared.lock();
        let link = state.nodes.get_mut(&node.name).and_then(|tracked| {
            tracked.asked_at = Some(asked_at);
            tracked.link.clone()
        });
        let is_current =
            |link: &Link| state.vcenters[link.vcenter].is_current(&link.machine, asked_at, WINDOW);
        link.filter(|link| !is_current(link))
    };
    let Some(link) = stale else { return Ok(()) };
    // Checked before the caller waits for the lock, because the loop may hold it while it waits for
    // an answer that never comes.
    known_failure(shared, link.vcenter)?;
    let read = async {
        let _turn = shared.vcenters[link.vcenter].reading.lock().await;
        // Meanwhile another caller may have read the machine.
        if shared.lock().vcenters[link.vcenter].is_current(&link.machine, asked_at, WINDOW) {
            return Ok(());
        }
        known_failure(shared, link.vcenter)?;
        let read = read_all(shared, link.vcenter).await;
        read.map_err(|err| Unknown::Unavailable(Chain(&err).to_string()))
    };
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(answer) => answer,
        Err(_) => Err(record_timeout(shared, link.vcenter)),
    }
}

/// Returns an error if the last read failed. Only [`run`] repeats it, so callers make no read of
/// their own.
fn known_failure(shared: &Shared, index: VcenterIndex) -> Result<(), Unknown> {
    match &shared.lock().vcenters[index].read_failure {
        Some(failure) => Err(Unknown::Unavailable(failure.why.clone())),
        None => Ok(()),
    }
}

/// Records a read that took longer than [`PATIENCE`] as failed, and returns the failure as the
/// answer. Only [`run`] repeats the read.
fn record_timeout(shared: &Shared, index: VcenterIndex) -> Unknown {
    let why = format!("reading machines from vCenter took longer than {} s", PATIENCE.as_secs());
    {
        let vcenter = &mut shared.lock().vcenters[index];
        vcenter.is_current = false;
        vcenter.last_call_failed = true;
        let failure =
            ReadFailure { at: Instant::now(), why: why.clone(), retry: Retry::WithBackoff };
        vcenter.read_failure.get_or_insert(failure);
    }
    shared.vcenters[index].view.notify_one();
    Unknown::Unavailable(why)
}

/// Reads the machines of one vCenter when reads are due. Never ends.
pub(super) async fn run(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    let jitter = Jitter::new(shared.tuning.seed, &format!("{}/poll", backend.client.name()));
    let mut backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60), jitter);
    // Start of the last failed or incomplete read, and the time of the next try.
    let mut wanting: Option<(Instant, Instant)> = None;
    let begun = Instant::now();
    loop {
        let due = {
            let vcenter = &shared.lock().vcenters[index];
            let read_at = vcenter.read_at.unwrap_or(begun);
            let retry = match &vcenter.read_failure {
                Some(failure) => Some((failure.at, failure.retry)),
                // Properties that could not be read are read again.
                None => has_unread_properties(vcenter).then_some((read_at, Retry::WithBackoff)),
            };
            match (retry, wanting) {
                (None, _) => {
                    backoff.reset();
                    wanting = None;
                    read_at + IDLE
                }
                (Some((of, _)), Some((known, due))) if of == known => due,
                (Some((of, retry)), _) => {
                    let own = match retry {
                        // The client's wait for the next login grows by itself.
                        Retry::After(_) => Duration::ZERO,
                        _ => backoff.next_pause(),
                    };
                    let due = Instant::now() + retry.pause(own);
                    wanting = Some((of, due));
                    due
                }
            }
        };
        tokio::select! {
            biased;
            () = backend.view.notified() => tokio::time::sleep(SETTLE).await,
            () = tokio::time::sleep_until(due) => {}
        }
        let _turn = backend.reading.lock().await;
        if let Err(err) = serve(shared, index, due).await {
            tracing::warn!(error = %Chain(&err), "reading machines from vCenter failed; retrying");
        }
    }
}

/// Reads all linked machines if a node waits for a read and the last read did not fail, or if
/// `due`, the time of the next read, has passed and no caller has read the machines meanwhile.
/// Otherwise reads only the machines that are new or that a lookup has found again; none after a
/// failed read. If no node has a machine here, drops all that was read.
async fn serve(shared: &Shared, index: VcenterIndex, due: Instant) -> Result<(), CallError> {
    let now = Instant::now();
    let (is_whole, new) = {
        let vcenter = &mut shared.lock().vcenters[index];
        if vcenter.linked.is_empty() {
            vcenter.machines.clear();
            vcenter.in_view.clear();
            vcenter.read_times.clear();
        }
        let is_trouble = vcenter.read_failure.is_some();
        let is_asked = !vcenter.read_wanted.is_empty() && !is_trouble;
        // A caller may have read the machines meanwhile.
        let is_old = vcenter.read_at.is_none_or(|at| now >= at + IDLE);
        let is_due = now >= due && (is_trouble || is_old || has_unread_properties(vcenter));
        let lost = std::mem::take(&mut vcenter.lost);
        let is_new =
            |machine: &&MoRef| !vcenter.in_view.contains(*machine) || lost.contains(*machine);
        let new: Vec<MoRef> = vcenter.linked.keys().filter(is_new).cloned().collect();
        (is_due || is_asked, if is_trouble { Vec::new() } else { new })
    };
    if is_whole {
        read_all(shared, index).await
    } else if new.is_empty() {
        Ok(())
    } else {
        read(shared, index, &new).await
    }
}

/// True if vCenter could not read some property of a visible machine.
fn has_unread_properties(vcenter: &VcenterState) -> bool {
    vcenter.machines.values().any(|machine| machine.present && !machine.unread.is_empty())
}

/// Reads the machines of all linked nodes, and drops the state of all other machines. The caller
/// holds the `reading` lock.
async fn read_all(shared: &Shared, index: VcenterIndex) -> Result<(), CallError> {
    let wanted: Vec<MoRef> = {
        let vcenter = &mut shared.lock().vcenters[index];
        let desired: BTreeSet<MoRef> = vcenter.linked.keys().cloned().collect();
        vcenter.machines.retain(|machine, _| desired.contains(machine));
        vcenter.read_times.retain(|machine, _| desired.contains(machine));
        vcenter.in_view.retain(|machine| desired.contains(machine));
        desired.into_iter().collect()
    };
    read(shared, index, &wanted).await
}

/// Reads these machines, stores success or failure of the read, and announces all nodes that wait
/// for a read.
async fn read(shared: &Shared, index: VcenterIndex, wanted: &[MoRef]) -> Result<(), CallError> {
    let at = Instant::now();
    let result = read_each(shared, index, wanted).await;
    let waiting = {
        let vcenter = &mut shared.lock().vcenters[index];
        vcenter.is_current = result.is_ok();
        if !wanted.is_empty() {
            vcenter.last_call_failed = result.is_err();
        }
        vcenter.read_failure = result.as_ref().err().map(|err| {
            let why = format!("reading machines from vCenter failed: {}", Chain(err));
            ReadFailure { at, why, retry: err.retry() }
        });
        let times = &vcenter.read_times;
        if result.is_ok() && vcenter.linked.keys().all(|it| times.get(it).is_some_and(|t| *t >= at))
        {
            vcenter.read_at = Some(at);
        }
        std::mem::take(&mut vcenter.read_wanted)
    };
    shared.announce(waiting);
    if result.is_err() {
        // Wakes the loop, which retries.
        shared.vcenters[index].view.notify_one();
    }
    result
}

/// Reads these machines in chunks, and applies each chunk to the state. Marks machines that the
/// answer lacks as not visible, and announces the nodes that wait for a machine of the chunk.
/// Without machines, only keeps the session alive.
async fn read_each(
    shared: &Shared,
    index: VcenterIndex,
    wanted: &[MoRef],
) -> Result<(), CallError> {
    if wanted.is_empty() {
        keep_alive(shared, index).await;
        return Ok(());
    }
    for chunk in wanted.chunks(CHUNK) {
        let objects = retrieve(shared, index, chunk).await?;
        let shown: BTreeSet<MoRef> = objects.iter().map(|object| object.object.clone()).collect();
        shared.with(|state, effects| {
            let vcenter = &mut state.vcenters[index];
            vcenter.in_view.extend(chunk.iter().cloned());
            let ended_at = Instant::now();
            vcenter.read_times.extend(chunk.iter().map(|machine| (machine.clone(), ended_at)));
            for object in objects {
                let changes = PropertyChange::from_values(object.properties);
                let change = |before: Option<&Machine>| {
                    Some(Machine::entering(&changes, &object.missing, before))
                };
                state.machine_changed(index, &object.object, change, effects);
            }
        });
        for machine in chunk.iter().filter(|machine| !shown.contains(machine)) {
            mark_not_visible(shared, index, machine);
        }
        // Announced now, because this answer may be too old after the later chunks.
        let waiting = shared.lock().vcenters[index].take_read_wanted(chunk);
        shared.announce(waiting);
    }
    Ok(())
}

/// Retrieves these machines, except those that are gone, and without properties that this vCenter
/// rejects.
async fn retrieve(
    shared: &Shared,
    index: VcenterIndex,
    machines: &[MoRef],
) -> Result<Vec<ObjectContent>, CallError> {
    let client = &shared.vcenters[index].client;
    let mut machines = machines.to_vec();
    loop {
        let paths: Vec<&str> = {
            let refused = &shared.lock().vcenters[index].refused;
            PATHS.iter().copied().filter(|path| !refused.contains(*path)).collect()
        };
        let spec = FilterSpec::of_objects("VirtualMachine", &paths, machines.clone());
        let err = match client.retrieve(&spec.tolerating_missing()).await {
            Ok(objects) => return Ok(objects),
            Err(err) => err,
        };
        match err.fault() {
            Some(FaultKind::InvalidProperty(path)) if paths.contains(&path.as_str()) => {
                tracing::warn!(path = %path, "vCenter rejected a property; reading machines without it");
                shared.lock().vcenters[index].refused.insert(path.clone());
            }
            // Older servers answer with a fault that names the first machine that is gone, instead
            // of omitting it.
            Some(FaultKind::ManagedObjectNotFound(Some(gone))) if machines.contains(gone) => {
                machines.retain(|machine| machine != gone);
            }
            _ => return Err(err),
        }
        if machines.is_empty() {
            return Ok(Vec::new());
        }
    }
}
