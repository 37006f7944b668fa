//! Management clusters that lack some of the kinds, or get and lose them.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use provider::CapacitySettings;
use serde_json::{Value, json};
use tracing_subscriber::fmt::MakeWriter;

use super::{DEFINITIONS, Management, NAMESPACE, s};

const TEMPLATES: &str = "vspheremachinetemplates.vmware.infrastructure.cluster.x-k8s.io";
const CLASSES: &str =
    "/apis/vmoperator.vmware.com/v1alpha6/namespaces/workloads/virtualmachineclasses";

/// The log of this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Log {
    fn count(&self, words: &[&str]) -> usize {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }
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
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
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
        assert_eq!(log.count(&[absent, kind]), 1, "{kind}");
    }
    assert_eq!(log.count(&[absent, "virtualmachineclasses"]), 0);
    management.define(&[TEMPLATES]).await;
    create_template(&management).await;
    tokio::time::sleep(s(65)).await;
    let capacity = json!({"capacity": {"cpu": "2", "memory": "4Gi"}});
    assert_eq!(status(&management).await, capacity);
    assert_eq!(log.count(&["WARN"]), 0, "an absent kind is no failure");
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
