//! Tests as another crate writes them: in the process of the test, and without features of this
//! crate.
//!
//! `cargo test -p vsphere-sim --no-default-features --test in_process` runs them.

use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use sim::Sim;
use sim::faults::{Action, Rule};
use sim::world::{Command, Topology};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::ServiceExt as _;

const VERSIONS: &str = "/sdk/vimServiceVersions.xml";

sim::test! {
    /// A client over a tower service meets a rule, and an hour of the world takes no time.
    async fn a_service_reaches_the_vcenter_without_a_socket(
        sim: &Sim = Sim::builder().topology(Topology::zones(3).machines(10))
    ) -> Result<(), sim::world::Fault> {
        let vcenter = sim.vcenter("vc0").expect("every world has vc0");
        let busy = Rule::new("busy", [Action::status(503)]).first(1);
        sim.fault(busy).expect("the rule is valid").keep();
        let status = async || {
            let request = http::Request::get(VERSIONS).body(Empty::<bytes::Bytes>::new());
            let request = request.expect("the request is valid");
            let answer = vcenter.service("my-client").oneshot(request).await.expect("an answer");
            let status = answer.status().as_u16();
            answer.into_body().collect().await.expect("the body is complete");
            status
        };
        assert_eq!(status().await, 503);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(status().await, 200);
        assert_eq!(sim.fired(), [("busy".into(), 1)]);
        assert_eq!(sim.ledger().counts().total(), 2);
        sim.apply(Command::PowerOff("node-0001".into()))?;
        Ok(())
    }

    /// A client that needs a connection gets a pipe.
    async fn a_pipe_carries_http_without_a_socket(sim: &Sim) {
        let (mut pipe, served) = sim.vcenter("vc0").expect("every world has vc0").pipe("my-client");
        let request = format!("GET {VERSIONS} HTTP/1.1\r\nhost: vc\r\nconnection: close\r\n\r\n");
        let asked = async {
            pipe.write_all(request.as_bytes()).await.expect("the pipe takes the request");
            let mut answer = String::new();
            pipe.read_to_string(&mut answer).await.expect("the answer is text");
            answer
        };
        let (answer, ()) = tokio::join!(asked, served);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert_eq!(sim.ledger().counts().total(), 1);
    }
}
