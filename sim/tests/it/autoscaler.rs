//! Tests the face of Cluster Autoscalers: a client of gRPC calls a small server through the sim, over
//! pipes in virtual time, and over sockets.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sim::faults::{Action, GrpcStatus, Rule, Spoil};
use sim::ledger::Record;
use sim::{AutoscalerListener, Dial, Face, Io, ListenOptions, Sim};
use tokio::net::{TcpListener, TcpStream};
use tower::Service as _;

/// Reason why a call of the test itself does not fail.
const VALID: &str = "the test sends valid messages";
const SERVICE: &str = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider";

/// `{delta: 2, id: "pool"}` of an increase.
const INCREASE: &[u8] = &[0x08, 2, 0x12, 4, b'p', b'o', b'o', b'l'];
/// `{targetSize: 3}`.
const SIZE: &[u8] = &[0x08, 3];

/// A sim, and a server behind it that answers every call.
struct Lab {
    sim: Arc<Sim>,
    n_answered: Arc<AtomicUsize>,
    client: SendRequest<Full<Bytes>>,
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).expect(VALID).to_be_bytes());
    frame.extend(message);
    frame.into()
}

/// Returns the connections to the server behind.
fn server(sim: &Arc<Sim>, n_answered: &Arc<AtomicUsize>) -> Dial {
    let (sim, n_answered) = (Arc::clone(sim), Arc::clone(n_answered));
    Arc::new(move || {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        serve(theirs, &sim, &n_answered);
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn Io>) })
    })
}

/// Serves a connection. The server lists the nodes of the cluster in each call. Its answers are a size;
/// one to `GPULabel` is a failure, and one to `Cleanup` is the page of a proxy.
fn serve(stream: impl Io + 'static, sim: &Arc<Sim>, n_answered: &Arc<AtomicUsize>) {
    let (sim, n_answered) = (Arc::clone(sim), Arc::clone(n_answered));
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (sim, n_answered) = (Arc::clone(&sim), Arc::clone(&n_answered));
        async move {
            let is_failure = request.uri().path().ends_with("/GPULabel");
            assert_eq!(request.headers()["te"], "trailers");
            let nodes = Request::get("/api/v1/nodes").body(Full::<Bytes>::default()).expect(VALID);
            sim.cluster().service("server").call(nodes).await.expect(VALID);
            n_answered.fetch_add(1, Ordering::Relaxed);
            let mut trailers = HeaderMap::new();
            let code = if is_failure { "8" } else { "0" };
            trailers.insert("grpc-status", HeaderValue::from_static(code));
            trailers.insert("grpc-message", HeaderValue::from_static("no%20room"));
            let body = Full::new(framed(SIZE)).with_trailers(async { Some(Ok(trailers)) });
            let answer = Response::builder().header("content-type", "application/grpc");
            if request.uri().path().ends_with("/PricingNodePrice") {
                let answer = answer.header("grpc-status", "12");
                return Ok(answer.body(Full::default().boxed()).expect(VALID));
            }
            if request.uri().path().ends_with("/Cleanup") {
                let answer = Response::builder().status(502).header("content-type", "text/plain");
                let page = Full::from("Bad Gateway\n");
                return Ok(answer.body(page.boxed()).expect(VALID));
            }
            Ok::<_, Infallible>(answer.body(body.boxed()).expect(VALID))
        }
    });
    tokio::spawn(async move {
        let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        drop(http.serve_connection(TokioIo::new(stream), service).await);
    });
}

impl Lab {
    async fn new() -> Self {
        let sim = Arc::new(Sim::builder().start());
        let n_answered = Arc::default();
        let dial = server(&sim, &n_answered);
        let client = connect(&sim, dial).await;
        Self { sim, n_answered, client }
    }

