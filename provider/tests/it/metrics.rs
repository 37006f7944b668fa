//! Tests of the metrics of a running provider.

use provider::Options;
use tokio::time::sleep;

use crate::{
    cluster::Cluster,
    scenarios::{Lab, SECOND, ZONES, lab, start, swapped, uuid},
    vcenter::Vcenter,
};

/// Returns the sum of the values of all lines with this name and these labels.
fn value(text: &str, name: &str, labels: &[&str]) -> f64 {
    let of_name =
        |line: &&str| line.strip_prefix(name).is_some_and(|it| it.starts_with(['{', ' ']));
    let lines = text.lines().filter(of_name);
    let lines = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

const CALLS: &str = "cloudprovider_vsphere_api_request_duration_seconds_count";

/// Plays joins, a failed wait, a lost session and held deletions; returns the lab and its metrics.
async fn a_life() -> (Lab, String) {
    let lab = lab(20, ZONES);
    sleep(30 * SECOND).await;
    lab.vcenter.fault("WaitForUpdatesEx", "SystemError", 1);
    lab.vcenter.edit("vm-1", |vm| vm.address = Some("10.9.9.9".to_owned()));
    sleep(30 * SECOND).await;
    lab.vcenter.end_session();
    sleep(5 * SECOND).await;
    for i in 0..6 {
        lab.vcenter.remove(&format!("vm-{i}"));
        lab.cluster.set_ready(&format!("node-{i:03}"), false);
    }
    sleep(20 * SECOND).await;
    let text = lab.telemetry.metrics();
    (lab, text)
}

#[tokio::test(start_paused = true)]
async fn every_call_login_delivery_key_and_hold_is_counted() {
    let (lab, text) = a_life().await;
    let calls = lab.vcenter.take_calls();
    for name in ["Login", "WaitForUpdatesEx", "RetrievePropertiesEx", "CreateFilter"] {
        let request = format!("request=\"{name}\"");
        // The current wait has not ended yet.
        let n_open = f64::from(u32::from(name == "WaitForUpdatesEx"));
        let n_ended = value(&text, CALLS, &["vcenter=\"vc\"", &request]);
        #[expect(clippy::cast_precision_loss, reason = "a handful of calls")]
        let n_made = calls[name] as f64;
        assert!(n_ended == n_made - n_open, "{name}: {n_ended} of {n_made}");
    }
    let failed = value(&text, CALLS, &["code=\"SystemError\"", "request=\"WaitForUpdatesEx\""]);
    let lost = value(&text, CALLS, &["code=\"NotAuthenticated\""]);
    let logins = value(&text, "vsphere_logins_total", &["api=\"soap\"", "code=\"ok\""]);
    let vapi = value(&text, "vsphere_logins_total", &["api=\"vapi\"", "code=\"ok\""]);
    assert!((failed, lost, logins, vapi) == (1.0, 1.0, 2.0, 1.0), "{text}");
    assert!(value(&text, "vsphere_view_builds_total", &[]) >= 2.0, "{text}");
    assert!(value(&text, "vsphere_view_deliveries_total", &["vcenter=\"vc\""]) >= 3.0, "{text}");
    assert!(value(&text, "vsphere_view_updates_total", &["kind=\"enter\""]) >= 40.0, "{text}");
    assert!(value(&text, "vsphere_node_watch_events_total", &["kind=\"applied\""]) >= 20.0);
    assert!(value(&text, "vsphere_node_deletions_held_total", &[]) >= 6.0, "{text}");
    assert!(value(&text, "vsphere_nodes_held", &[]) >= 1.0, "{text}");
    for name in ["name=\"cloud-node\"", "name=\"cloud-node-lifecycle\""] {
        assert!(value(&text, "running_managed_controllers", &[name]) == 1.0, "{text}");
    }
    let nodes = ["name=\"Nodes\""];
    assert!(value(&text, "workqueue_adds_total", &nodes) >= 20.0, "{text}");
    assert!(value(&text, "workqueue_depth", &nodes) == 0.0, "{text}");
    let n_worked = value(&text, "workqueue_work_duration_seconds_count", &nodes);
    let n_waited = value(&text, "workqueue_queue_duration_seconds_count", &nodes);
    assert!(n_worked == n_waited && n_worked >= 20.0, "{text}");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn no_label_names_a_node_or_a_machine_and_the_same_seed_gives_the_same_scrape() {
    let (first, text) = a_life().await;
    let (second, again) = a_life().await;
    assert_eq!(text, again);
    for word in ["node-0", "vm-", "10.0.0.", &uuid(1)] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    first.finish().await;
    second.finish().await;
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_queued_again_count_as_retries() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    cluster.join("node-001", &swapped(1));
    let lab = start(&vcenter, &cluster, ZONES, Options::default());
    sleep(20 * SECOND).await;
    let text = lab.telemetry.metrics();
    assert!(value(&text, "workqueue_retries_total", &["name=\"Nodes\""]) >= 5.0, "{text}");
    lab.finish().await;
}
