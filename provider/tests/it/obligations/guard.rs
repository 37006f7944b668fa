//! Tests with many machines gone at once, and with a Supervisor that shows too few machines.

use super::*;

fn nodes_left(lab: &Lab) -> usize {
    lab.cluster.n_nodes()
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_empty_once_deletes_nothing() {
    // The provider does not trust the list, no matter if one node or all nodes are not ready.
    for n_not_ready in [1, 10] {
        let lab = Lab::joined(10, InstancesMode::Poll).await;
        for i in 0..n_not_ready {
            lab.not_ready(&name(i));
        }
        sleep(20 * SECOND).await;
        lab.supervisor.empty_lists(1);
        sleep(5 * MINUTE).await;
        assert_eq!(nodes_left(&lab), 10);
        // After an expired watch a list replaces the view.
        let lab = Lab::joined(10, InstancesMode::Auto).await;
        for i in 0..n_not_ready {
            lab.not_ready(&name(i));
        }
        lab.supervisor.empty_lists(1);
        lab.supervisor.compact();
        sleep(5 * MINUTE).await;
        assert_eq!(nodes_left(&lab), 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_stays_empty_is_not_believed_while_reads_show_machines() {
    let lab = Lab::joined(10, InstancesMode::Poll).await;
    for i in 0..10 {
        lab.not_ready(&name(i));
    }
    sleep(20 * SECOND).await;
    lab.supervisor.empty_lists(u32::MAX);
    sleep(20 * MINUTE).await;
    assert_eq!(nodes_left(&lab), 10);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_leaves_one_machine_out_is_not_believed_while_a_read_shows_it() {
    for mode in [InstancesMode::Auto, InstancesMode::Poll] {
        let lab = Lab::joined(20, mode).await;
        lab.supervisor.leave_out(&name(3));
        lab.supervisor.compact();
        lab.not_ready(&name(3));
        sleep(10 * MINUTE).await;
        assert_eq!(nodes_left(&lab), 20, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_stays_empty_is_believed_slowly_when_reads_agree() {
    let lab = Lab::joined(10, InstancesMode::Poll).await;
    for i in 0..10 {
        lab.not_ready(&name(i));
    }
    sleep(20 * SECOND).await;
    for i in 0..10 {
        lab.supervisor.lose(&name(i));
    }
    lab.until(MINUTE, |lab| lab.measures("vsphere_nodes_held 10")).await;
    sleep(25 * SECOND).await;
    assert_eq!(nodes_left(&lab), 10, "held");
    lab.until(5 * MINUTE, |lab| nodes_left(lab) == 0).await;
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_half_of_the_nodes_is_held_and_then_completed() {
    let lab = Lab::joined(20, InstancesMode::Auto).await;
    for i in 0..10 {
        lab.supervisor.delete(&name(i));
        lab.not_ready(&name(i));
    }
    sleep(25 * SECOND).await;
    assert_eq!(nodes_left(&lab), 20);
    assert!(lab.cluster.events().contains(&"NodeDeletionHeld".to_owned()));
    // The guard then releases a tenth per period.
    lab.until(MINUTE, |lab| nodes_left(lab) == 10).await;
    sleep(5 * MINUTE).await;
    for i in 10..20 {
        assert!(lab.is_there(&name(i)));
    }
    let [n_gets, n_lists, _] = lab.count();
    assert_eq!(n_gets, 10, "one read right before each deletion");
    assert!(n_lists <= 12, "{n_lists} lists for ten deletions");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_namespace_deletes_no_node_and_fails_the_supervisor_check() {
    for mode in [InstancesMode::Auto, InstancesMode::Poll] {
        for machines in [Supervisor::new(), Supervisor::with(5)] {
            let cluster = Cluster::new();
            for i in 0..5 {
                cluster.put(old_node(&format!("ours-{i}"), &format!("vsphere://ours-{i}")));
            }
            let lab = Lab::start(machines, cluster, tuning(mode));
            sleep(10 * SECOND).await;
            for i in 0..5 {
                lab.not_ready(&format!("ours-{i}"));
            }
            sleep(20 * MINUTE).await;
            assert_eq!(nodes_left(&lab), 5);
            assert_eq!(lab.cluster.take_writes(), Vec::<String>::new());
            let said = lab.telemetry.supervisor_check().unwrap().unwrap_err();
            assert!(said.contains("check the Supervisor's address"), "{said}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_deletes_no_node_even_if_few_nodes_had_machines() {
    let (supervisor, cluster) = (Supervisor::with(3), Cluster::new());
    for i in 0..3 {
        cluster.join(&name(i), "");
    }
    // The three nodes are less than a tenth of all, so the guard alone would allow their deletion.
    for i in 0..30 {
        cluster.put(old_node(&format!("foreign-{i}"), "k3s://foreign"));
    }
    let lab = Lab::start(supervisor, cluster, tuning(InstancesMode::Poll));
    lab.until(MINUTE, |lab| (0..3).all(|i| lab.is_initialized(&name(i)))).await;
    lab.not_ready(&name(0));
    sleep(20 * SECOND).await;
    lab.supervisor.empty_lists(2);
    sleep(5 * MINUTE).await;
    assert_eq!(nodes_left(&lab), 33);
}
