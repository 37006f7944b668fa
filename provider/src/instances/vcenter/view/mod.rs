//! Keeps the machines of linked nodes in one list view with one filter, and waits for changes.
//!
//! While the wait blocks, another call adds newly linked machines to the view and removes those
//! without a link. The collector then delivers the added machines to the same wait. After the loss
//! of the session or a restart of vCenter, the provider rebuilds the view: one login, one view, one
//! filter, one delivery. After the loss of the collector version alone, the next wait delivers
//! everything again. Until then the backend keeps the old state and concludes no absence from it.
//!
//! [`course`] decides what follows from the outcome of each call. This module builds the view, and
//! builds it again after each loss. [`watch`] waits for the changes of a view that is built.

mod course;
mod deliveries;
pub(super) mod idle;
mod members;
mod reread;
mod watch;

use std::{collections::BTreeSet, time::Duration};

use provider_vcenter::{Backoff, CallError, Chain, FaultKind, Jitter, Retry};

pub(super) use self::members::mark_not_visible;
use self::{idle::keep_alive, members::build, watch::ViewWatch};
use super::{Shared, state::VcenterIndex};

/// Interval of keep-alive calls while the view has no machine. vCenter ends a session after 30 idle
/// minutes, and an administrator may shorten that. A login costs more than this call.
const KEEP_ALIVE: Duration = Duration::from_secs(300);

/// Keeps the view of one vCenter. Never ends.
pub(super) async fn run(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    let jitter = Jitter::new(shared.tuning.seed, &format!("{}/view", backend.client.name()));
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), jitter);
    let mut optional_paths_refused = BTreeSet::new();
    let mut was_logged_out = false;
    loop {
        while shared.lock().vcenters[index].linked.is_empty() {
            idle(shared, index).await;
        }
        let (err, what) = match build(shared, index, &mut optional_paths_refused).await {
            Ok(built) => {
                shared.telemetry.view_built(backend.client.name());
                let err = ViewWatch::new(shared, index, &built).run(&mut backoff).await;
                (
                    err,
                    "lost the vCenter view that reports changes of machines; building it again after the pause",
                )
            }
            Err(err) => (
                err,
                "cannot build the vCenter view that reports changes of machines; retrying after the pause",
            ),
        };
        let is_first = backoff.failures() == 0;
        let pause = backoff.next_pause();
        let is_logged_out = err.retry() == Retry::AfterLogin;
        // An answer that the session is gone shows that vCenter works. The following login need not
        // wait, unless the last login did not help.
        let is_answered = is_logged_out && !was_logged_out;
        was_logged_out = is_logged_out;
        {
            let vcenter = &mut shared.lock().vcenters[index];
            vcenter.is_current = false;
            vcenter.last_call_failed |= !is_answered;
        }
        let pause = match err.retry() {
            _ if is_answered => Duration::ZERO,
            // The login or the objects of the view are lost, and vCenter answers. The first attempt
            // to rebuild need not wait.
            Retry::AfterLogin | Retry::Never if is_first => Duration::ZERO,
            _ if is_first && is_session_bound_loss(&err) => Duration::ZERO,
            retry => retry.pause(pause),
        };
        tracing::warn!(error = %Chain(&err), pause = ?pause, "{what}");
        tokio::time::sleep(pause).await;
    }
}

/// Waits until the links of nodes change. If none changes within [`KEEP_ALIVE`], keeps the session
/// alive and returns.
async fn idle(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    if tokio::time::timeout(KEEP_ALIVE, backend.view.notified()).await.is_ok() {
        return;
    }
    keep_alive(shared, index).await;
}

/// True if the server says that the version, the wait or an object of the session is gone.
fn is_session_bound_loss(err: &CallError) -> bool {
    matches!(
        err.fault(),
        Some(
            FaultKind::InvalidCollectorVersion
                | FaultKind::RequestCanceled
                | FaultKind::ManagedObjectNotFound(_)
        )
    )
}
