//! Owns every task of one run: each has a span, ends when told, and takes the run down if it panics.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt as _;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument as _, Span};

/// A group of tasks that stop together.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    kill: CancellationToken,
    panicked: CancellationToken,
}

impl Tasks {
    /// A group below `kill`, which drops its tasks wherever they are; `panicked` is cancelled when one panics.
    pub(crate) fn new(kill: &CancellationToken, panicked: &CancellationToken) -> Self {
        Self {
            tracker: TaskTracker::new(),
            stop: kill.child_token(),
            kill: kill.clone(),
            panicked: panicked.clone(),
        }
    }

    /// Runs a future that ends by itself once [`Tasks::stopping`] is cancelled, after finishing what it is at.
    pub(crate) fn spawn(&self, span: Span, future: impl Future<Output = ()> + Send + 'static) {
        let (kill, panicked) = (self.kill.clone(), self.panicked.clone());
        self.tracker.spawn(
            async move {
                let caught = AssertUnwindSafe(future).catch_unwind();
                if let Some(Err(_)) = kill.run_until_cancelled(caught).await {
                    tracing::error!("a task panicked");
                    panicked.cancel();
                }
            }
            .instrument(span),
        );
    }

    /// Runs a future that may be dropped at any await once the group stops.
    pub(crate) fn spawn_droppable(
        &self,
        span: Span,
        future: impl Future<Output = ()> + Send + 'static,
    ) {
        let stop = self.stop.clone();
        self.spawn(span, async move {
            stop.run_until_cancelled(future).await;
        });
    }

    /// Cancelled when the group is told to stop.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Tells all tasks to stop and waits for them; false if some did not within `grace`.
    pub(crate) async fn stop(&self, grace: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(grace, self.tracker.wait()).await.is_ok()
    }
}
