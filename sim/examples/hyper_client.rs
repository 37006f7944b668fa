//! A sim and an HTTP client of hyper in one process, over a socket without TLS.
//!
//! `cargo run -p vsphere-sim --example hyper_client` reads the content of a simulated vCenter,
//! makes the next call fail, and counts the calls.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use sim::faults::{HttpStatus, Rule};
use sim::world::Topology;
use sim::{ListenOptions, Sim, Transport};

const HELLO: &str = "<Envelope xmlns=\"http://schemas.xmlsoap.org/soap/envelope/\"><Body>\
    <RetrieveServiceContent xmlns=\"urn:vim25\"><_this type=\"ServiceInstance\">ServiceInstance</_this>\
    </RetrieveServiceContent></Body></Envelope>";

// ANCHOR: main
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let topology = Topology::zones(3).machines(20);
    let sim = Sim::builder().topology(topology).plain_text().start();
    let plain = ListenOptions { transport: Transport::PlainText, ..ListenOptions::default() };
    let endpoints = sim.listen(plain).await?;
    let url = format!("{}/sdk", endpoints.vcenters["vc0"].url);

    let client = Client::builder(TokioExecutor::new()).build_http();
    let hello = || {
        let request = http::Request::post(&url).header("content-type", "text/xml");
        request.body(Full::new(Bytes::from_static(HELLO.as_bytes())))
    };
    let answer = client.request(hello()?).await?;
    println!("status {}", answer.status());
    println!("{} bytes", answer.into_body().collect().await?.to_bytes().len());

    let busy = HttpStatus::new(503).retry_after(1);
    let rule = Rule::new("busy", [busy.into()]).op(["RetrieveServiceContent"]).first(1);
    sim.fault(rule)?.keep();
    println!("status {}", client.request(hello()?).await?.status());
    println!("{}", sim.ledger().counts());
    sim.shutdown().await;
    Ok(())
}
// ANCHOR_END: main
