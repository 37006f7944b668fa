//! Keeps the machines of joined nodes in one list view with one filter, and waits for what changes.
//!
//! While the wait blocks, the view is told of joined and parted machines; the collector then delivers them to the
//! same wait. What is lost with a session, a restart or a collector version is built again: one login, one view, one
//! filter, one delivery. Until then the old picture stays, and nobody takes absence from it.

use std::{collections::BTreeSet, time::Duration};

use provider_vcenter::{
    Backoff, CallError, Chain, FaultKind, FilterSpec, Jitter, MoRef, Retry, Session, UpdateKind,
    UpdateSet,
};

use super::{
    Shared,
    machine::{Machine, PATHS},
    reread::Reread,
    state::VcenterIndex,
};
use crate::mutant::mutant;

/// References per `ModifyListView`.
const CHUNK: usize = 1000;
/// A filter that fails this often in a row is built anew.
const MAX_FAILURES_PER_FILTER: u32 = 2;

/// While there is nothing to wait for, the session is kept alive this often. vCenter ends one after 30 idle minutes;
/// an administrator may shorten that, and a login costs more than this call.
const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// A built view.
struct Built {
    session: Session,
    view: MoRef,
    filter: MoRef,
    /// What the filter asks of every machine.
    paths: Vec<&'static str>,
}

/// Serves the view for ever.
pub(super) async fn run(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    let jitter = Jitter::new(shared.tuning.seed, &format!("{}/view", backend.client.name()));
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), jitter);
    let mut optional_paths_refused = BTreeSet::new();
    loop {
        while shared.lock().vcenters[index].desired.is_empty() {
            idle(shared, index).await;
        }
        let err = match build(shared, index, &mut optional_paths_refused).await {
            Ok(built) => {
                shared.telemetry.view_built(backend.client.name());
                watch(shared, index, &built, &mut backoff).await
            }
            Err(err) => err,
        };
        {
            let vcenter = &mut shared.lock().vcenters[index];
            vcenter.fresh = false;
            vcenter.troubled = true;
        }
        let is_first = backoff.failures() == 0;
        let pause = backoff.fail();
        let pause = match err.retry() {
            // What was lost is on our side of the wire; the first attempt to build it again need not wait.
            Retry::AfterLogin | Retry::Never if is_first => Duration::ZERO,
            _ if is_first && is_session_bound_loss(&err) => Duration::ZERO,
            Retry::After(wait) => wait.min(Duration::from_secs(60)),
            _ => pause,
        };
        tracing::warn!(error = %Chain(&err), pause = ?pause, "the view is lost and will be built anew");
        tokio::time::sleep(pause).await;
    }
}

/// Waits for a machine to be watched, or until it is time to keep the session alive, and does so.
async fn idle(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    if tokio::time::timeout(KEEP_ALIVE, backend.view.notified()).await.is_ok() {
        return;
    }
    // A session that has ended is made anew by whoever needs one; until then nobody does.
    if let Err(err) = backend.client.keep_alive().await {
        tracing::info!(error = %Chain(&err), "session not kept alive");
    }
}

fn is_session_bound_loss(err: &CallError) -> bool {
    matches!(
        err.fault(),
        Some(
            FaultKind::InvalidCollectorVersion
                | FaultKind::RequestCanceled
                | FaultKind::ManagedObjectNotFound(_)
        )
    )
}

