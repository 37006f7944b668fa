//! The world: one state, one log, and one way to change it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::act::Act;
use crate::command::Command;
use crate::completion::{Completion, Step, Timing};
use crate::log::{Log, Retain};
use crate::reactions::{Held, Kubelet, Reaction};
use crate::supervisor::{Operator, Supervisor};
use crate::topology::SupervisorTopology;
use crate::vcenter::{MoRef, VCenter, VcEvent, VcFault};
use crate::{Ids, Time, objects};

/// A Kubernetes API server of the world.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum ControlPlane {
    /// The workload cluster's, whose Nodes a provider looks after.
    #[default]
    Workload,
    /// The Supervisor's, whose VirtualMachines they run on.
    Supervisor,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// An object of the workload cluster changed.
    Cluster(objects::Event),
    /// An object of the Supervisor changed.
    Supervisor(objects::Event),
    /// An API server forgot older changes of its objects.
    ClusterCompacted {
        /// Which.
        plane: ControlPlane,
        /// Changes it remembers per resource.
        keep: usize,
    },
    /// Every watch of an API server came to its end.
    WatchesEnded {
        /// Whose.
        plane: ControlPlane,
    },
    /// VM Operator is another one from now on.
    OperatorSet(Operator),
    /// A quota was set, or lifted if it has no limits.
    QuotaSet(objects::Quota),
    /// A Supervisor was founded.
    SupervisorFounded(Box<Supervisor>),
    /// A vCenter was added.
    VCenterAdded {
        /// Its name.
        vcenter: String,
        /// What it is.
        with: Box<VCenter>,
    },
    /// Something happened in a vCenter.
    VCenter {
        /// Which.
        vcenter: String,
        /// What.
        event: VcEvent,
    },
    /// A reaction will happen.
    Scheduled {
        /// Its number.
        id: u64,
        /// When, or `None` if somebody has to tell it to.
        at: Option<Time>,
        /// What it waits for.
        held: Option<Held>,
        /// The reaction.
        reaction: Reaction,
    },
    /// A reaction happened or was told to.
    Unscheduled {
        /// Its number.
        id: u64,
        /// When it was due.
        at: Option<Time>,
    },
    /// A kubelet started, stopped or was added.
    KubeletSet {
        /// Its node.
        node: String,
        /// What it is now; `None` when its machine is gone.
        kubelet: Option<Kubelet>,
    },
    /// A kubelet renewed its lease.
    KubeletBeat {
        /// Its node.
        node: String,
    },
    /// When a step ends was changed.
    TimingSet {
        /// The step.
        step: Step,
        /// When it ends.
        completion: Completion,
    },
    /// How often kubelets report was changed.
    HeartbeatsSet(Option<Duration>),
}

/// Why the world refused a command.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The object store refused.
    #[error("the cluster refused: {0}")]
    Cluster(objects::Status),
    /// A vCenter refused.
    #[error("{0}")]
    VCenter(#[from] VcFault),
    /// A command about a Supervisor makes no sense.
    #[error("{0}")]
    Supervisor(String),
}

/// What a command answered.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing to say.
    Done,
    /// The object store's answer.
    Object(objects::Reply),
    /// The token of a new session.
    Session(String),
    /// A task or a machine.
    Reference(MoRef),
    /// The id of a new tag or category.
    Id(String),
}

/// An accepted command: what it answered and what happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// The answer.
    pub outcome: Outcome,
    /// What happened, in order. Empty when nothing changed.
    pub events: Vec<Event>,
}

/// Everything that is the case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub(crate) epoch: Timestamp,
    pub(crate) ids: Ids,
    /// The vCenters by name.
    pub vcenters: BTreeMap<String, VCenter>,
    /// Objects of the workload cluster.
    pub cluster: objects::Store,
    /// What the Supervisor knows; it serves nothing in a world that has none.
    pub supervisor: Supervisor,
    /// Kubelets by node name.
    pub kubelets: BTreeMap<String, Kubelet>,
    /// Node names by the machine that the kubelet runs on: which vCenter's, which.
    pub(crate) kubelets_on: BTreeMap<String, BTreeMap<MoRef, String>>,
    /// When steps end.
    pub timing: Timing,
    /// Interval of kubelet leases.
    #[serde(with = "crate::duration::option")]
    pub heartbeats: Option<Duration>,
    #[serde(with = "timers")]
    pub(crate) timers: BTreeMap<(Time, u64), Reaction>,
    pub(crate) held: BTreeMap<u64, (Held, Reaction)>,
    pub(crate) last_timer: u64,
    /// When the lease ends that events of clusters were last written under.
    #[serde(default)]
    pub(crate) event_lease: Time,
    /// The timers of events of clusters, by namespace and name: one each.
    #[serde(default)]
    pub(crate) event_timers: BTreeMap<ControlPlane, BTreeMap<String, (Time, u64)>>,
    /// The latest moment at which anything was applied; time does not run backwards.
    pub(crate) latest: Time,
}

