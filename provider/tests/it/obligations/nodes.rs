//! Tests of the writes to nodes: their content, their delay and the calls that they need.

use provider::{
    AddressPolicy, ClusterFamily, HostnameEntry, LateZone, NoneWanted, VmOperatorVersion,
};

use super::*;

#[tokio::test(start_paused = true)]
async fn a_node_is_initialized_when_its_machine_gets_a_uuid() {
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
async fn the_node_of_a_machine_that_is_off_gets_the_shutdown_taint_without_a_call() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    lab.not_ready(&name(0));
    lab.supervisor.set(&name(0), "/status/powerState", json!("PoweredOff"));
    let is_tainted = |lab: &Lab| has_taint(&lab.cluster.node(&name(0)).unwrap(), "shutdown");
    lab.until(10 * SECOND, is_tainted).await;
    assert_eq!(lab.count(), [0, 0, 0]);
    // The node is ready again, and the provider removes the taint.
    lab.supervisor.set(&name(0), "/status/powerState", json!("PoweredOn"));
    lab.cluster.set_ready(&name(0), true);
    lab.until(10 * SECOND, |lab| !is_tainted(lab)).await;
    assert_eq!(lab.count(), [0, 0, 0]);
    // A suspended machine is not off in this mode.
    lab.not_ready(&name(1));
    lab.supervisor.set(&name(1), "/status/powerState", json!("Suspended"));
    sleep(MINUTE).await;
    assert!(!has_taint(&lab.cluster.node(&name(1)).unwrap(), "shutdown"));
}

