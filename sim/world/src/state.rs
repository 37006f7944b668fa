//! The state of a world: the fold of all its events.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::control_plane::ControlPlane;
use crate::event::Event;
use crate::reactions::{Held, Kubelet, Reaction, Timing};
use crate::supervisor::Supervisor;
use crate::vcenter::{MoRef, VCenter};
use crate::workloads::Workloads;
use crate::{Ids, Time, objects};

/// Default of `--event-ttl` of kube-apiserver, 1 h.
pub(crate) const DEFAULT_EVENT_TTL: Duration = Duration::from_secs(3600);

fn default_event_ttl() -> Duration {
    DEFAULT_EVENT_TTL
}

/// The whole state of a world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub(crate) epoch: Timestamp,
    pub(crate) ids: Ids,
    /// The vCenters by name.
    pub vcenters: BTreeMap<String, VCenter>,
    /// Objects of the workload cluster.
    pub cluster: objects::Store,
    /// The last backup of the workload cluster; `None` before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cluster_backup: Option<Box<objects::Store>>,
    /// The Supervisor; an empty value in a world without a Supervisor.
    pub supervisor: Supervisor,
    /// Kubelets by node name.
    pub kubelets: BTreeMap<String, Kubelet>,
    /// Node names of the kubelets, by vCenter and machine.
    pub(crate) kubelets_on: BTreeMap<String, BTreeMap<MoRef, String>>,
    /// The times at which steps end.
    pub timing: Timing,
    /// Interval at which kubelets renew their leases; `None` for no heartbeats.
    #[serde(with = "crate::duration::option")]
    pub heartbeats: Option<Duration>,
    /// The scheduler and the controllers of the workload cluster, which are off by default.
    #[serde(default, skip_serializing_if = "Workloads::is_default")]
    pub workloads: Workloads,
    /// Reactions that have a time, by this time and their number in the queue.
    #[serde(with = "timers")]
    pub(crate) timers: BTreeMap<(Time, u64), Reaction>,
    /// Reactions that wait for [`Command::Tell`](crate::Command::Tell), by number in the queue.
    pub(crate) held: BTreeMap<u64, (Held, Reaction)>,
    /// Number of the reaction that was put into the queue last; 0 before the first.
    pub(crate) last_timer: u64,
    /// Minimum time for which the API servers keep a Kubernetes Event after its last write. The
    /// Event may stay up to a minute longer (see `act/expiry/mod.rs`).
    #[serde(default = "default_event_ttl", with = "crate::duration")]
    pub(crate) event_ttl: Duration,
    /// The end of the current lease of Kubernetes Events, that is, the expiry time of the Event
    /// that was written last.
    #[serde(default)]
    pub(crate) event_lease: Time,
    /// The timer of each Kubernetes Event's expiry (time and number in the queue), by API server
    /// and by the path (namespace and name) of the Event.
    #[serde(default)]
    pub(crate) event_timers: BTreeMap<ControlPlane, BTreeMap<String, (Time, u64)>>,
    /// The latest time to which the world was advanced; world time does not run backwards.
    pub(crate) latest: Time,
}

impl State {
    /// Returns the state of a world without vCenters, objects and reactions.
    pub(crate) fn new(epoch: Timestamp, seed: u64) -> Self {
        let ids = Ids::new(seed);
        Self {
            epoch,
            ids,
            vcenters: BTreeMap::new(),
            cluster: objects::Store::new_at(ids, epoch),
            cluster_backup: None,
            supervisor: Supervisor::none(ids),
            kubelets: BTreeMap::new(),
            kubelets_on: BTreeMap::new(),
            timing: Timing::default(),
            heartbeats: Some(crate::kubelet::LEASE_PERIOD),
            workloads: Workloads::default(),
            timers: BTreeMap::new(),
            held: BTreeMap::new(),
            last_timer: 0,
            event_ttl: DEFAULT_EVENT_TTL,
            event_lease: Time::ZERO,
            event_timers: BTreeMap::new(),
            latest: Time::ZERO,
        }
    }

    /// The timestamp at which world time is zero.
    pub fn epoch(&self) -> Timestamp {
        self.epoch
    }

    /// Returns the state with its epoch moved so that the world's present time is `now` on the wall
    /// clock.
    ///
    /// The time between saving and resuming does not pass in the world. Calls in flight end,
    /// because a connection does not outlive its process.
    #[must_use]
    pub fn resumed_at(mut self, now: Timestamp) -> Self {
        let age = jiff::SignedDuration::try_from(self.age()).unwrap_or_default();
        self.epoch = now.checked_sub(age).unwrap_or(self.epoch);
        for vcenter in self.vcenters.values_mut() {
            vcenter.logins.drop_calls();
        }
        self
    }

    /// Simulated time since the world began.
    pub fn age(&self) -> Duration {
        self.latest.since_start()
    }

    /// Source of the identifiers of the world; depends only on the seed.
    pub fn ids(&self) -> Ids {
        self.ids
    }

    /// The objects that an API server serves.
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

    /// Returns the vCenter of this name, such as `vc0`; `None` if the world has none of this name.
    pub fn vcenter(&self, name: &str) -> Option<&VCenter> {
        self.vcenters.get(name)
    }

    /// All pending reactions: those with a time, then those that wait for
    /// [`Command::Tell`](crate::Command::Tell).
    pub(crate) fn to_come(&self) -> impl Iterator<Item = &Reaction> {
        self.timers.values().chain(self.held.values().map(|(_, reaction)| reaction))
    }

