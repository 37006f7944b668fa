//! Tests that the same calls leave the same ledger in process, over a pipe and over TCP with TLS.

use std::io;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use sim::faults::{Action, HttpStatus, Rule};
use sim::world::{ADMINISTRATOR, Nodes, Topology};
use sim::{ListenOptions, Service, Sim};
use tower::ServiceExt;

use crate::client::{COLLECTOR, SEARCH, SESSIONS, envelope, object, props};
use crate::wire;

fn lab() -> Sim {
    let topology = Topology::zones(2).machines(3).nodes(Nodes::Count(0));
    let sim = Sim::builder().topology(topology).start();
    // The rules after a rule that ends a call do not see the call. Each rule therefore fires on
    // another call.
    for rule in [
        Rule::new("fault", [Action::soap_fault("SystemError")]).op(["FindByUuid"]).nth(1),
        Rule::new("busy", [HttpStatus::new(503).retry_after(3).into()]).op(["FindByUuid"]).nth(1),
        Rule::new("reset", [Action::Reset]).op(["FindByUuid"]).nth(1),
        Rule::new("applied", [Action::Reset]).op(["PowerOffVM_Task"]).applied(),
        Rule::new("cut", [Action::truncate(100)]).op(["FindByUuid"]).nth(1),
    ] {
        sim.fault(rule).expect("the rule is valid").keep();
    }
    sim
}

/// Transport of the requests: in process, over a pipe, or over TCP with TLS. After an error the
/// next request opens a new connection.
enum Transport {
    Service(Service),
    Pipe(sim::Server, Option<SendRequest<Full<Bytes>>>),
    Socket(Box<sim::Endpoints>, Option<SendRequest<Full<Bytes>>>),
}

impl Transport {
    async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<(http::HeaderMap, String), io::Error> {
        let broken = |error: hyper::Error| io::Error::other(error);
        let response = match self {
            Self::Service(service) => {
                let (parts, body) = service.clone().oneshot(request).await?.into_parts();
                let body = body.collect().await?.to_bytes();
                return Ok((parts.headers, String::from_utf8_lossy(&body).into_owned()));
            }
            Self::Pipe(server, open) => {
                let sender = match open.take().filter(|sender| !sender.is_closed()) {
                    Some(sender) => sender,
                    None => {
                        let (pipe, serve) = server.pipe("");
                        tokio::spawn(serve);
                        wire::http(pipe).await
                    }
                };
                open.insert(sender).send_request(request).await.map_err(broken)?
            }
            Self::Socket(endpoints, open) => {
                let sender = match open.take().filter(|sender| !sender.is_closed()) {
                    Some(sender) => sender,
                    None => {
                        let connector = wire::connector(endpoints, &["http/1.1"]);
                        let address = endpoints.vcenters["vc0"].address;
                        wire::http(wire::tls(&connector, address, "localhost").await?).await
                    }
                };
                open.insert(sender).send_request(request).await.map_err(broken)?
            }
        };
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map_err(broken);
        if body.is_err() {
            self.close();
        }
        Ok((parts.headers, String::from_utf8_lossy(&body?.to_bytes()).into_owned()))
    }

    fn close(&mut self) {
        if let Self::Pipe(_, open) | Self::Socket(_, open) = self {
            *open = None;
        }
    }
}

/// Makes a client's usual calls, and calls that fail. Returns the body of each answer, or `broken`
/// for a call without a complete answer.
async fn script(sim: &Sim, transport: &mut Transport) -> Vec<String> {
    let password = sim.password("vc0", ADMINISTRATOR).expect("the administrator has an account");
    let login =
        format!("<userName>{ADMINISTRATOR}</userName><password>{}</password>", password.expose());
    let wrong = format!("<userName>{ADMINISTRATOR}</userName><password>wrong</password>");
    let content = ("ServiceInstance", "ServiceInstance");
    let machine = ("VirtualMachine", "vm-19");
    let read = format!(
        "<specSet>{}{}</specSet><options/>",
        props("VirtualMachine", &["name", "guest"]),
        object("VirtualMachine", "vm-19")
    );
    let uuid = "<uuid>00000000-0000-4000-8000-000000000000</uuid><vmSearch>true</vmSearch>";
    let soap = |operation: &str, this, arguments: &str| {
        ("POST", "/sdk", envelope(operation, this, arguments))
    };
    let mut calls = vec![
        soap("RetrieveServiceContent", content, ""),
        soap("Login", SESSIONS, &wrong),
        soap("Login", SESSIONS, &login),
        soap("RetrievePropertiesEx", COLLECTOR, &read),
    ];
    calls.extend((0..5).map(|_| soap("FindByUuid", SEARCH, uuid)));
    calls.extend([
        soap("PowerOffVM_Task", machine, ""),
        soap("MakeCoffee", content, ""),
        ("POST", "/sdk", "<a>".to_owned()),
        ("GET", "/nowhere", String::new()),
        ("POST", "/api/session", String::new()),
        ("GET", "/rest/com/vmware/cis/tagging/tag", String::new()),
        soap("Logout", SESSIONS, ""),
    ]);
    let mut cookie = None;
    let mut answers = Vec::new();
    for (method, path, body) in calls {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "vc")
            .header(header::USER_AGENT, "script")
            .header(header::CONTENT_TYPE, "text/xml");
        if let Some(cookie) = &cookie {
            request = request.header(header::COOKIE, cookie);
        }
        match transport.send(request.body(Full::from(body)).expect("the request is valid")).await {
            Ok((headers, body)) => {
                if let Some(new) = headers.get(header::SET_COOKIE) {
                    let new = new.to_str().expect("text");
                    cookie = new.split(';').next().map(str::to_owned);
                }
                answers.push(body);
            }
            Err(_) => answers.push("broken".to_owned()),
        }
    }
    answers
}