#[tokio::test(start_paused = true)]
async fn a_new_address_family_is_applied_to_existing_nodes() {
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
        // The provider writes only once: in the next period the order of the two addresses is the
        // same.
        sleep(11 * MINUTE).await;
        assert_eq!(lab.cluster.take_writes(), Vec::<String>::new(), "{family}");
        lab.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_stay_unchanged_when_the_mode_switches_between_v1_and_v2() {
    let (mut supervisor, mut cluster) = (Supervisor::with(4), Cluster::new());
    let mut many = object("many", "4215F0DE-AB", "10.1.0.1");
    many["status"]["network"]["interfaces"] =
        json!([{"ip": {"addresses": [{"address": "10.1.0.2/24"}, {"address": "10.1.0.1/24"}]}}]);
    supervisor.put(many);
    for node in ["n0000", "n0001", "many"] {
        cluster.join(node, "");
    }
    cluster.put(old_node("n0002", "vsphere://e0002"));
    use InstancesMode::{Auto, Poll, V1};
    let mut before = None;
    for mode in [V1, Auto, V1, Poll, V1, Auto] {
        let lab = Lab::start(supervisor, cluster, tuning(mode));
        sleep(MINUTE).await;
        let nodes: Vec<Value> =
            ["n0000", "n0001", "n0002", "many"].map(|name| lab.cluster.node(name).unwrap()).into();
        assert!(lab.is_initialized("many"), "{mode:?}");
        // The nodes also have the same version, so the provider wrote nothing.
        assert_eq!(*before.get_or_insert_with(|| nodes.clone()), nodes, "{mode:?}");
        sleep(11 * MINUTE).await;
        assert_eq!(lab.cluster.node("many").as_ref(), nodes.last(), "{mode:?}");
        (supervisor, cluster) = lab.stopped().await;
    }
}

#[tokio::test(start_paused = true)]
async fn v1_judges_every_node_in_turn_however_many_are_not_ready() {
    let lab = Lab::joined(120, InstancesMode::V1).await;
    for i in 0..120 {
        lab.supervisor.set(&name(i), "/status/powerState", json!("PoweredOff"));
        lab.not_ready(&name(i));
    }
    // The provider makes two lists per node, at five per second, and more for the pass over the
    // addresses.
    let is_tainted = |lab: &Lab, i| has_taint(&lab.cluster.node(&name(i)).unwrap(), "shutdown");
    lab.until(3 * MINUTE, |lab| (0..120).all(|i| is_tainted(lab, i))).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_watch_that_ends_at_once_is_reopened_less_and_less_often() {
    let lab = Lab::joined(2, InstancesMode::Auto).await;
    lab.cluster.end_watches(true);
    // The open watch continues until it has been silent for 75 s.
    sleep(2 * MINUTE).await;
    let before = lab.cluster.n_watches();
    sleep(5 * MINUTE).await;
    let n_watches = lab.cluster.n_watches() - before;
    assert!((5..=20).contains(&n_watches), "{n_watches} watches in five minutes");
    lab.cluster.end_watches(false);
    sleep(MINUTE).await;
    lab.supervisor.put(object("late", "abc", "10.1.0.1"));
    lab.cluster.join("late", "");
    lab.until(2 * SECOND, |lab| lab.is_initialized("late")).await;
}

#[tokio::test(start_paused = true)]
async fn a_zone_that_comes_late_is_left_out_or_added_as_the_flag_says() {
    for late_zone in [LateZone::LeftOut, LateZone::Added] {
        let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
        let mut zoneless = object("node", "abc", "10.1.0.1");
        zoneless["metadata"]["labels"] = json!({});
        supervisor.put(zoneless);
        cluster.join("node", "");
        let tuning = SupervisorTuning { late_zone, ..tuning(InstancesMode::Auto) };
        let lab = Lab::start(supervisor, cluster, tuning);
        lab.until(10 * SECOND, |lab| lab.is_initialized("node")).await;
        let zone = |lab: &Lab| {
            lab.cluster.node("node").unwrap()["metadata"]["labels"]["topology.kubernetes.io/zone"]
                .clone()
        };
        assert_eq!(zone(&lab), json!(null));
        lab.supervisor.set(
            "node",
            "/metadata/labels",
            json!({"topology.kubernetes.io/zone": "zone-b"}),
        );
        sleep(2 * SECOND).await;
        let want = if late_zone == LateZone::Added { json!("zone-b") } else { json!(null) };
        assert_eq!(zone(&lab), want);
        // The provider does not follow a later change of the zone.
        lab.supervisor.set(
            "node",
            "/metadata/labels",
            json!({"topology.kubernetes.io/zone": "zone-c"}),
        );
        sleep(11 * MINUTE).await;
        assert_eq!(zone(&lab), want);
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_list_after_the_sync_timeout_still_initializes_nodes() {
    let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
    supervisor.refuse(Refusals { get: None, list: Some(503), watch: None });
    cluster.join(&name(0), "");
    let tuning = SupervisorTuning { sync_timeout: 5 * SECOND, ..tuning(InstancesMode::Auto) };
    let lab = Lab::start(supervisor, cluster, tuning);
    sleep(4 * SECOND).await;
    assert!(lab.is_state("syncing"));
    let said = lab.telemetry.supervisor_check().unwrap().unwrap_err();
    assert!(said.starts_with("view of VirtualMachines is syncing: "), "{said}");
    sleep(MINUTE).await;
    assert!(!lab.is_initialized(&name(0)), "initialized without a list");
    assert_eq!(lab.count()[0], 0);
    lab.supervisor.refuse(Refusals::default());
    lab.until(MINUTE, |lab| lab.is_initialized(&name(0))).await;
}

/// Runs a provider with this policy, with a node whose addresses kubelet has written, and whose
/// machine has the IPv4 address `address`. Returns the addresses of the node after one minute.
async fn addresses_after(policy: AddressPolicy, address: &str) -> Value {
    let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
    let mut machine = object("node", "abc", "");
    machine["status"]["network"] = json!({"primaryIP6": "2001:db8::1", "primaryIP4": address});
    supervisor.put(machine);
    let mut node = old_node("node", "vsphere://abc");
    node["status"]["addresses"] = json!([
        {"type": "InternalIP", "address": "10.9.9.9"},
        {"type": "Hostname", "address": "of-kubelet"},
    ]);
    cluster.put(node);
    let tuning = SupervisorTuning { addresses: policy, ..tuning(InstancesMode::Auto) };
    let lab = Lab::start(supervisor, cluster, tuning);
    sleep(MINUTE).await;
    lab.cluster.node("node").unwrap()["status"]["addresses"].clone()
}

#[tokio::test(start_paused = true)]
async fn the_host_name_of_kubelet_is_replaced_or_kept_as_the_flag_says() {
    for (hostname, want) in [(HostnameEntry::Empty, ""), (HostnameEntry::Omitted, "of-kubelet")] {
        let policy = AddressPolicy { hostname, ..AddressPolicy::default() };
        let want = json!([
            {"type": "InternalIP", "address": "10.1.0.1"},
            {"type": "Hostname", "address": want},
        ]);
        assert_eq!(addresses_after(policy, "10.1.0.1").await, want, "{hostname:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_addresses_of_a_node_without_wanted_ones_are_kept_or_replaced_as_the_flag_says() {
    let kept = json!([
        {"type": "InternalIP", "address": "10.9.9.9"},
        {"type": "Hostname", "address": "of-kubelet"},
    ]);
    let replaced = json!([{"type": "Hostname", "address": ""}]);
    for (none_wanted, want) in [(NoneWanted::Nothing, kept), (NoneWanted::HostnameEntry, replaced)]
    {
        let policy = AddressPolicy { none_wanted, ..AddressPolicy::default() };
        assert_eq!(addresses_after(policy, "").await, want, "{none_wanted:?}");
    }
}
