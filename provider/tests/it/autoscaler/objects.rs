//! Log of the server about NodeGroup objects. `conformance` tests their effects.

use std::{io, sync::Arc};

use provider::{
    AutoscalerBackend, AutoscalerDeps, Clock, GroupsSource, Listener, NODE_GROUP_DEFINITION,
    NodeGroupSettings, SupervisorLink, Telemetry, VmOperatorVersion,
};
use serde_json::{Value, json};
use sim::faults::{Action, KubeStatus, Rule};
use tokio::io::DuplexStream;
use tokio_util::sync::CancellationToken;

use crate::capacity::{Management, keep_log, n_logged, s};

const PATH: &str = "/apis/vsphere.cloud-provider/v1alpha1/namespaces/workloads/nodegroups";
/// Permissions for NodeGroups and VirtualMachines.
const ROLE: &str = "
metadata: {name: groups}
rules:
- {apiGroups: [vsphere.cloud-provider], resources: [nodegroups], verbs: [list, watch]}
- {apiGroups: [vsphere.cloud-provider], resources: [nodegroups/status], verbs: [patch]}
- {apiGroups: [vmoperator.vmware.com], resources: [virtualmachines], verbs: [list, watch]}
";

/// A source of connections that has none.
struct Silent;

impl Listener for Silent {
    type Connection = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        std::future::pending().await
    }
}

/// Starts the server over a Supervisor that also has the NodeGroups.
fn start(management: &Management) -> (CancellationToken, tokio::task::JoinHandle<()>) {
    let stop = CancellationToken::new();
    let client = management.controller.clone();
    let link = SupervisorLink { client: client.clone(), namespace: "workloads".to_owned() };
    let settings = NodeGroupSettings::default();
    let deps = AutoscalerDeps {
        backend: AutoscalerBackend::Supervisor {
            link,
            version: VmOperatorVersion::V1Alpha5,
            tokens: None,
        },
        groups: Some(GroupsSource::Objects { client, settings }),
        tls: None,
        gpu_label: String::new(),
        telemetry: Arc::new(Telemetry::of_autoscaler()),
        clock: Clock::starting_at(sim::VIRTUAL_EPOCH),
        seed: 7,
        grace: AutoscalerDeps::GRACE,
        stop: stop.clone(),
    };
    let server = deps.prepare().unwrap();
    (stop, tokio::spawn(async move { server.serve(Silent).await.unwrap() }))
}

fn object(name: &str, min: u32, max: u32) -> Value {
    json!({
        "apiVersion": "vsphere.cloud-provider/v1alpha1", "kind": "NodeGroup",
        "metadata": {"name": name},
        "spec": {"min": min, "max": max, "machine": {"className": "c", "imageName": "i",
            "storageClass": "s", "bootstrap": {"secretName": "b"}}},
    })
}

#[tokio::test(start_paused = true)]
async fn the_log_names_a_wrong_object_once_per_change_and_a_missing_permission_with_the_rule() {
    keep_log();
    let management = Management::supervisor(&[]).await;
    management.install(serde_saphyr::from_str(NODE_GROUP_DEFINITION).unwrap()).await;
    management.grant(ROLE).await;
    management.create(PATH, object("inverted", 3, 2)).await;
    management.create(PATH, object("workers", 0, 2)).await;
    let (stop, running) = start(&management);
    tokio::time::sleep(s(3600)).await;
    let why = "spec: max: 2 is less than min, which is 3; write at least min";
    let words = ["ERROR", "ignoring a group: NodeGroup workloads/inverted: ", why];
    assert_eq!(n_logged(&words), 1);
    let path = format!("{PATH}/inverted");
    management.patch(&path, json!({"spec": {"max": 1}})).await;
    tokio::time::sleep(s(60)).await;
    assert_eq!(n_logged(&["ERROR", "NodeGroup workloads/inverted", "max: 1 is less"]), 1);

    let forbidden = |operation: &str| {
        let refused = Action::KubeStatus(KubeStatus::new(403));
        management.sim.fault(Rule::new("forbidden", [refused]).op([operation])).unwrap()
    };
    let rule = forbidden("patch nodegroups/status");
    management.patch(&path, json!({"spec": {"max": 3}})).await;
    tokio::time::sleep(s(60)).await;
    let remedy = "grant patch of nodegroups/status.vsphere.cloud-provider to the account";
    assert!(n_logged(&["WARN", "workloads/inverted", remedy]) > 0);
    drop(rule);
    let rule = forbidden("watch nodegroups");
    let plane = sim::world::ControlPlane::Supervisor;
    management.sim.apply(sim::world::Command::EndWatches { plane }).unwrap();
    tokio::time::sleep(s(60)).await;
    let remedy = "grant list and watch of nodegroups.vsphere.cloud-provider to the account";
    assert!(n_logged(&["ERROR", "cannot read the NodeGroups", remedy]) > 0, "also later");
    drop(rule);
    stop.cancel();
    running.await.unwrap();
}
