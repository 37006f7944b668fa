//! The known objects, and the Machines that have gone. Pure.

mod references;
mod snapshot;
mod sources;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use self::snapshot::Known;
use super::{
    super::{
        super::capacity::{ObjectName, Objects, Progress, text},
        backend::is_current,
    },
    keys::{MACHINES, Resource},
    settings::ClusterApiSettings,
};
use crate::cluster::{ObjectChange, without_managed_fields};

pub(crate) use self::{
    snapshot::{GroupState, Member, Snapshot},
    sources::keep,
};

/// Time for which the server remembers a Machine that is gone. The autoscaler repeats a deletion
/// within seconds; a restart of the server forgets it.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// The known objects.
#[derive(Debug, Default)]
pub(crate) struct View {
    known: Known,
    /// Time at which a list or a watch last proved the objects of a kind to be current.
    current_at: BTreeMap<Resource, Instant>,
    /// IDs of Machines that are gone, by UID.
    gone: HashMap<String, (Vec<String>, Instant)>,
    /// True once the objects of all kinds were listed for the first time.
    is_ready: bool,
    snapshot: Option<Arc<Snapshot>>,
}

impl View {
    /// Returns the groups and instances.
    pub(crate) fn snapshot(&mut self, settings: &ClusterApiSettings) -> Arc<Snapshot> {
        let known = &self.known;
        let snapshot = self.snapshot.get_or_insert_with(|| Arc::new(Snapshot::of(known, settings)));
        let snapshot = Arc::clone(snapshot);
        self.is_ready |= self.is_settled(&snapshot);
        snapshot
    }

    /// True if Cluster API's own kinds were listed, and the first attempt for the others has ended.
    fn is_settled(&self, snapshot: &Snapshot) -> bool {
        let progress = |kind: &Resource| self.known.get(kind).map(|it| &it.progress);
        let is_tried = |kind| progress(kind).is_some_and(|it| *it != Progress::Pending);
        let is_listed = |kind: &Resource| progress(kind) == Some(&Progress::Listed);
        Resource::of_cluster_api().iter().all(is_listed) && snapshot.kinds.iter().all(is_tried)
    }

    /// Returns the age of the view; `None` before the first complete list.
    pub(crate) fn age(&self) -> Option<Duration> {
        let kinds = Resource::of_cluster_api();
        let ages = kinds.iter().map(|kind| Some(self.current_at.get(kind)?.elapsed()));
        ages.collect::<Option<Vec<_>>>()?.into_iter().max().filter(|_| self.is_ready)
    }

    /// Says why the view cannot be used.
    pub(crate) fn usable(&self, snapshot: &Snapshot) -> Result<(), String> {
        for kind in Resource::of_cluster_api() {
            match self.known.get(&kind).map(|it| &it.progress) {
                Some(Progress::Absent) => {
                    return Err(format!("the API server does not serve {kind}"));
                }
                Some(Progress::Failing(why)) => return Err(format!("cannot list {kind}: {why}")),
                None | Some(Progress::Pending | Progress::Listed) => {}
            }
        }
        is_current(self.age(), "objects of Cluster API")?;
        if snapshot.clusters.len() > 1 {
            let names: Vec<&str> = snapshot.clusters.iter().map(String::as_str).collect();
            let names = names.join(", ");
            return Err(format!(
                "the groups belong to several clusters ({names}); set --cluster-name and --namespace"
            ));
        }
        Ok(())
    }

    /// Returns the version in which the API server serves a kind.
    pub(crate) fn version(&self, kind: &Resource) -> String {
        self.known.get(kind).map(|it| it.version.clone()).unwrap_or_default()
    }

    /// True if a Machine that is gone had this ID.
    pub(crate) fn had(&self, id: &str) -> bool {
        self.gone.values().any(|(ids, _)| ids.iter().any(|it| it == id))
    }

