//! Creates the view and its filter on the server, changes the members of the view, and destroys
//! both.

use std::{collections::BTreeSet, time::Duration};

use provider_vcenter::{CallError, FaultKind, FilterSpec, MoRef, Retry, Session, Vcenter};

use crate::instances::vcenter::{
    Shared,
    state::{
        VcenterIndex, VcenterState,
        machine::{Machine, PATHS},
    },
};

/// Maximum number of references in one call of `CreateListView`. One call of `ModifyListView` may
/// add as many and remove as many.
const CHUNK: usize = 1000;

/// A view on the server with its filter.
pub(super) struct ServerView {
    pub(super) session: Session,
    view: MoRef,
    filter: MoRef,
    /// Paths that the filter reads of every machine.
    pub(super) paths: Vec<&'static str>,
}

/// Creates a view and a filter for all machines that nodes are linked to, and drops the state of
/// all other machines. `refused` holds the paths that this server rejects; the function adds
/// further ones. If a call fails after the view exists, destroys the view.
pub(super) async fn build(
    shared: &Shared,
    index: VcenterIndex,
    refused: &mut BTreeSet<String>,
) -> Result<ServerView, CallError> {
    let client = &shared.vcenters[index].client;
    let session = client.session().await?;
    let wanted: Vec<MoRef> = {
        let vcenter = &mut shared.lock().vcenters[index];
        vcenter.in_view = vcenter.linked.keys().cloned().collect();
        vcenter.lost.clear();
        let in_view = &vcenter.in_view;
        vcenter.machines.retain(|machine, _| in_view.contains(machine));
        vcenter.in_view.iter().cloned().collect()
    };
    let (first, others) = wanted.split_at(wanted.len().min(CHUNK));
    let (view, others) = match client.create_list_view(&session, first).await {
        Ok(view) => (view, others),
        // One of the machines is gone. `ModifyListView` on an empty view accepts the others and
        // returns those that the server cannot find.
        Err(err) if err.is_object_gone() && !first.is_empty() => {
            (client.create_list_view(&session, &[]).await?, wanted.as_slice())
        }
        Err(err) => return Err(err),
    };
    let filtered = async {
        add(shared, index, &session, &view, others).await?;
        filter(client, &session, &view, refused).await
    };
    match filtered.await {
        Ok((filter, paths)) => Ok(ServerView { session, view, filter, paths }),
        Err(err) => {
            if still_exists_after(&err) {
                let _ = client.destroy_view(&session, &view).await;
            }
            Err(err)
        }
    }
}

/// Creates the filter of a view. Returns the filter and the paths that it reads: all of [`PATHS`]
/// except those in `refused`. Adds each path that vCenter rejects to `refused` and tries again.
async fn filter(
    client: &Vcenter,
    session: &Session,
    view: &MoRef,
    refused: &mut BTreeSet<String>,
) -> Result<(MoRef, Vec<&'static str>), CallError> {
    loop {
        let paths: Vec<&str> = PATHS.iter().copied().filter(|p| !refused.contains(*p)).collect();
        let spec = FilterSpec::of_view(view, "VirtualMachine", &paths);
        match client.create_filter(session, &spec).await {
            Ok(filter) => return Ok((filter, paths)),
            Err(err) => match err.fault() {
                Some(FaultKind::InvalidProperty(path))
                    if PATHS.contains(&path.as_str()) && refused.insert(path.clone()) =>
                {
                    tracing::warn!(path = %path, "vCenter rejected a property; reading machines without it");
                }
                _ => return Err(err),
            },
        }
    }
}

/// Adds machines to a new view, and marks those that the server cannot find as not visible.
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
            mark_not_visible(shared, index, &machine);
        }
    }
    Ok(())
}

/// True if the view and filter of the session may still exist on the server after this error.
fn still_exists_after(why: &CallError) -> bool {
    why.retry() != Retry::AfterLogin && !why.is_object_gone()
}

/// Destroys the filter and then the view on the server, if they may still exist after the error
/// `why`.
pub(super) async fn abandon(
    shared: &Shared,
    index: VcenterIndex,
    built: &ServerView,
    why: &CallError,
) {
    if !still_exists_after(why) {
        return;
    }
    let client = &shared.vcenters[index].client;
    if client.destroy_filter(&built.session, &built.filter).await.is_ok() {
        let _ = client.destroy_view(&built.session, &built.view).await;
    }
}

/// A change of the members by one call.
struct Change {
    add: Vec<MoRef>,
    remove: Vec<MoRef>,
    /// True if the removed machines will be added again, because the view has lost them although
    /// they exist.
    is_repair: bool,
}

/// Returns the next change of the members; `None` if the view has the wanted ones.
fn next_change(vcenter: &VcenterState) -> Option<Change> {
    let lost: Vec<MoRef> = vcenter.lost.iter().take(CHUNK).cloned().collect();
    if !lost.is_empty() {
        return Some(Change { add: Vec::new(), remove: lost, is_repair: true });
    }
    let is_new = |machine: &&MoRef| !vcenter.in_view.contains(*machine);
    let is_old = |machine: &&MoRef| !vcenter.linked.contains_key(*machine);
    let add: Vec<MoRef> = vcenter.linked.keys().filter(is_new).take(CHUNK).cloned().collect();
    let remove: Vec<MoRef> = vcenter.in_view.iter().filter(is_old).take(CHUNK).cloned().collect();
    (!add.is_empty() || !remove.is_empty()).then_some(Change { add, remove, is_repair: false })
}

/// Records a change after the server has answered the call.
fn note(vcenter: &mut VcenterState, change: &Change) {
    for machine in &change.remove {
        if change.is_repair {
            vcenter.lost.remove(machine);
        } else {
            vcenter.in_view.remove(machine);
            vcenter.machines.remove(machine);
        }
    }
    vcenter.in_view.extend(change.add.iter().cloned());
}

/// Waits 20 ms, to combine changes, then adds newly linked machines to the view and removes those
/// without a link. Marks added machines that the server cannot find as not visible. Records only
/// changes that the server has answered, so that a failed one is still due. Repeating a change
/// whose answer was lost does no harm.
pub(super) async fn adjust(
    shared: &Shared,
    index: VcenterIndex,
    built: &ServerView,
) -> Result<(), CallError> {
    // Combines changes within 20 ms into one call.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let client = &shared.vcenters[index].client;
    loop {
        let Some(change) = next_change(&shared.lock().vcenters[index]) else { return Ok(()) };
        let (add, remove) = (&change.add, &change.remove);
        let missing = client.modify_list_view(&built.session, &built.view, add, remove).await?;
        note(&mut shared.lock().vcenters[index], &change);
        // Only added machines count: a removed machine may be gone.
        for machine in missing.iter().filter(|machine| add.contains(machine)) {
            mark_not_visible(shared, index, machine);
        }
    }
}

/// Marks a machine as not visible, because the collector or a read does not show it.
pub(in crate::instances::vcenter) fn mark_not_visible(
    shared: &Shared,
    index: VcenterIndex,
    machine: &MoRef,
) {
    shared.with(|state, effects| {
        state.machine_changed(
            index,
            machine,
            |before| Some(Machine { present: false, ..before.cloned().unwrap_or_default() }),
            effects,
        );
    });
}
