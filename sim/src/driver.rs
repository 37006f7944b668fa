//! Lets the world live: wakes it when something is due.

use tokio_util::sync::CancellationToken;

use crate::WorldHandle;

/// Runs until `stop`.
pub(crate) async fn run(world: WorldHandle, stop: CancellationToken) {
    let mut changes = world.changes();
    loop {
        changes.mark_unchanged();
        world.advance();
        let due = world.read(|world| world.next_timer());
        let due = due.map(|at| world.clock().instant(at));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = until(due) => {}
            () = changes.changed() => {}
        }
    }
}

async fn until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