    /// True if the Machine with this UID is gone.
    pub(crate) fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains_key(uid)
    }

    /// Returns an object.
    pub(crate) fn object(
        &self,
        kind: &Resource,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Value>> {
        self.known.get(kind)?.get(&ObjectName::new(namespace, name)).cloned()
    }

    fn of_mut(&mut self, kind: &Resource) -> &mut Objects {
        self.snapshot = None;
        self.known.entry(kind.clone()).or_default()
    }

    pub(crate) fn set_version(&mut self, kind: &Resource, version: &str) {
        version.clone_into(&mut self.of_mut(kind).version);
    }

    /// Notes the progress of the lists of a kind. A failure after the first list changes nothing.
    /// Returns true if the progress is new.
    pub(crate) fn set_progress(&mut self, kind: &Resource, progress: Progress) -> bool {
        let objects = self.of_mut(kind);
        let is_late = objects.progress == Progress::Listed && progress != Progress::Absent;
        if is_late || objects.progress == progress {
            return false;
        }
        if progress == Progress::Absent {
            objects.clear();
        }
        objects.progress = progress;
        true
    }

    /// Takes the state of an object, unless a newer one is known.
    pub(crate) fn apply(&mut self, kind: &Resource, object: Value) {
        self.of_mut(kind).apply(object);
    }

    pub(crate) fn change(
        &mut self,
        kind: &Resource,
        change: ObjectChange<'_>,
        settings: &ClusterApiSettings,
    ) {
        match change {
            ObjectChange::Applied(object) => {
                // The label of the cluster may have been removed and added again.
                self.gone.remove(text(&object["metadata"]["uid"]));
                self.apply(kind, without_managed_fields(object));
            }
            ObjectChange::Deleted(object) => {
                let before = self.snapshot(settings);
                self.of_mut(kind).remove(object);
                self.remember(kind, &before, settings);
            }
        }
    }

    pub(crate) fn replace(
        &mut self,
        kind: &Resource,
        objects: Vec<Value>,
        version: &str,
        settings: &ClusterApiSettings,
    ) {
        let before = self.snapshot(settings);
        for object in &objects {
            self.gone.remove(text(&object["metadata"]["uid"]));
        }
        self.of_mut(kind).replace(objects, version);
        self.current_at.insert(kind.clone(), Instant::now());
        self.remember(kind, &before, settings);
    }

    pub(crate) fn confirm(&mut self, kind: &Resource, version: &str) {
        if let Some(objects) = self.known.get_mut(kind) {
            objects.confirm(version);
        }
        self.current_at.insert(kind.clone(), Instant::now());
    }

    /// Remembers the Machines that were there before and are gone.
    fn remember(&mut self, kind: &Resource, before: &Snapshot, settings: &ClusterApiSettings) {
        if *kind != MACHINES.into() {
            return;
        }
        let after = self.snapshot(settings);
        let members = |of: &Snapshot| -> HashMap<String, Vec<String>> {
            let all = of.states.values().flat_map(|it| &it.members);
            all.map(|it| (it.machine.uid.clone(), it.machine.ids(true))).collect()
        };
        let left = members(&after);
        let now = Instant::now();
        self.gone.retain(|_, (_, at)| at.elapsed() < REMEMBERED);
        let gone = members(before).into_iter().filter(|(uid, _)| !left.contains_key(uid));
        self.gone.extend(gone.map(|(uid, ids)| (uid, (ids, now))));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_machine_that_is_listed_again_is_no_longer_gone() {
        let mut view = View::default();
        view.gone.insert("u".to_owned(), (vec!["vsphere://1".to_owned()], Instant::now()));
        let machine = json!({"metadata": {"namespace": "ns", "name": "m", "uid": "u"}});
        view.replace(&MACHINES.into(), vec![machine], "1", &ClusterApiSettings::default());
        assert!(!view.is_gone("u") && !view.had("vsphere://1"));
    }
}
