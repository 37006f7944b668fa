//! What nodes are told, how soon, and at which price.

use provider::{AddressPolicy, ClusterFamily, VmOperatorVersion};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_before_its_machines_uuid_is_initialized_when_it_is_set() {
    let lab = Lab::joined(2, InstancesMode::Auto).await;
    lab.cluster.join("early", "");
    sleep(20 * MINUTE).await;
    lab.supervisor.put(object("early", "", ""));
    sleep(20 * MINUTE).await;
    assert!(!lab.is_initialized("early"));
    lab.supervisor.put(object("early", "abc", ""));
    lab.until(2 * SECOND, |lab| lab.is_initialized("early")).await;
    lab.supervisor.put(object("early", "abc", "10.1.0.1"));
    lab.until(2 * SECOND, |lab| lab.addresses("early") == ["10.1.0.1"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_address_that_changes_is_published_within_two_seconds() {
    let lab = Lab::joined(50, InstancesMode::Auto).await;
    lab.supervisor.set(&name(7), "/status/network/primaryIP4", json!("10.7.0.1"));
    lab.until(2 * SECOND, |lab| lab.addresses(&name(7)) == ["10.7.0.1"]).await;
    assert_eq!(lab.cluster.take_writes(), [format!("PATCH nodes/{}/status", name(7))]);
    assert_eq!(lab.count(), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_switched_off_gets_its_node_the_shutdown_taint_without_a_call() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    lab.not_ready(&name(0));
    lab.supervisor.set(&name(0), "/status/powerState", json!("PoweredOff"));
    let is_tainted = |lab: &Lab| has_taint(&lab.cluster.node(&name(0)).unwrap(), "shutdown");
    lab.until(10 * SECOND, is_tainted).await;
    assert_eq!(lab.count(), [0, 0, 0]);
    // Ready again, and the taint goes.
    lab.supervisor.set(&name(0), "/status/powerState", json!("PoweredOn"));
    lab.cluster.set_ready(&name(0), true);
    lab.until(10 * SECOND, |lab| !is_tainted(lab)).await;
    assert_eq!(lab.count(), [0, 0, 0]);
    // Suspended is not off in this mode.
    lab.not_ready(&name(1));
    lab.supervisor.set(&name(1), "/status/powerState", json!("Suspended"));
    sleep(MINUTE).await;
    assert!(!has_taint(&lab.cluster.node(&name(1)).unwrap(), "shutdown"));
}

#[tokio::test(start_paused = true)]
async fn another_address_family_is_taken_over_by_nodes_of_before() {
    use ClusterFamily::{V4, V4V6, V6, V6V4};
    let (v4, v6) = ("10.1.0.1", "2001:db8::1");
    let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
    let mut both = object("node", "abc", v4);
    both["status"]["network"]["primaryIP6"] = json!(v6);
    supervisor.put(both);
    cluster.join("node", "");
    for (family, want) in
        [(V4, vec![v4]), (V4V6, vec![v4, v6]), (V6V4, vec![v6, v4]), (V6, vec![v6]), (V4, vec![v4])]
    {
        let tuning = SupervisorTuning {
            version: VmOperatorVersion::V1Alpha6,
            addresses: AddressPolicy { family, ..AddressPolicy::default() },
            ..tuning(InstancesMode::Auto)
        };
        let lab = Lab::start(supervisor.clone(), cluster.clone(), tuning);
        lab.until(10 * SECOND, |lab| lab.addresses("node") == want).await;
        lab.cluster.take_writes();
        // And written once: a list of two addresses is the same in the next period.
        sleep(11 * MINUTE).await;
        assert_eq!(lab.cluster.take_writes(), Vec::<String>::new(), "{family}");
        lab.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn between_v1_and_v2_nodes_stay_as_they_are_byte_for_byte() {
    let (mut supervisor, mut cluster) = (Supervisor::with(4), Cluster::new());
    let mut many = object("many", "4215F0DE-AB", "10.1.0.1");
    many["status"]["network"]["interfaces"] =
        json!([{"ip": {"addresses": [{"address": "10.1.0.2/24"}, {"address": "10.1.0.1/24"}]}}]);
    supervisor.put(many);
    for node in ["n0000", "n0001", "many"] {
        cluster.join(node, "");
    }
    cluster.put(old_node("n0002", "vsphere://u0002"));
    use InstancesMode::{Auto, Poll, V1};
    let mut before = None;
    for mode in [V1, Auto, V1, Poll, V1, Auto] {
        let lab = Lab::start(supervisor, cluster, tuning(mode));
        sleep(MINUTE).await;
        let nodes: Vec<Value> =
            ["n0000", "n0001", "n0002", "many"].map(|name| lab.cluster.node(name).unwrap()).into();
        assert!(lab.is_initialized("many"), "{mode:?}");
        // The version too: nobody wrote anything.
        assert_eq!(*before.get_or_insert_with(|| nodes.clone()), nodes, "{mode:?}");
        sleep(11 * MINUTE).await;
        assert_eq!(lab.cluster.node("many").as_ref(), nodes.last(), "{mode:?}");
        (supervisor, cluster) = lab.stopped().await;
    }
}
