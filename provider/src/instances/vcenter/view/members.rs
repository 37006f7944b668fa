//! The view on the server: built, told of changes, given up.

use std::{collections::BTreeSet, time::Duration};

use provider_vcenter::{CallError, FaultKind, FilterSpec, MoRef, Retry, Session};

use crate::instances::vcenter::{
    Shared,
    machine::{Machine, PATHS},
    state::VcenterIndex,
};

/// References per `ModifyListView`.
const CHUNK: usize = 1000;

/// A built view.
pub(super) struct Built {
    pub(super) session: Session,
    view: MoRef,
    filter: MoRef,
    /// What the filter asks of every machine.
    pub(super) paths: Vec<&'static str>,
}

/// Builds view and filter for all machines that nodes are linked to. `refused` are paths that this server does not know.
pub(super) async fn build(
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
    let (first, others) = wanted.split_at(wanted.len().min(CHUNK));
    let view = match client.create_list_view(&session, first).await {
        Ok(view) => {
            add(shared, index, &session, &view, others).await?;
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

/// Frees what the server still holds, if the session lives on.
pub(super) async fn abandon(shared: &Shared, index: VcenterIndex, built: &Built, why: &CallError) {
    if why.retry() == Retry::AfterLogin || why.is_object_gone() {
        return;
    }
    let client = &shared.vcenters[index].client;
    if client.destroy_filter(&built.session, &built.filter).await.is_ok() {
        let _ = client.destroy_view(&built.session, &built.view).await;
    }
}

/// Tells the view of machines that joined or parted since.
pub(super) async fn adjust(
    shared: &Shared,
    index: VcenterIndex,
    built: &Built,
) -> Result<(), CallError> {
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

/// Notes that the collector does not show a machine.
pub(in crate::instances::vcenter) fn left(shared: &Shared, index: VcenterIndex, machine: &MoRef) {
    shared.with(|state, effects| {
        state.machine_changed(
            index,
            machine,
            |before| Some(Machine { present: false, ..before.cloned().unwrap_or_default() }),
            effects,
        );
    });
}
