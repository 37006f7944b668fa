//! Tests of the reports about nodes that the provider cannot manage: by event, by metric and by
//! readiness.

use provider::{InstancesMode, Options};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    cluster::Cluster,
    idle::polling_as,
    scenarios::{Lab, PLAIN, SECOND, is_initialized, lab_in, start, swapped, uuid},
    vcenter::Vcenter,
};

const MODES: [InstancesMode; 3] = [InstancesMode::Auto, InstancesMode::Poll, InstancesMode::V1];

fn in_mode(mode: InstancesMode) -> Options {
    let mut options = Options::default();
    options.tuning.mode = mode;
    options
}

fn n_events(cluster: &Cluster, reason: &str) -> usize {
    cluster.events().iter().filter(|it| *it == reason).count()
}

fn n_troubled(lab: &Lab, kind: &str) -> usize {
    let name = format!("vsphere_nodes_troubled{{kind=\"{kind}\"}} ");
    let metrics = lab.telemetry.metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name.as_str()));
    line.expect("the metric exists").parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_join_that_meets_a_failing_modify_list_view_is_completed_within_seconds() {
    for times in [1, 2, 5] {
        let lab = lab_in(Vcenter::new().with_identity(), 2, PLAIN);
        sleep(10 * SECOND).await;
        lab.vcenter.fault("ModifyListView", "SystemError", times);
        lab.vcenter.add("vm-2", &uuid(2), "node-002", Some("10.0.0.3"));
        lab.cluster.join("node-002", &swapped(2));
        sleep(30 * SECOND).await;
        assert!(is_initialized(&lab.cluster.node("node-002").unwrap()), "{times} failures");
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_that_is_built_anew_leaves_nothing_behind_in_its_session() {
    let lab = lab_in(Vcenter::new().with_identity(), 2, PLAIN);
    sleep(10 * SECOND).await;
    lab.vcenter.take_calls();
    lab.vcenter.fault("ModifyListView", "SystemError", 5);
    lab.vcenter.add("vm-2", &uuid(2), "node-002", Some("10.0.0.3"));
    lab.cluster.join("node-002", &swapped(2));
    sleep(60 * SECOND).await;
    assert!(is_initialized(&lab.cluster.node("node-002").unwrap()));
    let calls = lab.vcenter.take_calls();
    assert_eq!(calls.get("Login"), None, "the session was lost");
    let n = |call: &str| calls.get(call).copied().unwrap_or_default();
    assert!(n("CreateFilter") > 0, "{calls:?}");
    assert_eq!(n("DestroyPropertyFilter"), n("CreateFilter"), "{calls:?}");
    assert_eq!(n("DestroyView"), n("CreateListView"), "{calls:?}");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_not_delivered_for_a_minute_is_reported_until_it_is() {
    let lab = lab_in(Vcenter::new().with_identity(), 2, PLAIN);
    sleep(10 * SECOND).await;
    assert_eq!(lab.telemetry.machines_check(), Ok(()));
    lab.vcenter.fault("ModifyListView", "SystemError", u32::MAX);
    lab.vcenter.fault("CreateListView", "SystemError", u32::MAX);
    lab.vcenter.add("vm-2", &uuid(2), "node-002", Some("10.0.0.3"));
    lab.cluster.join("node-002", &swapped(2));
    sleep(50 * SECOND).await;
    assert_eq!(lab.telemetry.machines_check(), Ok(()));
    sleep(30 * SECOND).await;
    let said = lab.telemetry.machines_check().unwrap_err();
    assert!(said.contains("node-002") && said.contains("vm-2"), "{said}");
    assert_eq!(n_troubled(&lab, "not-delivered"), 1);
    assert_eq!(n_events(&lab.cluster, "MachineNotDelivered"), 1);
    lab.vcenter.fault("ModifyListView", "SystemError", 0);
    lab.vcenter.fault("CreateListView", "SystemError", 0);
    sleep(120 * SECOND).await;
    assert!(is_initialized(&lab.cluster.node("node-002").unwrap()));
    assert_eq!((lab.telemetry.machines_check(), n_troubled(&lab, "not-delivered")), (Ok(()), 0));
    lab.finish().await;
}

/// Returns a cluster of `n` nodes that a provider has initialized, and a vCenter with another
/// instance UUID and without their machines, to be served under the same name.
async fn moved_to_another_vcenter(n: usize) -> (Cluster, Vcenter) {
    let first = lab_in(Vcenter::new().with_identity(), n, PLAIN);
    sleep(30 * SECOND).await;
    let cluster = first.cluster.clone();
    first.finish().await;
    let other = Vcenter::new();
    other.add("vm-900", &uuid(900), "another", None);
    (cluster, other.called("dbed6e0c-bd88-4ef6-b594-21283e1c6770"))
}

#[tokio::test(start_paused = true)]
async fn nodes_of_a_vcenter_that_is_not_configured_are_reported_and_kept() {
    for mode in MODES {
        let (cluster, other) = moved_to_another_vcenter(20).await;
        let second = start(&other, &cluster, PLAIN, in_mode(mode));
        for n in 0..20 {
            cluster.set_ready(&format!("node-{n:03}"), n > 9);
        }
        sleep(900 * SECOND).await;
        assert_eq!(cluster.n_nodes(), 20, "{mode:?}");
        assert_eq!(n_troubled(&second, "unknown-vcenter"), 20, "{mode:?}");
        let n_events = n_events(&cluster, "MachineInUnknownVCenter");
        assert_eq!(n_events, 10, "{mode:?}: events about 20 nodes");
        let said = second.telemetry.machines_check().unwrap_err();
        assert!(
            said.contains("dbed6e0c-bd88-4ef6-b594-21283e1c677f") && said.contains("19 more"),
            "{mode:?}: {said}"
        );
        second.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_are_reported_by_a_provider_that_only_initializes() {
    for mode in MODES {
        let (cluster, other) = moved_to_another_vcenter(3).await;
        let options = Options { cloud_node_lifecycle: false, ..in_mode(mode) };
        let second = start(&other, &cluster, PLAIN, options);
        sleep(900 * SECOND).await;
        assert_eq!(n_troubled(&second, "unknown-vcenter"), 3, "{mode:?}");
        assert_eq!(n_events(&cluster, "MachineInUnknownVCenter"), 3, "{mode:?}");
        assert!(second.telemetry.machines_check().is_err(), "{mode:?}");
        second.finish().await;
    }
}

/// Before the search, the configured vCenter might still have the node's machine.
#[tokio::test(start_paused = true)]
async fn a_node_of_an_unknown_vcenter_is_reported_only_after_a_search() {
    let (cluster, other) = moved_to_another_vcenter(2).await;
    other.fault("FindAllByUuid", "SystemError", u32::MAX);
    let second = start(&other, &cluster, PLAIN, Options::default());
    sleep(120 * SECOND).await;
    assert_eq!(n_troubled(&second, "unknown-vcenter"), 0);
    other.fault("FindAllByUuid", "SystemError", 0);
    sleep(400 * SECOND).await;
    assert_eq!(n_troubled(&second, "unknown-vcenter"), 2);
    second.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_vcenter_that_is_replaced_under_its_name_fails_readiness_and_not_liveness() {
    for mode in MODES {
        let first = lab_in(Vcenter::new().with_identity(), 3, PLAIN);
        sleep(10 * SECOND).await;
        let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
        first.finish().await;
        let lab = start(&vcenter, &cluster, PLAIN, in_mode(mode));
        sleep(10 * SECOND).await;
        lab.vcenter.become_another();
        lab.vcenter.take_calls();
        sleep(900 * SECOND).await;
        let said = lab.telemetry.machines_check().unwrap_err();
        assert!(said.contains("it is another vCenter"), "{mode:?}: {said}");
        assert_eq!(n_troubled(&lab, "other-instance"), 3, "{mode:?}");
        assert_eq!(n_events(&lab.cluster, "VCenterReplaced"), 3, "{mode:?}");
        assert!(lab.telemetry.checks().iter().all(|(_, outcome)| outcome.is_ok()), "not alive");
        assert_eq!(lab.telemetry.vcenters(), [("vc".into(), false)], "{mode:?}");
        let calls = lab.vcenter.take_calls();
        assert_eq!(calls.get("Login"), None, "{mode:?}, login: {calls:?}");
        assert!(calls.values().sum::<usize>() <= 60, "{mode:?}, too many calls: {calls:?}");
        assert_eq!(lab.cluster.n_nodes(), 3, "{mode:?}");
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_not_proven_gone_is_reported_without_failing_readiness() {
    let first = lab_in(Vcenter::new().with_identity(), 3, PLAIN);
    sleep(30 * SECOND).await;
    let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
    first.finish().await;
    cluster.annotate("node-001", json!({}));
    vcenter.hide("vm-1");
    cluster.set_ready("node-001", false);
    let second = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(60 * SECOND).await;
    assert_eq!(n_troubled(&second, "unproven"), 1);
    assert_eq!(n_events(&cluster, "MachineNotProvenGone"), 1);
    assert_eq!(second.telemetry.machines_check(), Ok(()));
    // The provider reports the trouble without a gap between two attempts at a proof.
    for n in 0..60 {
        sleep(10 * SECOND).await;
        assert_eq!(n_troubled(&second, "unproven"), 1, "{} s later", 10 * n);
    }
    assert_eq!(n_events(&cluster, "MachineNotProvenGone"), 1);
    let calls = vcenter.take_calls();
    let n_searches = calls["FindAllByUuid"];
    assert!(n_searches <= 60, "{n_searches} searches in ten minutes");
    vcenter.show("vm-1");
    sleep(120 * SECOND).await;
    assert_eq!(n_troubled(&second, "unproven"), 0);
    second.finish().await;
}

/// A proxy in front of the vCenter answers 503 and requests no pause, or a short one.
#[tokio::test(start_paused = true)]
async fn a_503_with_a_retry_after_of_0_or_1_s_still_backs_off() {
    for (mode, operation) in [
        (InstancesMode::Auto, "CreateListView"),
        (InstancesMode::Auto, "WaitForUpdatesEx"),
        (InstancesMode::Auto, "ModifyListView"),
        (InstancesMode::Auto, "FindAllByUuid"),
        (InstancesMode::Poll, "RetrievePropertiesEx"),
    ] {
        for seconds in [0, 1] {
            let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
            for n in [1, 2] {
                let (id, name) = (format!("vm-{n}"), format!("node-{n:03}"));
                vcenter.add(&id, &uuid(n), &name, Some(&format!("10.0.0.{n}")));
            }
            // The provider changes the members of a view only after it has built one.
            if operation == "ModifyListView" {
                cluster.join("node-002", &swapped(2));
            }
            let lab = start(&vcenter, &cluster, PLAIN, polling_as(mode));
            sleep(5 * SECOND).await;
            vcenter.set_busy(operation, seconds);
            cluster.join("node-001", &swapped(1));
            sleep(60 * SECOND).await;
            let n_calls = vcenter.take_calls().get(operation).copied().unwrap_or_default();
            let case = format!("{operation}, Retry-After: {seconds}");
            assert!((2..=15).contains(&n_calls), "{case}: {n_calls} calls in a minute");
            lab.finish().await;
        }
    }
}
