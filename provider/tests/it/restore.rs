//! Tests of a restore of the workload cluster from a backup, after which versions are lower than
//! before.

use serde_json::json;
use tokio::time::sleep;

use crate::scenarios::{PLAIN, SECOND, internal_ip, lab};

/// After the restore a node is uninitialized, without a watch event. The provider initializes it
/// once it lists nodes again.
#[tokio::test(start_paused = true)]
async fn a_node_that_a_full_list_shows_as_changed_is_synced_at_once() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    let before = lab.cluster.n_watches();
    lab.cluster.restore(1, |node| {
        if node["metadata"]["name"] == "node-001" {
            let key = "node.cloudprovider.kubernetes.io/uninitialized";
            node["spec"] = json!({"taints": [{"key": key, "effect": "NoSchedule"}]});
        }
    });
    while lab.cluster.n_watches() == before {
        sleep(SECOND / 10).await;
    }
    sleep(SECOND).await;
    assert!(lab.all_initialized());
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_of_a_restored_store_are_taken_over_although_their_versions_are_lower() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    assert!(lab.all_initialized());
    // The nodes have addresses from the time of the backup, and the watch is silent until the
    // version is reached again.
    lab.cluster.restore(1, |node| {
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.9.9.9"}]);
    });
    sleep(400 * SECOND).await;
    for n in 0..3 {
        let node = lab.cluster.node(&format!("node-{n:03}")).unwrap();
        assert_eq!(internal_ip(&node), format!("10.0.0.{}", n + 1));
    }
    // The provider also notices later changes.
    lab.vcenter.remove("vm-1");
    lab.cluster.set_ready("node-001", false);
    sleep(30 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 2);
    lab.finish().await;
}
