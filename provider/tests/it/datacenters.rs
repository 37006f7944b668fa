//! Tests of the key `datacenters`: which machines the provider finds, and the number of calls that
//! this costs.

use provider::{InstancesMode, Options};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    cluster::Cluster,
    scenarios::{
        Lab, PLAIN, SECOND, confirm_gone, internal_ip, is_initialized, lab_in, start, swapped, uuid,
    },
    vcenter::Vcenter,
};

const ONLY_DC0: &str = "global: {server: vc, user: ccm, password: secret, datacenters: [DC0]}";
const BOTH: &str = "global: {server: vc, user: ccm, password: secret, datacenters: [DC0, /DC1]}";
const GHOST: &str = "global: {server: vc, user: ccm, password: secret, datacenters: [DC0, DC2]}";

/// Starts a provider with nodes and machines 0 to `n` - 1; the machines with an odd number are in
/// DC1.
fn two_datacenters(n: usize, config: &str) -> Lab {
    let (vcenter, cluster) = (Vcenter::new().with_identity(), Cluster::new());
    vcenter.add_datacenter("datacenter-2", "DC1");
    for i in 0..n {
        let (id, name) = (format!("vm-{i}"), format!("node-{i:03}"));
        vcenter.add(&id, &uuid(i), &name, Some(&format!("10.0.0.{}", i + 1)));
        if i % 2 == 1 {
            vcenter.edit(&id, |vm| vm.datacenter = "datacenter-2");
        }
        cluster.join(&name, &swapped(i));
    }
    start(&vcenter, &cluster, config, Options::default())
}

/// Returns the numbers of the initialized nodes among nodes 0 to `n` - 1.
fn initialized_nodes(lab: &Lab, n: usize) -> Vec<usize> {
    let is_open = |i: &usize| is_initialized(&lab.cluster.node(&format!("node-{i:03}")).unwrap());
    (0..n).filter(is_open).collect()
}

