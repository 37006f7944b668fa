//! Tests of the reference of a machine that the provider notes on the machine's Node, to prove
//! after a restart that the machine is gone.

use provider::{InstancesMode, Options};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    cluster::Cluster,
    scenarios::{Lab, PLAIN, SECOND, lab_in, start, swapped, uuid},
    vcenter::Vcenter,
};

const ANNOTATION: &str = "vsphere.cloud-provider/machine";
const GONE: &str = "vsphere.cloud-provider/machine-gone";
const VCENTER: &str = "dbed6e0c-bd88-4ef6-b594-21283e1c677f";

/// Initializes three nodes, stops the provider, applies `change`, makes the second node not ready,
/// and starts a provider again.
async fn restarted(change: impl FnOnce(&Vcenter, &Cluster)) -> Lab {
    let first = lab_in(Vcenter::new().with_identity(), 3, PLAIN);
    sleep(10 * SECOND).await;
    let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
    first.finish().await;
    change(&vcenter, &cluster);
    cluster.set_ready("node-001", false);
    cluster.take_writes();
    vcenter.take_calls();
    start(&vcenter, &cluster, PLAIN, Options::default())
}

fn reference(cluster: &Cluster) -> String {
    let node = cluster.node("node-001").unwrap();
    node["metadata"]["annotations"][ANNOTATION].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_recorded_reference_proves_that_a_machine_is_gone() {
    let lab = restarted(|vcenter, _| vcenter.remove("vm-1")).await;
    sleep(2 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 2);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_storage_or_without_read_privilege_is_not_gone() {
    for hidden in [false, true] {
        let lab = restarted(|vcenter, _| match hidden {
            true => vcenter.hide("vm-1"),
            false => vcenter.edit("vm-1", |vm| vm.uuid.clear()),
        })
        .await;
        assert_eq!(reference(&lab.cluster), format!("{VCENTER}/vm-1"));
        sleep(600 * SECOND).await;
        assert_eq!(lab.cluster.n_nodes(), 3, "hidden: {hidden}");
        // The provider records one event about a machine that it cannot see.
        let writes = lab.cluster.take_writes();
        assert_eq!(writes.len(), usize::from(hidden), "{writes:?}");
        // The provider watches a machine that exists, and from time to time looks up a machine that
        // it cannot see.
        let n_calls: usize = lab.vcenter.take_calls().values().sum();
        assert!(n_calls < 60, "hidden: {hidden}, {n_calls} calls");
        lab.vcenter.show("vm-1");
        lab.vcenter.edit("vm-1", |vm| {
            vm.uuid = uuid(1);
            vm.address = Some("10.0.0.77".to_owned());
        });
        sleep(330 * SECOND).await;
        let node = lab.cluster.node("node-001").unwrap();
        assert!(node["status"]["addresses"].to_string().contains("10.0.0.77"), "hidden: {hidden}");
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_confirmed_deletion_waits_while_a_machine_without_a_uuid_exists() {
    for unreadable in ["", "vm-1", "somewhere/else/vm-1"] {
        let lab = restarted(|vcenter, cluster| {
            vcenter.remove("vm-1");
            vcenter.add("vm-9", "", "another", None);
            let confirmed = format!("vsphere://{}", uuid(1));
            cluster.annotate("node-001", json!({ANNOTATION: unreadable, GONE: confirmed}));
        })
        .await;
        sleep(120 * SECOND).await;
        assert_eq!(lab.cluster.n_nodes(), 3);
        lab.vcenter.edit("vm-9", |vm| vm.uuid = uuid(9));
        sleep(65 * SECOND).await;
        assert_eq!(lab.cluster.n_nodes(), 2);
        lab.finish().await;
    }
}

/// A lookup ends after 20 s, before the provider has read the inventory.
#[tokio::test(start_paused = true)]
async fn a_confirmed_deletion_works_although_the_inventory_takes_longer_than_a_lookup() {
    for mode in [InstancesMode::Auto, InstancesMode::Poll, InstancesMode::V1] {
        let first = lab_in(Vcenter::new().with_identity(), 3, PLAIN);
        sleep(10 * SECOND).await;
        let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
        first.finish().await;
        vcenter.remove("vm-1");
        cluster.annotate("node-001", json!({GONE: format!("vsphere://{}", uuid(1))}));
        cluster.set_ready("node-001", false);
        let mut options = Options::default();
        options.tuning.mode = mode;
        let lab = start(&vcenter, &cluster, PLAIN, options);
        sleep(5 * SECOND).await;
        vcenter.delay("CreateContainerView", 22 * SECOND);
        vcenter.take_calls();
        sleep(150 * SECOND).await;
        let calls = vcenter.take_calls();
        assert_eq!(cluster.n_nodes(), 2, "{mode:?}: {calls:?}");
        // The provider destroys its views; otherwise they would stay in vCenter until the session
        // ends.
        assert_eq!(calls.get("CreateContainerView"), calls.get("DestroyView"), "{mode:?}");
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_never_seen_is_gone_only_when_a_person_says_so() {
    let lab = restarted(|vcenter, cluster| {
        vcenter.hide("vm-1");
        cluster.annotate("node-001", json!({}));
    })
    .await;
    sleep(600 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 3);
    // A confirmation for another machine does not count.
    lab.cluster.annotate("node-001", json!({GONE: format!("vsphere://{}", uuid(2))}));
    sleep(600 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 3);
    lab.cluster.annotate("node-001", json!({GONE: format!("vsphere://{}", uuid(1))}));
    sleep(40 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 2);
    lab.finish().await;
}

/// A failed read is a problem of the vCenter, so the provider does not search for the machines
/// instead.
#[tokio::test(start_paused = true)]
async fn a_failed_read_of_references_is_repeated_without_a_search() {
    let lab = restarted(|vcenter, _| vcenter.fault("RetrievePropertiesEx", "SystemError", 1)).await;
    lab.cluster.set_ready("node-001", true);
    sleep(20 * SECOND).await;
    let calls = lab.vcenter.take_calls();
    assert_eq!((calls["RetrievePropertiesEx"], calls.get("FindAllByUuid")), (2, None), "{calls:?}");
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_names_another_machine_proves_nothing() {
    // The vCenter was restored from a backup: the old vm-1 is vm-101 now, and the login may not see
    // it.
    let lab = restarted(|vcenter, _| {
        vcenter.remove("vm-1");
        vcenter.add("vm-1", &uuid(77), "another", None);
        vcenter.add("vm-101", &uuid(1), "node-001", None);
        vcenter.hide("vm-101");
    })
    .await;
    sleep(600 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 3);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_becomes_another_machine_at_run_time_proves_nothing() {
    let lab = lab_in(Vcenter::new().with_identity(), 3, PLAIN);
    sleep(60 * SECOND).await;
    // The vCenter is restored from a backup that is older than the machine, which keeps running.
    lab.vcenter.remove("vm-1");
    lab.vcenter.add("vm-1", &uuid(77), "another", None);
    lab.cluster.set_ready("node-001", false);
    sleep(600 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 3);
    lab.finish().await;
}

/// At first a server without an instance UUID shows the machines. Then another server with an
/// instance UUID answers.
#[tokio::test(start_paused = true)]
async fn a_reference_from_a_server_without_identity_proves_nothing_in_another_one() {
    for mode in [InstancesMode::Auto, InstancesMode::Poll, InstancesMode::V1] {
        let (vcenter, cluster) = (Vcenter::new().called(""), Cluster::new());
        for n in 0..3 {
            let name = format!("node-{n:03}");
            vcenter.add(&format!("vm-{n}"), &uuid(n), &name, Some(&format!("10.0.0.{}", n + 1)));
            cluster.join(&name, &swapped(n));
        }
        let first = start(&vcenter, &cluster, PLAIN, Options::default());
        sleep(60 * SECOND).await;
        assert!(first.all_initialized());
        first.finish().await;
        let mut options = Options::default();
        options.tuning.mode = mode;
        let lab = start(&vcenter, &cluster, PLAIN, options);
        sleep(60 * SECOND).await;
        lab.vcenter.become_another();
        for n in 0..3 {
            lab.vcenter.remove(&format!("vm-{n}"));
        }
        lab.vcenter.add("vm-900", &uuid(900), "another", None);
        cluster.set_ready("node-001", false);
        sleep(600 * SECOND).await;
        assert_eq!(cluster.n_nodes(), 3, "{mode:?}");
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn references_of_nodes_initialized_by_another_provider_are_recorded_once() {
    let first = lab_in(Vcenter::new().with_identity(), 30, PLAIN);
    sleep(60 * SECOND).await;
    let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
    first.finish().await;
    for n in 0..30 {
        cluster.annotate(&format!("node-{n:03}"), json!({}));
    }
    cluster.take_writes();
    let second = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(SECOND).await;
    let n_soon = cluster.take_writes().len();
    assert!((1..=10).contains(&n_soon), "{n_soon} writes within a second");
    sleep(9 * SECOND).await;
    assert_eq!(n_soon + cluster.take_writes().len(), 30);
    assert_eq!(reference(&cluster), format!("{VCENTER}/vm-1"));
    sleep(600 * SECOND).await;
    assert!(cluster.take_writes().is_empty());
    second.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_reference_that_was_refused_is_recorded_later() {
    let lab = restarted(|_, cluster| {
        cluster.annotate("node-001", json!({}));
        cluster.refuse(500, 3);
    })
    .await;
    sleep(5 * SECOND).await;
    assert_eq!(reference(&lab.cluster), "");
    sleep(60 * SECOND).await;
    assert_eq!(reference(&lab.cluster), format!("{VCENTER}/vm-1"));
    lab.finish().await;
}

/// The API server refused the write of the older reference, which waits for its next attempt.
/// Meanwhile the provider writes the newer reference, alone or together with a new address.
#[tokio::test(start_paused = true)]
async fn a_refused_reference_is_not_written_after_a_newer_one() {
    for address in ["10.0.0.2", "10.0.0.77"] {
        // The fourth pause is longer than the time in which the provider finds the machine under
        // its new id.
        let lab = restarted(|_, cluster| {
            cluster.annotate("node-001", json!({}));
            cluster.refuse(500, 4);
        })
        .await;
        while lab.cluster.n_refusals() > 0 {
            sleep(SECOND / 10).await;
        }
        lab.vcenter.remove("vm-1");
        lab.vcenter.add("vm-101", &uuid(1), "node-001", Some(address));
        let (old, new) = (format!("{VCENTER}/vm-1"), format!("{VCENTER}/vm-101"));
        let changed_at = Instant::now();
        while reference(&lab.cluster) != new {
            assert_ne!(reference(&lab.cluster), old, "{address}: the old one was written");
            assert!(changed_at.elapsed() < 60 * SECOND, "{address}: the new one is not written");
            sleep(SECOND / 10).await;
        }
        let written_at = Instant::now();
        while written_at.elapsed() < 600 * SECOND {
            sleep(SECOND / 10).await;
            let after = written_at.elapsed();
            assert_eq!(reference(&lab.cluster), new, "{address}: after {after:?}");
        }
        lab.finish().await;
    }
}

/// The API server refuses the older reference at the end of a slow write; by then the provider has
/// the newer one.
#[tokio::test(start_paused = true)]
async fn a_reference_that_is_refused_late_is_not_written_after_a_newer_one() {
    let lab = restarted(|_, cluster| {
        cluster.annotate("node-001", json!({}));
        cluster.refuse(500, 1);
        cluster.set_write_time(8 * SECOND);
    })
    .await;
    sleep(SECOND).await;
    lab.vcenter.remove("vm-1");
    lab.vcenter.add("vm-101", &uuid(1), "node-001", Some("10.0.0.77"));
    sleep(60 * SECOND).await;
    for _ in 0..600 {
        assert_eq!(reference(&lab.cluster), format!("{VCENTER}/vm-101"));
        sleep(SECOND).await;
    }
    lab.finish().await;
}

/// The modes `poll` and `v1` need the same evidence for a missing machine, although they search for
/// every machine anew.
#[tokio::test(start_paused = true)]
async fn in_poll_and_v1_mode_a_person_must_confirm_that_a_machine_is_gone() {
    for mode in [InstancesMode::Poll, InstancesMode::V1] {
        let first = lab_in(Vcenter::new().with_identity(), 3, PLAIN);
        sleep(10 * SECOND).await;
        let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
        first.finish().await;
        vcenter.remove("vm-1");
        cluster.annotate("node-001", json!({}));
        cluster.set_ready("node-001", false);
        let mut options = Options::default();
        options.tuning.mode = mode;
        let lab = start(&vcenter, &cluster, PLAIN, options);
        sleep(300 * SECOND).await;
        assert_eq!(lab.cluster.n_nodes(), 3, "{mode:?}: no person has confirmed it");
        lab.cluster.annotate("node-001", json!({GONE: format!("vsphere://{}", uuid(1))}));
        let confirmed_at = Instant::now();
        lab.vcenter.take_calls();
        while lab.cluster.n_nodes() == 3 && confirmed_at.elapsed() < 60 * SECOND {
            sleep(SECOND / 10).await;
        }
        let calls = lab.vcenter.take_calls();
        assert_eq!(lab.cluster.n_nodes(), 2, "{mode:?}: {calls:?}");
        lab.finish().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reference_into_an_unknown_vcenter_keeps_the_node() {
    let lab = restarted(|vcenter, cluster| {
        vcenter.remove("vm-1");
        let elsewhere = "00000000-0000-0000-0000-00000000000b/vm-1";
        cluster.annotate("node-001", json!({ANNOTATION: elsewhere}));
    })
    .await;
    sleep(600 * SECOND).await;
    assert_eq!(lab.cluster.n_nodes(), 3);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn a_reference_follows_a_machine_that_is_registered_anew_in_one_write() {
    let lab = restarted(|vcenter, _| {
        vcenter.remove("vm-1");
        vcenter.add("vm-101", &uuid(1), "node-001", Some("10.0.0.2"));
    })
    .await;
    sleep(600 * SECOND).await;
    assert_eq!(reference(&lab.cluster), format!("{VCENTER}/vm-101"));
    assert_eq!(lab.cluster.take_writes().len(), 1);
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn known_references_are_read_together() {
    let first = lab_in(Vcenter::new().with_identity(), 200, PLAIN);
    sleep(60 * SECOND).await;
    let (vcenter, cluster) = (first.vcenter.clone(), first.cluster.clone());
    assert!(first.all_initialized());
    first.finish().await;
    cluster.take_writes();
    vcenter.take_calls();
    let second = start(&vcenter, &cluster, PLAIN, Options::default());
    sleep(20 * SECOND).await;
    let calls = vcenter.take_calls();
    assert_eq!((calls["RetrievePropertiesEx"], calls.get("FindAllByUuid")), (1, None), "{calls:?}");
    assert!(cluster.take_writes().is_empty());
    second.finish().await;
}
