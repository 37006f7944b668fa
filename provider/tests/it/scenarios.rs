//! Tests of the provider with a vCenter, from join to deletion, with failures on the way. Other
//! tests use the `Lab` here.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use provider::{
    Clock, Config, Deps, LeaderElection, Options, RunError, Telemetry, UnknownKeys, VcenterName,
};
use serde_json::Value;
use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{cluster::Cluster, vcenter::Vcenter};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn uuid(n: usize) -> String {
    format!("42301ab2-c3d4-e5f6-0000-{n:012}")
}

/// The UUID of machine `n`, as a guest of hardware version 13 reports it.
pub(crate) fn swapped(n: usize) -> String {
    format!("b21a3042-d4c3-f6e5-0000-{n:012}")
}

pub(crate) fn lines(calls: &BTreeMap<String, usize>) -> String {
    calls.iter().map(|(name, n)| format!("{name} {n}\n")).collect()
}

/// A running provider with its fake vCenter and cluster.
pub(crate) struct Lab {
    pub(crate) vcenter: Vcenter,
    pub(crate) cluster: Cluster,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) stop: CancellationToken,
    pub(crate) running: JoinHandle<Result<(), RunError>>,
}

pub(crate) fn start(vcenter: &Vcenter, cluster: &Cluster, config: &str, options: Options) -> Lab {
    start_with(&[vcenter], cluster, config, options)
}

/// Starts a provider. The fakes serve the vCenters of the configuration, in order of name; if there
/// are fewer fakes, the last one serves the remaining vCenters.
pub(crate) fn start_with(
    vcenters: &[&Vcenter],
    cluster: &Cluster,
    config: &str,
    options: Options,
) -> Lab {
    start_edited(vcenters, cluster, config, options, |_| {})
}

/// Like [`start_with`], but lets `edit` change the dependencies first.
pub(crate) fn start_edited(
    vcenters: &[&Vcenter],
    cluster: &Cluster,
    config: &str,
    options: Options,
    edit: impl FnOnce(&mut Deps),
) -> Lab {
    let vcenter = vcenters[0];
    let (config, _) = Config::parse("vsphere.conf", config, UnknownKeys::Refuse).unwrap();
    let transports: BTreeMap<VcenterName, _> = config
        .vcenters
        .iter()
        .enumerate()
        .map(|(i, v)| (v.endpoint.name.clone(), vcenters[i.min(vcenters.len() - 1)].transport()))
        .collect();
    let mut deps = Deps {
        connect: Arc::new(move |v| Ok(transports[&v.endpoint.name].clone())),
        identity: "a".to_owned(),
        clock: Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()),
        ..Deps::new(cluster.client())
    };
    edit(&mut deps);
    let (stop, telemetry) = (deps.stop.clone(), Arc::clone(&deps.telemetry));
    let running = tokio::spawn(provider::run(config, options, deps));
    Lab { vcenter: vcenter.clone(), cluster: cluster.clone(), telemetry, stop, running }
}

pub(crate) const PLAIN: &str = "global: {server: vc, user: ccm, password: secret}";
pub(crate) const ZONES: &str = "global: {server: vc, user: ccm, password: secret}\nlabels: {zone: k8s-zone, region: k8s-region}";

/// Sets the annotation with which a person confirms that the machine of node `n` is gone.
pub(crate) fn confirm_gone(cluster: &Cluster, n: usize) {
    let confirmed = format!("vsphere://{}", uuid(n));
    let annotations = serde_json::json!({"vsphere.cloud-provider/machine-gone": confirmed});
    cluster.annotate(&format!("node-{n:03}"), annotations);
}

/// Starts a provider with `n` nodes and machines, in a vCenter with tags for zone and region.
pub(crate) fn lab(n: usize, config: &str) -> Lab {
    lab_in(Vcenter::new().with_zones(), n, config)
}

