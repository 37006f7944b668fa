//! Machines in one or more vCenters, kept current by property collectors.
//!
//! Three tasks per vCenter: [`join`] finds the machines of new nodes in batches (or one by one: [`search`]; both leave out what [`scope`] leaves out), [`view`] keeps them in one list
//! view with one filter and waits for changes ([`reread`] asks again for what could not be read), [`zone_reader`] reads tags when somebody needs a zone. They share
//! [`state`] and nothing else, so a vCenter that hangs holds up nobody but itself. [`proof`] asks anew before a
//! machine is called gone.

mod census;
mod join;
mod machine;
mod proof;
mod reread;
mod scope;
mod search;
mod state;
mod view;
mod zone_reader;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures::future::BoxFuture;
use provider_vcenter::Vcenter;
use tokio::{sync::Notify, time::Instant};

use self::{
    machine::{ADDRESS_PATHS, Machine, PLACEMENT_PATHS, Power, SIZE_PATHS},
    state::{Effects, Link, State},
};
use super::{
    Datacenters, Family, Instances, Selection, ZoneCategories, ZoneWanted, addresses, instance_type,
};
use crate::{
    model::{Lookup, MachineReference, Metadata, NodeIdentity, ProviderId, Unknown, parse_uuid},
    mutant::{Active, mutant},
    tasks::Tasks,
    telemetry::Telemetry,
};

/// How the vCenter backend behaves.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// How long joins are collected before they are looked up together.
    pub join_window: Duration,
    /// How long a hit waits for slower vCenters, which might show a second machine.
    pub grace: Duration,
    /// Age at which tags and ancestors are read anew when somebody asks.
    pub zone_ttl: Duration,
    /// At least this long between the two searches that prove absence without a reference.
    pub absence_period: Duration,
    /// Seeds the jitter of all pauses.
    pub seed: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            join_window: Duration::from_millis(50),
            grace: Duration::from_secs(1),
            zone_ttl: Duration::from_secs(600),
            absence_period: Duration::from_secs(5),
            seed: 0,
        }
    }
}

/// What addresses and zones are made of, per vCenter where it differs.
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

/// What addresses and zones are made of; `families` and `datacenters` in the order of the vCenters.
pub(crate) fn policy(
    selection: Selection,
    families: Vec<Vec<Family>>,
    datacenters: Vec<Datacenters>,
    zones: Option<ZoneCategories>,
    active: Active,
) -> Policy {
    Policy { selection, families, datacenters, zones, active }
}

/// The vCenter backend.
#[derive(Clone)]
pub struct VcenterInstances {
    shared: Arc<Shared>,
}

struct Shared {
    vcenters: Vec<Backend>,
    state: Mutex<State>,
    policy: Policy,
    tuning: Tuning,
    telemetry: Arc<Telemetry>,
    news: Mutex<BTreeSet<String>>,
    news_arrived: Notify,
    grace: Notify,
    /// Proofs at a time: enough for a rack, too few to hurt a vCenter when everything is gone.
    proofs: tokio::sync::Semaphore,
}

struct Backend {
    client: Vcenter,
    join: Notify,
    view: Notify,
    zones: Notify,
}

impl VcenterInstances {
    /// A backend over these vCenters; nothing is called before [`VcenterInstances::spawn`].
    pub(crate) fn new(
        vcenters: Vec<Vcenter>,
        policy: Policy,
        tuning: Tuning,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        let state = State::new(vcenters.len());
        let vcenters = vcenters
            .into_iter()
            .map(|client| Backend {
                client,
                join: Notify::new(),
                view: Notify::new(),
                zones: Notify::new(),
            })
            .collect();
        Self {
            shared: Arc::new(Shared {
                vcenters,
                state: Mutex::new(state),
                policy,
                tuning,
                telemetry,
                news: Mutex::new(BTreeSet::new()),
                news_arrived: Notify::new(),
                grace: Notify::new(),
                proofs: tokio::sync::Semaphore::new(4),
            }),
        }
    }

