//! Reads machines that the view did not deliver, or delivered without some properties.
//!
//! A server in trouble names unreadable properties in `missingSet`, and need not report when they
//! become readable. A machine that leaves the view and returns between two deliveries may never be
//! delivered, because nothing has changed for the collector. The provider therefore reads all these
//! incomplete machines together after a pause, at growing intervals, until they are complete.

use std::{collections::BTreeSet, time::Duration};

use provider_vcenter::{Backoff, Chain, FilterSpec, Jitter, MoRef, PropertyChange};
use tokio::time::Instant;

use super::members::mark_not_visible;
use crate::instances::vcenter::{
    Shared,
    state::{VcenterIndex, machine::Machine},
};

/// Maximum number of machines that one call reads.
const CHUNK: usize = 1000;
/// Time that the view gets to deliver a new member before the provider reads the machine directly.
/// The read comes earlier if it is already scheduled for other machines, or if other machines have
/// unreadable properties. It comes later if earlier reads did not complete all machines.
const DELIVERY: Duration = Duration::from_secs(10);

/// Schedule of the reads of incomplete machines of one vCenter.
pub(super) struct Reread<'a> {
    shared: &'a Shared,
    index: VcenterIndex,
    paths: &'a [&'static str],
    backoff: Backoff,
    /// Time of the next read, if one is scheduled.
    at: Option<Instant>,
    /// True if the view has delivered all of its machines once.
    is_whole: bool,
}

/// Incomplete machines of the view.
struct IncompleteMachines {
    /// Machines with properties that vCenter could not read.
    torn: Vec<MoRef>,
    /// Members of the view that vCenter never delivered.
    undelivered: Vec<MoRef>,
}

impl<'a> Reread<'a> {
    pub(super) fn new(shared: &'a Shared, index: VcenterIndex, paths: &'a [&'static str]) -> Self {
        let name = shared.vcenters[index].client.name();
        let jitter = Jitter::new(shared.tuning.seed, &format!("{name}/reread"));
        let backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60), jitter);
        Self { shared, index, paths, backoff, at: None, is_whole: false }
    }

    /// Schedules the next read, unless one is scheduled; schedules none if every machine is
    /// complete. `is_whole` is true if the view has delivered all of its machines once; before
    /// that, no machine counts as undelivered.
    pub(super) fn plan(&mut self, is_whole: bool) {
        self.is_whole = is_whole;
        let IncompleteMachines { torn, undelivered } = self.incomplete_machines();
        if torn.is_empty() && undelivered.is_empty() {
            self.backoff.reset();
            self.at = None;
        } else if self.at.is_none() {
            let patience = if torn.is_empty() { DELIVERY } else { Duration::ZERO };
            self.at = Some(Instant::now() + self.backoff.next_pause().max(patience));
        }
    }

    /// Waits until the next read is due; pending for ever if none is scheduled.
    ///
    /// Cancel safe.
    pub(super) async fn due(&self) {
        match self.at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Reads all incomplete machines. Marks a machine that the view never delivered as not visible
    /// if the answer lacks it too.
    pub(super) async fn run(&mut self) {
        self.at = None;
        let client = &self.shared.vcenters[self.index].client;
        let IncompleteMachines { torn, undelivered } = self.incomplete_machines();
        let machines = [torn.as_slice(), &undelivered].concat();
        tracing::info!(
            n_machines = machines.len(),
            "reading machines that vCenter delivered incompletely or not at all"
        );
        for chunk in machines.chunks(CHUNK) {
            let spec = FilterSpec::of_objects("VirtualMachine", self.paths, chunk.to_vec());
            let objects = match client.retrieve(&spec.tolerating_missing()).await {
                Ok(objects) => objects,
                Err(err) => {
                    tracing::warn!(error = %Chain(&err), "reading machines from vCenter failed; retrying");
                    return;
                }
            };
            let shown: BTreeSet<MoRef> = objects.iter().map(|it| it.object.clone()).collect();
            self.shared.with(|state, effects| {
                for object in objects {
                    let changes = PropertyChange::from_values(object.properties);
                    // A machine that has left the view meanwhile stays marked as not visible.
                    let change = |before: Option<&Machine>| {
                        let has_left = before.is_some_and(|machine| !machine.present);
                        (!has_left).then(|| Machine::entering(&changes, &object.missing, before))
                    };
                    state.machine_changed(self.index, &object.object, change, effects);
                }
            });
            for machine in undelivered.iter().filter(|it| chunk.contains(it) && !shown.contains(it))
            {
                mark_not_visible(self.shared, self.index, machine);
            }
        }
    }

    /// Returns the machines that are incomplete now.
    fn incomplete_machines(&self) -> IncompleteMachines {
        let state = self.shared.lock();
        let vcenter = &state.vcenters[self.index];
        let is_torn = |machine: &Machine| machine.present && !machine.unread.is_empty();
        let torn = vcenter.machines.iter().filter(|(_, m)| is_torn(m)).map(|(id, _)| id.clone());
        let is_undelivered = |machine: &&MoRef| {
            vcenter.linked.contains_key(*machine) && !vcenter.machines.contains_key(*machine)
        };
        let undelivered = vcenter.in_view.iter().filter(|_| self.is_whole).filter(is_undelivered);
        IncompleteMachines { torn: torn.collect(), undelivered: undelivered.cloned().collect() }
    }
}
