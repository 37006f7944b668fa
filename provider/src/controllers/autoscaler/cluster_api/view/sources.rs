//! Keeps the objects of one kind current, also if the kind is installed or removed meanwhile.

use std::time::Duration;

use provider_vcenter::{Backoff, Chain, Jitter};
use serde_json::Value;

use super::super::{
    super::super::capacity::Progress,
    Shared,
    keys::{CLUSTER_LABEL, Resource},
};
use crate::cluster::{
    ClusterError, Collection, ObjectChange, ObjectView, encode, follow, served_version,
    without_managed_fields,
};

/// Time after which the server looks again whether the API server serves a kind.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Time after which the server looks again which version is preferred, and lists all objects.
const RESYNC: Duration = Duration::from_secs(3600);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The objects of one kind.
struct Source<'a> {
    shared: &'a Shared,
    kind: Resource,
}

/// Keeps the objects of a kind current, forever.
pub(crate) async fn keep(shared: &Shared, kind: Resource) {
    let jitter = |purpose: &str| Jitter::new(shared.seed, &format!("autoscaler/{kind}/{purpose}"));
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, jitter("served"));
    let source = Source { shared, kind: kind.clone() };
    loop {
        let pause = match served_version(&shared.cluster, &kind.group, &kind.name).await {
            Ok(Some(version)) => {
                shared.view().set_version(&kind, &version);
                let objects = Collection {
                    cluster: &shared.cluster,
                    kind: &kind.name,
                    path: kind.collection(&version, shared.settings.namespace.as_deref()),
                    selector: source.selector(),
                };
                let followed = follow(&objects, &source, jitter("watch"));
                if tokio::time::timeout(RESYNC, followed).await.is_err() {
                    backoff.reset();
                    continue;
                }
                backoff.next_pause()
            }
            Ok(None) => {
                if shared.view().set_progress(&kind, Progress::Absent) {
                    tracing::warn!(%kind, "the API server does not serve this kind; looking again every minute");
                }
                LOOK_AGAIN
            }
            Err(err) => {
                source.note_failure(&err);
                let pause = backoff.next_pause().max(err.retry_after().unwrap_or_default());
                tracing::warn!(%kind, error = %Chain(&err), pause = ?pause, "cannot find out whether the API server serves this kind; retrying");
                pause
            }
        };
        shared.changed.notify_one();
        tokio::time::sleep(pause).await;
    }
}

impl Source<'_> {
    /// Selects the objects of the cluster. Templates have no label of a cluster.
    fn selector(&self) -> String {
        let is_own = Resource::of_cluster_api().contains(&self.kind);
        let name = self.shared.settings.cluster_name.as_ref().filter(|_| is_own);
        let selector = name.map(|name| encode(&format!("{CLUSTER_LABEL}={name}")));
        selector.map(|it| format!("labelSelector={it}")).unwrap_or_default()
    }

    fn note_failure(&self, err: &ClusterError) {
        let failing = Progress::Failing(Chain(err).to_string());
        self.shared.view().set_progress(&self.kind, failing);
        self.shared.changed.notify_one();
    }
}

impl ObjectView for Source<'_> {
    type Object = Value;
    type Before = ();

    fn read(&self, object: &Value) -> Option<Value> {
        object.is_object().then(|| without_managed_fields(object))
    }

    fn before_list(&self) {}

    fn listed(&self, objects: Vec<Value>, (): (), version: &str) {
        self.shared.view().replace(&self.kind, objects, version, &self.shared.settings);
        self.shared.changed.notify_one();
    }

    fn changed(&self, change: ObjectChange<'_>) {
        self.shared.view().change(&self.kind, change, &self.shared.settings);
        self.shared.changed.notify_one();
    }

    fn confirmed(&self, version: &str) {
        self.shared.view().confirm(&self.kind, version);
    }

    fn retries_after(&self, failure: &ClusterError) -> bool {
        self.note_failure(failure);
        // The definition of the kind, or its version, may be gone.
        !failure.is_not_found()
    }
}
