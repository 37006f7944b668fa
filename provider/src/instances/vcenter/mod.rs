//! Machines in one or more vCenters, kept current by property collectors.
//!
//! Four tasks serve each vCenter:
//!
//! - [`join`] finds the machines of new nodes, in batches ([`inventory`]) or one by one ([`search`]), without those
//!   that [`scope`] excludes;
//! - [`view`] keeps the machines in one list view with one filter and waits for changes, and [`reread`] reads again
//!   what could not be read; in polling mode, [`poll`] reads the machines periodically instead;
//! - [`zone_reader`] reads tags when a node needs a zone;
//! - [`census`] reads the whole inventory before the provider deletes a Node without a reference.
//!
//! The tasks share only [`state`], so a vCenter that hangs delays no other. [`answers`] and [`describe`] answer the
//! controllers from that state; [`proof`] reads anew before it calls a machine gone.
//!
//! [`v1`] runs only the census of these tasks, and makes upstream's calls one for one.

mod answers;
mod census;
mod describe;
mod idle;
mod inventory;
mod join;
mod machine;
mod poll;
mod proof;
mod reread;
mod scope;
mod search;
mod shared;
mod state;
mod troubles;
mod v1;
mod view;
mod zone_reader;

use std::{sync::Arc, time::Duration};

use provider_vcenter::Vcenter;

use self::shared::Shared;
use super::{Datacenters, Family, Selection, ZoneCategories};
use crate::{mutant::Active, supervisor::InstancesMode, tasks::Tasks, telemetry::Telemetry};

pub use v1::VcenterV1;

/// Settings of the vCenter backend.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Source of the answers. [`InstancesMode::V1`] belongs to [`VcenterV1`] and counts as polling here.
    pub mode: InstancesMode,
    /// Time for which joins are collected before one lookup (default 50 ms).
    pub join_window: Duration,
    /// Time that a hit waits for slower vCenters, which might show a second machine (default 1 s).
    pub grace: Duration,
    /// Age at which tags, ancestors and datacenters are read anew on demand (default 600 s).
    pub zone_ttl: Duration,
    /// Minimum time between the two searches that prove absence without a reference (default 5 s).
    pub absence_period: Duration,
    /// Seed of the jitter of all pauses.
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

/// Rules for addresses and zones, and the machines that count, per vCenter where they differ.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub selection: Selection,
    /// IP families by vCenter, in the order of the vCenters.
    pub families: Vec<Vec<Family>>,
    /// Datacenters by vCenter, in the order of the vCenters.
    pub datacenters: Vec<Datacenters>,
    pub zones: Option<ZoneCategories>,
    pub active: Active,
}

/// The vCenter backend.
#[derive(Clone)]
pub struct VcenterInstances {
    shared: Arc<Shared>,
}

impl VcenterInstances {
    /// Creates a backend over these vCenters; no call is made before [`VcenterInstances::spawn`].
    pub(crate) fn new(
        vcenters: Vec<Vcenter>,
        policy: Policy,
        tuning: Tuning,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        Self { shared: Arc::new(Shared::new(vcenters, policy, tuning, telemetry)) }
    }

    /// Starts the tasks.
    pub(crate) fn spawn(&self, tasks: &Tasks) {
        for index in 0..self.shared.vcenters.len() {
            let name = self.shared.vcenters[index].client.name().to_owned();
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

    /// Ends every login. Called after the tasks have stopped.
    pub(crate) async fn close(&self) {
        let closing = self.shared.vcenters.iter().map(|backend| backend.client.close());
        futures::future::join_all(closing).await;
    }

    /// Returns a function that reports [`VcenterInstances::health`], and nothing once the backend is dropped.
    pub(crate) fn probe(&self) -> Box<dyn Fn() -> Vec<(String, bool)> + Send> {
        let shared = Arc::downgrade(&self.shared);
        Box::new(move || {
            shared.upgrade().map(|shared| Self { shared }.health()).unwrap_or_default()
        })
    }

    /// Health of each vCenter by name: true if its last call succeeded, its view is current, and no other vCenter
    /// answers under its name. A vCenter without machines of nodes needs no current view.
    pub fn health(&self) -> Vec<(String, bool)> {
        let state = self.shared.lock();
        let views = self.shared.vcenters.iter().zip(&state.vcenters);
        views
            .map(|(backend, vcenter)| {
                let well = !vcenter.troubled
                    && (vcenter.fresh || vcenter.desired.is_empty())
                    && backend.client.other_instance().is_none();
                (backend.client.name().to_owned(), well)
            })
            .collect()
    }
}