impl State {
    fn new(epoch: Timestamp, seed: u64) -> Self {
        let ids = Ids::new(seed);
        Self {
            epoch,
            ids,
            vcenters: BTreeMap::new(),
            cluster: objects::Store::founded(ids, epoch),
            supervisor: Supervisor::none(ids),
            kubelets: BTreeMap::new(),
            kubelets_on: BTreeMap::new(),
            timing: Timing::default(),
            heartbeats: Some(crate::kubelet::LEASE_PERIOD),
            timers: BTreeMap::new(),
            held: BTreeMap::new(),
            last_timer: 0,
            event_lease: Time::ZERO,
            event_timers: BTreeMap::new(),
            latest: Time::ZERO,
        }
    }

    /// The wall-clock reading at the moment the world began.
    pub fn epoch(&self) -> Timestamp {
        self.epoch
    }

    /// The same world, at whose age the wall clock reads `now`: time in which it was put away did not
    /// pass for it, and its clock is right all the same. Calls that were being served are over: no
    /// connection outlives its process.
    #[must_use]
    pub fn resumed_at(mut self, now: Timestamp) -> Self {
        let age = jiff::SignedDuration::try_from(self.age()).unwrap_or_default();
        self.epoch = now.checked_sub(age).unwrap_or(self.epoch);
        for vcenter in self.vcenters.values_mut() {
            vcenter.logins.hang_up();
        }
        self
    }

    /// How long the world has lived.
    pub fn age(&self) -> Duration {
        self.latest.since_start()
    }

    /// Where identifiers come from.
    pub fn ids(&self) -> Ids {
        self.ids
    }

    /// What an API server serves.
    pub fn objects(&self, plane: ControlPlane) -> &objects::Store {
        match plane {
            ControlPlane::Workload => &self.cluster,
            ControlPlane::Supervisor => &self.supervisor.objects,
        }
    }

    fn objects_mut(&mut self, plane: ControlPlane) -> &mut objects::Store {
        match plane {
            ControlPlane::Workload => &mut self.cluster,
            ControlPlane::Supervisor => &mut self.supervisor.objects,
        }
    }

    /// A vCenter by name.
    pub fn vcenter(&self, name: &str) -> Option<&VCenter> {
        self.vcenters.get(name)
    }

    /// When something happens by itself, if nothing is applied until then.
    pub fn next_timer(&self) -> Option<Time> {
        let scheduled = self.timers.keys().next().map(|(at, _)| *at);
        let expiring = self.vcenters.values().filter_map(VCenter::next_timer).min();
        scheduled.into_iter().chain(expiring).min()
    }

    /// Carries out what happened.
    pub(crate) fn fold(&mut self, event: &Event) {
        match event {
            Event::Cluster(event) => self.cluster.fold(event),
            Event::Supervisor(event) => self.supervisor.fold(event),
            Event::OperatorSet(operator) => self.supervisor.set_operator(*operator),
            Event::QuotaSet(quota) => self.supervisor.set_quota(quota),
            Event::SupervisorFounded(supervisor) => self.supervisor = (**supervisor).clone(),
            Event::ClusterCompacted { plane, keep } => self.objects_mut(*plane).compact(*keep),
            Event::WatchesEnded { plane } => self.objects_mut(*plane).end_watches(),
            Event::VCenterAdded { vcenter, with } => {
                self.vcenters.insert(vcenter.clone(), (**with).clone());
            }
            Event::VCenter { vcenter, event } => {
                if let Some(vcenter) = self.vcenters.get_mut(vcenter) {
                    vcenter.fold(event);
                }
            }
            Event::Scheduled { id, at, held, reaction } => {
                self.last_timer = *id;
                self.supervisor.scheduled(*id, *at, reaction);
                if let (Some(at), Reaction::EventExpires { plane, key, .. }) = (at, reaction) {
                    self.event_lease = *at;
                    self.event_timers.entry(*plane).or_default().insert(key.path(), (*at, *id));
                }
                match (at, held) {
                    (Some(at), _) => {
                        self.timers.insert((*at, *id), reaction.clone());
                    }
                    (None, Some(held)) => {
                        self.held.insert(*id, (held.clone(), reaction.clone()));
                    }
                    (None, None) => {}
                }
            }
            Event::Unscheduled { id, at } => {
                let reaction = match at {
                    Some(at) => self.timers.remove(&(*at, *id)),
                    None => self.held.remove(id).map(|(_, reaction)| reaction),
                };
                if let Some(reaction) = &reaction {
                    self.supervisor.unscheduled(reaction);
                }
                if let Some(Reaction::EventExpires { plane, key, .. }) = reaction
                    && let Some(timers) = self.event_timers.get_mut(&plane)
                {
                    timers.remove(&key.path());
                }
            }
            Event::KubeletSet { node, kubelet } => {
                let before = match kubelet {
                    Some(kubelet) => self.kubelets.insert(node.clone(), kubelet.clone()),
                    None => self.kubelets.remove(node),
                };
                if let Some(before) = before
                    && let Some(on) = self.kubelets_on.get_mut(&before.vcenter)
                    && on.get(&before.machine) == Some(node)
                {
                    on.remove(&before.machine);
                }
                if let Some(kubelet) = kubelet {
                    let on = self.kubelets_on.entry(kubelet.vcenter.clone()).or_default();
                    on.insert(kubelet.machine, node.clone());
                }
            }
            Event::KubeletBeat { node } => {
                if let Some(kubelet) = self.kubelets.get_mut(node) {
                    kubelet.beats += 1;
                }
            }
            Event::TimingSet { step, completion } => {
                self.timing.steps.insert(*step, *completion);
            }
            Event::HeartbeatsSet(every) => self.heartbeats = *every,
        }
    }
}

