//! Applies the deliveries of the collector to the state.

use std::collections::BTreeSet;

use provider_vcenter::{MoRef, UpdateKind, UpdateSet};

use super::members::mark_not_visible;
use crate::{
    instances::vcenter::{
        Shared,
        state::{VcenterIndex, machine::Machine},
    },
    model::NodeName,
};

/// Applies a delivery. Adds the machines that enter the view with it to `entered`, if set.
pub(super) fn deliver(
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

/// Ends the first complete delivery: marks the members that did not enter as not visible, and logs
/// that the view is current.
pub(super) fn settle(shared: &Shared, index: VcenterIndex, entered: &BTreeSet<MoRef>) {
    let missing: Vec<MoRef> =
        shared.lock().vcenters[index].in_view.difference(entered).cloned().collect();
    for machine in missing {
        mark_not_visible(shared, index, &machine);
    }
    let names: BTreeSet<NodeName> =
        shared.lock().vcenters[index].linked.values().cloned().collect();
    tracing::info!(
        n_nodes = names.len(),
        n_machines = entered.len(),
        "vCenter has delivered the machines of nodes; waiting for changes"
    );
}
