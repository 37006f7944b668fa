//! Machines that are read from time to time instead of being watched (`poll`).

use provider::InstancesMode;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    cluster::Cluster,
    idle::polling_as,
    scenarios::{PLAIN, SECOND, is_initialized, start, swapped, uuid},
    vcenter::Vcenter,
};

/// The last read of the machine is too old to initialize the node, and the next periodic read is minutes away.
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