/// The records of the ledger as lines, with all times set to zero.
fn normalised(sim: &Sim) -> Vec<String> {
    let blind = |mut record: sim::ledger::Record| {
        record.t = sim::world::Time::ZERO;
        if let Some(ended) = &mut record.ended {
            ended.at = sim::world::Time::ZERO;
        }
        record.to_line()
    };
    sim.ledger().records().into_iter().map(blind).collect()
}

/// Replaces every timestamp in the answers by `TIME`.
fn without_times(answers: &[String]) -> Vec<String> {
    let year =
        |text: &str| text.starts_with("20") && text.len() > 20 && text.as_bytes()[10] == b'T';
    let blind = |answer: &String| {
        answer
            .split('>')
            .map(|part| {
                part.split('<')
                    .map(|text| if year(text) { "TIME" } else { text })
                    .collect::<Vec<_>>()
                    .join("<")
            })
            .collect::<Vec<_>>()
            .join(">")
    };
    answers.iter().map(blind).collect()
}

#[tokio::test]
async fn every_transport_leaves_the_same_ledger() {
    let sim = lab();
    let mut transport =
        Transport::Service(sim.vcenter("vc0").expect("the world has vc0").service(""));
    let answers = without_times(&script(&sim, &mut transport).await);
    let ledger = normalised(&sim);
    assert_eq!(answers.iter().filter(|it| *it == "broken").count(), 3, "{answers:#?}");
    insta::assert_snapshot!(ledger.join("\n"));

    let piped = lab();
    let mut transport =
        Transport::Pipe(piped.vcenter("vc0").expect("the world has vc0").clone(), None);
    let answers_piped = script(&piped, &mut transport).await;
    assert_eq!(without_times(&answers_piped), answers);
    same(&normalised(&piped), &ledger);

    let listening = lab();
    let endpoints = listening.listen(ListenOptions::default()).await.expect("free ports");
    let mut transport = Transport::Socket(Box::new(endpoints), None);
    let answers_socket = script(&listening, &mut transport).await;
    assert_eq!(without_times(&answers_socket), answers);
    same(&normalised(&listening), &ledger);
    listening.shutdown().await;
}

fn same(ours: &[String], theirs: &[String]) {
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
}

#[tokio::test]
async fn a_goaway_closes_a_connection_of_http_1_after_its_answer() {
    let sim = lab();
    let rule = Rule::new("goaway", [Action::Goaway]).nth(2);
    sim.fault(rule).expect("the rule is valid").keep();
    let endpoints = sim.listen(ListenOptions::default()).await.expect("the sim listens");
    let connector = wire::connector(&endpoints, &["http/1.1"]);
    let address = endpoints.vcenters["vc0"].address;
    let (pipe, serve) = sim.vcenter("vc0").expect("every world has vc0").pipe("");
    tokio::spawn(serve);
    let stream = wire::tls(&connector, address, "localhost").await.expect("a connection");
    for (name, mut sender) in
        [("pipe", wire::http(pipe).await), ("socket", wire::http(stream).await)]
    {
        let mut headers = Vec::new();
        for _ in 0..2 {
            let request = Request::get("/sdk/vimServiceVersions.xml").header(header::HOST, "vc");
            let request = request.body(Full::default()).expect("the request is valid");
            let response = sender.send_request(request).await.expect("the connection answers");
            headers.push(response.headers().get(header::CONNECTION).cloned());
            response.into_body().collect().await.expect("the answer is complete");
        }
        assert_eq!(headers, [None, Some("close".parse().unwrap())], "{name}");
        sender.ready().await.expect_err(name);
        sim.heal();
        let rule = Rule::new("goaway", [Action::Goaway]).nth(2);
        sim.fault(rule).expect("the rule is valid").keep();
    }
}
