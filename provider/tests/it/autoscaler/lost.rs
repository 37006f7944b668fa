//! Writes that take effect, although the API server answers with an error or not at all.

use sim::faults::{Action, KubeStatus};

use super::{
    GROUP,
    changes::{LOWER, RAISE},
    crashes::booted,
    world::{World, id},
};

fn failure(code: u16) -> Action {
    Action::KubeStatus(KubeStatus::new(code))
}

#[tokio::test(start_paused = true)]
async fn a_raise_whose_answer_and_next_reads_are_lost_succeeds() {
    let world = World::with_workers(0).await;
    let server = world.start().await;
    for (size, lost, unread) in [(2, Action::Reset, Action::Reset), (4, failure(500), failure(503))]
    {
        let read = "get machinedeployments/scale";
        let n_reads = world.management.n_calls(read) as u64;
        let lost = world.fault_applied(lost, RAISE);
        // The first read is the base of the raise.
        let reads = world.fault_between(unread, read, 2, 3);
        server.increase(GROUP, 2).await.unwrap();
        assert_eq!(
            (server.target(GROUP).await, world.replicas("workers").await),
            (size as i32, size)
        );
        assert_eq!(world.management.n_calls(read) as u64 - n_reads, 4);
        drop((lost, reads));
    }
    assert_eq!(world.management.n_calls(RAISE), 2);
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lower_size_that_is_answered_with_a_server_error_counts_once() {
    let world = booted(5).await;
    let server = world.start().await;
    for (name, left, code) in [("m-1", 4, 500), ("m-2", 3, 502), ("m-3", 2, 503), ("m-4", 1, 504)] {
        let lost = world.fault_applied(failure(code), LOWER);
        let reads = world.fault_between(failure(code), "get machinedeployments", 2, 26);
        server.delete(GROUP, &[&id(name)]).await.unwrap();
        assert_eq!(
            (server.target(GROUP).await, world.replicas("workers").await),
            (left as i32, left)
        );
        drop((lost, reads));
    }
    assert_eq!(world.management.n_calls(LOWER), 4);
    world.reconcile().await;
    assert_eq!(world.machines().await, ["m-0"]);
    server.stop().await;
}
