//! Tests of a proxy between the provider and the API server that answers 404 by itself, which
//! proves nothing about a node.

use serde_json::json;
use tokio::time::sleep;

use crate::{
    cluster::Cluster,
    scenarios::{PLAIN, SECOND, is_initialized, lab_in, start, swapped, uuid},
    vcenter::Vcenter,
};

#[tokio::test(start_paused = true)]
async fn a_node_whose_first_writes_get_the_404_of_a_proxy_is_initialized_within_seconds() {
    let lab = lab_in(Vcenter::new(), 1, PLAIN);
    sleep(10 * SECOND).await;
    lab.vcenter.add("vm-1", &uuid(1), "node-001", Some("10.0.0.2"));
    lab.cluster.refuse(404, 2);
    lab.cluster.join("node-001", &swapped(1));
    sleep(2 * SECOND).await;
    assert!(is_initialized(&lab.cluster.node("node-001").unwrap()));
    lab.finish().await;
}

/// After a conflict the provider reads the node, and the proxy answers that read.
#[tokio::test(start_paused = true)]
async fn a_node_whose_read_gets_the_404_of_a_proxy_is_initialized_within_seconds() {
    let lab = lab_in(Vcenter::new(), 1, PLAIN);
    sleep(10 * SECOND).await;
    lab.vcenter.add("vm-1", &uuid(1), "node-001", Some("10.0.0.2"));
    lab.cluster.refuse(409, 1);
    lab.cluster.lose_reads(1);
    lab.cluster.join("node-001", &swapped(1));
    sleep(2 * SECOND).await;
    assert!(is_initialized(&lab.cluster.node("node-001").unwrap()));
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_reference_whose_write_gets_the_404_of_a_proxy_is_recorded_later() {
    let (vcenter, cluster) = (Vcenter::new().with_identity(), Cluster::new());
    vcenter.add("vm-1", &uuid(1), "node-001", Some("10.0.0.2"));
    cluster.join("node-001", &swapped(1));
    let first = start(&vcenter, &cluster, PLAIN, provider::Options::default());
    sleep(10 * SECOND).await;
    first.finish().await;
    cluster.annotate("node-001", json!({}));
    cluster.refuse(404, 1);
    let second = start(&vcenter, &cluster, PLAIN, provider::Options::default());
    sleep(60 * SECOND).await;
    assert_eq!(cluster.n_refusals(), 0);
    let noted = &cluster.node("node-001").unwrap()["metadata"]["annotations"];
    assert!(noted["vsphere.cloud-provider/machine"].is_string(), "{noted}");
    second.finish().await;
}
