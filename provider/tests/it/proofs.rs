//! Tests that the age of a proof counts from the first call of the proof.

use provider::InstancesMode;
use tokio::time::sleep;

use crate::{
    idle::polling_as,
    scenarios::{PLAIN, SECOND, lab_in, start, uuid},
    vcenter::Vcenter,
};

/// Removes a machine, makes its node not ready, and registers the machine anew about one second
/// after the first search of the proof has begun. Returns true if the Node stays. Each call of the
/// operation `slow` takes 2 s, so that the proof is not complete by then.
async fn node_stays(mode: InstancesMode, slow: &'static str) -> bool {
    let first = lab_in(Vcenter::new().with_identity(), 3, PLAIN);
    sleep(10 * SECOND).await;
    let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
    first.finish().await;
    let lab = start(&vcenter, &cluster, PLAIN, polling_as(mode));
    sleep(60 * SECOND).await;
    vcenter.take_calls();
    vcenter.delay(slow, 2 * SECOND);
    vcenter.remove("vm-1");
    cluster.set_ready("node-001", false);
    while !vcenter.take_calls().keys().any(|name| name.starts_with("Find")) {
        sleep(SECOND / 10).await;
    }
    sleep(SECOND).await;
    vcenter.add("vm-9", &uuid(1), "node-001", Some("10.0.0.2"));
    sleep(60 * SECOND).await;
    lab.finish().await;
    cluster.node("node-001").is_some()
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_comes_back_during_a_slow_proof_keeps_its_node() {
    let stays = [
        node_stays(InstancesMode::Auto, "FindAllByUuid").await,
        node_stays(InstancesMode::Poll, "FindAllByUuid").await,
        node_stays(InstancesMode::V1, "RetrievePropertiesEx").await,
    ];
    assert_eq!(stays, [true; 3], "auto, poll and v1");
}
