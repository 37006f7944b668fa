//! Machines in one or more vCenters, kept current by property collectors.
//!
//! Three tasks per vCenter: [`join`] finds the machines of new nodes in batches ([`inventory`], or one by one: [`search`];
//! both leave out what [`scope`] leaves out), [`view`] keeps them in one list view with one filter and waits for changes
//! ([`reread`] asks again for what could not be read) or [`poll`] reads them now and then, [`zone_reader`] reads tags when somebody needs a zone. They
//! share [`state`] and nothing else, so a vCenter that hangs holds up nobody but itself. [`answers`] are given from
//! it, what a node is told in [`describe`]; [`proof`] asks anew before a machine is called gone.
//!
//! [`v1`] has none of that: it is upstream's calls one for one.

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

/// How the vCenter backend behaves.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// How answers are had. [`InstancesMode::V1`] is [`VcenterV1`]'s and counts as polling here.
    pub mode: InstancesMode,
    /// How long joins are collected before they are looked up together.
    pub join_window: Duration,
    /// How long a hit waits for slower vCenters, which might show a second machine.
    pub grace: Duration,
    /// Age at which tags, ancestors and datacenters are read anew when somebody asks.
    pub zone_ttl: Duration,
    /// At least this long between the two searches that prove absence without a reference.
    pub absence_period: Duration,
    /// Seeds the jitter of all pauses.
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

/// What addresses and zones are made of and which machines count, per vCenter where it differs.
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
    /// A backend over these vCenters; nothing is called before [`VcenterInstances::spawn`].
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

    /// Tells [`VcenterInstances::health`] as long as the backend lives.
    pub(crate) fn probe(&self) -> Box<dyn Fn() -> Vec<(String, bool)> + Send> {
        let shared = Arc::downgrade(&self.shared);
        Box::new(move || {
            shared.upgrade().map(|shared| Self { shared }.health()).unwrap_or_default()
        })
    }

    /// Whether each vCenter's view is current, by name; one without machines has nothing to show and counts.
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
