//! Tests of the Supervisor from a provider's side: its objects, tokens and roles, which are
//! separate from those of the workload cluster.

mod credentials;
mod faults;
mod life;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use sim::faults::{Action, Rule};
use sim::world::{Command, Topology};
use sim::{Face, Profile, Sim};
use tower::ServiceExt as _;

const MACHINES: &str = "/apis/vmoperator.vmware.com/v1alpha6/namespaces/workloads/virtualmachines";

/// Sends a GET request with the provider's token. Returns status and body.
async fn get(sim: &Sim, path: &str) -> (u16, Value) {
    let token = sim.supervisor().expect("the world has a Supervisor").current_token();
    let (status, _, body) = ask(sim, Method::GET, path, &token, Value::Null).await;
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

/// Sends a request with the administrator's token, and a body unless it is null. Returns status and
/// body.
async fn admin(sim: &Sim, method: Method, path: &str, body: Value) -> (u16, Value) {
    let token = sim.supervisor().expect("the world has a Supervisor").admin_token().to_owned();
    let (status, _, body) = ask(sim, method, path, &token, body).await;
    (status, serde_json::from_slice(&body).unwrap_or_default())
}

async fn ask(
    sim: &Sim,
    method: Method,
    path: &str,
    token: &str,
    body: Value,
) -> (u16, HeaderMap, Bytes) {
    let response = answer(sim, method, path, token, body).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    (parts.status.as_u16(), parts.headers, body)
}

async fn answer(
    sim: &Sim,
    method: Method,
    path: &str,
    token: &str,
    body: Value,
) -> std::io::Result<http::Response<sim::Body>> {
    let supervisor = sim.supervisor().expect("the world has a Supervisor");
    let kind = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", kind)
        .body(Full::new(body))
        .expect("a request");
    supervisor.server().service("").oneshot(request).await
}

/// Lets this number of seconds of virtual time pass.
async fn pass(seconds: u64) {
    tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
}

fn builder() -> sim::Builder {
    Sim::builder().topology(Topology::zones(3).machines(5).supervisor())
}

sim::test! {
    async fn machines_are_objects_of_the_namespace(sim: &Sim = builder()) {
        let (status, list) = get(sim, MACHINES).await;
        assert_eq!((status, list["items"].as_array().map(Vec::len)), (200, Some(5)));
        let first = &list["items"][0];
        assert_eq!(first["metadata"]["name"], "node-0001");
        let uuid = sim.world().read(|world| {
            let machines = &world.vcenter("vc0").expect("the world has vc0").inventory;
            let id = machines.by_machine_name("node-0001").next().expect("the machine exists");
            machines.machine(id).and_then(|machine| machine.config.uuid).expect("a BIOS UUID")
        });
        assert_eq!(first["status"]["biosUUID"], uuid.to_string());
        assert!(first["status"]["network"]["primaryIP4"].is_string(), "{first}");
    }

    async fn the_granted_profile_decides_over_watches_and_lists_of_the_provider(sim: &Sim = builder()) {
        let supervisor = sim.supervisor().expect("the world has a Supervisor");
        let watch = format!("{MACHINES}?watch=true&timeoutSeconds=1");
        let services = MACHINES.replace("virtualmachines", "virtualmachineservices");
        for (profile, watching, listing_services) in
            [(Profile::Tanzu, 403, 403), (Profile::Watch, 200, 403), (Profile::Full, 200, 200)]
        {
            supervisor.grant(profile);
            assert_eq!(get(sim, MACHINES).await.0, 200, "{profile:?}");
            assert_eq!(get(sim, &watch).await.0, watching, "{profile:?}");
            assert_eq!(get(sim, &services).await.0, listing_services, "{profile:?}");
        }
        supervisor.grant(Profile::Tanzu);
        let (_, refused) = get(sim, &watch).await;
        assert_eq!(
            refused["message"],
            "virtualmachines.vmoperator.vmware.com is forbidden: User \"system:serviceaccount:workloads:cloud-provider\" cannot watch resource \"virtualmachines\" in API group \"vmoperator.vmware.com\" in the namespace \"workloads\""
        );
        assert_eq!(get(sim, "/api/v1/namespaces/workloads/secrets").await.0, 403);
    }

    async fn a_revoked_provider_token_is_unauthorized_at_the_supervisor(sim: &Sim = builder()) {
        let supervisor = sim.supervisor().expect("the world has a Supervisor");
        supervisor.tokens().revoke(supervisor.provider_token());
        assert_eq!(get(sim, MACHINES).await.0, 401);
    }

    async fn calls_to_the_supervisor_are_faulted_and_recorded_under_its_face(sim: &Sim = builder()) {
        let rule = Rule::new("busy", [Action::status(503)]);
        sim.fault(rule.on(Face::Supervisor).op(["list virtualmachines"]))
            .expect("the rule is valid").keep();
        assert_eq!(get(sim, MACHINES).await.0, 503);
        let records = sim.ledger().records();
        let last = records.iter().rev().find(|record| record.face.is_some()).expect("a call");
        assert_eq!(last.face, Some(Face::Supervisor));
    }

    async fn a_running_machine_without_tools_has_no_network_status(sim: &Sim = builder()) -> Result<(), sim::world::Fault> {
        sim.apply(Command::StopTools("node-0002".into()))?;
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let (_, object) = get(sim, &format!("{MACHINES}/node-0002")).await;
        assert_eq!(object["status"]["network"], Value::Null, "{object}");
        assert_eq!(object["status"]["powerState"], "PoweredOn");
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_sim_without_a_supervisor_returns_none() {
    let sim = Sim::builder().topology(Topology::zones(1).machines(1)).start();
    assert!(sim.supervisor().is_none());
}
