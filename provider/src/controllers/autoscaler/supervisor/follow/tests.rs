//! Test of the view against the API server of a simulated Supervisor.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use sim::{Sim, world::Topology};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::{super::backend::Backend as _, SupervisorMachines, machine::*};
use crate::{
    SupervisorLink, TokenSource, authenticated,
    controllers::autoscaler::group::{MachineKind, parse},
    model::Clock,
    supervisor::VmOperatorVersion,
    tasks::Tasks,
    telemetry::Telemetry,
};

const MACHINES: &str = "/apis/vmoperator.vmware.com/v1alpha5/namespaces/workloads/virtualmachines";
const GROUPS: &str = "groups: [{name: g, max: 3, machine: {className: best-effort-small, \
                      imageName: vmi-0123456789abcdef0, storageClass: default, bootstrap: {secretName: b}}}]";

async fn send(client: &kube::Client, method: &str, path: &str, body: Option<&Value>) {
    let body = body.map(|it| it.to_string().into_bytes()).unwrap_or_default();
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json").body(body).unwrap();
    client.request::<Value>(request).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_view_follows_the_objects_through_many_watches_with_one_list() {
    let sim = Sim::builder().topology(Topology::zones(1).machines(0).supervisor()).start();
    let supervisor = sim.supervisor().unwrap();
    let token = supervisor.admin_token().to_owned();
    let tokens = TokenSource::new(Arc::new(move || Ok(token.clone().into_bytes())));
    let client = kube::Client::new(supervisor.server().service("server"), "workloads");
    let agent = http::HeaderValue::from_static("server");
    let client = authenticated(client, Arc::new(tokens), agent);
    let clock = Clock::starting_at(sim::VIRTUAL_EPOCH);
    let version = VmOperatorVersion::V1Alpha5;
    let telemetry = Telemetry::of_autoscaler();
    let link = SupervisorLink { client: client.clone(), namespace: "workloads".to_owned() };
    let (machines, _) = SupervisorMachines::new(link, version, None, clock, 1, &telemetry);
    let tasks = Tasks::new(&CancellationToken::new(), &CancellationToken::new());
    machines.spawn(&tasks);
    let group =
        parse("f", GROUPS, &MachineKind::virtual_machines("workloads")).unwrap().groups.remove(0);
    let wait = |seconds| tokio::time::sleep(Duration::from_secs(seconds));

    assert!(machines.usable().is_err(), "nothing was listed yet");
    wait(1).await;
    assert_eq!((machines.usable(), machines.members(&group).instances.len()), (Ok(()), 0));
    for n in 1..=2 {
        let name = format!("g-abcd{n}");
        let new = NewMachine { name, bios_uuid: Uuid::from_u128(n), held_until: None };
        let object = manifest(&group, "workloads", "v1alpha5", &new);
        send(&client, "POST", MACHINES, Some(&object)).await;
    }
    wait(1).await;
    assert_eq!(machines.members(&group).instances.len(), 2);
    wait(3600).await;
    assert_eq!(machines.usable(), Ok(()), "bookmarks prove that the view is current");
    send(&client, "DELETE", &format!("{MACHINES}/g-abcd1"), None).await;
    wait(60).await;
    assert_eq!(machines.members(&group).instances.len(), 1);
    assert_eq!(sim.ledger().counts().of("list virtualmachines"), 1);
    assert!(sim.ledger().counts().of("watch virtualmachines") > 10);
    assert!(tasks.stop(Duration::from_secs(10)).await);
}
