//! Runs the controller: keeps the objects current, and makes the writes that the plans want.

mod backlog;
mod sources;
mod work;

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::backlog::Backlog;
use super::{
    kind::{Kind, ObjectName},
    objects::Known,
    plan::is_selected,
    settings::CapacitySettings,
};
use crate::{cluster::Cluster, tasks::Tasks};

/// Requests per second to the API server after a burst.
const QPS: f64 = 20.0;
const BURST: u32 = 30;
/// Longest time for which the stop waits for a write.
const GRACE: Duration = Duration::from_secs(10);

/// Settings and dependencies of the controller, which its caller supplies.
pub struct CapacityDeps {
    /// Client of the management cluster.
    pub client: kube::Client,
    /// Settings.
    pub settings: CapacitySettings,
    /// Seed of every random draw.
    pub seed: u64,
    /// The caller cancels this token to stop the controller.
    pub stop: CancellationToken,
}

/// The end of the controller by a task that panicked, which is a bug.
#[derive(Debug, thiserror::Error)]
#[error("a task of the controller panicked; report this bug with the log")]
pub struct CapacityPanicked;

/// State that the tasks share.
struct Shared {
    cluster: Cluster,
    settings: CapacitySettings,
    seed: u64,
    known: Mutex<Known>,
    /// Signal that the progress of a list has changed.
    progressed: Notify,
    backlog: Backlog,
}

impl CapacityDeps {
    /// Runs the controller until the stop.
    ///
    /// # Errors
    ///
    /// If a task panicked.
    ///
    /// Cancel safe: dropping the future stops every task. Each write stands alone.
    pub async fn run(self) -> Result<(), CapacityPanicked> {
        let (crash, panicked) = (CancellationToken::new(), CancellationToken::new());
        let _abort = crash.clone().drop_guard();
        let tasks = Tasks::new(&crash, &panicked);
        let kinds = kinds(&self.settings);
        let mut known = Known::default();
        for kind in &kinds {
            known.of_mut(*kind);
        }
        let shared = Arc::new(Shared {
            // The content of a write depends on objects that may change during a pause.
            cluster: Cluster::new(self.client, QPS, BURST).without_retries(),
            settings: self.settings,
            seed: self.seed,
            known: Mutex::new(known),
            progressed: Notify::new(),
            backlog: Backlog::new(self.seed),
        });
        for kind in kinds {
            let shared = Arc::clone(&shared);
            tasks.spawn_droppable(tracing::info_span!("objects", %kind), async move {
                sources::keep(&shared, kind).await;
            });
        }
        let (worker, stop) = (Arc::clone(&shared), tasks.stopping());
        tasks.spawn(tracing::info_span!("capacity"), async move {
            work::work(&worker, &stop).await;
        });
        let outcome = tokio::select! {
            biased;
            () = self.stop.cancelled() => Ok(()),
            () = panicked.cancelled() => Err(CapacityPanicked),
        };
        if !tasks.stop(GRACE).await {
            tracing::warn!("the controller did not stop in time; dropping its tasks");
        }
        outcome
    }
}

/// Returns the kinds that the controller reads.
fn kinds(settings: &CapacitySettings) -> Vec<Kind> {
    let mut kinds = vec![Kind::SupervisorTemplate, Kind::Class];
    if settings.watch_images {
        kinds.extend([Kind::ClusterImage, Kind::Image]);
    }
    if settings.govmomi {
        kinds.extend([Kind::GovmomiTemplate, Kind::MachineDeployment, Kind::MachineSet]);
    }
    kinds
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("nothing panics under this lock")
    }

    /// Queues the objects whose content depends on objects that have changed.
    fn touch(&self, kind: Kind, changed: &[ObjectName]) {
        let known = self.known();
        let filter = self.settings.watch_filter.as_deref();
        for name in changed {
            let class = known.of(kind).and_then(|it| it.get(name));
            let is_ignored = kind == Kind::Class
                && self.settings.filter_classes
                && class.is_some_and(|class| !is_selected(class, filter));
            if !is_ignored {
                known.targets(kind, name).into_iter().for_each(|it| self.backlog.add(it));
            }
        }
    }
}