async fn build(
    shared: &Shared,
    index: VcenterIndex,
    refused: &mut BTreeSet<String>,
) -> Result<Built, CallError> {
    let client = &shared.vcenters[index].client;
    let session = client.session().await?;
    let wanted: Vec<MoRef> = {
        let vcenter = &mut shared.lock().vcenters[index];
        vcenter.in_view = vcenter.desired.keys().cloned().collect();
        vcenter.lost.clear();
        let in_view = &vcenter.in_view;
        vcenter.machines.retain(|machine, _| in_view.contains(machine));
        vcenter.in_view.iter().cloned().collect()
    };
    let first = if wanted.len() <= CHUNK { wanted.as_slice() } else { &[] };
    let view = match client.create_list_view(&session, first).await {
        Ok(view) if first.len() == wanted.len() => view,
        Ok(view) => {
            add(shared, index, &session, &view, &wanted).await?;
            view
        }
        // One of them is gone. An empty view takes the others and names those that it cannot find.
        Err(err) if err.is_object_gone() && !first.is_empty() => {
            let view = client.create_list_view(&session, &[]).await?;
            add(shared, index, &session, &view, &wanted).await?;
            view
        }
        Err(err) => return Err(err),
    };
    let (filter, paths) = loop {
        let paths: Vec<&str> = PATHS.iter().copied().filter(|p| !refused.contains(*p)).collect();
        let spec = FilterSpec::of_view(&view, "VirtualMachine", &paths);
        match client.create_filter(&session, &spec).await {
            Ok(filter) => break (filter, paths),
            Err(err) => match err.fault() {
                Some(FaultKind::InvalidProperty(path))
                    if PATHS.contains(&path.as_str()) && refused.insert(path.clone()) =>
                {
                    tracing::warn!(path = %path, "this vCenter does not know a property");
                }
                _ => return Err(err),
            },
        }
    };
    Ok(Built { session, view, filter, paths })
}

async fn add(
    shared: &Shared,
    index: VcenterIndex,
    session: &Session,
    view: &MoRef,
    machines: &[MoRef],
) -> Result<(), CallError> {
    for chunk in machines.chunks(CHUNK) {
        let client = &shared.vcenters[index].client;
        for machine in client.modify_list_view(session, view, chunk, &[]).await? {
            left(shared, index, &machine);
        }
    }
    Ok(())
}

fn left(shared: &Shared, index: VcenterIndex, machine: &MoRef) {
    shared.with(|state, effects| {
        state.machine_changed(
            index,
            machine,
            |before| Some(Machine { present: false, ..before.cloned().unwrap_or_default() }),
            effects,
        );
    });
}

/// Waits for changes until the view is lost; says how.
async fn watch(
    shared: &Shared,
    index: VcenterIndex,
    built: &Built,
    backoff: &mut Backoff,
) -> CallError {
    let backend = &shared.vcenters[index];
    let client = &backend.client;
    let mut version = String::new();
    let mut truncated = false;
    let mut entered: Option<BTreeSet<MoRef>> = Some(BTreeSet::new());
    let mut failures = 0;
    let mut reread = Reread::new(shared, index, &built.paths);
    loop {
        reread.plan();
        // The first delivery is there at once or not at all; nothing may block before the picture is whole, nor
        // before it is known whether the view outlived a failure.
        let is_settled = entered.is_none() && failures == 0;
        let wait = if is_settled { client.poll() } else { Duration::ZERO };
        let result = {
            let poll = client.wait_for_updates(&built.session, &version, wait);
            tokio::pin!(poll);
            loop {
                tokio::select! {
                    // Deliveries first: they may be what the next change of the view depends on.
                    biased;
                    result = &mut poll => break result,
                    () = backend.view.notified() => {
                        if let Err(err) = adjust(shared, index, built).await {
                            break Err(err);
                        }
                    }
                    () = reread.due() => {
                        reread.run().await;
                        reread.plan();
                    }
                }
            }
        };
        match result {
            Ok(set) => {
                failures = 0;
                backoff.reset();
                shared.lock().vcenters[index].troubled = false;
                let is_truncated = set.as_ref().is_some_and(|s| s.truncated);
                if let Some(set) = set {
                    shared.telemetry.delivered(client.name(), &set);
                    deliver(shared, index, &set, entered.as_mut());
                    truncated = set.truncated;
                    version = set.version;
                }
                if !is_truncated && let Some(entered) = entered.take() {
                    settle(shared, index, &entered);
                }
            }
            Err(err) => {
                shared.lock().vcenters[index].fresh = false;
                if matches!(err.fault(), Some(FaultKind::InvalidCollectorVersion))
                    && mutant!(shared.policy.active, IgnoreInvalidCollectorVersion)
                {
                    std::future::pending::<()>().await;
                }
                failures += 1;
                let is_lost = matches!(err.retry(), Retry::AfterLogin | Retry::Never)
                    || failures > MAX_FAILURES_PER_FILTER;
                if is_lost {
                    abandon(shared, index, built, &err).await;
                    return err;
                }
                if is_session_bound_loss(&err) || truncated {
                    // The filter may still be there: everything again from it costs one call.
                    version.clear();
                    entered = Some(BTreeSet::new());
                    truncated = false;
                }
                if !is_session_bound_loss(&err) {
                    shared.lock().vcenters[index].troubled = true;
                    let pause = match err.retry() {
                        Retry::After(wait) => wait.min(Duration::from_secs(60)),
                        _ => backoff.fail(),
                    };
                    tracing::warn!(error = %Chain(&err), pause = ?pause, "waiting for changes failed");
                    tokio::time::sleep(pause).await;
                }
            }
        }
        let vcenter = &mut shared.lock().vcenters[index];
        if entered.is_none() && failures == 0 {
            vcenter.fresh = true;
        }
    }
}

