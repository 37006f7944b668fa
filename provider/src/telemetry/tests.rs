//! Tests of the text that a scrape returns.

use std::time::Duration;

use provider_vcenter::{MoRef, UpdateKind};

use super::*;
use crate::controllers::WorkQueue;

/// Returns the lines of a scrape that begin with one of these names, without help and type.
fn scrape(telemetry: &Telemetry, names: &[&str]) -> String {
    let text = telemetry.metrics();
    let is_wanted = |line: &&str| names.iter().any(|name| line.starts_with(name));
    text.lines().filter(is_wanted).map(|line| format!("{line}\n")).collect()
}

#[test]
fn metrics_are_text_in_a_fixed_order() {
    let telemetry = Telemetry::default();
    telemetry.controller_started("cloud-node");
    telemetry.set_held(3);
    telemetry.deletion_held();
    telemetry.sync_failed();
    let text = telemetry.metrics();
    assert!(text.contains("running_managed_controllers{name=\"cloud-node\"} 1"), "{text}");
    assert!(text.contains("vsphere_nodes_held 3"), "{text}");
    assert!(text.contains("vsphere_node_deletions_held_total 1"), "{text}");
    assert!(text.contains("vsphere_node_sync_failures_total 1"), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# HELP ")).collect();
    assert!(names.len() > 10 && names.is_sorted(), "{names:?}");
    let n_types = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
    assert_eq!(n_types, names.len(), "a family without a type");
}

#[test]
fn calls_are_counted_and_timed_by_operation_and_code() {
    let telemetry = Telemetry::default();
    let call = |operation, code: &'static str, millis| {
        let took = Duration::from_millis(millis);
        telemetry.called(&Call { vcenter: &"vc".into(), operation, code: code.into(), took });
    };
    call("FindAllByUuid", "ok", 3);
    call("FindAllByUuid", "ok", 7000);
    call("FindAllByUuid", "NoPermission", 3);
    call("Login", "InvalidLogin", 3);
    call("cis.session.create", "ok", 3);
    let seen = scrape(&telemetry, &["cloudprovider_vsphere_api", "vsphere_logins"]);
    let is_brief = |line: &&str| !line.contains("_bucket") || line.contains("le=\"5.0\"");
    let brief: String = seen.lines().filter(is_brief).map(|line| format!("{line}\n")).collect();
    insta::assert_snapshot!(brief, @r#"
    cloudprovider_vsphere_api_request_duration_seconds_sum{vcenter="vc",request="FindAllByUuid",code="NoPermission"} 0.003
    cloudprovider_vsphere_api_request_duration_seconds_count{vcenter="vc",request="FindAllByUuid",code="NoPermission"} 1
    cloudprovider_vsphere_api_request_duration_seconds_bucket{le="5.0",vcenter="vc",request="FindAllByUuid",code="NoPermission"} 1
    cloudprovider_vsphere_api_request_duration_seconds_sum{vcenter="vc",request="FindAllByUuid",code="ok"} 7.003
    cloudprovider_vsphere_api_request_duration_seconds_count{vcenter="vc",request="FindAllByUuid",code="ok"} 2
    cloudprovider_vsphere_api_request_duration_seconds_bucket{le="5.0",vcenter="vc",request="FindAllByUuid",code="ok"} 1
    cloudprovider_vsphere_api_request_duration_seconds_sum{vcenter="vc",request="Login",code="InvalidLogin"} 0.003
    cloudprovider_vsphere_api_request_duration_seconds_count{vcenter="vc",request="Login",code="InvalidLogin"} 1
    cloudprovider_vsphere_api_request_duration_seconds_bucket{le="5.0",vcenter="vc",request="Login",code="InvalidLogin"} 1
    cloudprovider_vsphere_api_request_duration_seconds_sum{vcenter="vc",request="cis.session.create",code="ok"} 0.003
    cloudprovider_vsphere_api_request_duration_seconds_count{vcenter="vc",request="cis.session.create",code="ok"} 1
    cloudprovider_vsphere_api_request_duration_seconds_bucket{le="5.0",vcenter="vc",request="cis.session.create",code="ok"} 1
    vsphere_logins_total{vcenter="vc",api="soap",code="InvalidLogin"} 1
    vsphere_logins_total{vcenter="vc",api="vapi",code="ok"} 1
    "#);
}

#[test]
fn view_deliveries_and_their_updates_are_counted_by_kind() {
    let telemetry = Telemetry::default();
    telemetry.view_built(&"vc".into());
    let update = |kind| provider_vcenter::ObjectUpdate {
        kind,
        object: MoRef::new("VirtualMachine", "vm-1"),
        changes: Vec::new(),
        missing: Vec::new(),
    };
    let set = UpdateSet {
        version: "1".to_owned(),
        truncated: false,
        updates: vec![
            update(UpdateKind::Enter),
            update(UpdateKind::Enter),
            update(UpdateKind::Leave),
        ],
    };
    telemetry.delivered(&"vc".into(), &set);
    telemetry.node_news(NodeNews::Applied);
    insta::assert_snapshot!(scrape(&telemetry, &["vsphere_view_", "vsphere_node_watch"]), @r#"
    vsphere_node_watch_events_total{kind="applied"} 1
    vsphere_view_builds_total{vcenter="vc"} 1
    vsphere_view_deliveries_total{vcenter="vc"} 1
    vsphere_view_updates_total{vcenter="vc",kind="enter"} 2
    vsphere_view_updates_total{vcenter="vc",kind="leave"} 1
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_work_queue_has_the_metrics_of_client_go() {
    let telemetry = Telemetry::default();
    let queue = WorkQueue::new(telemetry.queue("Nodes"));
    for key in ["a", "b", "a"] {
        queue.add(&key.into());
    }
    tokio::time::advance(Duration::from_secs(3)).await;
    let key = queue.get().await;
    tokio::time::advance(Duration::from_secs(2)).await;
    queue.add_rate_limited(&key, Duration::from_secs(1));
    let brief = || {
        let seen = scrape(&telemetry, &["workqueue_"]);
        let is_brief = |line: &&str| !line.contains("_bucket");
        seen.lines().filter(is_brief).map(|line| format!("{line}\n")).collect::<String>()
    };
    insta::assert_snapshot!(brief(), @r#"
    workqueue_adds_total{name="Nodes"} 2
    workqueue_depth{name="Nodes"} 1
    workqueue_longest_running_processor_seconds{name="Nodes"} 2.0
    workqueue_queue_duration_seconds_sum{name="Nodes"} 3.0
    workqueue_queue_duration_seconds_count{name="Nodes"} 1
    workqueue_retries_total{name="Nodes"} 1
    workqueue_unfinished_work_seconds{name="Nodes"} 2.0
    workqueue_work_duration_seconds_sum{name="Nodes"} 0.0
    workqueue_work_duration_seconds_count{name="Nodes"} 0
    "#);
    queue.done(&key);
    insta::assert_snapshot!(brief(), @r#"
    workqueue_adds_total{name="Nodes"} 2
    workqueue_depth{name="Nodes"} 1
    workqueue_longest_running_processor_seconds{name="Nodes"} 0.0
    workqueue_queue_duration_seconds_sum{name="Nodes"} 3.0
    workqueue_queue_duration_seconds_count{name="Nodes"} 1
    workqueue_retries_total{name="Nodes"} 1
    workqueue_unfinished_work_seconds{name="Nodes"} 0.0
    workqueue_work_duration_seconds_sum{name="Nodes"} 2.0
    workqueue_work_duration_seconds_count{name="Nodes"} 1
    "#);
}

#[test]
fn watch_events_that_cannot_be_read_are_counted() {
    let telemetry = Telemetry::default();
    telemetry.supervisor().unreadable();
    let name = "vsphere_supervisor_unreadable_events_total";
    assert_eq!(scrape(&telemetry, &[name]), format!("{name} 1\n"));
}
