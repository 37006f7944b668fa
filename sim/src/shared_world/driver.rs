//! Background task that advances the world when a reaction or a session expiry is due.

use sim_world::Time;
use tokio_util::sync::CancellationToken;

use crate::WorldHandle;

/// Advances the world whenever a reaction or a session expiry is due, and after every change, until
/// `stop` is canceled.
pub(crate) async fn run(world: WorldHandle, stop: CancellationToken) {
    let mut changes = world.changes();
    loop {
        changes.mark_unchanged();
        let due = {
            let mut world = world.lock();
            world.advance();
            world.next_deadline()
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = until(&world, due) => {}
            () = changes.changed() => {}
        }
    }
}

async fn until(world: &WorldHandle, due: Option<Time>) {
    match due {
        Some(due) => world.reach(due).await,
        None => std::future::pending().await,
    }
}
