//! Tests of the metrics and of the readiness in Supervisor mode (`cpi-supervisor` 3.10).

use super::*;

impl Lab {
    /// Returns the value of the metric with this name and labels (in the form of the scrape); 0 if
    /// it is absent.
    fn value(&self, name: &str) -> i64 {
        let text = self.telemetry.metrics();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0, |value| value.parse().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn machines_view_state_and_last_contact_are_measured() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    assert_eq!(lab.value("vsphere_supervisor_machines"), 3);
    for state in ["syncing", "fresh", "stale", "poll", "get"] {
        let name = format!("vsphere_supervisor_view_state{{state=\"{state}\"}}");
        assert_eq!(lab.value(&name), i64::from(state == "fresh"), "{state}");
    }
    let age = "vsphere_supervisor_last_contact_seconds";
    assert!(lab.value(age) <= 61);
    lab.supervisor.mute(true);
    lab.until(5 * MINUTE, |lab| lab.value(age) > 100).await;
    lab.supervisor.mute(false);
    lab.supervisor.delete(&name(0));
    lab.until(2 * MINUTE, |lab| lab.value("vsphere_supervisor_machines") == 2).await;
    assert!(lab.value(age) <= 61);
}

#[tokio::test(start_paused = true)]
async fn lists_are_counted_by_reason() {
    let lists = |lab: &Lab, reason: &str| {
        lab.value(&format!("vsphere_supervisor_lists_total{{reason=\"{reason}\"}}"))
    };
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    assert_eq!(lists(&lab, "start"), 1);
    lab.supervisor.compact();
    sleep(SECOND).await;
    assert_eq!(lists(&lab, "expired"), 1);
    lab.not_ready(&name(0));
    lab.supervisor.delete(&name(0));
    sleep(10 * SECOND).await;
    assert_eq!(lists(&lab, "proof"), 1);
    lab.supervisor.mute(true);
    sleep(5 * MINUTE).await;
    lab.supervisor.mute(false);
    assert!(lists(&lab, "silent") >= 1);
    sleep(40 * MINUTE).await;
    assert!(lists(&lab, "periodic") >= 1);
    let lab = Lab::joined(3, InstancesMode::Poll).await;
    sleep(11 * MINUTE).await;
    assert!(lists(&lab, "poll") >= 2);
    lab.not_ready(&name(0));
    sleep(10 * SECOND).await;
    assert!(lists(&lab, "asked") >= 1);
}

#[tokio::test(start_paused = true)]
async fn proofs_are_counted_by_result_and_reads_by_reason() {
    let proofs = |lab: &Lab, result: &str| {
        lab.value(&format!("vsphere_supervisor_proofs_total{{result=\"{result}\"}}"))
    };
    let reads = |lab: &Lab, reason: &str, result: &str| {
        let labels = format!("{{reason=\"{reason}\",result=\"{result}\"}}");
        lab.value(&format!("vsphere_supervisor_reads_total{labels}"))
    };
    let lab = Lab::joined(5, InstancesMode::Auto).await;
    lab.cluster.join("early", "");
    sleep(5 * SECOND).await;
    assert!(reads(&lab, "missing", "not_found") >= 1);
    lab.not_ready(&name(0));
    lab.supervisor.delete(&name(0));
    sleep(10 * SECOND).await;
    assert_eq!(proofs(&lab, "gone"), 1);
    lab.not_ready(&name(1));
    lab.supervisor.delete(&name(1));
    lab.supervisor.put(object(&name(1), "", "10.0.0.2"));
    sleep(10 * SECOND).await;
    assert!(proofs(&lab, "unknown") >= 1);
    lab.supervisor.mute(true);
    lab.until(5 * MINUTE, |lab| lab.is_state("stale")).await;
    lab.not_ready(&name(2));
    sleep(10 * SECOND).await;
    assert!(reads(&lab, "stale", "found") >= 1);
    lab.supervisor.mute(false);
    lab.until(5 * MINUTE, |lab| lab.is_state("fresh")).await;
    lab.supervisor.refuse(Refusals { get: None, list: Some(500), watch: None });
    lab.supervisor.delete(&name(3));
    lab.not_ready(&name(3));
    sleep(10 * SECOND).await;
    assert!(proofs(&lab, "failed") >= 1);
    assert!(lab.is_there(&name(3)));
}

#[tokio::test(start_paused = true)]
async fn duplicate_uuids_and_provider_id_mismatches_are_counted() {
    let (supervisor, cluster) = (Supervisor::with(2), Cluster::new());
    supervisor.put(object("copy", "E0000", "10.7.0.1"));
    supervisor.put(object("other", "abc", "10.7.0.2"));
    cluster.put(old_node("other", "vsphere://def"));
    let lab = Lab::start(supervisor, cluster, tuning(InstancesMode::Auto));
    sleep(11 * MINUTE).await;
    assert_eq!(lab.value("vsphere_supervisor_duplicate_uuids"), 1);
    assert_eq!(lab.value("vsphere_supervisor_provider_id_mismatch_total"), 1, "once per node");
    assert_eq!(lab.addresses("other"), ["10.7.0.2"], "as in mode v1");
}

#[tokio::test(start_paused = true)]
async fn readiness_names_the_state_of_the_view_and_why() {
    let lab = Lab::joined(3, InstancesMode::Auto).await;
    assert_eq!(lab.telemetry.supervisor_check(), Some(Ok(())));
    lab.supervisor.refuse(Refusals { get: Some(503), list: Some(503), watch: Some(503) });
    lab.supervisor.cut();
    sleep(10 * SECOND).await;
    let said = lab.telemetry.supervisor_check().unwrap().unwrap_err();
    assert!(
        said.starts_with("view of VirtualMachines is stale: ") && said.contains("503"),
        "{said}"
    );
    lab.supervisor.refuse(Refusals::default());
    sleep(MINUTE).await;
    assert_eq!(lab.telemetry.supervisor_check(), Some(Ok(())));
    lab.supervisor.mute(true);
    lab.until(5 * MINUTE, |lab| lab.telemetry.supervisor_check().unwrap().is_err()).await;
    let said = lab.telemetry.supervisor_check().unwrap().unwrap_err();
    assert_eq!(said, "view of VirtualMachines is stale");
}
