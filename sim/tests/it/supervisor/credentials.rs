//! Tests of the Supervisor's tokens, mounted files and certificates, which change while a provider
//! runs.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use sim::tls::Certificate;
use sim::{Endpoints, ListenOptions, SUPERVISOR_HOST, Sim};
use tokio::net::TcpStream;

use super::{MACHINES, ask, builder, get, pass};
use crate::wire;

/// Lists the VirtualMachines with this token, and returns the HTTP status.
async fn listed(sim: &Sim, token: &str) -> u16 {
    ask(sim, Method::GET, MACHINES, token, Value::Null).await.0
}

fn read(below: &Path, name: &str) -> String {
    fs::read_to_string(below.join("etc/cloud/ccm-provider").join(name)).expect("the file exists")
}

sim::test! {
    async fn a_rotated_token_takes_the_place_of_the_old_one(sim: &Sim = builder()) {
        let supervisor = sim.supervisor().expect("the world has a Supervisor");
        let directory = tempfile::tempdir().expect("a directory");
        supervisor.mount(directory.path(), "an authority").expect("the directory is writable");
        let first = supervisor.provider_token().to_owned();
        assert_eq!(read(directory.path(), "token"), first);
        assert_eq!(read(directory.path(), "namespace"), "workloads");
        assert_eq!(read(directory.path(), "ca.crt"), "an authority");
        let grace = Duration::from_secs(30);
        let second = supervisor.rotate_token(grace).expect("the directory is writable");
        assert_eq!(read(directory.path(), "token"), second);
        assert_eq!((listed(sim, &first).await, listed(sim, &second).await), (200, 200));
        pass(31).await;
        assert_eq!((listed(sim, &first).await, listed(sim, &second).await), (401, 200));
        let third = supervisor.rotate_token(Duration::ZERO).expect("the directory is writable");
        assert_eq!((listed(sim, &second).await, listed(sim, &third).await), (401, 200));
        assert_eq!(get(sim, MACHINES).await.0, 200);
        let ledger = sim.ledger().to_jsonl();
        for token in [&first, &second, &third] {
            assert!(!ledger.contains(token), "the ledger contains a token");
            assert!(!format!("{supervisor:?}").contains(token), "the Debug output has a token");
        }
    }

    async fn the_mounted_namespace_may_differ_from_that_of_the_supervisor(sim: &Sim = builder()) {
        let supervisor = sim.supervisor().expect("the world has a Supervisor");
        assert!(supervisor.mount_namespace("other").is_err(), "nothing is mounted");
        let directory = tempfile::tempdir().expect("a directory");
        supervisor.mount(directory.path(), "").expect("the directory is writable");
        supervisor.mount_namespace("other").expect("the directory is writable");
        assert_eq!(read(directory.path(), "namespace"), "other");
        assert_eq!(read(directory.path(), "token"), supervisor.provider_token());
        assert!(supervisor.rotate_authority().is_err(), "the sim has no listeners");
        assert!(supervisor.show_certificate(Certificate::Expired).is_err(), "no listeners");
    }
}

/// Makes the TLS handshake of a client that trusts only `pem` and expects the name of the
/// Supervisor. Returns the error of a failed handshake.
async fn handshake(endpoints: &Endpoints, pem: &str) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
    roots.add(authority).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let address = endpoints.supervisor.as_ref().expect("the server listens").address;
    let socket = TcpStream::connect(address).await.expect("the server listens");
    let name = ServerName::try_from(SUPERVISOR_HOST).expect("a name");
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect(name, socket).await.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_handshake_fails_for_a_bad_certificate_and_a_replaced_authority() {
    let sim = builder().start();
    let endpoints = sim.listen(ListenOptions::default()).await.expect("free ports");
    let supervisor = sim.supervisor().expect("the world has a Supervisor");
    let pem = endpoints.ca_pem().expect("TLS").to_owned();
    let directory = tempfile::tempdir().expect("a directory");
    supervisor.mount(directory.path(), &pem).expect("the directory is writable");
    assert_eq!(handshake(&endpoints, &pem).await, Ok(()));
    for (certificate, want) in [
        (Certificate::Expired, "certificate expired"),
        (Certificate::WrongName, "not valid for name"),
        (Certificate::Untrusted, "BadSignature"),
    ] {
        supervisor.show_certificate(certificate).expect("the server listens");
        let error =
            handshake(&endpoints, &pem).await.expect_err("the client refuses the certificate");
        assert!(error.contains(want), "{certificate:?}: {error}");
    }
    supervisor.show_certificate(Certificate::Good).expect("the server listens");
    assert_eq!(handshake(&endpoints, &pem).await, Ok(()));
    let new = supervisor.rotate_authority().expect("the server listens");
    assert!(handshake(&endpoints, &pem).await.is_err(), "the new authority signs the certificate");
    assert_eq!(handshake(&endpoints, &new).await, Ok(()));
    assert_eq!(read(directory.path(), "ca.crt"), new);
    sim.shutdown().await;
}

#[tokio::test]
async fn the_admin_port_changes_tokens_certificates_and_grants() {
    let sim = builder().start();
    let endpoints = sim.listen(ListenOptions::default()).await.expect("free ports");
    let supervisor = sim.supervisor().expect("the world has a Supervisor");
    let directory = tempfile::tempdir().expect("a directory");
    let address = endpoints.admin.address;
    let post = async |body: Value| {
        let stream = TcpStream::connect(address).await.expect("the admin port");
        let mut sender = wire::http(stream).await;
        let request = wire::request("POST", "/world/events", &body.to_string());
        let (status, text) = wire::exchange(&mut sender, request).await.expect("an answer");
        (status, serde_json::from_str::<Value>(&text).unwrap_or_default())
    };
    let (status, answer) = post(json!({"supervisor.namespace": "other"})).await;
    assert_eq!(status, 409, "{answer}");
    supervisor
        .mount(directory.path(), endpoints.ca_pem().expect("TLS"))
        .expect("the directory is writable");
    let first = supervisor.current_token();
    for event in [
        json!({"supervisor.token.rotate": {"grace": "0s"}}),
        json!({"supervisor.namespace": "other"}),
        json!({"supervisor.ca.rotate": {}}),
        json!({"supervisor.certificate": "expired"}),
        json!({"supervisor.grant": "tanzu"}),
        json!({"vmoperator.set": {"reconciles": false}}),
    ] {
        let (status, answer) = post(event.clone()).await;
        assert_eq!(status, 200, "{event}: {answer}");
    }
    assert_eq!(listed(&sim, &first).await, 401);
    assert_eq!(read(directory.path(), "token"), supervisor.current_token());
    assert_eq!(read(directory.path(), "namespace"), "other");
    assert_ne!(read(directory.path(), "ca.crt"), endpoints.ca_pem().expect("TLS"));
    let watch = format!("{MACHINES}?watch=true&timeoutSeconds=0");
    assert_eq!(get(&sim, &watch).await.0, 403, "the role does not permit a watch");
    let (status, answer) = post(json!({"supervisor.token.rotat": {}})).await;
    assert_eq!(
        (status, &answer["remedy"]),
        (400, &json!("did you mean `supervisor.token.rotate`?"))
    );
    let (status, _) = post(json!({"supervisor": {}})).await;
    assert_eq!(status, 400, "the admin port does not write objects of the Supervisor");
    sim.shutdown().await;
}
