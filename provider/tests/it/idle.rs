//! Tests of vCenter sessions that the provider leaves unused, and of vCenters without machines.

use std::time::Duration;

use provider::{InstancesMode, Options};
use tokio::time::sleep;

use crate::{
    cluster::Cluster,
    scenarios::{PLAIN, SECOND, is_initialized, lab_in, start, swapped, uuid},
    vcenter::Vcenter,
};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(start_paused = true)]
async fn the_provider_makes_no_vcenter_call_before_the_first_node() {
    let lab = lab_in(Vcenter::new(), 0, PLAIN);
    sleep(2 * HOUR).await;
    assert_eq!(lab.vcenter.take_calls().len(), 0);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_without_machines_is_kept_alive_by_few_calls() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    cluster.join("node-001", &swapped(1));
    let lab = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(60 * SECOND).await;
    assert_eq!(vcenter.take_calls()["Login"], 1);
    cluster.delete("node-001");
    sleep(SECOND).await;
    vcenter.take_calls();
    sleep(3 * HOUR).await;
    let calls = vcenter.take_calls();
    assert_eq!(calls.keys().collect::<Vec<_>>(), ["CurrentTime"], "{calls:?}");
    assert!((20..=3 * 3600 / 30).contains(&calls["CurrentTime"]), "{calls:?}");
    // The session is still the first one.
    vcenter.add("vm-1", &uuid(1), "node-001", Some("10.0.0.1"));
    cluster.join("node-001", &swapped(1));
    sleep(5 * SECOND).await;
    assert!(is_initialized(&cluster.node("node-001").unwrap()));
    assert_eq!(vcenter.take_calls().get("Login"), None);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn an_ended_idle_session_is_replaced_by_one_login_when_a_node_needs_it() {
    let lab = lab_in(Vcenter::new(), 1, PLAIN);
    sleep(10 * SECOND).await;
    lab.cluster.delete("node-000");
    sleep(SECOND).await;
    lab.vcenter.end_session();
    lab.vcenter.take_calls();
    sleep(HOUR).await;
    let calls = lab.vcenter.take_calls();
    assert_eq!(calls.get("Login"), None, "a login without need: {calls:?}");
    assert!(calls.values().sum::<usize>() <= 3, "{calls:?}");
    lab.cluster.join("node-000", &swapped(0));
    sleep(5 * SECOND).await;
    assert!(is_initialized(&lab.cluster.node("node-000").unwrap()));
    assert_eq!(lab.vcenter.take_calls()["Login"], 1);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_idled_out_behind_a_dead_network_heals_with_one_login() {
    let lab = lab_in(Vcenter::new(), 3, PLAIN);
    sleep(10 * SECOND).await;
    lab.vcenter.black_hole(true);
    sleep(2 * HOUR).await;
    lab.vcenter.black_hole(false);
    lab.vcenter.take_calls();
    lab.vcenter.edit("vm-1", |vm| vm.address = Some("10.9.9.9".to_owned()));
    sleep(240 * SECOND).await;
    assert_eq!(crate::scenarios::internal_ip(&lab.cluster.node("node-001").unwrap()), "10.9.9.9");
    assert_eq!(lab.vcenter.take_calls()["Login"], 1);
    lab.finish().await;
}

/// The provider restarts while the vCenter fails. It looks up initialized nodes only once per
/// address period, but it must update them sooner than that.
#[tokio::test(start_paused = true)]
async fn a_provider_started_in_an_outage_updates_known_nodes_soon_after_it() {
    let first = lab_in(Vcenter::new(), 3, PLAIN);
    sleep(10 * SECOND).await;
    let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
    first.finish().await;
    vcenter.fault("Login", "RuntimeFault", 3);
    vcenter.edit("vm-1", |vm| vm.address = Some("10.9.9.9".to_owned()));
    let second = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(60 * SECOND).await;
    assert_eq!(crate::scenarios::internal_ip(&cluster.node("node-001").unwrap()), "10.9.9.9");
    second.finish().await;
}

/// The vCenter first has no such machine and then fails, so the provider pauses its requests.
/// Meanwhile the node's worker must sleep: a busy loop would stop virtual time.
#[tokio::test(start_paused = true)]
async fn a_node_without_a_machine_causes_no_busy_loop_while_the_vcenter_fails() {
    let lab = lab_in(Vcenter::new(), 1, PLAIN);
    sleep(10 * SECOND).await;
    lab.cluster.join("node-001", &swapped(1));
    sleep(5 * SECOND).await;
    lab.vcenter.end_session();
    lab.vcenter.fault("Login", "NotSupported", 5);
    sleep(180 * SECOND).await;
    lab.vcenter.add("vm-1", &uuid(1), "node-001", Some("10.0.0.1"));
    sleep(330 * SECOND).await;
    assert!(is_initialized(&lab.cluster.node("node-001").unwrap()));
    lab.finish().await;
}

pub(crate) fn polling_as(mode: InstancesMode) -> Options {
    let mut options = Options::default();
    options.tuning.mode = mode;
    options
}

#[tokio::test(start_paused = true)]
async fn a_vcenter_without_machines_is_current_again_soon_after_it_recovers() {
    for mode in [InstancesMode::Auto, InstancesMode::Poll] {
        let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
        let lab = start(&vcenter, &cluster, PLAIN, polling_as(mode));
        vcenter.fault("FindAllByUuid", "SystemError", u32::MAX);
        cluster.join("node-001", &swapped(1));
        sleep(30 * SECOND).await;
        assert_eq!(lab.telemetry.vcenters(), [("vc".into(), false)], "{mode:?}");
        cluster.delete("node-001");
        vcenter.fault("FindAllByUuid", "SystemError", 0);
        sleep(600 * SECOND).await;
        assert_eq!(lab.telemetry.vcenters(), [("vc".into(), true)], "{mode:?}");
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_vcenter_without_machines_that_refuses_logins_is_not_current_until_it_recovers() {
    for mode in [InstancesMode::Auto, InstancesMode::Poll] {
        let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
        let lab = start(&vcenter, &cluster, PLAIN, polling_as(mode));
        vcenter.fault("Login", "SystemError", u32::MAX);
        cluster.join("node-001", &swapped(1));
        sleep(30 * SECOND).await;
        cluster.delete("node-001");
        sleep(600 * SECOND).await;
        assert_eq!(lab.telemetry.vcenters(), [("vc".into(), false)], "{mode:?}");
        vcenter.fault("Login", "SystemError", 0);
        sleep(600 * SECOND).await;
        assert_eq!(lab.telemetry.vcenters(), [("vc".into(), true)], "{mode:?}");
        lab.finish().await;
    }
}
