//! The workload cluster's store is restored from a backup: versions begin lower than those that were seen.

use serde_json::json;
use tokio::time::sleep;

use crate::scenarios::{PLAIN, SECOND, internal_ip, lab};

#[tokio::test(start_paused = true)]
async fn nodes_of_a_restored_store_are_taken_over_although_their_versions_are_lower() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    assert!(lab.all_initialized());
    // Addresses of the time of the backup, and a watch that says nothing before its version is reached again.
    lab.cluster.restore(1, |node| {
        node["status"]["addresses"] = json!([{"type": "InternalIP", "address": "10.9.9.9"}]);
    });
    sleep(400 * SECOND).await;
    for n in 0..3 {
        let node = lab.cluster.node(&format!("node-{n:03}")).unwrap();
        assert_eq!(internal_ip(&node), format!("10.0.0.{}", n + 1));
    }
    // What happens after the restore is seen, too.
    lab.vcenter.remove("vm-1");
    lab.cluster.set_ready("node-001", false);
    sleep(30 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 2);
    lab.finish().await;
}
