//! Runs a sim on real sockets, for two clients without code of the sim: raw HTTP over TLS, and
//! curl.
//!
//! `cargo run -p vsphere-sim --example foreign_client` calls a simulated vCenter, adds a fault
//! rule, and calls it again. The operating system picks the ports, so that any number of such
//! programs can run at the same time.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use sim::faults::{Action, Rule};
use sim::world::Topology;
use sim::{Endpoints, ListenOptions, Sim};
use tokio::net::TcpStream;

const HELLO: &str = "<Envelope xmlns=\"http://schemas.xmlsoap.org/soap/envelope/\"><Body>\
    <RetrieveServiceContent xmlns=\"urn:vim25\"><_this type=\"ServiceInstance\">ServiceInstance</_this>\
    </RetrieveServiceContent></Body></Envelope>";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let sim = Sim::builder().topology(Topology::zones(3).machines(20)).start();
    let endpoints = sim.listen(ListenOptions::default()).await?;
    let vcenter = &endpoints.vcenters["vc0"];
    println!("the vCenter listens at {}", vcenter.url);

    let (status, body) = hello(&endpoints).await?;
    println!("the vCenter answers with status {status} and {} bytes", body.len());

    // The second client is curl, a program with another TLS library.
    let directory = std::env::temp_dir().join(format!("foreign-client-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let authority = directory.join("ca.pem");
    std::fs::write(&authority, endpoints.ca_pem().unwrap_or_default())?;
    let url = format!("{}/sdk/vimServiceVersions.xml", vcenter.url);
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--fail", "--cacert"]).arg(&authority).arg(url);
    let output = tokio::task::spawn_blocking(move || curl.output()).await?;
    std::fs::remove_dir_all(&directory)?;
    match output {
        Ok(output) => println!("curl: {}, {} bytes", output.status, output.stdout.len()),
        Err(error) => println!("cannot run curl: {error}"),
    }

    sim.fault(Rule::new("reset", [Action::Reset]).op(["RetrieveServiceContent"]))?.keep();
    match hello(&endpoints).await {
        Ok((status, _)) => println!("the vCenter still answers with status {status}"),
        Err(error) => println!("the fault rule breaks the connection: {error}"),
    }
    println!("\ncalls in the ledger:\n{}", sim.ledger().counts());
    sim.shutdown().await;
    Ok(())
}

/// Calls `RetrieveServiceContent` on a new connection. Returns status and body of the answer.
async fn hello(endpoints: &Endpoints) -> Result<(u16, Bytes), Box<dyn Error>> {
    let mut roots = rustls::RootCertStore::empty();
    let pem = endpoints.ca_pem().unwrap_or_default();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(endpoints.vcenters["vc0"].address).await?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(ServerName::try_from("localhost")?, stream).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driven = tokio::spawn(connection);
    let request = http::Request::post("/sdk")
        .header("host", "localhost")
        .header("content-type", "text/xml")
        .body(Full::new(Bytes::from_static(HELLO.as_bytes())))?;
    let response = sender.send_request(request).await?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    drop(sender);
    let _ = driven.await?;
    Ok((status, body))
}
