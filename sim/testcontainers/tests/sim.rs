//! Tests of this crate against a container engine: the reported endpoints work, and every container
//! is removed at the end.

use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use serde_json::json;
use sim_testcontainers::testcontainers::ImageExt as _;
use sim_testcontainers::testcontainers::runners::AsyncRunner as _;
use sim_testcontainers::{Action, Error, LABEL, Rule, Sim, SimContainer};

/// Sends a GET request with a client that trusts only the certificates in `ca_pem`. Returns the
/// status.
async fn get(url: &str, token: &str, ca_pem: &str) -> u16 {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate.expect("PEM")).expect("a certificate");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_only()
        .enable_http1()
        .build();
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let request = http::Request::get(url)
        .header("authorization", format!("Bearer {token}"))
        .body(Empty::<Bytes>::new())
        .expect("the request is valid");
    let response = client.request(request).await.expect("the sim answers over TLS");
    let status = response.status().as_u16();
    response.into_body().collect().await.expect("the body is complete");
    status
}

/// Returns the ids of the containers with this label, running or not.
fn containers(label: &str) -> Vec<String> {
    let out = Command::new("docker")
        .args(["ps", "-aq", "--no-trunc", "--filter", &format!("label={label}")])
        .output()
        .expect("the program docker exists");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn every_face_is_reachable_at_its_reported_url() {
    let sim = Sim::new().machines(2).vcenters(2).supervisor().start().await.expect("a sim");
    let names: Vec<&str> = sim.vcenters().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["vc0", "vc1"]);
    for vcenter in sim.vcenters() {
        let url = format!("{}/sdk/vimServiceVersions.xml", vcenter.url);
        assert_eq!(get(&url, "", sim.ca_pem()).await, 200, "{}", vcenter.name);
        assert_eq!(vcenter.thumbprint.len(), 59, "SHA-1 in pairs with colons");
        assert!(!vcenter.provider.password.is_empty());
    }
    let cluster = sim.cluster();
    let nodes = format!("{}/api/v1/nodes", cluster.url);
    assert_eq!(get(&nodes, &cluster.token, sim.ca_pem()).await, 200);
    assert_eq!(get(&nodes, "wrong", sim.ca_pem()).await, 401);
    let supervisor = sim.supervisor().expect("the world has a Supervisor");
    let machines = format!(
        "{}/apis/vmoperator.vmware.com/v1alpha2/namespaces/{}/virtualmachines",
        supervisor.url, supervisor.namespace
    );
    let given = &supervisor.provider;
    assert_eq!(get(&machines, &given.token, &given.certificate_authority).await, 200);
    assert!(sim.kubeconfig().contains(&cluster.url));
    assert!(sim.supervisor_kubeconfig().expect("a Supervisor").contains(&supervisor.url));
    let missing = sim.vcenter("vc9").expect_err("the world has two vCenters");
    assert_eq!(missing.to_string(), "the world has no vCenter `vc9`: expected one of vc0, vc1");
}