pub(crate) fn lab_in(vcenter: Vcenter, n: usize, config: &str) -> Lab {
    let cluster = Cluster::new();
    for i in 0..n {
        let name = format!("node-{i:03}");
        vcenter.add(
            &format!("vm-{i}"),
            &uuid(i),
            &name,
            Some(&format!("10.0.{}.{}", i / 250, i % 250 + 1)),
        );
        cluster.join(&name, &swapped(i));
    }
    start(&vcenter, &cluster, config, Options::default())
}

pub(crate) fn is_initialized(node: &Value) -> bool {
    node["spec"]["providerID"].as_str().is_some_and(|id| id.starts_with("vsphere://"))
        && node["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
        && node["status"]["addresses"].as_array().is_some_and(|a| !a.is_empty())
}

pub(crate) fn internal_ip(node: &Value) -> String {
    let addresses = node["status"]["addresses"].as_array().unwrap();
    let found = addresses.iter().find(|a| a["type"] == "InternalIP").unwrap();
    found["address"].as_str().unwrap().to_owned()
}

impl Lab {
    pub(crate) fn all_initialized(&self) -> bool {
        (0..self.cluster.n_nodes())
            .all(|i| is_initialized(&self.cluster.node(&format!("node-{i:03}")).unwrap()))
    }

    /// Waits until the run ends by itself, and returns its result.
    pub(crate) async fn ended(self) -> Result<(), RunError> {
        self.running.await.unwrap()
    }

    pub(crate) async fn finish(self) {
        self.stop.cancel();
        self.running.await.unwrap().unwrap();
        assert!(!self.vcenter.has_session(), "the session still exists");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_joins_with_addresses_labels_and_provider_id() {
    let lab = lab(1, ZONES);
    sleep(5 * SECOND).await;
    let node = lab.cluster.node("node-000").unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&serde_json::json!([
        node["spec"], node["metadata"]["labels"], node["status"]["addresses"],
    ])).unwrap(), @r#"
    [
      {
        "providerID": "vsphere://42301ab2-c3d4-e5f6-0000-000000000000"
      },
      {
        "beta.kubernetes.io/instance-type": "vsphere-vm.cpu-4.mem-8gb.os-ubuntu",
        "failure-domain.beta.kubernetes.io/region": "eu",
        "failure-domain.beta.kubernetes.io/zone": "a",
        "node.kubernetes.io/instance-type": "vsphere-vm.cpu-4.mem-8gb.os-ubuntu",
        "topology.kubernetes.io/region": "eu",
        "topology.kubernetes.io/zone": "a"
      },
      [
        {
          "type": "Hostname",
          "address": "node-000"
        },
        {
          "type": "InternalIP",
          "address": "10.0.0.1"
        },
        {
          "type": "ExternalIP",
          "address": "10.0.0.1"
        }
      ]
    ]
    "#);
    insta::assert_snapshot!(lines(&lab.vcenter.take_calls()), @r#"
    CreateFilter 1
    CreateListView 1
    FindAllByUuid 1
    GET id 4
    Login 1
    POST session 1
    POST tag-association?~action=list-attached-tags-on-objects 1
    RetrievePropertiesEx 1
    RetrieveServiceContent 1
    WaitForUpdatesEx 2
    "#);
    insta::assert_snapshot!(lab.cluster.take_writes().join("\n"), @r#"
    PATCH nodes/node-000/status
    PATCH nodes/node-000
    POST namespaces/default/events
    "#);
    assert_eq!(lab.cluster.events(), ["Synced"]);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn many_nodes_join_in_few_calls() {
    let lab = lab(500, ZONES);
    sleep(120 * SECOND).await;
    assert!(lab.all_initialized());
    let calls = lab.vcenter.take_calls();
    let n_calls: usize = calls.values().sum();
    assert!(n_calls <= 20 + 500 / 50, "{calls:?}");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn unchanged_nodes_cause_no_vcenter_call_except_the_wait_for_updates() {
    let lab = lab(50, ZONES);
    sleep(60 * SECOND).await;
    assert!(lab.all_initialized());
    lab.vcenter.take_calls();
    lab.cluster.take_writes();
    sleep(3600 * SECOND).await;
    let calls = lab.vcenter.take_calls();
    assert!(calls.keys().all(|name| name == "WaitForUpdatesEx"), "{calls:?}");
    assert!(calls.values().sum::<usize>() <= 3600 / 30, "{calls:?}");
    assert!(lab.cluster.take_writes().is_empty());
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn addresses_follow_the_guest_and_survive_its_silence() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    lab.vcenter.edit("vm-1", |vm| vm.address = Some("10.9.9.9".to_owned()));
    sleep(SECOND).await;
    assert_eq!(internal_ip(&lab.cluster.node("node-001").unwrap()), "10.9.9.9");
    lab.cluster.take_writes();
    lab.vcenter.edit("vm-1", |vm| vm.address = None);
    sleep(700 * SECOND).await;
    assert_eq!(internal_ip(&lab.cluster.node("node-001").unwrap()), "10.9.9.9");
    assert!(lab.cluster.take_writes().is_empty());
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn addresses_of_an_unreadable_guest_are_kept_and_read_again() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    let before = lab.cluster.node("node-001").unwrap();
    lab.vcenter.tear_guests(true);
    lab.vcenter.edit("vm-1", |vm| vm.address = Some("10.0.0.99".to_owned()));
    lab.vcenter.end_session();
    sleep(310 * SECOND).await;
    assert_eq!(lab.cluster.node("node-001").unwrap()["status"], before["status"]);
    lab.vcenter.take_calls();
    sleep(300 * SECOND).await;
    let n_reads = lab.vcenter.take_calls()["RetrievePropertiesEx"];
    assert!((3..=5).contains(&n_reads), "{n_reads} reads for three machines in five minutes");
    // The guest becomes readable again, but no update reports that.
    lab.vcenter.tear_guests(false);
    sleep(100 * SECOND).await;
    assert_eq!(internal_ip(&lab.cluster.node("node-001").unwrap()), "10.0.0.99");
    lab.vcenter.take_calls();
    sleep(300 * SECOND).await;
    assert_eq!(lab.vcenter.take_calls().get("RetrievePropertiesEx"), None);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_off_taints_its_node_until_it_is_ready() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    lab.vcenter.edit("vm-1", |vm| vm.power = "poweredOff");
    sleep(20 * SECOND).await;
    assert!(
        lab.cluster.node("node-001").unwrap()["spec"]["taints"].is_null(),
        "a ready node got a taint"
    );
    lab.vcenter.take_calls();
    lab.cluster.set_ready("node-001", false);
    sleep(20 * SECOND).await;
    let taints = lab.cluster.node("node-001").unwrap()["spec"]["taints"].clone();
    assert_eq!(taints[0]["key"], "node.cloudprovider.kubernetes.io/shutdown");
    assert_eq!(
        lab.cluster.take_writes().iter().filter(|w| **w == "PATCH nodes/node-001").count(),
        2,
        "once to initialize, once to taint"
    );
    let calls = lab.vcenter.take_calls();
    assert!(calls.keys().all(|name| name == "WaitForUpdatesEx"), "{calls:?}");
    lab.vcenter.edit("vm-1", |vm| vm.power = "poweredOn");
    lab.cluster.set_ready("node-001", true);
    sleep(10 * SECOND).await;
    assert!(lab.cluster.node("node-001").unwrap()["spec"]["taints"].is_null());
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_machine_takes_its_node_along_in_four_calls() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    lab.vcenter.take_calls();
    lab.vcenter.remove("vm-1");
    sleep(SECOND).await;
    lab.cluster.set_ready("node-001", false);
    sleep(10 * SECOND).await;
    assert!(lab.cluster.node("node-001").is_none());
    assert_eq!(lab.cluster.n_nodes(), 2);
    let calls = lab.vcenter.take_calls();
    assert!(calls.values().sum::<usize>() <= 4, "{calls:?}");
    assert!(lab.cluster.events().contains(&"DeletingNode".to_owned()));
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_be_seen_is_not_gone() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    lab.vcenter.hide("vm-1");
    lab.cluster.set_ready("node-001", false);
    sleep(600 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 3);
    lab.vcenter.show("vm-1");
    lab.vcenter.edit("vm-1", |vm| vm.power = "poweredOff");
    sleep(60 * SECOND).await;
    let taints = lab.cluster.node("node-001").unwrap()["spec"]["taints"].clone();
    assert_eq!(taints[0]["key"], "node.cloudprovider.kubernetes.io/shutdown", "visible again");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn flapping_addresses_are_damped_and_the_last_one_is_published() {
    let lab = lab(1, PLAIN);
    sleep(60 * SECOND).await;
    lab.cluster.take_writes();
    for i in 0..40 {
        lab.vcenter.edit("vm-0", |vm| vm.address = Some(format!("10.7.0.{i}")));
        sleep(SECOND).await;
    }
    sleep(40 * SECOND).await;
    assert_eq!(internal_ip(&lab.cluster.node("node-000").unwrap()), "10.7.0.39");
    let n_writes = lab.cluster.take_writes().len();
    assert!(n_writes <= 6, "{n_writes}");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_makes_the_same_calls() {
    let mut transcripts = Vec::new();
    for _ in 0..2 {
        let lab = lab(40, ZONES);
        sleep(60 * SECOND).await;
        lab.vcenter.fault("WaitForUpdatesEx", "SystemError", 3);
        lab.vcenter.edit("vm-3", |vm| vm.address = None);
        lab.vcenter.remove("vm-4");
        lab.cluster.set_ready("node-004", false);
        sleep(600 * SECOND).await;
        transcripts.push((lab.vcenter.take_transcript(), lab.cluster.take_writes()));
        lab.finish().await;
    }
    assert_eq!(transcripts[0], transcripts[1]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_vcenter_deletes_no_node_and_is_used_again_when_it_answers() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    lab.vcenter.black_hole(true);
    lab.vcenter.remove("vm-1");
    lab.cluster.set_ready("node-001", false);
    sleep(600 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 3);
    lab.vcenter.black_hole(false);
    sleep(240 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 2, "{:?}", lab.vcenter.take_calls());
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_session_costs_one_login_and_no_write() {
    let lab = lab(100, ZONES);
    sleep(60 * SECOND).await;
    assert!(lab.all_initialized());
    lab.vcenter.take_calls();
    lab.cluster.take_writes();
    lab.vcenter.end_session();
    sleep(SECOND).await;
    let calls = lab.vcenter.take_calls();
    assert_eq!(calls.get("Login"), Some(&1), "{calls:?}");
    assert!(calls.values().sum::<usize>() <= 10 + 100 / 50, "{calls:?}");
    lab.vcenter.edit("vm-7", |vm| vm.address = Some("10.9.9.9".to_owned()));
    sleep(SECOND).await;
    assert_eq!(internal_ip(&lab.cluster.node("node-007").unwrap()), "10.9.9.9");
    assert_eq!(lab.cluster.take_writes().len(), 1);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn every_fault_of_the_wait_is_survived() {
    for fault in [
        "InvalidCollectorVersion",
        "RequestCanceled",
        "NotAuthenticated",
        "SystemError",
        "ManagedObjectNotFound",
    ] {
        let lab = lab(3, PLAIN);
        sleep(10 * SECOND).await;
        lab.vcenter.fault("WaitForUpdatesEx", fault, 1);
        lab.vcenter.edit("vm-0", |vm| vm.address = Some("10.8.8.8".to_owned()));
        sleep(30 * SECOND).await;
        lab.vcenter.edit("vm-1", |vm| vm.address = Some("10.9.9.9".to_owned()));
        sleep(30 * SECOND).await;
        assert_eq!(internal_ip(&lab.cluster.node("node-000").unwrap()), "10.8.8.8", "{fault}");
        assert_eq!(internal_ip(&lab.cluster.node("node-001").unwrap()), "10.9.9.9", "{fault}");
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_linked_to_neither_of_two_machines_with_its_uuid() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    vcenter.add("vm-1", &uuid(1), "node-001", Some("10.0.0.1"));
    vcenter.add("vm-2", &uuid(1), "node-001", Some("10.0.0.2"));
    cluster.join("node-001", &swapped(1));
    let lab = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(300 * SECOND).await;
    assert!(lab.cluster.take_writes().is_empty());
    lab.vcenter.remove("vm-2");
    sleep(300 * SECOND).await;
    assert!(is_initialized(&lab.cluster.node("node-001").unwrap()));
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn deletions_of_many_nodes_at_once_are_held_and_then_released() {
    let lab = lab(20, PLAIN);
    sleep(10 * SECOND).await;
    for i in 0..6 {
        lab.vcenter.remove(&format!("vm-{i}"));
        lab.cluster.set_ready(&format!("node-{i:03}"), false);
    }
    sleep(25 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 20);
    assert!(lab.cluster.events().contains(&"NodeDeletionHeld".to_owned()));
    sleep(15 * SECOND).await;
    assert!(lab.cluster.n_nodes() < 20 && lab.cluster.n_nodes() >= 14);
    sleep(60 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 14);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn another_vcenter_at_the_same_address_deletes_no_node_and_gets_no_login() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    for i in 0..3 {
        lab.vcenter.remove(&format!("vm-{i}"));
        lab.cluster.set_ready(&format!("node-{i:03}"), false);
    }
    lab.vcenter.become_another();
    sleep(600 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 3);
    assert_eq!(lab.vcenter.take_calls().get("Login"), Some(&1), "no credential to another vCenter");
    lab.stop.cancel();
    lab.running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_tried_at_most_five_times_in_ten_minutes() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    cluster.join("node-001", &swapped(1));
    let config = "global: {server: vc, user: ccm, password: wrong}";
    let lab = start(&vcenter, &cluster, config, Options::default());
    sleep(600 * SECOND).await;
    let n_logins = lab.vcenter.take_calls()["Login"];
    assert!((3..=5).contains(&n_logins), "{n_logins}");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing_and_a_confirmed_deletion_takes_two_searches() {
    // The instance UUID of this vCenter is not a valid UUID, so no node has a reference.
    let first = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
    first.finish().await;
    cluster.take_writes();
    let second = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(600 * SECOND).await;
    assert!(cluster.take_writes().is_empty());
    second.finish().await;
    vcenter.remove("vm-1");
    cluster.set_ready("node-001", false);
    let third = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(600 * SECOND).await;
    assert_eq!(cluster.n_nodes(), 3);
    confirm_gone(&cluster, 1);
    sleep(4 * SECOND).await;
    assert_eq!(cluster.n_nodes(), 3);
    sleep(30 * SECOND).await;
    assert_eq!(cluster.n_nodes(), 2);
    third.finish().await;
}

#[tokio::test(start_paused = true)]
async fn the_leader_works_under_its_lease_and_releases_it_at_the_end() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    vcenter.add("vm-1", &uuid(1), "node-001", Some("10.0.0.1"));
    let options =
        Options { leader_election: Some(LeaderElection::default()), ..Options::default() };
    let leader = start(&vcenter, &cluster, PLAIN, options);
    sleep(5 * SECOND).await;
    assert_eq!(cluster.lease_holder().as_deref(), Some("a"));
    cluster.join("node-001", &swapped(1));
    sleep(5 * SECOND).await;
    assert!(is_initialized(&cluster.node("node-001").unwrap()));
    leader.finish().await;
    assert_eq!(cluster.lease_holder().as_deref(), Some(""));
    assert_eq!(cluster.lease_duration(), Some(1), "as client-go leaves it");
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_run() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    let options =
        Options { leader_election: Some(LeaderElection::default()), ..Options::default() };
    let lab = start(&vcenter, &cluster, PLAIN, options);
    sleep(5 * SECOND).await;
    cluster.set_down(true);
    let ended = tokio::time::timeout(15 * SECOND, lab.running).await.unwrap().unwrap();
    assert!(matches!(ended, Err(RunError::LeadershipLost)), "{ended:?}");
}

const TWO: &str =
    "global: {user: ccm, password: secret}\nvcenter: {a: {server: a}, b: {server: b}}";

#[tokio::test(start_paused = true)]
async fn a_vcenter_that_is_down_does_not_hold_up_the_other_and_protects_its_nodes() {
    let (a, b, cluster) = (Vcenter::new(), Vcenter::new(), Cluster::new());
    a.add("vm-1", &uuid(1), "node-001", Some("10.0.0.1"));
    b.add("vm-1", &uuid(2), "node-002", Some("10.0.0.2"));
    cluster.join("node-001", &swapped(1));
    cluster.join("node-002", &swapped(2));
    b.black_hole(true);
    let lab = start_with(&[&a, &b], &cluster, TWO, Options::default());
    sleep(5 * SECOND).await;
    assert!(is_initialized(&cluster.node("node-001").unwrap()));
    assert!(!is_initialized(&cluster.node("node-002").unwrap()));
    // The vCenter that answers does not have the machine any more, but the other one might have it.
    a.remove("vm-1");
    cluster.set_ready("node-001", false);
    sleep(300 * SECOND).await;
    assert_eq!(cluster.n_nodes(), 2);
    b.black_hole(false);
    sleep(120 * SECOND).await;
    assert!(cluster.node("node-001").is_none());
    assert!(is_initialized(&cluster.node("node-002").unwrap()));
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_is_not_linked_while_two_vcenters_have_its_uuid() {
    let (a, b, cluster) = (Vcenter::new(), Vcenter::new(), Cluster::new());
    a.add("vm-1", &uuid(1), "node-001", Some("10.0.0.1"));
    b.add("vm-9", &uuid(1), "node-001", Some("10.0.0.1"));
    cluster.join("node-001", &swapped(1));
    let lab = start_with(&[&a, &b], &cluster, TWO, Options::default());
    sleep(120 * SECOND).await;
    assert!(cluster.take_writes().is_empty());
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn the_old_node_of_a_machine_recreated_under_the_same_name_is_deleted() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    lab.vcenter.remove("vm-1");
    lab.vcenter.add("vm-77", &uuid(77), "node-001", Some("10.0.0.77"));
    lab.cluster.set_ready("node-001", false);
    sleep(30 * SECOND).await;
    assert!(
        lab.cluster.node("node-001").is_none(),
        "the old node is not matched to the new machine"
    );
    lab.cluster.join("node-001", &swapped(77));
    sleep(30 * SECOND).await;
    assert_eq!(internal_ip(&lab.cluster.node("node-001").unwrap()), "10.0.0.77");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_follows_a_machine_that_is_registered_again() {
    let lab = lab(3, PLAIN);
    sleep(10 * SECOND).await;
    lab.vcenter.remove("vm-1");
    lab.vcenter.add("vm-101", &uuid(1), "node-001", Some("10.0.0.55"));
    sleep(320 * SECOND).await;
    assert_eq!(internal_ip(&lab.cluster.node("node-001").unwrap()), "10.0.0.55");
    lab.cluster.set_ready("node-001", false);
    sleep(60 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 3);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_appears_late_is_found_when_its_node_changes() {
    let (vcenter, cluster) = (Vcenter::new(), Cluster::new());
    cluster.join("node-001", &swapped(1));
    let lab = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(60 * SECOND).await;
    let n_searches = vcenter.take_calls()["FindAllByUuid"];
    assert!(n_searches <= 2 * 16, "{n_searches}");
    vcenter.add("vm-1", &uuid(1), "node-001", Some("10.0.0.1"));
    cluster.set_ready("node-001", true);
    sleep(2 * SECOND).await;
    assert!(is_initialized(&cluster.node("node-001").unwrap()));
    lab.finish().await;
}
