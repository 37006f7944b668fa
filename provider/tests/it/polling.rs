//! Tests of the instances mode `poll`, in which the provider reads machines periodically instead of
//! watching them.

use provider::InstancesMode;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    cluster::Cluster,
    idle::polling_as,
    scenarios::{Lab, PLAIN, SECOND, is_initialized, start, swapped, uuid},
    vcenter::Vcenter,
};

/// The last read of the machine is too old to initialize the node, and the next periodic read comes
/// only minutes later.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_tainted_again_is_initialized_within_seconds() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    vcenter.add("vm-1", &uuid(1), "node-001", Some("10.0.0.1"));
    cluster.join("node-001", &swapped(1));
    let lab = start(&vcenter, &cluster, PLAIN, polling_as(InstancesMode::Poll));
    sleep(60 * SECOND).await;
    let mut node = cluster.node("node-001").unwrap();
    assert!(is_initialized(&node));
    node["spec"]["taints"] = json!([
        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
    ]);
    cluster.put(node);
    sleep(20 * SECOND).await;
    assert!(is_initialized(&cluster.node("node-001").unwrap()));
    lab.finish().await;
}

/// Starts a polling provider and waits until its three nodes are initialized.
async fn polling() -> Lab {
    let (vcenter, cluster) = (Vcenter::new().with_identity(), Cluster::new());
    for n in 0..3 {
        let (id, name) = (format!("vm-{n}"), format!("node-{n:03}"));
        vcenter.add(&id, &uuid(n), &name, Some(&format!("10.0.0.{}", n + 1)));
        cluster.join(&name, &swapped(n));
    }
    let lab = start(&vcenter, &cluster, PLAIN, polling_as(InstancesMode::Poll));
    sleep(60 * SECOND).await;
    assert!(lab.all_initialized());
    lab
}

fn is_shut_down(lab: &Lab, name: &str) -> bool {
    let node = lab.cluster.node(name).unwrap();
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.iter().any(|it| it["key"] == "node.cloudprovider.kubernetes.io/shutdown")
}

/// Waits ten minutes and returns the number of reads in them.
async fn reads_in_ten_minutes(lab: &Lab) -> usize {
    lab.vcenter.take_calls();
    sleep(600 * SECOND).await;
    lab.vcenter.take_calls().get("RetrievePropertiesEx").copied().unwrap_or_default()
}

/// The age of an answer counts from the end of the read, so the answer of a read of 6 s is not too
/// old at once.
#[tokio::test(start_paused = true)]
async fn a_node_that_joins_while_reads_take_six_seconds_is_initialized() {
    let lab = polling().await;
    lab.vcenter.delay("RetrievePropertiesEx", 6 * SECOND);
    lab.vcenter.add("vm-3", &uuid(3), "node-003", Some("10.0.0.4"));
    lab.cluster.join("node-003", &swapped(3));
    sleep(120 * SECOND).await;
    assert!(is_initialized(&lab.cluster.node("node-003").unwrap()));
    // Only the periodic reads remain.
    let n_reads = reads_in_ten_minutes(&lab).await;
    assert!(n_reads <= 3, "{n_reads} reads in ten minutes");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_not_ready_are_judged_while_reads_take_six_seconds() {
    let lab = polling().await;
    lab.vcenter.delay("RetrievePropertiesEx", 6 * SECOND);
    lab.vcenter.edit("vm-0", |vm| vm.power = "poweredOff");
    lab.vcenter.remove("vm-1");
    lab.cluster.set_ready("node-000", false);
    lab.cluster.set_ready("node-001", false);
    sleep(120 * SECOND).await;
    assert!(is_shut_down(&lab, "node-000"));
    assert!(lab.cluster.node("node-001").is_none(), "the Node of a machine that is gone stays");
    // One read of 6 s after each period of 5 s, because one node is still not ready.
    let n_reads = reads_in_ten_minutes(&lab).await;
    assert!(n_reads <= 600 / (6 + 5), "{n_reads} reads in ten minutes");
    lab.finish().await;
}

/// The provider reads a machine of the first chunk seconds before the whole read ends, but the
/// answer still counts.
#[tokio::test(start_paused = true)]
async fn nodes_of_the_first_chunk_are_served_by_a_read_of_three_slow_chunks() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    for n in 0..2001 {
        let (id, name) = (format!("vm-{n}"), format!("node-{n:03}"));
        // The provider leaves the addresses of nodes unchanged whose machines have none.
        vcenter.add(&id, &uuid(n), &name, (n == 1).then_some("10.0.0.1"));
        cluster.join(&name, &swapped(n));
        let mut node = cluster.node(&name).unwrap();
        node["spec"] = json!({"providerID": format!("vsphere://{}", uuid(n))});
        cluster.put(node);
    }
    let lab = start(&vcenter, &cluster, PLAIN, polling_as(InstancesMode::Poll));
    sleep(30 * SECOND).await;
    vcenter.delay("RetrievePropertiesEx", 3 * SECOND);
    vcenter.edit("vm-0", |vm| vm.power = "poweredOff");
    cluster.set_ready("node-000", false);
    sleep(40 * SECOND).await;
    assert!(is_shut_down(&lab, "node-000"));
    // From now on only the lookup of the joining node starts a read.
    cluster.set_ready("node-000", true);
    sleep(40 * SECOND).await;
    let mut node = cluster.node("node-001").unwrap();
    node["spec"]["taints"] = json!([
        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
    ]);
    cluster.put(node);
    sleep(40 * SECOND).await;
    assert!(is_initialized(&cluster.node("node-001").unwrap()));
    lab.finish().await;
}
