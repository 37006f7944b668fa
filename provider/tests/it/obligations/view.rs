//! Tests of missing permissions on the Supervisor, of its failures and silences, and of a token
//! rotation.

use std::sync::Mutex;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_403_on_the_watch_switches_to_lists_and_node_lifecycle_continues() {
    let (supervisor, cluster) = (Supervisor::with(3), Cluster::new());
    supervisor.refuse(forbidden(true, false));
    for i in 0..3 {
        cluster.join(&name(i), "");
    }
    let lab = Lab::start(supervisor, cluster, tuning(InstancesMode::Auto));
    lab.until(10 * SECOND, |lab| (0..3).all(|i| lab.is_initialized(&name(i)))).await;
    assert!(lab.is_state("poll"));
    lab.not_ready(&name(0));
    lab.not_ready(&name(1));
    sleep(30 * SECOND).await;
    lab.supervisor.delete(&name(0));
    lab.until(20 * SECOND, |lab| !lab.is_there(&name(0))).await;
    assert!(lab.is_there(&name(1)));
    assert_eq!(
        lab.count()[0],
        1,
        "only the machine that is gone is read by name, before the deletion"
    );
}

#[tokio::test(start_paused = true)]
async fn a_403_on_the_list_switches_to_reads_and_node_lifecycle_continues() {
    let (supervisor, cluster) = (Supervisor::with(3), Cluster::new());
    supervisor.refuse(forbidden(true, true));
    for i in 0..3 {
        cluster.join(&name(i), "");
    }
    cluster.put(old_node("never-seen", "vsphere://abc"));
    let lab = Lab::start(supervisor, cluster, tuning(InstancesMode::Auto));
    lab.until(20 * SECOND, |lab| (0..3).all(|i| lab.is_initialized(&name(i)))).await;
    assert!(lab.is_state("get"));
    for node in [&name(0), &name(1), "never-seen"] {
        lab.not_ready(node);
    }
    sleep(30 * SECOND).await;
    lab.supervisor.delete(&name(0));
    lab.until(20 * SECOND, |lab| !lab.is_there(&name(0))).await;
    sleep(MINUTE).await;
    assert!(lab.is_there(&name(1)));
    assert!(lab.is_there("never-seen"), "deleted without a list");
}

