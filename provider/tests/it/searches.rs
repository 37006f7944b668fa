//! Tests of slow searches that fail. If they fail for fewer than three nodes, the provider blames
//! the machines; if for three or more, the vCenter.

use provider::Options;
use serde_json::json;
use tokio::time::sleep;

use crate::{
    cluster::Cluster,
    scenarios::{Lab, PLAIN, SECOND, internal_ip, start, swapped, uuid},
    vcenter::Vcenter,
};

const VCENTER: &str = "dbed6e0c-bd88-4ef6-b594-21283e1c677f";

/// A vCenter whose searches fail after 3 s, which is longer than the provider lets a search delay
/// the next one.
fn slow_and_failing() -> Vcenter {
    let vcenter = Vcenter::new().with_identity();
    vcenter.delay("FindAllByUuid", 3 * SECOND);
    vcenter.fault("FindAllByUuid", "SystemError", u32::MAX);
    vcenter
}

fn join(cluster: &Cluster, n: usize) {
    cluster.join(&format!("node-{n:03}"), &swapped(n));
}

/// True if the provider reports the vCenter as unhealthy at some moment in the next three minutes.
async fn gets_into_trouble(lab: &Lab) -> bool {
    for _ in 0..180 {
        sleep(SECOND).await;
        if lab.telemetry.vcenters() == [("vc".into(), false)] {
            return true;
        }
    }
    false
}

#[tokio::test(start_paused = true)]
async fn slow_searches_that_fail_for_three_nodes_are_trouble_of_the_vcenter_and_for_two_are_not() {
    for (n_nodes, is_trouble) in [(2, false), (3, true)] {
        let (vcenter, cluster) = (slow_and_failing(), Cluster::new());
        let lab = start(&vcenter, &cluster, PLAIN, Options::default());
        for n in 0..n_nodes {
            join(&cluster, n);
        }
        assert_eq!(gets_into_trouble(&lab).await, is_trouble, "{n_nodes} nodes");
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn failed_searches_for_nodes_that_were_deleted_do_not_count() {
    let (vcenter, cluster) = (slow_and_failing(), Cluster::new());
    let lab = start(&vcenter, &cluster, PLAIN, Options::default());
    join(&cluster, 0);
    join(&cluster, 1);
    sleep(20 * SECOND).await;
    cluster.delete("node-000");
    cluster.delete("node-001");
    sleep(20 * SECOND).await;
    join(&cluster, 2);
    join(&cluster, 3);
    assert!(!gets_into_trouble(&lab).await);
    lab.finish().await;
}

/// Another provider initialized two nodes. The test notes their references after the searches for
/// them have failed.
#[tokio::test(start_paused = true)]
async fn failed_searches_for_nodes_that_were_found_by_reference_do_not_count() {
    let (vcenter, cluster) = (slow_and_failing(), Cluster::new());
    for n in 0..2 {
        vcenter.add(&format!("vm-{n}"), &uuid(n), "guest", Some("10.0.0.77"));
        join(&cluster, n);
        let mut node = cluster.node(&format!("node-{n:03}")).unwrap();
        node["spec"] = json!({"providerID": format!("vsphere://{}", uuid(n))});
        cluster.put(node);
    }
    let lab = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(30 * SECOND).await;
    assert!(vcenter.take_calls()["FindAllByUuid"] >= 2);
    for n in 0..2 {
        let noted = json!({"vsphere.cloud-provider/machine": format!("{VCENTER}/vm-{n}")});
        cluster.annotate(&format!("node-{n:03}"), noted);
    }
    sleep(400 * SECOND).await;
    for node in ["node-000", "node-001"] {
        assert_eq!(internal_ip(&cluster.node(node).unwrap()), "10.0.0.77");
    }
    join(&cluster, 2);
    assert!(!gets_into_trouble(&lab).await);
    lab.finish().await;
}
