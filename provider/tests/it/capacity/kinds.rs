//! Management clusters that lack some of the kinds, or get and lose them.

use std::{
    cell::RefCell,
    io::{self, Write},
    sync::Once,
};

use provider::CapacitySettings;
use serde_json::{Value, json};

use super::{DEFINITIONS, Management, NAMESPACE, s};

const TEMPLATES: &str = "vspheremachinetemplates.vmware.infrastructure.cluster.x-k8s.io";
const CLASSES: &str =
    "/apis/vmoperator.vmware.com/v1alpha6/namespaces/workloads/virtualmachineclasses";

thread_local! {
    /// Log of the test on this thread; `None` if the test keeps none.
    static LOG: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Writer of the log of the current thread.
struct ThreadLog;

impl Write for ThreadLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.iter_mut().for_each(|log| log.extend_from_slice(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps the log of this thread. The subscriber is that of all threads, because tracing may forget a
/// subscriber of one thread when tests on other threads log at the same moment.
pub(crate) fn keep_log() {
    static SUBSCRIBER: Once = Once::new();
    SUBSCRIBER.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_writer(|| ThreadLog).with_ansi(false);
        tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
    });
    LOG.set(Some(Vec::new()));
}

/// Returns the number of lines with all these words in the log of this thread.
pub(crate) fn n_logged(words: &[&str]) -> usize {
    let log = LOG.with_borrow(|log| log.clone().unwrap());
    let text = String::from_utf8(log).unwrap();
    text.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
}

async fn create_template(management: &Management) {
    let path = format!(
        "/apis/vmware.infrastructure.cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/vspheremachinetemplates"
    );
    let template = json!({
        "apiVersion": "vmware.infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "VSphereMachineTemplate", "metadata": {"name": "workers"},
        "spec": {"template": {"spec": {"className": "best-effort-small"}}},
    });
    management.create(&path, template).await;
}

async fn status(management: &Management) -> Value {
    let path = format!(
        "/apis/vmware.infrastructure.cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/vspheremachinetemplates/workers"
    );
    management.get(&path).await["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn an_absent_kind_is_logged_once_and_served_as_soon_as_it_is_installed() {
    keep_log();
    let management = Management::supervisor(&[]).await;
    let controller = management.start(CapacitySettings::default()).await;
    tokio::time::sleep(s(1800)).await;
    let absent = "the API server does not serve this kind";
    for kind in [
        TEMPLATES,
        "vspheremachinetemplates.infrastructure.cluster.x-k8s.io",
        "machinedeployments.cluster.x-k8s.io",
        "machinesets.cluster.x-k8s.io",
    ] {
        assert_eq!(n_logged(&[absent, kind]), 1, "{kind}");
    }
    assert_eq!(n_logged(&[absent, "virtualmachineclasses"]), 0);
    management.define(&[TEMPLATES]).await;
    create_template(&management).await;
    tokio::time::sleep(s(65)).await;
    let capacity = json!({"capacity": {"cpu": "2", "memory": "4Gi"}});
    assert_eq!(status(&management).await, capacity);
    assert_eq!(n_logged(&["WARN"]), 0, "an absent kind causes no warning");
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_removed_and_installed_again_is_served_again() {
    let management = Management::supervisor(&[TEMPLATES]).await;
    create_template(&management).await;
    let controller = management.start(CapacitySettings::default()).await;
    assert_ne!(status(&management).await, Value::Null);
    management.delete(&format!("{DEFINITIONS}/{TEMPLATES}")).await;
    tokio::time::sleep(s(600)).await;
    management.define(&[TEMPLATES]).await;
    create_template(&management).await;
    tokio::time::sleep(s(65)).await;
    assert_ne!(status(&management).await, Value::Null);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_listed_delays_no_other() {
    let management = Management::supervisor(&[TEMPLATES]).await;
    create_template(&management).await;
    let forbidden = sim::faults::Action::KubeStatus(sim::faults::KubeStatus::new(403));
    let rule = sim::faults::Rule::new("forbidden", [forbidden]).on(sim::Face::Supervisor);
    let rule = rule.op(["list virtualmachineimages", "list clustervirtualmachineimages"]);
    let _fault = management.sim.fault(rule.client("controller")).unwrap();
    let controller = management.start(CapacitySettings::default()).await;
    let capacity = json!({"capacity": {"cpu": "2", "memory": "4Gi"}});
    assert_eq!(status(&management).await, capacity);
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changes_are_seen_after_many_watches_and_the_stop_is_prompt() {
    let management = Management::supervisor(&[TEMPLATES]).await;
    create_template(&management).await;
    let controller = management.start(CapacitySettings::default()).await;
    tokio::time::sleep(s(8 * 3600)).await;
    let class = format!("{CLASSES}/best-effort-small");
    management.patch(&class, json!({"spec": {"hardware": {"cpus": 6}}})).await;
    tokio::time::sleep(s(5)).await;
    assert_eq!(status(&management).await["capacity"]["cpu"], "6");
    let start = tokio::time::Instant::now();
    controller.stop().await;
    assert!(start.elapsed() < s(1));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_no_longer_served_gives_way_to_another() {
    let management = Management::supervisor(&[TEMPLATES]).await;
    let controller = management.start(CapacitySettings::default()).await;
    let path = format!("{DEFINITIONS}/{TEMPLATES}");
    let mut definition = management.get(&path).await;
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        let is_older = version["name"] == "v1beta1";
        version["served"] = is_older.into();
    }
    management.send("PUT", &path, Some(&definition)).await;
    let older = format!(
        "/apis/vmware.infrastructure.cluster.x-k8s.io/v1beta1/namespaces/{NAMESPACE}/vspheremachinetemplates"
    );
    let template = json!({
        "apiVersion": "vmware.infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "VSphereMachineTemplate", "metadata": {"name": "workers"},
        "spec": {"template": {"spec": {"className": "best-effort-small"}}},
    });
    management.create(&older, template).await;
    tokio::time::sleep(s(60)).await;
    let read = management.get(&format!("{older}/workers")).await;
    assert_eq!(read["status"], json!({"capacity": {"cpu": "2", "memory": "4Gi"}}));
    controller.stop().await;
}
