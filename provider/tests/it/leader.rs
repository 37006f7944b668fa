//! Tests of leader election: its events, its check, and writes at its end.

use provider::{LeaderElection, Options, RunError};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    cluster::Cluster,
    scenarios::{PLAIN, SECOND, is_initialized, start, swapped, uuid},
    vcenter::Vcenter,
};

fn elected() -> Options {
    Options { leader_election: Some(LeaderElection::default()), ..Options::default() }
}

fn messages(cluster: &Cluster) -> Vec<String> {
    let text = |event: &Value| event["message"].as_str().unwrap().to_owned();
    cluster.announcements().iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn leadership_is_announced_on_the_lease_as_client_go_does() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    let lab = start(&vcenter, &cluster, PLAIN, elected());
    sleep(5 * SECOND).await;
    let events = cluster.announcements();
    assert_eq!(events.len(), 1);
    let mut event = events[0].clone();
    event["metadata"]["name"] = "…".into();
    insta::assert_snapshot!(serde_json::to_string_pretty(&event).unwrap(), @r#"
    {
      "apiVersion": "v1",
      "kind": "Event",
      "metadata": {
        "name": "…",
        "namespace": "kube-system"
      },
      "involvedObject": {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "name": "cloud-controller-manager",
        "uid": "uid-lease",
        "namespace": "kube-system"
      },
      "reason": "LeaderElection",
      "message": "a became leader",
      "source": {
        "component": "cloud-controller-manager"
      },
      "reportingComponent": "cloud-controller-manager",
      "reportingInstance": "",
      "firstTimestamp": "2026-01-01T00:00:00Z",
      "lastTimestamp": "2026-01-01T00:00:00Z",
      "eventTime": null,
      "count": 1,
      "type": "Normal"
    }
    "#);
    lab.finish().await;
    assert_eq!(messages(&cluster), ["a became leader", "a stopped leading"]);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_waits_announces_nothing() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    let leader = start(&vcenter, &cluster, PLAIN, elected());
    sleep(5 * SECOND).await;
    let edit = |deps: &mut provider::Deps| deps.identity = "b".to_owned();
    let second = crate::scenarios::start_edited(&[&vcenter], &cluster, PLAIN, elected(), edit);
    sleep(30 * SECOND).await;
    assert_eq!(messages(&cluster), ["a became leader"]);
    leader.finish().await;
    sleep(10 * SECOND).await;
    let wanted = ["a became leader", "a stopped leading", "b became leader"];
    assert_eq!(messages(&cluster), wanted);
    second.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_does_not_end_in_time_is_aborted_before_the_lease_is_released() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    vcenter.add("vm-1", &uuid(1), "node-001", Some("10.0.0.2"));
    let lab = start(&vcenter, &cluster, PLAIN, elected());
    sleep(5 * SECOND).await;
    // The cluster refuses each write with 429 after 3.5 s, and the provider sends it again a second
    // later. The third attempt starts after 9 s and is in progress when the grace period of 10 s
    // ends.
    cluster.set_write_time(SECOND * 7 / 2);
    cluster.refuse(429, 8);
    cluster.join("node-001", &swapped(1));
    sleep(SECOND * 23 / 10).await;
    lab.finish().await;
    assert_eq!(cluster.cut_under(), ["a"]);
    assert!(!is_initialized(&cluster.node("node-001").unwrap()));
    let wanted = ["a became leader", "a stopped leading"];
    assert_eq!(messages(&cluster), wanted);
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_another_replica_took_announces_that_it_stopped_leading() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    let lab = start(&vcenter, &cluster, PLAIN, elected());
    sleep(5 * SECOND).await;
    cluster.usurp_lease("c");
    let ended = tokio::time::timeout(15 * SECOND, lab.ended()).await.unwrap();
    assert!(matches!(ended, Err(RunError::LeadershipLost)), "{ended:?}");
    assert_eq!(messages(&cluster), ["a became leader", "a stopped leading"]);
}

#[tokio::test(start_paused = true)]
async fn leader_and_candidate_have_a_passing_leader_election_check() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    let checks = |telemetry: &provider::Telemetry| {
        telemetry.checks().into_iter().find(|(name, _)| name == "leaderElection")
    };
    let well = Some(("leaderElection".to_owned(), Ok(())));
    let alone = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(SECOND).await;
    assert_eq!(checks(&alone.telemetry), None, "no election");
    alone.finish().await;
    let leader = start(&vcenter, &cluster, PLAIN, elected());
    sleep(5 * SECOND).await;
    let edit = |deps: &mut provider::Deps| deps.identity = "b".to_owned();
    let second = crate::scenarios::start_edited(&[&vcenter], &cluster, PLAIN, elected(), edit);
    for _ in 0..60 {
        sleep(SECOND).await;
        assert_eq!(checks(&leader.telemetry), well);
        assert_eq!(checks(&second.telemetry), well);
    }
    leader.finish().await;
    second.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_while_renewing_does_not_lose_the_lease() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    let lab = start(&vcenter, &cluster, PLAIN, elected());
    sleep(5 * SECOND).await;
    // As if a write of this replica that timed out took effect late: two versions in a row are out
    // of date.
    cluster.refuse_renewals(2);
    sleep(20 * SECOND).await;
    assert_eq!(cluster.lease_holder().as_deref(), Some("a"));
    lab.finish().await;
    assert_eq!(messages(&cluster), ["a became leader", "a stopped leading"]);
}