#[tokio::test(start_paused = true)]
async fn naming_all_datacenters_costs_one_call_for_few_nodes_and_none_for_many() {
    for (n, n_more) in [(1, 1), (3, 1), (10, 0), (100, 0)] {
        let mut counts = Vec::new();
        for config in [PLAIN, ONLY_DC0] {
            let lab = lab_in(Vcenter::new(), n, config);
            sleep(60 * SECOND).await;
            assert!(lab.all_initialized());
            counts.push(lab.vcenter.take_calls().values().sum::<usize>());
            sleep(1200 * SECOND).await;
            let calls = lab.vcenter.take_calls();
            assert!(calls.keys().all(|name| name == "WaitForUpdatesEx"), "{calls:?}");
            lab.finish().await;
        }
        assert_eq!(counts[1], counts[0] + n_more, "{n} nodes");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_in_unlisted_datacenters_are_not_found() {
    for (n, n_calls) in [(2, 12), (10, 12)] {
        let lab = two_datacenters(n, ONLY_DC0);
        sleep(SECOND).await;
        let even: Vec<usize> = (0..n).step_by(2).collect();
        assert_eq!(initialized_nodes(&lab, n), even);
        let calls = lab.vcenter.take_calls();
        assert!(calls.values().sum::<usize>() <= n_calls, "{n} nodes: {calls:?}");
        sleep(120 * SECOND).await;
        assert_eq!(initialized_nodes(&lab, n), even);
        lab.finish().await;
    }
    let lab = two_datacenters(10, BOTH);
    sleep(5 * SECOND).await;
    assert!(lab.all_initialized());
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_stays_while_its_machine_exists_in_an_unlisted_datacenter() {
    let first = two_datacenters(10, BOTH);
    sleep(10 * SECOND).await;
    assert!(first.all_initialized());
    let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
    first.finish().await;
    // A node without a reference, as after upstream.
    cluster.annotate("node-003", json!({}));
    let second = start(&vcenter, &cluster, ONLY_DC0, Options::default());
    for i in 0..10 {
        cluster.set_ready(&format!("node-{i:03}"), false);
    }
    sleep(60 * SECOND).await;
    cluster.take_writes();
    vcenter.take_calls();
    sleep(600 * SECOND).await;
    assert_eq!(cluster.n_nodes(), 10);
    assert_eq!(cluster.take_writes(), [""; 0], "writes to unlisted nodes");
    let n_calls: usize = vcenter.take_calls().values().sum();
    assert!(n_calls <= 5 * 10 * 4 + 20, "{n_calls} calls in ten minutes for five such nodes");
    // A machine is gone only if no datacenter has it; without a reference a person must also
    // confirm it.
    vcenter.remove("vm-3");
    sleep(120 * SECOND).await;
    assert_eq!(cluster.n_nodes(), 10);
    confirm_gone(&cluster, 3);
    sleep(120 * SECOND).await;
    assert!(cluster.node("node-003").is_none());
    assert_eq!(cluster.n_nodes(), 9);
    second.finish().await;
}

/// The machine gets another reference in a datacenter that the searches of mode `v1` leave out. The
/// Node stays nevertheless, until no datacenter has the machine.
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_registered_anew_in_an_unlisted_datacenter_keeps_its_node() {
    for mode in [InstancesMode::Auto, InstancesMode::Poll, InstancesMode::V1] {
        let first = two_datacenters(3, BOTH);
        sleep(10 * SECOND).await;
        assert!(first.all_initialized());
        let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
        first.finish().await;
        let mut options = Options::default();
        options.tuning.mode = mode;
        let lab = start(&vcenter, &cluster, ONLY_DC0, options);
        sleep(30 * SECOND).await;
        vcenter.remove("vm-2");
        vcenter.add("vm-102", &uuid(2), "node-002", Some("10.0.0.3"));
        vcenter.edit("vm-102", |vm| vm.datacenter = "datacenter-2");
        cluster.set_ready("node-002", false);
        sleep(300 * SECOND).await;
        assert_eq!(cluster.n_nodes(), 3, "{mode:?}");
        vcenter.remove("vm-102");
        sleep(120 * SECOND).await;
        assert_eq!(cluster.n_nodes(), 2, "{mode:?}");
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_linked_to_the_matching_machine_in_a_listed_datacenter() {
    // The second machine has the same UUID, or that UUID in the other byte order, for which the
    // provider searches second.
    for (n_others, second) in [(0, uuid(900)), (9, uuid(900)), (0, swapped(900)), (9, swapped(900))]
    {
        let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
        vcenter.add_datacenter("datacenter-2", "DC1");
        vcenter.add("vm-900", &uuid(900), "node-900", Some("10.0.9.1"));
        vcenter.add("vm-901", &second, "node-900", Some("10.0.9.2"));
        vcenter.edit("vm-900", |vm| vm.datacenter = "datacenter-2");
        cluster.join("node-900", &swapped(900));
        for i in 0..n_others {
            vcenter.add(&format!("vm-{i}"), &uuid(i), &format!("node-{i}"), Some("10.0.0.1"));
            cluster.join(&format!("node-{i}"), &swapped(i));
        }
        let lab = start(&vcenter, &cluster, ONLY_DC0, Options::default());
        sleep(5 * SECOND).await;
        assert_eq!(
            internal_ip(&cluster.node("node-900").unwrap()),
            "10.0.9.2",
            "{second} {n_others}"
        );
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_datacenter_that_does_not_exist_yet_is_an_error_until_it_does() {
    let lab = two_datacenters(2, GHOST);
    sleep(5 * SECOND).await;
    assert_eq!(initialized_nodes(&lab, 2), [0], "only DC0 exists so far");
    sleep(300 * SECOND).await;
    assert_eq!(initialized_nodes(&lab, 2), [0]);
    lab.vcenter.add_datacenter("datacenter-3", "DC2");
    lab.vcenter.edit("vm-1", |vm| vm.datacenter = "datacenter-3");
    sleep(180 * SECOND).await;
    assert_eq!(initialized_nodes(&lab, 2), [0, 1]);
    lab.finish().await;
}

/// In mode `v1` the search for datacenters goes from folder to folder. If it entered a folder
/// again, it would be a busy loop here.
#[tokio::test(start_paused = true)]
async fn a_folder_that_contains_itself_is_searched_once() {
    let (vcenter, cluster) = (Vcenter::new().with_identity(), Cluster::new());
    vcenter.go_in_a_circle();
    vcenter.add("vm-0", &uuid(0), "node-000", Some("10.0.0.1"));
    cluster.join("node-000", &swapped(0));
    let mut options = Options::default();
    options.tuning.mode = InstancesMode::V1;
    let lab = start(&vcenter, &cluster, PLAIN, options);
    sleep(60 * SECOND).await;
    // The provider reads the ancestors of the root folder and its children, and then searches each
    // datacenter.
    let calls = lab.vcenter.take_calls();
    assert!(calls["FindAllByDnsName"] > 0 && calls["RetrievePropertiesEx"] < 60, "{calls:?}");
    lab.finish().await;
}
