//! The groups of the server: read from a file or from NodeGroup objects, and read again when the
//! autoscaler refreshes; or set by a backend whose platform has the groups.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::{Mutex as Turn, Notify},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    backend::Backend,
    group::{Group, GroupId, MachineKind, parse},
    node_groups::NodeGroups,
};
use crate::{
    InputError,
    telemetry::{AutoscalerMetrics, FileRead},
};

/// Time for which a group that left the file still answers. The autoscaler may ask for it until it
/// has read the list of groups again.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Shortest time between two reads of the file and of the classes.
const SHORTEST: Duration = Duration::from_secs(10);
/// Time after which the file and the classes are read without a refresh.
const LONGEST: Duration = Duration::from_secs(60);

/// Reads the file with the groups: its name for errors, and its text.
pub type GroupsFile = Arc<dyn Fn() -> Result<(String, String), InputError> + Send + Sync>;

/// Origin of the groups.
enum Origin {
    /// A file, with the kind of the machines of its groups.
    File(GroupsFile, MachineKind),
    /// NodeGroup objects.
    Objects(Arc<NodeGroups>),
    /// The backend, which sets the groups.
    Backend,
}

/// The groups, and the turns of their changes.
pub(crate) struct Groups {
    origin: Origin,
    known: Mutex<Known>,
    turns: Mutex<BTreeMap<GroupId, Arc<Turn<()>>>>,
    warned: Mutex<BTreeSet<GroupId>>,
    reload: Arc<Notify>,
    metrics: Arc<AutoscalerMetrics>,
}

#[derive(Default)]
struct Known {
    listed: Vec<Arc<Group>>,
    /// Groups that are no longer listed, with the time when they left.
    removed: Vec<(Arc<Group>, Instant)>,
    /// Text from which the groups were read.
    text: String,
}

impl Groups {
    /// Reads the file for the first time.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is no list of groups, or has no valid group.
    pub(crate) fn read(
        file: GroupsFile,
        machines: MachineKind,
        metrics: Arc<AutoscalerMetrics>,
    ) -> Result<Self, InputError> {
        let (name, text) = file()?;
        let mut parsed = parse(&name, &text, &machines)?;
        if parsed.groups.is_empty()
            && let Some(first) = parsed.refused.pop()
        {
            return Err(first);
        }
        for refused in &parsed.refused {
            tracing::error!("ignoring a group: {refused}");
        }
        metrics.set_refused(parsed.refused.len());
        let listed = parsed.groups.into_iter().map(Arc::new).collect();
        let known = Known { listed, removed: Vec::new(), text };
        let origin = Origin::File(file, machines);
        Ok(Self { origin, known: Mutex::new(known), ..Self::empty(metrics) })
    }

    /// No groups yet. The objects follow with their first list. `reload` is the signal that the objects
    /// give after a change.
    pub(crate) fn of_objects(
        objects: Arc<NodeGroups>,
        reload: Arc<Notify>,
        metrics: Arc<AutoscalerMetrics>,
    ) -> Self {
        Self { origin: Origin::Objects(objects), reload, ..Self::empty(metrics) }
    }

