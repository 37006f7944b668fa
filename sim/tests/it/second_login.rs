//! A test whose second login fails: the example of the tutorial for authors of clients
//! (`docs/tutorials/client-author.md`), from the client to its calls in the ledger.

// ANCHOR: client
use std::time::Duration;

use anyhow::ensure;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use sim::faults::{Action, Rule};
use sim::world::{ADMINISTRATOR, Topology};
use sim::{Service, Sim};
use tower::ServiceExt as _;

/// The client under test. A job logs in, does its work and logs out.
struct Client {
    vcenter: Service,
    password: String,
}

impl Client {
    /// Runs a job. Repeats a login up to twice if the vCenter is busy, after a pause of 5 s.
    async fn job(&self) -> anyhow::Result<()> {
        let mut session = self.login().await?;
        for _ in 0..2 {
            if session.status() == StatusCode::SERVICE_UNAVAILABLE {
                tokio::time::sleep(Duration::from_secs(5)).await;
                session = self.login().await?;
            }
        }
        ensure!(session.status().is_success(), "the vCenter refuses the login");
        let cookie = session.headers()[header::SET_COOKIE].to_str()?.to_owned();
        ensure!(self.call("Logout", "", &cookie).await?.status().is_success());
        Ok(())
    }

    async fn login(&self) -> anyhow::Result<Response<Bytes>> {
        let Self { password, .. } = self;
        let arguments =
            format!("<userName>{ADMINISTRATOR}</userName><password>{password}</password>");
        self.call("Login", &arguments, "").await
    }

    /// Calls a method of the session manager.
    async fn call(
        &self,
        method: &str,
        arguments: &str,
        cookie: &str,
    ) -> anyhow::Result<Response<Bytes>> {
        let envelope = format!(
            "<Envelope xmlns=\"http://schemas.xmlsoap.org/soap/envelope/\"><Body>\
             <{method} xmlns=\"urn:vim25\"><_this type=\"SessionManager\">SessionManager</_this>{arguments}</{method}>\
             </Body></Envelope>"
        );
        let request = Request::post("/sdk")
            .header(header::CONTENT_TYPE, "text/xml")
            .header(header::COOKIE, cookie)
            .body(Full::new(Bytes::from(envelope)))?;
        let (parts, body) = self.vcenter.clone().oneshot(request).await?.into_parts();
        // Reads the whole answer, as every client does.
        let body = body.collect().await?.to_bytes();
        Ok(Response::from_parts(parts, body))
    }
}
// ANCHOR_END: client

// ANCHOR: test
sim::test! {
    async fn a_job_survives_a_busy_vcenter(
        sim: &Sim = Sim::builder().topology(Topology::zones(3).machines(20))
    ) -> anyhow::Result<()> {
        let rule = Rule::new("second-login-fails", [Action::status(503)]).op(["Login"]).nth(2);
        let _rule = sim.fault(rule)?;
        let vcenter = sim.vcenter("vc0").expect("every world has vc0").service("nightly-job");
        let password = sim.password("vc0", ADMINISTRATOR).expect("vc0 has an administrator");
        let client = Client { vcenter, password: password.expose().to_owned() };

        client.job().await?;
        client.job().await?;

        // The rule fired, so the test has tested the failure.
        assert_eq!(sim.fired(), [("second-login-fails".into(), 1)]);
        let calls = sim.ledger().counts();
        assert_eq!((calls.of("Login"), calls.of("Logout")), (3, 2));
        // The pause of the client took 5 s of virtual time, and no real time.
        assert_eq!(sim.world().now().since_start(), Duration::from_secs(5));
        Ok(())
    }
}
// ANCHOR_END: test