#[tokio::test(start_paused = true)]
async fn a_machine_with_another_name_than_its_node_is_read_by_name_while_lists_are_forbidden() {
    let (supervisor, cluster) = (Supervisor::with(3), Cluster::new());
    supervisor.put(object("other", "abc", "10.1.0.1"));
    cluster.put(old_node("node", "vsphere://abc"));
    let lab = Lab::start(supervisor, cluster, tuning(InstancesMode::Auto));
    sleep(10 * SECOND).await;
    lab.supervisor.refuse(forbidden(true, true));
    lab.supervisor.compact();
    lab.until(MINUTE, |lab| lab.is_state("get")).await;
    lab.not_ready("node");
    sleep(5 * MINUTE).await;
    assert!(lab.is_there("node"));
    lab.supervisor.take_calls();
    lab.supervisor.delete("other");
    lab.until(20 * SECOND, |lab| !lab.is_there("node")).await;
    let calls = lab.supervisor.take_calls();
    assert!(calls.iter().all(|call| call == "GET other"), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn a_403_on_a_list_after_a_working_watch_proves_no_machine_gone() {
    let lab = Lab::joined(3, InstancesMode::Watch).await;
    lab.supervisor.refuse(forbidden(true, true));
    lab.supervisor.delete(&name(0));
    lab.supervisor.cut();
    lab.not_ready(&name(0));
    lab.not_ready(&name(1));
    sleep(5 * MINUTE).await;
    assert_eq!(lab.cluster.n_nodes(), 3);
    lab.supervisor.refuse(Refusals::default());
    lab.until(2 * MINUTE, |lab| !lab.is_there(&name(0))).await;
    assert!(lab.is_there(&name(1)));
}

#[tokio::test(start_paused = true)]
async fn a_404_of_the_collection_proves_no_machine_gone() {
    for mode in [InstancesMode::Auto, InstancesMode::Poll] {
        let lab = Lab::joined(10, mode).await;
        for i in 0..10 {
            lab.not_ready(&name(i));
        }
        sleep(20 * SECOND).await;
        lab.supervisor.refuse(Refusals { get: Some(404), list: Some(404), watch: Some(404) });
        lab.supervisor.cut();
        sleep(10 * MINUTE).await;
        assert_eq!(lab.cluster.n_nodes(), 10);
        let said = lab.telemetry.supervisor_check().unwrap().unwrap_err();
        assert!(said.contains("404"), "{said}");
        lab.supervisor.refuse(Refusals::default());
        lab.supervisor.delete(&name(0));
        lab.until(2 * MINUTE, |lab| !lab.is_there(&name(0))).await;
        assert_eq!(lab.cluster.n_nodes(), 9);
    }
}

#[tokio::test(start_paused = true)]
async fn a_410_amid_the_watch_leads_to_one_list_that_shows_what_was_missed() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    lab.supervisor.mute(true);
    lab.supervisor.delete(&name(0));
    lab.supervisor.set(&name(1), "/status/network/primaryIP4", json!("10.7.0.1"));
    lab.supervisor.mute(false);
    lab.supervisor.compact();
    lab.until(2 * SECOND, |lab| lab.addresses(&name(1)) == ["10.7.0.1"]).await;
    assert_eq!(lab.supervisor.take_calls(), ["LIST", "WATCH"]);
    assert!(lab.is_state("fresh"));
    lab.not_ready(&name(0));
    lab.not_ready(&name(2));
    lab.until(10 * SECOND, |lab| !lab.is_there(&name(0))).await;
    sleep(MINUTE).await;
    assert!(lab.is_there(&name(2)));
}

#[tokio::test(start_paused = true)]
async fn a_410_amid_the_pages_of_a_list_begins_it_again_and_proves_nothing() {
    let lab = Lab::joined(7, InstancesMode::Auto).await;
    lab.not_ready(&name(0));
    lab.supervisor.pages_of(3, 2);
    lab.supervisor.delete(&name(0));
    lab.until(10 * SECOND, |lab| !lab.is_there(&name(0))).await;
    let want = ["LIST", "LIST …", "LIST", "LIST …", "LIST", "LIST …", "GET n0000"];
    assert_eq!(lab.supervisor.take_calls(), want, "the third list is complete");
    // A list that never becomes complete.
    lab.supervisor.pages_of(3, u32::MAX);
    lab.not_ready(&name(1));
    lab.supervisor.delete(&name(1));
    sleep(2 * MINUTE).await;
    assert!(lab.is_there(&name(1)));
    lab.supervisor.pages_of(3, 0);
    lab.until(20 * SECOND, |lab| !lab.is_there(&name(1))).await;
    assert_eq!(lab.cluster.n_nodes(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stalls_silently_is_stale_after_three_minutes() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    assert!(lab.is_state("fresh"));
    lab.supervisor.mute(true);
    lab.until(5 * MINUTE, |lab| lab.is_state("stale")).await;
    lab.supervisor.take_calls();
    // The provider does not trust the stale view: it finds out which of the two machines is gone.
    lab.not_ready(&name(0));
    lab.not_ready(&name(1));
    lab.supervisor.delete(&name(0));
    lab.until(30 * SECOND, |lab| !lab.is_there(&name(0))).await;
    assert!(lab.is_there(&name(1)));
    lab.supervisor.mute(false);
    lab.until(5 * MINUTE, |lab| lab.is_state("fresh")).await;
}

#[tokio::test(start_paused = true)]
async fn bookmarks_alone_keep_the_view_fresh() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    for _ in 0..20 * 60 {
        sleep(SECOND).await;
        assert!(lab.is_state("fresh"));
    }
    let [n_gets, n_lists, n_watches] = lab.count();
    assert_eq!((n_gets, n_lists), (0, 0));
    assert!((1..=4).contains(&n_watches), "{n_watches} watches in twenty minutes");
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_401_at_a_token_rotation_costs_no_node_and_ends_at_once() {
    let (supervisor, cluster) = (Supervisor::with(5), Cluster::new());
    supervisor.accept("one");
    for i in 0..5 {
        cluster.join(&name(i), "");
    }
    let file = Arc::new(Mutex::new("one\n"));
    let read = {
        let file = Arc::clone(&file);
        move || Ok(file.lock().unwrap().as_bytes().to_vec())
    };
    let agent = HeaderValue::from_static("provider");
    let tokens = Arc::new(TokenSource::new(Arc::new(read)));
    let client = authenticated(supervisor.client(), tokens, agent);
    let lab = Lab::start_with(supervisor, cluster, tuning(InstancesMode::Auto), client);
    lab.until(10 * SECOND, |lab| (0..5).all(|i| lab.is_initialized(&name(i)))).await;
    for i in 0..3 {
        lab.not_ready(&name(i));
    }
    // The token is revoked before the file has the new one: the Supervisor refuses all calls for
    // half a minute.
    lab.supervisor.accept("two");
    lab.supervisor.cut();
    sleep(30 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 5);
    let n_refused = lab.supervisor.n_refused();
    assert!((3..=40).contains(&n_refused), "{n_refused} calls in half a minute");
    *file.lock().unwrap() = "two\n";
    lab.until(50 * SECOND, |lab| lab.is_state("fresh")).await;
    assert_eq!(lab.cluster.n_nodes(), 5);
    // If the file has the new token in time, the Supervisor refuses one call, which the provider
    // sends again.
    sleep(5 * SECOND).await;
    *file.lock().unwrap() = "three\n";
    lab.supervisor.accept("three");
    let n_refused = lab.supervisor.n_refused();
    lab.supervisor.delete(&name(0));
    lab.until(10 * SECOND, |lab| !lab.is_there(&name(0))).await;
    assert_eq!(lab.supervisor.n_refused(), n_refused + 1);
    assert_eq!(lab.cluster.n_nodes(), 4);
}

/// A gateway refuses watches with an error that is not about permissions.
#[tokio::test(start_paused = true)]
async fn machines_are_polled_while_only_the_watch_fails() {
    let modes = [InstancesMode::Auto, InstancesMode::Watch];
    for (code, mode) in [400, 429, 500, 502].into_iter().flat_map(|it| modes.map(|mode| (it, mode)))
    {
        let lab = Lab::joined(3, mode).await;
        lab.supervisor.refuse(Refusals { watch: Some(code), ..Refusals::default() });
        lab.supervisor.cut();
        lab.supervisor.delete(&name(0));
        lab.not_ready(&name(0));
        lab.until(10 * MINUTE, |lab| !lab.is_there(&name(0))).await;
        assert!(lab.is_state("poll"), "{code} {mode:?}");
        // The provider tries to watch again.
        lab.supervisor.refuse(Refusals::default());
        lab.until(11 * MINUTE, |lab| lab.is_state("fresh")).await;
    }
}
