//! Tests of the identity of a node's machine, and its effect on the node.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_there_keeps_its_node_and_costs_no_call() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    lab.not_ready(&name(0));
    sleep(4 * MINUTE).await;
    assert!(lab.is_there(&name(0)));
    let [n_gets, n_lists, _] = lab.count();
    assert_eq!((n_gets, n_lists), (0, 0));
    assert_eq!(lab.cluster.take_writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_gone_takes_its_node_with_it_after_one_list_and_one_read() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    lab.not_ready(&name(0));
    lab.supervisor.delete(&name(0));
    lab.until(10 * SECOND, |lab| !lab.is_there(&name(0))).await;
    assert_eq!(lab.supervisor.take_calls(), ["LIST", "GET n0000"]);
    assert_eq!(lab.cluster.n_nodes(), 2);
    assert!(lab.cluster.events().contains(&"DeletingNode".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_being_deleted_keeps_its_node_until_it_is_gone() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    let mut deleting = machine(0);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    deleting["metadata"]["finalizers"] = json!(["virtualmachine.vmoperator.vmware.com"]);
    lab.supervisor.put(deleting.clone());
    lab.not_ready(&name(0));
    sleep(2 * MINUTE).await;
    assert!(lab.is_there(&name(0)));
    // A machine that is off during its deletion is shut down, but exists.
    deleting["status"]["powerState"] = json!("PoweredOff");
    lab.supervisor.put(deleting);
    sleep(10 * SECOND).await;
    assert!(has_taint(&lab.cluster.node(&name(0)).unwrap(), "shutdown"));
    lab.supervisor.delete(&name(0));
    lab.until(10 * SECOND, |lab| !lab.is_there(&name(0))).await;
}

#[tokio::test(start_paused = true)]
async fn a_uuid_in_capitals_is_the_same_uuid_and_is_written_as_it_is() {
    let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
    supervisor.put(object("new", "4215F0DE-00AB", "10.1.0.1"));
    supervisor.put(object("old", "4215F0DE-00CD", "10.1.0.2"));
    cluster.join("new", "");
    cluster.put(old_node("old", "vsphere://4215f0de-00cd"));
    let lab = Lab::start(supervisor, cluster, tuning(InstancesMode::Auto));
    sleep(10 * SECOND).await;
    let id = lab.cluster.node("new").unwrap()["spec"]["providerID"].clone();
    assert_eq!(id, "vsphere://4215F0DE-00AB");
    assert_eq!(lab.addresses("old"), ["10.1.0.2"]);
    lab.not_ready("new");
    lab.not_ready("old");
    sleep(3 * MINUTE).await;
    assert!(lab.is_there("new") && lab.is_there("old"));
    lab.supervisor.delete("old");
    lab.until(10 * SECOND, |lab| !lab.is_there("old")).await;
    assert!(lab.is_there("new"));
}

#[tokio::test(start_paused = true)]
async fn a_machine_recreated_under_its_name_does_not_keep_the_old_node() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    lab.not_ready(&name(0));
    lab.supervisor.delete(&name(0));
    let mut anew = object(&name(0), "", "10.7.0.1");
    anew["metadata"]["uid"] = json!("another");
    lab.supervisor.put(anew);
    // The new machine does not report its UUID yet, so it might be the old one.
    sleep(2 * MINUTE).await;
    assert!(lab.is_there(&name(0)));
    lab.supervisor.set(&name(0), "/status/biosUUID", json!("e7777"));
    lab.until(10 * SECOND, |lab| !lab.is_there(&name(0))).await;
    // The new machine gets a new node.
    lab.cluster.join(&name(0), "");
    lab.until(5 * SECOND, |lab| lab.is_initialized(&name(0))).await;
    assert_eq!(lab.cluster.node(&name(0)).unwrap()["spec"]["providerID"], "vsphere://e7777");
    lab.not_ready(&name(0));
    sleep(2 * MINUTE).await;
    assert!(lab.is_there(&name(0)));
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_uuid_is_counted_and_resolved_by_the_name_of_the_node() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    lab.supervisor.put(object("copy", "E0000", "10.7.0.1"));
    sleep(SECOND).await;
    assert!(lab.measures("vsphere_supervisor_duplicate_uuids 1"));
    assert_eq!(lab.addresses(&name(0)), ["10.0.0.1"], "addresses of the copy");
    // While one of the two exists, the node's machine exists.
    lab.not_ready(&name(0));
    lab.supervisor.delete(&name(0));
    sleep(2 * MINUTE).await;
    assert!(lab.is_there(&name(0)));
    assert!(lab.measures("vsphere_supervisor_duplicate_uuids 0"));
    lab.supervisor.delete("copy");
    lab.until(10 * SECOND, |lab| !lab.is_there(&name(0))).await;
}

#[tokio::test(start_paused = true)]
async fn a_uuid_that_is_empty_at_first_is_waited_for() {
    let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
    supervisor.put(object("late", "", "10.1.0.1"));
    cluster.join("late", "");
    let lab = Lab::start(supervisor, cluster, tuning(InstancesMode::Auto));
    sleep(20 * MINUTE).await;
    assert!(!lab.is_initialized("late"));
    assert_eq!(lab.cluster.take_writes(), Vec::<String>::new());
    lab.supervisor.set("late", "/status/biosUUID", json!("abc"));
    lab.until(2 * SECOND, |lab| lab.is_initialized("late")).await;
    assert_eq!(lab.cluster.node("late").unwrap()["spec"]["providerID"], "vsphere://abc");
}

#[tokio::test(start_paused = true)]
async fn a_machine_under_another_name_than_its_node_is_found_by_its_uuid() {
    let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
    supervisor.put(object("other", "abc", "10.1.0.1"));
    cluster.put(old_node("node", "vsphere://abc"));
    let lab = Lab::start(supervisor, cluster, tuning(InstancesMode::Auto));
    sleep(10 * SECOND).await;
    assert_eq!(lab.addresses("node"), ["10.1.0.1"]);
    lab.not_ready("node");
    sleep(2 * MINUTE).await;
    assert!(lab.is_there("node"));
    lab.supervisor.set("other", "/status/powerState", json!("PoweredOff"));
    sleep(10 * SECOND).await;
    assert!(has_taint(&lab.cluster.node("node").unwrap(), "shutdown"));
    lab.supervisor.delete("other");
    lab.until(10 * SECOND, |lab| !lab.is_there("node")).await;
}

#[tokio::test(start_paused = true)]
async fn a_provider_id_without_a_uuid_leaves_the_name_as_the_identity() {
    for id in ["vsphere://", "vsphere:// "] {
        let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
        supervisor.put(object("node", "abc", "10.1.0.1"));
        cluster.put(old_node("node", id));
        let lab = Lab::start(supervisor, cluster, tuning(InstancesMode::Auto));
        sleep(10 * SECOND).await;
        assert_eq!(lab.addresses("node"), ["10.1.0.1"]);
        lab.not_ready("node");
        sleep(2 * MINUTE).await;
        assert!(lab.is_there("node"), "deleted, as by upstream");
        lab.supervisor.delete("node");
        lab.until(10 * SECOND, |lab| !lab.is_there("node")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_foreign_provider_id_is_neither_written_nor_deleted() {
    for id in ["aws:///eu-1a/i-1", "k3s://foreign", "abc", "VSPHERE://abc"] {
        let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
        // The machines have the names of the nodes, and one has the UUID `abc`, which stands in
        // some of the provider IDs.
        supervisor.put(object("foreign", "abc", "10.1.0.1"));
        supervisor.put(object("gone", "def", "10.1.0.2"));
        cluster.join(&name(0), "");
        cluster.put(old_node("foreign", id));
        cluster.put(old_node("gone", id));
        let lab = Lab::start(supervisor, cluster, tuning(InstancesMode::Auto));
        lab.until(10 * SECOND, |lab| lab.is_initialized(&name(0))).await;
        lab.cluster.take_writes();
        lab.not_ready("foreign");
        lab.not_ready("gone");
        lab.supervisor.delete("gone");
        sleep(20 * MINUTE).await;
        assert_eq!(lab.cluster.n_nodes(), 3, "{id}");
        assert_eq!(lab.cluster.take_writes(), Vec::<String>::new(), "{id}");
    }
}

/// The VirtualMachine has another name than the node, and no UUID for five minutes, as after a
/// recreation.
#[tokio::test(start_paused = true)]
async fn a_machine_under_another_name_that_loses_its_uuid_keeps_its_node() {
    for mode in [InstancesMode::Auto, InstancesMode::Poll] {
        let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
        supervisor.put(object("other", "abc", "10.1.0.1"));
        cluster.put(old_node("node", "vsphere://abc"));
        cluster.join(&name(0), "");
        let lab = Lab::start(supervisor, cluster, tuning(mode));
        sleep(30 * SECOND).await;
        lab.supervisor.set("other", "/status/biosUUID", json!(""));
        lab.not_ready("node");
        sleep(5 * MINUTE).await;
        assert!(lab.is_there("node"), "{mode:?}");
        lab.supervisor.set("other", "/status/biosUUID", json!("abc"));
        sleep(MINUTE).await;
        assert!(lab.is_there("node"), "{mode:?}");
        lab.supervisor.delete("other");
        lab.until(MINUTE, |lab| !lab.is_there("node")).await;
    }
}

/// A list from an old cache shows the earlier object with the same name.
#[tokio::test(start_paused = true)]
async fn a_machine_that_lists_show_as_its_predecessor_keeps_its_node() {
    for mode in [InstancesMode::Auto, InstancesMode::Poll] {
        let (supervisor, cluster) = (Supervisor::with(3), Cluster::new());
        let mut old = machine(0);
        old["metadata"]["resourceVersion"] = json!("1");
        old["status"]["biosUUID"] = json!("aaaa");
        supervisor.list_as(old);
        for i in 0..3 {
            cluster.put(old_node(&name(i), &format!("vsphere://e{i:04}")));
        }
        let lab = Lab::start(supervisor, cluster, tuning(mode));
        sleep(30 * SECOND).await;
        lab.not_ready(&name(0));
        sleep(10 * MINUTE).await;
        assert!(lab.is_there(&name(0)), "{mode:?}");
    }
}

/// While the watch is silent, another machine and another node with the same names replace a
/// machine and its node.
#[tokio::test(start_paused = true)]
async fn a_node_does_not_get_the_provider_id_of_its_predecessor() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    lab.supervisor.mute(true);
    lab.supervisor.delete(&name(0));
    let mut anew = object(&name(0), "abcd", "10.7.0.1");
    anew["metadata"]["uid"] = json!("another");
    lab.supervisor.put(anew);
    lab.cluster.delete(&name(0));
    lab.cluster.join(&name(0), "ABCD");
    lab.until(10 * SECOND, |lab| lab.is_initialized(&name(0))).await;
    assert_eq!(lab.cluster.node(&name(0)).unwrap()["spec"]["providerID"], "vsphere://abcd");
    lab.supervisor.mute(false);
    lab.not_ready(&name(0));
    sleep(5 * MINUTE).await;
    assert!(lab.is_there(&name(0)));
}