/// The simulated truth: a [`State`] and the log of how it came about.
#[derive(Clone, Debug)]
pub struct World {
    state: State,
    log: Log,
}

impl Deref for World {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl World {
    /// An empty world that began at `epoch`.
    pub fn new(epoch: Timestamp, seed: u64) -> Self {
        Self { state: State::new(epoch, seed), log: Log::new(Retain::Nothing) }
    }

    /// Decides how much of the log is kept from now on. See [`Retain`].
    pub fn retain(&mut self, retain: Retain) {
        self.log = Log::starting_from(retain, &self.state);
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// What is the case now.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// A world that goes on from a snapshot.
    pub fn restore(state: State) -> Self {
        let supervisor = state.supervisor.restored();
        let state = State { supervisor, ..state };
        Self { state, log: Log::new(Retain::Nothing) }
    }

    /// When steps end, before anything has happened.
    pub fn set_timing(&mut self, timing: Timing) {
        self.state.timing = timing;
    }

    /// Carries out `command` at `now`, or refuses it and changes nothing.
    ///
    /// Reactions that were due before `now` happen first.
    ///
    /// # Errors
    /// The fault that the asked side answers with.
    pub fn apply(&mut self, now: Time, command: Command) -> Result<Applied, Fault> {
        let mut events = self.advance(now);
        let now = now.max(self.state.latest);
        let mut act = Act::new(&mut self.state, now);
        let result = act.carry_out(command);
        let acted = act.into_events();
        debug_assert!(
            result.is_ok()
                || acted
                    .iter()
                    .all(|event| matches!(event, Event::VCenter { event: VcEvent::Login(_), .. })),
            "a refused command changed something: {acted:?}"
        );
        self.log.append(now, &acted);
        events.extend(acted);
        result.map(|outcome| Applied { outcome, events })
    }

    /// Lets everything happen that is due by `now`, each at its own time.
    pub fn advance(&mut self, now: Time) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(due) = self.state.next_timer().filter(|due| *due <= now) {
            let at = due.max(self.state.latest);
            let mut act = Act::new(&mut self.state, at);
            act.react();
            let events = act.into_events();
            self.log.append(at, &events);
            all.extend(events);
        }
        self.state.latest = self.state.latest.max(now);
        all
    }

    /// Founds a Supervisor, as a topology does.
    pub(crate) fn add_supervisor(&mut self, vcenter: &str, with: &SupervisorTopology) {
        let State { ids, epoch, .. } = self.state;
        let supervisor = Supervisor::founded(ids, epoch, vcenter, with);
        let event = Event::SupervisorFounded(Box::new(supervisor));
        self.state.fold(&event);
        self.log.append(Time::ZERO, std::slice::from_ref(&event));
    }

    /// Lets the Supervisor have made a machine that is there already, as a topology does.
    pub(crate) fn adopt(&mut self, object: serde_json::Value, machine: MoRef) {
        let mut act = Act::new(&mut self.state, Time::ZERO);
        act.adopt(object, machine);
        let events = act.into_events();
        self.log.append(Time::ZERO, &events);
    }

    /// Adds a vCenter, as a topology does.
    pub(crate) fn add_vcenter(&mut self, name: &str, vcenter: VCenter) {
        let event = Event::VCenterAdded { vcenter: name.to_owned(), with: Box::new(vcenter) };
        self.state.fold(&event);
        self.log.append(Time::ZERO, std::slice::from_ref(&event));
    }
}

/// Timers as a list: JSON objects have only text keys.
mod timers {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::Time;
    use crate::reactions::Reaction;

    pub(super) fn serialize<S: Serializer>(
        timers: &BTreeMap<(Time, u64), Reaction>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        timers.iter().collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<(Time, u64), Reaction>, D::Error> {
        Ok(Vec::<((Time, u64), Reaction)>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