    /// Calls a method, and returns code, message and body, or the failure of the connection.
    async fn call(&mut self, method: &str, body: &[u8]) -> Result<(u32, String, Bytes), String> {
        let request = Request::post(format!("http://any/{SERVICE}/{method}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("user-agent", "ca")
            .body(Full::new(framed(body)))
            .expect(VALID);
        let sent = self.client.send_request(request);
        let sent = tokio::time::timeout(Duration::from_secs(60), sent).await;
        let response = sent.map_err(|_| "deadline".to_owned())?.map_err(|err| err.to_string())?;
        let (head, body) = response.into_parts();
        // A status among the headers is one only if nothing follows them.
        let is_over = body.is_end_stream();
        assert_eq!(head.headers.contains_key("grpc-status"), is_over && head.status == 200);
        let body = body.collect().await.map_err(|err| err.to_string())?;
        let trailers = body.trailers().cloned().unwrap_or_default();
        let text = |name: &str| {
            let value = head.headers.get(name).or_else(|| trailers.get(name));
            value.map(|it| it.to_str().expect(VALID).to_owned()).unwrap_or_default()
        };
        let code = text("grpc-status").parse().map_err(|_| format!("HTTP {}", head.status))?;
        Ok((code, text("grpc-message"), body.to_bytes()))
    }

    fn n_answered(&self) -> usize {
        self.n_answered.load(Ordering::Relaxed)
    }

    fn records(&self) -> Vec<Record> {
        let records = self.sim.ledger().records();
        records.into_iter().filter(|it| it.face == Some(Face::Autoscaler)).collect()
    }
}

async fn connect(sim: &Sim, dial: Dial) -> SendRequest<Full<Bytes>> {
    let (stream, served) = sim.autoscaler(dial).pipe("autoscaler-1");
    tokio::spawn(served);
    handshake(stream).await
}

async fn handshake(stream: impl Io + 'static) -> SendRequest<Full<Bytes>> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    let handshake = http.timer(TokioTimer::new()).handshake(TokioIo::new(stream));
    let (client, connection) = handshake.await.expect(VALID);
    tokio::spawn(connection);
    client
}

#[tokio::test(start_paused = true)]
async fn a_call_is_forwarded_and_the_ledger_has_request_answer_and_calls_behind() {
    let mut lab = Lab::new().await;
    let answer = lab.call("NodeGroupIncreaseSize", INCREASE).await;
    assert_eq!(answer, Ok((0, "no%20room".to_owned(), framed(SIZE))));
    lab.call("NodeGroupTargetSize", &[0x0a, 1, b'g']).await.unwrap();
    assert_eq!(lab.call("GPULabel", &[]).await.unwrap().0, 8);
    assert_eq!(lab.call("PricingNodePrice", &[]).await.unwrap().0, 12);
    assert_eq!(lab.n_answered(), 4);
    let lines: Vec<String> = lab.records().iter().map(ToString::to_string).collect();
    let lines: Vec<&str> = lines.iter().map(|it| it.trim_start()).collect();
    insta::assert_debug_snapshot!(lines);
    let first = &lab.records()[0];
    assert_eq!(first.req.detail, "delta=2");
    assert_eq!(
        (first.client.client.as_str(), first.client.user_agent.as_str()),
        ("autoscaler-1", "ca")
    );
    assert_eq!(first.class, Some(sim::Class::Write));
    assert_eq!(first.ended.as_ref().unwrap().behind, Some(1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_trailers_is_complete_in_the_ledger() {
    let mut lab = Lab::new().await;
    let answer = lab.call("Cleanup", &[]).await;
    assert_eq!(answer, Err("HTTP 502 Bad Gateway".to_owned()));
    let ended = lab.records().remove(0).ended.unwrap();
    assert_eq!((ended.broken, ended.bytes), (None, 12));
}

#[tokio::test(start_paused = true)]
async fn each_action_disturbs_a_call_as_it_says() {
    let status = |code, message: &str| Action::GrpcStatus(GrpcStatus::new(code).message(message));
    // Action, outcome of the call, and number of calls that the server answered.
    for (action, wanted, n_answered) in [
        (status(14, "gone fishing"), Ok((14, "gone fishing".to_owned(), 0)), 0),
        (Action::TrailersOnly, Ok((0, String::new(), 0)), 0),
        (Action::status(503), Err("HTTP 503 Service Unavailable".to_owned()), 0),
        (Action::Blackhole, Err("deadline".to_owned()), 0),
        (Action::Delay(Duration::from_secs(30)), Ok((0, "no%20room".to_owned(), 7)), 1),
        (Action::Delay(Duration::from_secs(90)), Err("deadline".to_owned()), 0),
        (Action::Spoil(Spoil::CutShort(50)), Ok((0, "no%20room".to_owned(), 3)), 1),
        (Action::Goaway, Ok((0, "no%20room".to_owned(), 7)), 1),
    ] {
        let mut lab = Lab::new().await;
        let rule = Rule::new("r", [action.clone()]).on(Face::Autoscaler);
        let _rule = lab.sim.fault(rule.op(["NodeGroupTargetSize"])).unwrap();
        let answer = lab.call("NodeGroupTargetSize", &[]).await;
        let answer = answer.map(|(code, text, body)| (code, text, body.len()));
        assert_eq!(answer, wanted, "{action:?}");
        assert_eq!(lab.n_answered(), n_answered, "{action:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_applied_failure_reaches_the_server() {
    let mut lab = Lab::new().await;
    let rule = Rule::new("lost", [Action::grpc_status(4)]).on(Face::Autoscaler).applied();
    let _rule = lab.sim.fault(rule).unwrap();
    assert_eq!(lab.call("NodeGroupIncreaseSize", INCREASE).await.unwrap().0, 4);
    assert_eq!(lab.n_answered(), 1);
    let record = lab.records().remove(0);
    assert_eq!(record.ended.unwrap().fault.as_deref(), Some("DeadlineExceeded"));
}

#[tokio::test(start_paused = true)]
async fn a_stream_reset_leaves_the_connection_open_and_a_goaway_ends_it() {
    let mut lab = Lab::new().await;
    let rule = Rule::new("once", [Action::StreamReset]).on(Face::Autoscaler).first(1);
    let _once = lab.sim.fault(rule).unwrap();
    let failure = lab.call("Refresh", &[]).await.unwrap_err();
    assert_eq!(failure, "http2 error");
    assert_eq!(lab.call("Refresh", &[]).await.unwrap().0, 0);
    let goaway = Rule::new("goaway", [Action::Goaway]).on(Face::Autoscaler);
    let _goaway = lab.sim.fault(goaway).unwrap();
    assert_eq!(lab.call("Refresh", &[]).await.unwrap().0, 0);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(lab.client.is_closed());
    let broken: Vec<_> = lab.records().iter().map(|it| it.ended.as_ref().unwrap().broken).collect();
    assert_eq!(broken, [Some("reset"), None, None]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_is_unavailable_by_name() {
    let sim = Arc::new(Sim::builder().start());
    let refused = io::ErrorKind::ConnectionRefused;
    let dial: Dial = Arc::new(move || {
        Box::pin(async move { Err(io::Error::new(refused, "127.0.0.1:1: refused")) })
    });
    let client = connect(&sim, dial).await;
    let mut lab = Lab { sim, n_answered: Arc::default(), client };
    let (code, text, _) = lab.call("Refresh", &[]).await.unwrap();
    assert_eq!((code, text.contains("127.0.0.1:1: refused")), (14, true), "{text}");
    assert!(text.starts_with("the sim cannot reach the server behind autoscaler: "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_at_a_reached_server_is_not_a_failure_to_connect() {
    let sim = Arc::new(Sim::builder().start());
    let dial: Dial = Arc::new(move || {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            let service = service_fn(async |_: Request<hyper::body::Incoming>| {
                Err::<Response<Full<Bytes>>, _>(io::Error::other("broken"))
            });
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            drop(http.serve_connection(TokioIo::new(theirs), service).await);
        });
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn Io>) })
    });
    let client = connect(&sim, dial).await;
    let mut lab = Lab { sim, n_answered: Arc::default(), client };
    let (code, text, _) = lab.call("Refresh", &[]).await.unwrap();
    let said = "the server behind autoscaler did not answer a call: ";
    assert_eq!((code, text.starts_with(said)), (14, true), "{text}");
}

#[tokio::test]
async fn over_sockets_only_a_reset_breaks_the_connection() {
    let sim = Arc::new(Sim::builder().start());
    let behind = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = behind.local_addr().unwrap().to_string();
    let (sim_behind, n_answered) = (Arc::clone(&sim), Arc::default());
    tokio::spawn(async move {
        while let Ok((stream, _)) = behind.accept().await {
            serve(stream, &sim_behind, &n_answered);
        }
    });
    let listen = "127.0.0.1:0".parse().unwrap();
    let autoscaler = Some(AutoscalerListener { listen, server });
    let options = ListenOptions { autoscaler, ..ListenOptions::default() };
    let endpoints = sim.listen(options).await.unwrap();
    let address = endpoints.autoscaler.unwrap().address;
    let stream = TcpStream::connect(address).await.unwrap();
    let mut lab = Lab { sim, n_answered: Arc::default(), client: handshake(stream).await };
    assert_eq!(lab.call("NodeGroupTargetSize", &[]).await.unwrap().2, framed(SIZE));
    let rule = |action| Rule::new("r", [action]).on(Face::Autoscaler).first(1);
    let stream_reset = lab.sim.fault(rule(Action::StreamReset)).unwrap();
    assert_eq!(lab.call("Refresh", &[]).await.unwrap_err(), "http2 error");
    drop(stream_reset);
    assert_eq!(lab.call("Refresh", &[]).await.unwrap().0, 0);
    let _reset = lab.sim.fault(rule(Action::Reset)).unwrap();
    assert!(lab.call("Refresh", &[]).await.is_err());
    lab.client.ready().await.unwrap_err();
}

#[test]
fn a_rule_that_its_face_cannot_carry_out_is_refused_by_name() {
    for (action, face, wanted) in [
        (Action::grpc_status(14), Face::Soap, "grpcStatus works only in gRPC"),
        (Action::TrailersOnly, Face::Cluster, "trailersOnly works only in gRPC"),
        (Action::grpc_status(0), Face::Autoscaler, "write 1 to 16"),
        (Action::grpc_status(17), Face::Autoscaler, "write 1 to 16"),
        (
            Action::EmptyResult,
            Face::Autoscaler,
            "emptyResult cannot change calls that the sim forwards",
        ),
        (Action::Hide("x".to_owned()), Face::Autoscaler, "hide cannot change"),
        (Action::WatchGone, Face::Autoscaler, "watch.gone410 works only in a Kubernetes API"),
    ] {
        let refused = sim::faults::check(&Rule::new("r", [action]).on(face)).unwrap_err();
        assert!(refused.contains(wanted), "{refused}");
    }
    for (action, name) in [
        (Action::Reset, "reset"),
        (Action::StreamReset, "streamReset"),
        (Action::Blackhole, "blackhole"),
    ] {
        let rule = Rule::new("r", [Action::Goaway, action]);
        let wanted = format!(
            "rule `r`: goaway goes with an answer, and {name} gives none; remove one of the two"
        );
        assert_eq!(sim::faults::check(&rule), Err(wanted));
    }
    let text = r#"{"id": "r", "match": {"protocol": "grpc.ca", "op": "Refresh"}, "do": [{"grpcStatus": {"code": 14}}, "goaway"]}"#;
    let rule: Rule = serde_json::from_str(text).unwrap();
    assert_eq!(
        serde_json::to_value(&rule).unwrap(),
        serde_json::from_str::<serde_json::Value>(text).unwrap()
    );
}

#[test]
fn the_command_line_refuses_a_server_without_port_and_an_address_without_server() {
    for (flags, wanted) in [
        (&["--autoscaler-server", "127.0.0.1"][..], "write the port, too"),
        (&["--autoscaler-server", "a b:1"], "write a host name or an IP address"),
        (&["--autoscaler-listen", "127.0.0.1:0"], "--autoscaler-server <HOST:PORT>"),
    ] {
        let sim = std::process::Command::new(env!("CARGO_BIN_EXE_sim"));
        let output = { sim }.arg("serve").args(flags).output().expect("the program starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
}
