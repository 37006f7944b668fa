//! Keeps the NodeGroup objects current, also if their definition is installed or removed meanwhile.

use std::time::Duration;

use provider_vcenter::{Backoff, Chain, Jitter};
use serde_json::Value;
use tokio::time::Instant;

use super::{GROUP, NodeGroups, RESOURCE, VERSION};
use crate::{
    cluster::{
        ClusterError, Collection, ObjectChange, ObjectView, encode, follow, served_version,
        without_managed_fields,
    },
    controllers::capacity::Progress,
};

/// Time after which the server looks again whether the API server serves the kind.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl NodeGroups {
    /// Keeps the objects current, forever.
    pub(crate) async fn keep(&self) {
        let jitter = |purpose: &str| Jitter::new(self.seed, &format!("nodegroups/{purpose}"));
        let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, jitter("served"));
        loop {
            let pause = match served_version(&self.cluster, GROUP, RESOURCE).await {
                Ok(Some(_)) => {
                    let objects = Collection {
                        cluster: &self.cluster,
                        kind: "NodeGroup",
                        path: self.collection(),
                        selector: String::new(),
                    };
                    let began = Instant::now();
                    follow(&objects, self, jitter("watch")).await;
                    if began.elapsed() > LONGEST_PAUSE {
                        backoff.reset();
                    }
                    backoff.next_pause()
                }
                Ok(None) => {
                    self.set_progress(Progress::Absent);
                    LOOK_AGAIN
                }
                Err(err) => {
                    self.note_failure(&err);
                    backoff.next_pause().max(err.retry_after().unwrap_or_default())
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Returns the path of the objects.
    fn collection(&self) -> String {
        match &self.settings.namespace {
            None => format!("/apis/{GROUP}/{VERSION}/{RESOURCE}"),
            Some(namespace) => self.collection_of(namespace),
        }
    }

    fn collection_of(&self, namespace: &str) -> String {
        format!("/apis/{GROUP}/{VERSION}/namespaces/{}/{RESOURCE}", encode(namespace))
    }

    /// Returns the path of the status of an object.
    pub(super) fn status_path(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}/status", self.collection_of(namespace), encode(name))
    }

    /// Notes the progress, and logs it if it is new.
    fn set_progress(&self, progress: Progress) {
        let mut known = self.known();
        if known.set_progress(progress)
            && let Err(why) = known.usable()
        {
            tracing::error!("the groups cannot be used, and the autoscaler scales nothing: {why}");
        }
    }

    /// Notes a failed request. A missing permission is logged even if the groups are known.
    fn note_failure(&self, err: &ClusterError) {
        let mut why = Chain(err).to_string();
        if err.code() == Some(403) {
            let remedy = format!("grant list and watch of {RESOURCE}.{GROUP} to the account");
            why = format!("{why}; {remedy}");
            tracing::error!("cannot read the NodeGroups: {why}");
        }
        self.set_progress(Progress::Failing(why));
    }
}

impl ObjectView for NodeGroups {
    type Object = Value;
    type Before = ();

    fn read(&self, object: &Value) -> Option<Value> {
        object.is_object().then(|| without_managed_fields(object))
    }

    fn before_list(&self) {}

    fn listed(&self, objects: Vec<Value>, (): (), version: &str) {
        if self.known().replace(objects, version) {
            self.changed.notify_one();
        }
    }

    fn changed(&self, change: ObjectChange<'_>) {
        let is_changed = match change {
            ObjectChange::Applied(object) => {
                let object = without_managed_fields(object);
                self.known().change(ObjectChange::Applied(&object))
            }
            deleted @ ObjectChange::Deleted(_) => self.known().change(deleted),
        };
        if is_changed {
            self.changed.notify_one();
        }
    }

    fn confirmed(&self, version: &str) {
        self.known().confirm(version);
    }

    fn retries_after(&self, failure: &ClusterError) -> bool {
        self.note_failure(failure);
        // The definition may be gone.
        !failure.is_not_found()
    }
}
