//! Keeps the objects of one kind current, also if the kind is installed or removed meanwhile.

use std::time::Duration;

use provider_vcenter::{Backoff, Chain, Jitter};
use serde_json::Value;

use super::{
    super::{kind::Kind, objects::Progress},
    Shared,
};
use crate::cluster::{
    ClusterError, Collection, ObjectChange, ObjectView, follow, served_version,
    without_managed_fields,
};

/// Time after which the controller looks again whether the API server serves a kind.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Time after which the controller looks again which version is preferred, and lists all objects.
const RESYNC: Duration = Duration::from_secs(3600);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The objects of one kind.
struct Source<'a> {
    shared: &'a Shared,
    kind: Kind,
}

/// Keeps the objects of a kind current, forever.
pub(super) async fn keep(shared: &Shared, kind: Kind) {
    let source = Source { shared, kind };
    let jitter = |purpose: &str| Jitter::new(shared.seed, &format!("capacity/{kind}/{purpose}"));
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE, jitter("served"));
    // True if discovery named the kind, and reading it was answered with 404.
    let mut was_refused = false;
    loop {
        let pause = match served_version(&shared.cluster, kind.group(), kind.resource()).await {
            Ok(Some(version)) => {
                if was_refused {
                    tracing::warn!(
                        "reading this kind was answered with 404, although the API server says that it serves the kind; retrying"
                    );
                }
                source.note_version(&version);
                let objects = Collection {
                    cluster: &shared.cluster,
                    kind: kind.resource(),
                    path: kind.collection(&version, shared.settings.namespace.as_deref()),
                    selector: String::new(),
                };
                let followed = follow(&objects, &source, jitter("watch"));
                if tokio::time::timeout(RESYNC, followed).await.is_err() {
                    was_refused = false;
                    backoff.reset();
                    continue;
                }
                was_refused = true;
                backoff.next_pause()
            }
            Ok(None) => {
                was_refused = false;
                source.note_absence();
                LOOK_AGAIN
            }
            Err(err) => {
                source.note_failure(&err);
                let pause = backoff.next_pause().max(err.retry_after().unwrap_or_default());
                tracing::warn!(error = %Chain(&err), pause = ?pause, "cannot find out whether the API server serves this kind; retrying");
                pause
            }
        };
        tokio::time::sleep(pause).await;
    }
}

impl Source<'_> {
    fn note_version(&self, version: &str) {
        let mut known = self.shared.known();
        let objects = known.of_mut(self.kind);
        if objects.version != version {
            tracing::info!(version, "reading the objects of this kind");
            version.clone_into(&mut objects.version);
        }
    }

    /// Notes that the API server does not serve the kind, and logs it once.
    fn note_absence(&self) {
        let gone = {
            let mut known = self.shared.known();
            let objects = known.of_mut(self.kind);
            if objects.progress != Progress::Absent {
                tracing::info!(
                    "the API server does not serve this kind; looking again every minute"
                );
            }
            objects.progress = Progress::Absent;
            objects.clear()
        };
        for name in gone {
            self.shared.touch(self.kind, &[name]);
        }
        self.shared.progressed.notify_one();
    }

    /// Notes a failure before the first list. Later failures change nothing: the known objects stay.
    fn note_failure(&self, err: &ClusterError) {
        let mut known = self.shared.known();
        let progress = &mut known.of_mut(self.kind).progress;
        if *progress != Progress::Listed {
            *progress = Progress::Failing(Chain(err).to_string());
        }
        drop(known);
        self.shared.progressed.notify_one();
    }
}

impl ObjectView for Source<'_> {
    type Object = Value;
    type Before = ();

    fn read(&self, object: &Value) -> Option<Value> {
        Some(without_managed_fields(object))
    }

    fn before_list(&self) {}

    fn listed(&self, objects: Vec<Value>, (): (), version: &str) {
        let changed = self.shared.known().of_mut(self.kind).replace(objects, version);
        self.shared.touch(self.kind, &changed);
        self.shared.progressed.notify_one();
    }

    fn changed(&self, change: ObjectChange<'_>) {
        let (name, is_news) = {
            let mut known = self.shared.known();
            let objects = known.of_mut(self.kind);
            match change {
                ObjectChange::Applied(object) => {
                    let name = super::super::objects::name(object);
                    (name, objects.apply(without_managed_fields(object)))
                }
                ObjectChange::Deleted(object) => {
                    objects.remove(object);
                    (super::super::objects::name(object), true)
                }
            }
        };
        if is_news {
            self.shared.touch(self.kind, &[name]);
        }
    }

    fn confirmed(&self, version: &str) {
        self.shared.known().of_mut(self.kind).confirm(version);
    }

    fn retries_after(&self, failure: &ClusterError) -> bool {
        self.note_failure(failure);
        // The definition of the kind, or its version, may be gone.
        !failure.is_not_found()
    }
}