    /// The time of the next reaction or session expiry, unless a command changes it before. `None`
    /// if neither is pending; held reactions do not count.
    pub fn next_timer(&self) -> Option<Time> {
        let scheduled = self.timers.keys().next().map(|(at, _)| *at);
        let expiring = self.vcenters.values().filter_map(VCenter::next_timer).min();
        scheduled.into_iter().chain(expiring).min()
    }

    /// The time at which a caller must advance the world again, if the end of a call does not wake
    /// the caller. `None` if no timer is pending and no call is in flight.
    ///
    /// Equals [`next_timer`](Self::next_timer) while no call is in flight. Otherwise this time is
    /// at most the present time plus the idle timeout (at least 1 s), because a session whose call
    /// ends meanwhile cannot expire earlier.
    pub fn next_deadline(&self) -> Option<Time> {
        let serving = self.vcenters.values().filter(|vc| vc.logins.is_serving());
        let idle = serving
            .map(|vc| self.latest + vc.logins.rules.idle_timeout.max(Duration::from_secs(1)));
        self.next_timer().into_iter().chain(idle).min()
    }

    /// Advances the clock of the state to `now`, unless the clock is later already. The only other
    /// effect is that API servers drop old changes from their watch history.
    pub(crate) fn pass(&mut self, now: Time) {
        self.latest = self.latest.max(now);
        self.cluster.run_compactions(self.latest);
        self.supervisor.pass(self.latest);
    }

    /// Applies an event to the state.
    pub(crate) fn fold(&mut self, event: &Event) {
        match event {
            Event::Cluster(event) => self.cluster.fold(event),
            Event::Supervisor(event) => self.supervisor.fold(event),
            Event::OperatorSet(operator) => self.supervisor.set_operator(*operator),
            Event::QuotaSet(quota) => self.supervisor.set_quota(quota),
            Event::SupervisorFounded(supervisor) => self.supervisor = (**supervisor).clone(),
            Event::ClusterCompacted { plane, keep } => self.objects_mut(*plane).compact(*keep),
            Event::WatchesEnded { plane } => self.objects_mut(*plane).end_watches(),
            Event::ClusterBackedUp => self.cluster_backup = Some(Box::new(self.cluster.clone())),
            Event::ClusterRestored => {
                if let Some(backup) = &self.cluster_backup {
                    self.cluster = self.cluster.restored_from(backup);
                }
            }
            Event::VCenterAdded { vcenter, with } => {
                self.vcenters.insert(vcenter.clone(), (**with).clone());
            }
            Event::VCenter { vcenter, event } => {
                if let Some(vcenter) = self.vcenters.get_mut(vcenter) {
                    vcenter.fold(event);
                }
            }
            Event::Scheduled { id, at, held, reaction } => {
                self.schedule(*id, *at, held.as_ref(), reaction);
            }
            Event::Unscheduled { id, at } => self.unschedule(*id, *at),
            Event::JoinRefused { .. } => {}
            Event::KubeletSet { node, kubelet } => self.set_kubelet(node, kubelet.as_ref()),
            Event::KubeletBeat { node } => {
                if let Some(kubelet) = self.kubelets.get_mut(node) {
                    kubelet.beats += 1;
                }
            }
            Event::TimingSet { step, completion } => {
                self.timing.steps.insert(*step, *completion);
            }
            Event::HeartbeatsSet(every) => self.heartbeats = *every,
            Event::WorkloadsSet(run) => self.workloads.run = *run,
        }
    }

    fn schedule(&mut self, id: u64, at: Option<Time>, held: Option<&Held>, reaction: &Reaction) {
        self.last_timer = id;
        self.supervisor.record_pending(id, at, reaction);
        self.workloads.record_pending(reaction);
        if let (Some(at), Reaction::EventExpires { plane, key, .. }) = (at, reaction) {
            self.event_lease = at;
            self.event_timers.entry(*plane).or_default().insert(key.path(), (at, id));
        }
        match (at, held) {
            (Some(at), _) => {
                self.timers.insert((at, id), reaction.clone());
            }
            (None, Some(held)) => {
                self.held.insert(id, (held.clone(), reaction.clone()));
            }
            (None, None) => {}
        }
    }

    fn unschedule(&mut self, id: u64, at: Option<Time>) {
        let reaction = match at {
            Some(at) => self.timers.remove(&(at, id)),
            None => self.held.remove(&id).map(|(_, reaction)| reaction),
        };
        if let Some(reaction) = &reaction {
            self.supervisor.clear_pending(reaction);
            self.workloads.clear_pending(reaction);
        }
        if let Some(Reaction::EventExpires { plane, key, .. }) = reaction
            && let Some(timers) = self.event_timers.get_mut(&plane)
        {
            timers.remove(&key.path());
        }
    }

    fn set_kubelet(&mut self, node: &str, kubelet: Option<&Kubelet>) {
        let before = match kubelet {
            Some(kubelet) => self.kubelets.insert(node.to_owned(), kubelet.clone()),
            None => self.kubelets.remove(node),
        };
        if let Some(before) = before
            && let Some(on) = self.kubelets_on.get_mut(&before.vcenter)
            && on.get(&before.machine).is_some_and(|on| on == node)
        {
            on.remove(&before.machine);
        }
        if let Some(kubelet) = kubelet {
            let on = self.kubelets_on.entry(kubelet.vcenter.clone()).or_default();
            on.insert(kubelet.machine, node.to_owned());
        }
    }
}

/// Serialization of timers as a list, because JSON objects have only text keys.
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