    /// Starts the tasks.
    pub(crate) fn spawn(&self, tasks: &Tasks) {
        for index in 0..self.shared.vcenters.len() {
            let name = self.shared.vcenters[index].client.name().to_owned();
            let span = |task: &str| tracing::info_span!("vcenter", vcenter = %name, task);
            let shared = Arc::clone(&self.shared);
            tasks.spawn_droppable(span("join"), async move { join::run(&shared, index).await });
            let shared = Arc::clone(&self.shared);
            tasks.spawn_droppable(span("view"), async move { view::run(&shared, index).await });
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

    /// Whether each vCenter's view is current, by name; one without machines has nothing to show and counts.
    pub fn health(&self) -> Vec<(String, bool)> {
        let state = self.shared.lock();
        let views = self.shared.vcenters.iter().zip(&state.vcenters);
        views
            .map(|(backend, vcenter)| {
                let well = !vcenter.troubled && (vcenter.fresh || vcenter.desired.is_empty());
                (backend.client.name().to_owned(), well)
            })
            .collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Changes state, then wakes whom it concerns.
    fn with<T>(&self, change: impl FnOnce(&mut State, &mut Effects) -> T) -> T {
        let mut effects = Effects::default();
        let result = change(&mut self.lock(), &mut effects);
        for index in &effects.join {
            self.vcenters[*index].join.notify_one();
        }
        for index in &effects.view {
            self.vcenters[*index].view.notify_one();
        }
        if effects.grace {
            self.grace.notify_one();
        }
        self.announce(effects.changed);
        result
    }

    fn announce(&self, names: BTreeSet<String>) {
        if names.is_empty() {
            return;
        }
        self.news.lock().expect("nothing panics under this lock").extend(names);
        self.news_arrived.notify_one();
    }

    async fn run_grace(&self) {
        loop {
            self.grace.notified().await;
            tokio::time::sleep(self.tuning.grace).await;
            self.with(|state, effects| state.decide_hits(Instant::now(), effects));
        }
    }

    /// The linked machine, if the collector shows it and it still is the one.
    fn linked<'a>(state: &'a State, name: &str) -> Option<(&'a Link, &'a Machine)> {
        let link = state.nodes.get(name)?.link.as_ref()?;
        let machine = state.vcenters[link.vcenter].machines.get(&link.machine)?;
        let is_it = machine.present && machine.uuid == Some(link.uuid);
        is_it.then_some((link, machine))
    }

    /// Whether the collector shows a machine where the node's is, and cannot say at present which one it is.
    fn is_nameless(state: &State, name: &str) -> bool {
        let link = state.nodes.get(name).and_then(|tracked| tracked.link.as_ref());
        let machine =
            link.and_then(|link| state.vcenters[link.vcenter].machines.get(&link.machine));
        machine.is_some_and(|machine| machine.present && machine.uuid.is_none())
    }

    fn describe(
        &self,
        state: &mut State,
        name: &str,
        wanted: ZoneWanted,
        wake_zones: &mut Option<usize>,
    ) -> Option<Metadata> {
        let (link, machine) = Self::linked(state, name)?;
        let (link, machine) = (link.clone(), machine.clone());
        let active = self.policy.active;
        let unread = |prefixes: &[&str]| {
            let path = machine.unread_of(prefixes)?;
            Some(Unknown::Incomplete(format!("the vCenter cannot read {path} of its machine")))
        };
        let mut addresses = if let Some(why) = unread(ADDRESS_PATHS) {
            Err(why)
        } else if machine.tools_stopped {
            Err(Unknown::Incomplete("VMware Tools are not running in the guest".to_owned()))
        } else {
            addresses::select(
                &machine.guest,
                &self.policy.selection,
                &self.policy.families[link.vcenter],
            )
            .map_err(|err| Unknown::Incomplete(err.to_string()))
        };
        if mutant!(active, EmptyClearsAddresses) && addresses.is_err() {
            addresses = Ok(Vec::new());
        }
        let categories = self.policy.zones.clone().or_else(|| {
            mutant!(active, ZonesWhenOff).then(|| super::ZoneCategories {
                zone: "k8s-zone".to_owned(),
                region: "k8s-region".to_owned(),
            })
        });
        let zone = match (&categories, wanted) {
            (Some(categories), ZoneWanted::Yes) => {
                let vcenter = &mut state.vcenters[link.vcenter];
                let placement = machine.placement(&link.machine);
                let now = Instant::now();
                match vcenter.zones.answer(&placement, categories, now, &self.tuning) {
                    Some(answer) => answer.map(Some),
                    None => {
                        vcenter.zone_wanted.insert(name.to_owned());
                        *wake_zones = Some(link.vcenter);
                        Err(Unknown::Pending)
                    }
                }
            }
            _ => Ok(None),
        };
        let zone = if self.policy.zones.is_none() { Ok(None) } else { zone };
        // Half a placement would miss the tags of its other half, and what is written with the zone stays.
        let zone = match (unread(PLACEMENT_PATHS).or_else(|| unread(SIZE_PATHS)), wanted) {
            (Some(why), ZoneWanted::Yes) => Err(why),
            _ => zone,
        };
        let instance_type = machine.guest_id.as_deref().map(|guest_id| {
            let (n_cpus, memory) = (machine.n_cpus.unwrap_or(0), machine.memory_mib.unwrap_or(0));
            instance_type::instance_type(guest_id, n_cpus, memory)
        });
        let instance = self.vcenters[link.vcenter].client.instance_uuid();
        let reference = instance
            .and_then(parse_uuid)
            .map(|vcenter| MachineReference { vcenter, machine: link.machine.id().to_owned() });
        Some(Metadata {
            provider_id: ProviderId(link.uuid),
            reference,
            instance_type,
            addresses,
            zone,
        })
    }
}

impl Instances for VcenterInstances {
    fn observe(&self, node: &NodeIdentity) {
        self.shared.with(|state, effects| {
            if state.track(node, effects) {
                state.start_attempt(&node.name, Instant::now(), effects);
            }
        });
    }

    fn forget(&self, name: &str) {
        self.shared.with(|state, effects| state.forget(name, effects));
    }

    fn metadata(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata> {
        let shared = &self.shared;
        let mut wake_zones = None;
        let result = shared.with(|state, effects| {
            state.track(node, effects);
            if let Some(metadata) = shared.describe(state, &node.name, zone, &mut wake_zones) {
                return Lookup::Found(metadata);
            }
            let nameless = Shared::is_nameless(state, &node.name);
            let Some(tracked) = state.nodes.get_mut(&node.name) else {
                return Lookup::Unknown(Unknown::Pending);
            };
            if tracked.attempt.is_some() {
                return Lookup::Unknown(Unknown::Pending);
            }
            if let Some(failure) = tracked.failure.take() {
                return Lookup::Unknown(failure);
            }
            if let Some(why) = tracked.outside(Instant::now()) {
                return Lookup::Unknown(Unknown::Outside(why));
            }
            if nameless {
                let why = "the vCenter does not say at present which machine it is";
                return Lookup::Unknown(Unknown::Incomplete(why.to_owned()));
            }
            let awaits_view = tracked.link.as_ref().is_some_and(|link| {
                !state.vcenters[link.vcenter].machines.contains_key(&link.machine)
            });
            if !awaits_view {
                state.start_attempt(&node.name, Instant::now(), effects);
                let failure = state.nodes.get_mut(&node.name).and_then(|t| t.failure.take());
                if let Some(failure) = failure {
                    return Lookup::Unknown(failure);
                }
            }
            Lookup::Unknown(Unknown::Pending)
        });
        if let Some(index) = wake_zones {
            shared.vcenters[index].zones.notify_one();
        }
        result
    }

    fn exists<'a>(
        &'a self,
        node: &'a NodeIdentity,
        proof_after: Instant,
    ) -> BoxFuture<'a, Lookup<()>> {
        Box::pin(proof::exists(&self.shared, node, proof_after))
    }

    fn shutdown(&self, node: &NodeIdentity) -> Lookup<bool> {
        self.shared.with(|state, effects| {
            state.track(node, effects);
            let active = self.shared.policy.active;
            let Some((link, machine)) = Shared::linked(state, &node.name) else {
                if mutant!(active, ShutdownOnUnknown) {
                    return Lookup::Found(true);
                }
                return Lookup::Unknown(Unknown::NotSeen);
            };
            if machine.unread.contains("runtime.powerState") && !mutant!(active, ShutdownOnUnknown)
            {
                let why = "the vCenter cannot read the power state of its machine";
                return Lookup::Unknown(Unknown::Incomplete(why.to_owned()));
            }
            match machine.power {
                Some(power) if state.vcenters[link.vcenter].fresh => {
                    Lookup::Found(power != Power::On)
                }
                _ if mutant!(active, ShutdownOnUnknown) => Lookup::Found(true),
                Some(_) => Lookup::Unknown(Unknown::Unavailable(
                    "the view of the vCenter is not current".to_owned(),
                )),
                None => Lookup::Unknown(Unknown::Incomplete("no power state".to_owned())),
            }
        })
    }

    fn n_missing(&self) -> usize {
        let state = self.shared.lock();
        let is_missing = |link: &Link| {
            let machine = state.vcenters[link.vcenter].machines.get(&link.machine);
            machine.is_some_and(|m| !m.present)
        };
        state.nodes.values().filter(|t| t.link.as_ref().is_some_and(is_missing)).count()
    }

    fn changed(&self) -> BoxFuture<'_, BTreeSet<String>> {
        Box::pin(async move {
            loop {
                let arrived = self.shared.news_arrived.notified();
                let news = std::mem::take(
                    &mut *self.shared.news.lock().expect("nothing panics under this lock"),
                );
                if !news.is_empty() {
                    return news;
                }
                arrived.await;
            }
        })
    }
}