#[tokio::test]
async fn the_admin_client_reads_and_changes_the_world_and_reports_refusals() {
    let mut sim =
        Sim::new().machines(2).nodes(1).seed(7).supervisor().start().await.expect("a sim");
    let world = sim.admin().world().await.expect("a world");
    assert_eq!((world.seed, world.machines.len()), (7, 2));
    assert_eq!(world.machines[0].power, "poweredOn");
    assert_eq!(world.machines[0].node.as_ref().map(|it| it.kubelet.as_str()), Some("running"));
    assert_eq!(world.machines[1].node, None);

    let before = sim.admin().clock().await.expect("a clock");
    sim.admin().happen(&json!({"vm.powerOff": "node-0001"})).await.expect("the event applies");
    let world = sim.admin().world().await.expect("a world");
    assert_eq!(world.machines[0].power, "poweredOff");
    assert!(sim.admin().clock().await.expect("a clock").now > before.now);
    let happened =
        sim.admin().ledger(0).await.expect("a ledger").into_iter().find(|it| it.kind == "world");
    assert_eq!(happened.expect("the ledger has it").op, r#"{"vm.powerOff":"node-0001"}"#);

    let refused =
        sim.admin().happen(&json!({"vm.powerOff": "node-9"})).await.expect_err("no such machine");
    assert!(
        matches!(&refused, Error::Refused { status, .. } if status.as_u16() == 404),
        "{refused}"
    );
    let misspelt = json!({"id": "x", "mach": {}, "do": ["reset"]});
    let refused = sim.admin().add_document(&misspelt).await.expect_err("no such key");
    assert!(refused.to_string().contains("did you mean `match`?"), "{refused}");

    sim.admin().add_known("conversion-webhook-down").await.expect("the catalogue has the name");
    let slow =
        |actions: &[Action]| Rule::new("slow", actions.iter().cloned()).op(["@login", "Logout"]);
    sim.admin().add(slow(&[])).await.expect_err("a rule without actions");
    sim.admin().add(slow(&[Action::Reset])).await.expect("the rule is valid");
    let rules = sim.admin().faults().await.expect("rules");
    let last = rules.last().expect("two rules");
    assert_eq!((&last.rule, last.fired), (&slow(&[Action::Reset]), 0));
    sim.admin().remove("slow").await.expect("the rule exists");
    sim.admin().heal().await.expect("the admin port removes all rules");
    assert_eq!(sim.admin().faults().await.expect("rules"), []);

    let token = sim.supervisor().expect("a Supervisor").provider.token.clone();
    sim.admin().happen(&json!({"supervisor.token.rotate": {}})).await.expect("the event applies");
    sim.refresh().await.expect("the admin port reports the endpoints");
    assert_ne!(sim.supervisor().expect("a Supervisor").provider.token, token);
}

#[tokio::test]
async fn a_stopped_dropped_or_panicked_sim_leaves_no_container() {
    let of = |name: &str| format!("io.vsphere-lab.test={name}-{}", std::process::id());
    let start = async |name: &str| {
        let request = Sim::new()
            .request()
            .with_label("io.vsphere-lab.test", format!("{name}-{}", std::process::id()));
        SimContainer::of(request.start().await.expect("a container")).await.expect("a sim")
    };
    let stopped = start("stopped").await;
    assert_eq!(containers(&of("stopped")), [stopped.container().id()]);
    assert!(containers(LABEL).contains(&stopped.container().id().to_owned()));
    assert_eq!(stopped.stop().await.expect("the sim stops"), 0, "the exit code");
    assert_eq!(containers(&of("stopped")), <[&str; 0]>::default());

    drop(start("dropped").await);
    assert_eq!(containers(&of("dropped")), <[&str; 0]>::default());

    let panicked = tokio::spawn({
        let sim = start("panicked").await;
        async move {
            let _sim = sim;
            panic!("a failing test");
        }
    });
    assert!(panicked.await.expect_err("the task panics").is_panic());
    assert_eq!(containers(&of("panicked")), <[&str; 0]>::default());
}

#[tokio::test]
async fn a_sim_that_cannot_start_reports_the_error_and_leaves_no_container() {
    let label = format!("refused-{}", std::process::id());
    let request =
        Sim::new().flag("--vcenters=0").request().with_label("io.vsphere-lab.test", &label);
    let Err(refused) = request.start().await else { panic!("a sim started without vCenters") };
    let said = format!("{refused:?}");
    assert!(said.contains("--vcenters 0: must be at least 1"), "{said}");
    assert_eq!(containers(&format!("io.vsphere-lab.test={label}")), <[&str; 0]>::default());

    let missing = Sim::new().image("vsphere-lab/none:0").start().await.expect_err("no such image");
    assert!(
        missing.to_string().starts_with("the container of vsphere-lab/none:0 failed"),
        "{missing}"
    );
}