    /// No groups yet. The backend sets them with [`Groups::set`].
    pub(crate) fn empty(metrics: Arc<AutoscalerMetrics>) -> Self {
        Self {
            origin: Origin::Backend,
            known: Mutex::default(),
            turns: Mutex::default(),
            warned: Mutex::default(),
            reload: Arc::new(Notify::new()),
            metrics,
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().expect("no holder panics")
    }

    /// Returns the objects that are the groups; `None` if a file or the backend has the groups.
    pub(crate) fn objects(&self) -> Option<&Arc<NodeGroups>> {
        match &self.origin {
            Origin::Objects(objects) => Some(objects),
            Origin::File(..) | Origin::Backend => None,
        }
    }

    /// Says why the groups cannot be used; `Ok` if they can.
    pub(crate) fn usable(&self) -> Result<(), String> {
        self.objects().map_or(Ok(()), |objects| objects.usable())
    }

    /// Returns the groups, in the order of the file or of the names of the objects.
    pub(crate) fn all(&self) -> Vec<Arc<Group>> {
        self.known().listed.clone()
    }

    /// Returns the groups that answer: those of the file, and those that left it a while ago.
    pub(crate) fn answering(&self) -> Vec<Arc<Group>> {
        let known = self.known();
        let removed = known.removed.iter().filter(|(_, at)| at.elapsed() < REMEMBERED);
        let is_listed = |group: &Arc<Group>| known.listed.iter().any(|it| it.id == group.id);
        let removed = removed.map(|(group, _)| group).filter(|it| !is_listed(it));
        known.listed.iter().chain(removed).cloned().collect()
    }

    /// Returns the group with this ID, also for [`REMEMBERED`] after it left the file.
    pub(crate) fn by_id(&self, id: &str) -> Option<Arc<Group>> {
        let known = self.known();
        let removed = known.removed.iter().filter(|(_, at)| at.elapsed() < REMEMBERED);
        let mut all = known.listed.iter().chain(removed.map(|(group, _)| group));
        all.find(|it| it.id.as_str() == id).cloned()
    }

    /// Returns the listed group with this ID.
    pub(crate) fn listed(&self, id: &GroupId) -> Option<Arc<Group>> {
        self.known().listed.iter().find(|it| it.id == *id).cloned()
    }

    /// Returns the lock that orders the changes of a group.
    pub(crate) fn turn(&self, id: &GroupId) -> Arc<Turn<()>> {
        let mut turns = self.turns.lock().expect("no holder panics");
        Arc::clone(turns.entry(id.clone()).or_default())
    }

    /// Warns once per group that an autoscaler of the third generation loses two of its settings
    /// for a group with overrides.
    pub(crate) fn warn_about_overrides(&self, id: &GroupId) {
        if self.warned.lock().expect("no holder panics").insert(id.clone()) {
            tracing::warn!(
                group = %id,
                "the group overrides options, and the protocol of autoscaler 1.35 and later cannot carry \
                 the start-up time of nodes: a new node that is not ready counts as unready at once; \
                 use startup taints, or remove the options of the group (kubernetes/autoscaler#10245)"
            );
        }
    }

    /// Asks for the file to be read again soon, or for changed objects to be applied.
    pub(crate) fn request_reload(&self) {
        self.reload.notify_one();
    }

    /// Reads the file or applies changed objects, and has the backend read the classes of the groups,
    /// again and again, until the stop.
    pub(crate) async fn follow(&self, backend: &dyn Backend, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            backend.use_groups(&self.all()).await;
            // The first list of objects takes effect at once.
            let is_waiting = self.objects().is_some_and(|objects| !objects.is_decided());
            let rest = if is_waiting { Duration::ZERO } else { SHORTEST };
            let soonest = Instant::now() + rest;
            tokio::select! {
                () = self.reload.notified() => {}
                () = tokio::time::sleep(LONGEST) => {}
                () = stop.cancelled() => {}
            }
            stop.run_until_cancelled(tokio::time::sleep_until(soonest)).await;
            match &self.origin {
                Origin::File(file, machines) => self.metrics.file_read(self.load(file, machines)),
                Origin::Objects(objects) => {
                    if let Some((listed, n_refused)) = objects.decide() {
                        self.set(listed, n_refused);
                    }
                }
                Origin::Backend => {}
            }
        }
    }

    /// Reads the file again. Errors leave the groups as they are.
    fn load(&self, file: &GroupsFile, machines: &MachineKind) -> FileRead {
        let (name, text) = match file() {
            Ok(read) => read,
            Err(err) => {
                tracing::error!("cannot read the groups again; keeping the known ones: {err}");
                return FileRead::Failed;
            }
        };
        if self.known().text == text {
            return FileRead::Unchanged;
        }
        let parsed = match parse(&name, &text, machines) {
            Ok(parsed) => parsed,
            Err(err) => {
                tracing::error!("cannot read the groups again; keeping the known ones: {err}");
                return FileRead::Failed;
            }
        };
        for refused in &parsed.refused {
            tracing::error!("ignoring a group: {refused}");
        }
        tracing::info!(n = parsed.groups.len(), "read the groups again");
        self.set(parsed.groups.into_iter().map(Arc::new).collect(), parsed.refused.len());
        self.known().text = text;
        FileRead::Applied
    }

    /// Replaces the groups. Those that are no longer listed answer for [`REMEMBERED`] more.
    /// `n_refused` is the number of groups that are ignored because of a mistake.
    pub(crate) fn set(&self, listed: Vec<Arc<Group>>, n_refused: usize) {
        self.metrics.set_refused(n_refused);
        let mut known = self.known();
        let is_listed = |group: &Arc<Group>| listed.iter().any(|it| it.id == group.id);
        let gone: Vec<Arc<Group>> =
            known.listed.iter().filter(|it| !is_listed(it)).cloned().collect();
        let now = Instant::now();
        known.removed.retain(|(_, at)| at.elapsed() < REMEMBERED);
        known.removed.extend(gone.into_iter().map(|group| (group, now)));
        known.listed = listed;
    }
}
