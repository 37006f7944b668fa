//! vCenter backend: answers from a view of the nodes' machines in one or more vCenters. Property
//! collectors keep the view current.
//!
//! Four tasks run for each vCenter:
//!
//! - [`join`] finds the machines of new nodes, in batches ([`join::inventory`]) or one by one
//!   ([`join::search`]), and drops those that [`join::scope`] excludes;
//! - [`view`] keeps the machines in one list view with one filter and waits for changes, and
//!   [`view::reread`] reads again what the view did not deliver completely; in polling mode, [`poll`]
//!   reads the machines periodically instead;
//! - [`zone_reader`] reads ancestors and tags when a node needs a zone;
//! - [`proof::census`] reads the UUIDs of the whole inventory before the backend answers that the machine
//!   of a node is gone, if the node has no reference or its reference names another machine.
//!
//! The tasks share only [`state`], so a vCenter that hangs delays no other. [`answers`] and
//! [`describe`] answer the controllers' questions from that state. [`proof`] reads anew before it
//! answers that a machine is gone.
//!
//! The variant [`v1`] makes upstream's calls one for one, and runs only the census of these tasks.

mod answers;
mod describe;
mod index;
mod join;
mod poll;
mod proof;
mod shared;
mod state;
mod troubles;
mod v1;
mod view;
mod zone_reader;

use std::{sync::Arc, time::Duration};

use provider_vcenter::{Vcenter, VcenterName};

use self::{index::PerVcenter, shared::Shared};
use super::{Datacenters, Selection, ZoneCategories};
use crate::{
    model::Family, mutant::Active, supervisor::InstancesMode, tasks::Tasks, telemetry::Telemetry,
};

pub use v1::VcenterV1;

/// Settings of the vCenter backend.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Way in which the backend keeps its view: by watching or by polling. [`InstancesMode::V1`]
    /// belongs to [`VcenterV1`] and counts as polling here.
    pub mode: InstancesMode,
    /// Time for which the backend collects new nodes before it looks up their machines together,
    /// and nodes that need a zone before it reads tags (default 50 ms).
    pub join_window: Duration,
    /// Time for which a lookup that found a machine in one vCenter waits for the other vCenters,
    /// which may have a second machine with the same UUID (default 1 s).
    pub grace: Duration,
    /// Age from which on tags, ancestors and datacenters are read anew at the next question
    /// (default 600 s).
    pub zone_ttl: Duration,
    /// Minimum time between the two searches that prove the absence of the machine of a node
    /// without a reference (default 5 s).
    pub absence_period: Duration,
    /// Seed of the jitter of all pauses between tries.
    pub seed: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            mode: InstancesMode::default(),
            join_window: Duration::from_millis(50),
            grace: Duration::from_secs(1),
            zone_ttl: Duration::from_secs(600),
            absence_period: Duration::from_secs(5),
            seed: 0,
        }
    }
}

/// Rules of the configuration: choice of addresses, zone categories, and datacenters whose machines
/// count.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    /// Rules for the choice of addresses.
    pub selection: Selection,
    /// IP families by vCenter.
    pub families: PerVcenter<Vec<Family>>,
    /// Datacenters by vCenter.
    pub datacenters: PerVcenter<Datacenters>,
    /// Tag categories of zones and regions; `None` if zones are off.
    pub zones: Option<ZoneCategories>,
    pub active: Active,
}

/// The vCenter backend. Clones share its state.
#[derive(Clone)]
pub struct VcenterInstances {
    shared: Arc<Shared>,
}

impl VcenterInstances {
    /// Creates a backend for these vCenters. The backend makes no call by itself before
    /// [`VcenterInstances::spawn`].
    pub(crate) fn new(
        vcenters: Vec<Vcenter>,
        policy: Policy,
        tuning: Tuning,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        Self { shared: Arc::new(Shared::new(vcenters, policy, tuning, telemetry)) }
    }

    /// Starts the tasks of all vCenters, and the task that ends the wait of [`Tuning::grace`].
    pub(crate) fn spawn(&self, tasks: &Tasks) {
        for index in self.shared.vcenters.indexes() {
            let name = self.shared.vcenters[index].client.name().clone();
            let span = |task: &str| tracing::info_span!("vcenter", vcenter = %name, task);
            let shared = Arc::clone(&self.shared);
            tasks.spawn_droppable(span("join"), async move { join::run(&shared, index).await });
            let shared = Arc::clone(&self.shared);
            if shared.polls() {
                tasks.spawn_droppable(span("poll"), async move { poll::run(&shared, index).await });
            } else {
                tasks.spawn_droppable(span("view"), async move { view::run(&shared, index).await });
            }
            let shared = Arc::clone(&self.shared);
            tasks.spawn_droppable(span("zones"), async move {
                zone_reader::run(&shared, index).await;
            });
            let shared = Arc::clone(&self.shared);
            tasks.spawn_droppable(span("census"), async move {
                shared.censuses.run(index, &shared.vcenters[index].client).await;
            });
        }
        let shared = Arc::clone(&self.shared);
        let span = tracing::info_span!("grace");
        tasks.spawn_droppable(span, async move { shared.run_grace().await });
    }

    /// Logs out of every vCenter. The caller has stopped the tasks before.
    pub(crate) async fn close(&self) {
        let closing = self.shared.vcenters.iter().map(|backend| backend.client.close());
        futures::future::join_all(closing).await;
    }

    /// Returns a function that returns [`VcenterInstances::health`], or an empty list once the
    /// backend is dropped.
    pub(crate) fn probe(&self) -> Box<dyn Fn() -> Vec<(VcenterName, bool)> + Send> {
        let shared = Arc::downgrade(&self.shared);
        Box::new(move || {
            shared.upgrade().map(|shared| Self { shared }.health()).unwrap_or_default()
        })
    }

    /// Returns the name and the health of each vCenter. A vCenter is healthy if three conditions
    /// hold: the last lookup, wait or read of machines succeeded; the view is current, unless no
    /// node has a machine in that vCenter; and the last login did not lead to another vCenter than
    /// the first login.
    pub fn health(&self) -> Vec<(VcenterName, bool)> {
        let state = self.shared.lock();
        let views = self.shared.vcenters.iter().zip(&state.vcenters);
        views
            .map(|(backend, vcenter)| {
                let well = !vcenter.last_call_failed
                    && (vcenter.is_current || vcenter.linked.is_empty())
                    && backend.client.other_instance().is_none();
                (backend.client.name().clone(), well)
            })
            .collect()
    }
}
