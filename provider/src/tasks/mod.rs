//! The tasks of one run of the provider: each has a span, ends on request, and ends the whole run
//! if it panics.

mod listener;

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt as _;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument as _, Span};

pub use listener::Listener;

/// A group of tasks that stop together.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    kill: CancellationToken,
    panicked: CancellationToken,
    #[cfg(feature = "mutants")]
    suspension: Suspension,
}

impl Tasks {
    /// Creates a group of tasks. Cancelling `kill` drops the tasks at their next await; a task that
    /// panics cancels `panicked`.
    pub(crate) fn new(kill: &CancellationToken, panicked: &CancellationToken) -> Self {
        Self {
            tracker: TaskTracker::new(),
            stop: kill.child_token(),
            kill: kill.clone(),
            panicked: panicked.clone(),
            #[cfg(feature = "mutants")]
            suspension: Suspension::default(),
        }
    }

    /// Returns the group; `suspension` can suspend the tasks that the group spawns from now on.
    #[cfg(feature = "mutants")]
    pub(crate) fn suspended_by(self, suspension: &Suspension) -> Self {
        Self { suspension: suspension.clone(), ..self }
    }

    /// Spawns a future. Once the token of [`Tasks::stopping`] is cancelled, the future must finish
    /// its current work and end by itself.
    pub(crate) fn spawn(&self, span: Span, future: impl Future<Output = ()> + Send + 'static) {
        let (kill, panicked) = (self.kill.clone(), self.panicked.clone());
        #[cfg(feature = "mutants")]
        let future = self.suspension.clone().wrap(future);
        self.tracker.spawn(
            async move {
                let caught = AssertUnwindSafe(future).catch_unwind();
                if let Some(Err(_)) = kill.run_until_cancelled(caught).await {
                    tracing::error!("a task of the provider panicked; the provider stops");
                    panicked.cancel();
                }
            }
            .instrument(span),
        );
    }

    /// Spawns a future that the group drops at its next await once the group stops.
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

    /// Token that is cancelled when the group must stop.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Requests all tasks to stop and waits up to `grace` for their end; returns false if some have
    /// not ended by then.
    pub(crate) async fn stop(&self, grace: Duration) -> bool {
        self.stop.cancel();
        self.tracker.close();
        tokio::time::timeout(grace, self.tracker.wait()).await.is_ok()
    }
}

/// Suspends tasks until [`Suspension::resume`], as SIGSTOP suspends a process: the events that the
/// tasks wait for happen, but the tasks notice them only after the suspension.
#[cfg(feature = "mutants")]
#[derive(Clone, Debug, Default)]
pub struct Suspension(std::sync::Arc<std::sync::Mutex<SuspensionState>>);

#[cfg(feature = "mutants")]
#[derive(Debug, Default)]
struct SuspensionState {
    is_suspended: bool,
    waiting: Vec<std::task::Waker>,
}

#[cfg(feature = "mutants")]
impl Suspension {
    fn lock(&self) -> std::sync::MutexGuard<'_, SuspensionState> {
        self.0.lock().expect("nothing panics under this lock")
    }

    /// Suspends every future that [`Suspension::wrap`] of this value or of a clone runs, until
    /// [`Suspension::resume`].
    pub fn suspend(&self) {
        self.lock().is_suspended = true;
    }

    /// Ends the suspension. Wakes the tasks that events would have woken meanwhile, in the same
    /// order.
    pub fn resume(&self) {
        let waiting = {
            let mut state = self.lock();
            state.is_suspended = false;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(std::task::Waker::wake);
    }

    /// Runs a future, but does not poll it while suspended.
    pub async fn wrap<F: Future>(self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(move |context| {
            let mut state = self.lock();
            if state.is_suspended {
                state.waiting.push(context.waker().clone());
                return std::task::Poll::Pending;
            }
            drop(state);
            future.as_mut().poll(context)
        })
        .await
    }
}
