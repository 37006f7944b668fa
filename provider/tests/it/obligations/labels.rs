//! Tests of labels of initialized nodes that the provider writes while something else changes.

use provider::LateZone;

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";
const TYPE: &str = "node.kubernetes.io/instance-type";
const BETA_TYPE: &str = "beta.kubernetes.io/instance-type";

/// Starts a provider that adds late zones, waits until it has initialized a node whose machine has
/// no zone yet, and makes each later write to a node take a second.
async fn zoneless() -> Lab {
    let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
    supervisor.put(with_zone(None, "10.1.0.1"));
    cluster.join("node", "");
    let tuning = SupervisorTuning { late_zone: LateZone::Added, ..tuning(InstancesMode::Auto) };
    let lab = Lab::start(supervisor, cluster, tuning);
    lab.until(10 * SECOND, |lab| lab.is_initialized("node")).await;
    // Waits until the window that limits address writes has ended.
    sleep(MINUTE).await;
    lab.cluster.set_write_time(SECOND);
    lab
}

fn with_zone(zone: Option<&str>, address: &str) -> Value {
    let mut machine = object("node", "abc", address);
    machine["metadata"]["labels"] = zone.map_or(json!({}), |zone| json!({ZONE: zone}));
    machine
}

fn label(lab: &Lab, key: &str) -> Value {
    lab.cluster.node("node").unwrap()["metadata"]["labels"][key].clone()
}

/// The zone arrives while the provider copies a beta label to the label without `beta`. The write
/// of the zone must use the version of the node after this first write, because the API server
/// would refuse the older version.
#[tokio::test(start_paused = true)]
async fn a_late_zone_beside_a_beta_label_is_written_without_a_conflict() {
    let lab = zoneless().await;
    let mut node = lab.cluster.node("node").unwrap();
    node["metadata"]["labels"] = json!({BETA_TYPE: "large"});
    lab.cluster.put(node);
    sleep(SECOND / 2).await;
    assert_eq!(label(&lab, TYPE), json!(null), "the first write takes a second");
    lab.supervisor.put(with_zone(Some("zone-b"), "10.1.0.1"));
    sleep(3 * SECOND).await;
    assert_eq!((label(&lab, TYPE), label(&lab, ZONE)), (json!("large"), json!("zone-b")));
    assert_eq!(lab.cluster.n_conflicts(), 0, "{:?}", lab.cluster.take_writes());
}

/// Another client taints the node while the provider writes its address. The provider drops its
/// second write, which it computed from the older node, and makes a new one at once.
#[tokio::test(start_paused = true)]
async fn a_late_zone_whose_write_was_overtaken_is_written_within_seconds() {
    let lab = zoneless().await;
    lab.supervisor.put(with_zone(Some("zone-b"), "10.1.0.2"));
    sleep(SECOND / 2).await;
    let mut node = lab.cluster.node("node").unwrap();
    node["spec"]["taints"] = json!([{"key": "example.com/a", "effect": "NoSchedule"}]);
    lab.cluster.put(node);
    sleep(5 * SECOND).await;
    assert_eq!(lab.addresses("node"), ["10.1.0.2"]);
    assert_eq!(label(&lab, ZONE), json!("zone-b"));
    let taints = &lab.cluster.node("node").unwrap()["spec"]["taints"];
    assert_eq!(taints[0]["key"], "example.com/a");
}
