//! Code that the benches share: a sim with an in-process client that sends hand-written SOAP.

pub mod peer;

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use sim::world::{PROVIDER_USER, Topology};
use sim::{Service, Sim};
use tower::ServiceExt;

/// A sim and a logged-in client of its vCenter.
#[derive(Debug)]
pub struct Bench {
    /// The sim.
    pub sim: Sim,
    service: Service,
    cookie: String,
}

/// Builds a SOAP envelope around the XML of an operation.
pub fn envelope(operation: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?><Envelope xmlns="http://schemas.xmlsoap.org/soap/envelope/"><Body>{operation}</Body></Envelope>"#
    )
}

/// Builds a `RetrievePropertiesEx` request for some properties of one machine.
pub fn read_machine(id: &str, paths: &[&str]) -> String {
    let paths: String = paths.iter().map(|path| format!("<pathSet>{path}</pathSet>")).collect();
    envelope(&format!(
        r#"<RetrievePropertiesEx xmlns="urn:vim25"><_this type="PropertyCollector">propertyCollector</_this><specSet><propSet><type>VirtualMachine</type>{paths}</propSet><objectSet><obj type="VirtualMachine">{id}</obj></objectSet></specSet><options></options></RetrievePropertiesEx>"#
    ))
}

impl Bench {
    /// Starts a sim with three zones, this number of machines and no Nodes, and logs in with the
    /// provider's account.
    ///
    /// # Panics
    /// If the sim refuses the login of the provider's account.
    pub async fn new(machines: u32) -> Self {
        let topology = Topology { registered: false, ..Topology::zones(3).machines(machines) };
        let sim = Sim::builder().topology(topology).start();
        let service = sim.vcenter("vc0").expect("the topology has a vCenter").service("bench");
        let password = sim.password("vc0", PROVIDER_USER).expect("the account exists");
        let mut bench = Self { sim, service, cookie: String::new() };
        let login = envelope(&format!(
            r#"<Login xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this><userName>{PROVIDER_USER}</userName><password>{}</password></Login>"#,
            password.expose()
        ));
        let response = bench.send(login).await;
        assert!(response.status().is_success(), "the sim refused the login");
        let cookie = response.headers().get(http::header::SET_COOKIE);
        bench.cookie = cookie
            .and_then(|cookie| cookie.to_str().ok())
            .and_then(|cookie| cookie.split(';').next())
            .expect("a login sets a cookie")
            .to_owned();
        bench
    }

    async fn send(&self, body: String) -> http::Response<sim::Body> {
        let request = http::Request::post("/sdk")
            .header(http::header::CONTENT_TYPE, "text/xml")
            .header(http::header::COOKIE, &self.cookie)
            .body(Full::new(Bytes::from(body)))
            .expect("the request is well-formed");
        self.service.clone().oneshot(request).await.expect("the sim answers")
    }

    /// Sends an envelope and returns the length of the answer in bytes.
    ///
    /// # Panics
    /// If the answer has an error status, as every fault has.
    pub async fn call(&self, body: String) -> usize {
        self.text(body).await.len()
    }

    /// Sends an envelope and returns the answer.
    ///
    /// # Panics
    /// If the answer has an error status, as every fault has.
    pub async fn text(&self, body: String) -> String {
        let response = self.send(body).await;
        let status = response.status();
        let body = response.into_body().collect().await.expect("the answer is complete").to_bytes();
        let text = String::from_utf8(body.to_vec()).expect("answers are UTF-8");
        assert!(status.is_success(), "{text}");
        text
    }
}

/// Creates a single-threaded runtime on the real clock.
///
/// # Panics
/// If the runtime cannot be built.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime starts")
}

/// 24 hours.
pub const DAY: Duration = Duration::from_secs(24 * 3600);