/// Frees what the server still holds, if the session lives on.
async fn abandon(shared: &Shared, index: VcenterIndex, built: &Built, why: &CallError) {
    if why.retry() == Retry::AfterLogin || why.is_object_gone() {
        return;
    }
    let client = &shared.vcenters[index].client;
    if client.destroy_filter(&built.session, &built.filter).await.is_ok() {
        let _ = client.destroy_view(&built.session, &built.view).await;
    }
}

/// Tells the view of machines that joined or parted since.
async fn adjust(shared: &Shared, index: VcenterIndex, built: &Built) -> Result<(), CallError> {
    // Several changes of one moment become one call.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let (adds, removes, lost) = {
        let vcenter = &mut shared.lock().vcenters[index];
        let wanted: BTreeSet<MoRef> = vcenter.desired.keys().cloned().collect();
        let adds: Vec<MoRef> = wanted.difference(&vcenter.in_view).cloned().collect();
        let removes: Vec<MoRef> = vcenter.in_view.difference(&wanted).cloned().collect();
        for machine in &removes {
            vcenter.machines.remove(machine);
        }
        vcenter.in_view = wanted;
        let lost: Vec<MoRef> = std::mem::take(&mut vcenter.lost).into_iter().collect();
        (adds, removes, lost)
    };
    let client = &shared.vcenters[index].client;
    for chunk in lost.chunks(CHUNK) {
        client.modify_list_view(&built.session, &built.view, &[], chunk).await?;
    }
    let mut adds = adds.chunks(CHUNK);
    let mut removes = removes.chunks(CHUNK);
    loop {
        let (add, remove) = (adds.next().unwrap_or(&[]), removes.next().unwrap_or(&[]));
        if add.is_empty() && remove.is_empty() {
            return Ok(());
        }
        for machine in client.modify_list_view(&built.session, &built.view, add, remove).await? {
            left(shared, index, &machine);
        }
    }
}

fn deliver(
    shared: &Shared,
    index: VcenterIndex,
    set: &UpdateSet,
    mut entered: Option<&mut BTreeSet<MoRef>>,
) {
    shared.with(|state, effects| {
        for update in &set.updates {
            if let (Some(entered), UpdateKind::Enter) = (entered.as_deref_mut(), update.kind) {
                entered.insert(update.object.clone());
            }
            let change = |before: Option<&Machine>| match update.kind {
                UpdateKind::Enter => {
                    Some(Machine::entering(&update.changes, &update.missing, before))
                }
                UpdateKind::Modify => before.map(|before| {
                    let mut machine = before.clone();
                    machine.apply(&update.changes, &update.missing);
                    machine
                }),
                UpdateKind::Leave => {
                    before.map(|before| Machine { present: false, ..before.clone() })
                }
            };
            state.machine_changed(index, &update.object, change, effects);
        }
    });
}

/// After a whole delivery: what did not come is not there to be seen.
fn settle(shared: &Shared, index: VcenterIndex, entered: &BTreeSet<MoRef>) {
    let missing: Vec<MoRef> =
        shared.lock().vcenters[index].in_view.difference(entered).cloned().collect();
    for machine in missing {
        left(shared, index, &machine);
    }
    let names: BTreeSet<String> = shared.lock().vcenters[index].desired.values().cloned().collect();
    tracing::info!(n_nodes = names.len(), n_machines = entered.len(), "the view is current");
}
