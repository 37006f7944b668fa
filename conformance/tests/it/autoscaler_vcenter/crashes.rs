//! Crashes and lost answers: no machine is made twice, lost, or destroyed without its name.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_moment_of_an_increase_makes_no_machine_twice_and_loses_none() {
    // From right after the answer, over running clones and power-ons, to the end.
    for after in [0, 200, 700, 1500, 2500, 4000, 6000, 9000, 20_000] {
        let server = start(file(0, "")).await;
        tasks_take(server.sim(), s(2));
        server.increase(10).await;
        let ids = server.ids().await;
        tokio::time::sleep(Duration::from_millis(after)).await;
        let server = server.crash(2).await;
        assert_eq!((server.target().await, server.ids().await), (10, ids.clone()), "{after}");
        tokio::time::sleep(s(240)).await;
        assert_eq!((running(server.sim()), machines(server.sim()).len()), (ids, 10), "{after}");
        assert_eq!(server.states().await, vec![1; 10], "{after}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_moment_of_a_deletion_destroys_the_named_machines_and_no_others() {
    for after in [0, 300, 1500, 2500, 4000, 8000] {
        let (server, ids) = running_group(4).await;
        tasks_take(server.sim(), s(2));
        server.delete(&ids[..2]).await;
        tokio::time::sleep(Duration::from_millis(after)).await;
        let server = server.crash(2).await;
        assert_eq!(server.target().await, 2, "{after}");
        tokio::time::sleep(s(120)).await;
        assert_eq!(
            (server.ids().await, running(server.sim())),
            (ids[2..].to_vec(), ids[2..].to_vec())
        );
        assert_eq!(machines(server.sim()).len(), 2, "{after}");
        server.delete(&ids[..2]).await;
        assert_eq!(server.target().await, 2, "a repeated deletion after a restart changes nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_ends_after_its_deletion_and_a_crash_is_destroyed() {
    let server = start(file(0, "")).await;
    tasks_take(server.sim(), s(90));
    server.increase(2).await;
    tokio::time::sleep(s(5)).await;
    assert_eq!(calls(server.sim(), "CloneVM_Task"), 2);
    let ids = server.ids().await;
    server.delete(&ids).await;
    let server = server.crash(2).await;
    tokio::time::sleep(s(30)).await;
    assert_eq!((server.target().await, machines(server.sim()).len()), (0, 0));
    tasks_take(server.sim(), s(1));
    tokio::time::sleep(s(120)).await;
    assert_eq!((machines(server.sim()).len(), calls(server.sim(), "Destroy_Task")), (0, 2));
    assert_eq!(server.target().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_of_a_machine_that_is_being_cloned_waits_for_the_clone() {
    let server = start(file(0, "")).await;
    tasks_take(server.sim(), s(30));
    server.increase(1).await;
    tokio::time::sleep(s(5)).await;
    let ids = server.ids().await;
    server.delete(&ids).await;
    assert_eq!((server.target().await, server.states().await), (0, vec![3]));
    tokio::time::sleep(s(240)).await;
    assert_eq!((server.states().await, machines(server.sim()).len()), (vec![], 0));
    assert_eq!(calls(server.sim(), "PowerOnVM_Task"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_a_clone_makes_no_second_machine() {
    let server = start(file(0, "")).await;
    let lost = Rule::new("lost", [Action::Reset]).on(sim::Face::Soap).op(["CloneVM_Task"]);
    let lost = server.sim().fault(lost.applied().first(3)).unwrap();
    server.increase(3).await;
    let ids = server.ids().await;
    tokio::time::sleep(s(240)).await;
    assert_eq!((running(server.sim()), machines(server.sim()).len()), (ids, 3));
    assert_eq!(server.states().await, vec![1; 3]);
    drop(lost);
}
