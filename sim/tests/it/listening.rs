//! Tests of the sim's listeners: TLS handshakes, HTTP framing, and the ways in which a connection
//! ends.

use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use sim::faults::{Action, Rule};
use sim::world::Command;
use sim::{ClientGate, Endpoints, ListenOptions, Sim, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::envelope;
use crate::wire;

const CONTENT: (&str, &str) = ("ServiceInstance", "ServiceInstance");
const HELLO: &str = "RetrieveServiceContent";

async fn listening() -> (Sim, Endpoints) {
    let sim = Sim::builder().start();
    let endpoints = sim.listen(ListenOptions::default()).await.expect("free ports");
    (sim, endpoints)
}

/// Starts a sim that listens without TLS, so that tests can read the bytes.
async fn plain() -> (Sim, SocketAddr) {
    let sim = Sim::builder().plain_text().start();
    let options = ListenOptions { transport: Transport::PlainText, ..ListenOptions::default() };
    let endpoints = sim.listen(options).await.expect("free ports");
    let address = endpoints.vcenters["vc0"].address;
    assert_eq!(endpoints.vcenters["vc0"].url, format!("http://{address}"));
    (sim, address)
}

fn head(body: &str, more: &str) -> String {
    format!(
        "POST /sdk HTTP/1.1\r\nHost: vc\r\nContent-Type: text/xml\r\n{more}Content-Length: {}\r\n\r\n",
        body.len()
    )
}

/// Reads from the stream until `n` SOAP responses have arrived. Returns their text.
async fn responses(stream: &mut TcpStream, n: usize) -> String {
    let mut text = String::new();
    let mut buffer = vec![0; 65536];
    while text.matches("</soapenv:Envelope>").count() < n {
        let read = stream.read(&mut buffer).await.expect("a response");
        assert_ne!(read, 0, "the server closed the connection after {text}");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    text
}

#[tokio::test]
async fn clients_trust_the_authority_under_every_name() {
    let sim = Sim::builder().start();
    let options = ListenOptions {
        tls_sans: vec!["vc.example.com".to_owned(), "192.0.2.7".to_owned()],
        ..ListenOptions::default()
    };
    let endpoints = sim.listen(options).await.expect("free ports");
    let connector = wire::connector(&endpoints, &[]);
    for server in [&endpoints.vcenters["vc0"], &endpoints.cluster] {
        for name in ["localhost", "127.0.0.1", "::1", "vc.example.com", "192.0.2.7"] {
            let stream = wire::tls(&connector, server.address, name).await;
            stream.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        let stranger = wire::tls(&connector, server.address, "other.example.com").await;
        assert!(stranger.is_err(), "the certificate is not valid for other names");
    }
    let (_other, others) = listening().await;
    let stranger = wire::connector(&others, &[]);
    let refused = wire::tls(&stranger, endpoints.cluster.address, "localhost").await;
    assert!(refused.is_err(), "another sim has another authority");
}

#[tokio::test]
async fn thumbprints_are_those_of_the_certificate_shown() {
    use sha2::Digest;
    let (_sim, endpoints) = listening().await;
    let vcenter = &endpoints.vcenters["vc0"];
    let stream = wire::tls(&wire::connector(&endpoints, &[]), vcenter.address, "localhost").await;
    let shown = wire::shown(&stream.expect("a handshake"));
    let pairs = |digest: &[u8]| {
        digest.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
    };
    let thumbprints = vcenter.thumbprints().expect("TLS");
    assert_eq!(thumbprints.sha1, pairs(&sha1::Sha1::digest(&shown)));
    assert_eq!(thumbprints.sha256, pairs(&sha2::Sha256::digest(&shown)));
}

#[tokio::test]
async fn a_swapped_certificate_shows_in_new_handshakes_only() {
    let (sim, endpoints) = listening().await;
    let vcenter = &endpoints.vcenters["vc0"];
    let connector = wire::connector(&endpoints, &[]);
    let open = wire::tls(&connector, vcenter.address, "localhost").await.expect("a handshake");
    let (before, thumbprints) = (wire::shown(&open), vcenter.thumbprints());
    let mut open = wire::http(open).await;
    sim.apply(Command::SwapCertificate { vcenter: None }).expect("a vCenter");
    let new = wire::tls(&connector, vcenter.address, "localhost").await.expect("a handshake");
    assert_ne!(wire::shown(&new), before);
    assert_ne!(vcenter.thumbprints(), thumbprints);
    let hello = wire::request("POST", "/sdk", &envelope(HELLO, CONTENT, ""));
    let (status, _) =
        wire::exchange(&mut open, hello).await.expect("the open connection stays usable");
    assert_eq!(status, 200);
}

#[tokio::test]
async fn vcenters_speak_http1_and_the_cluster_http2() {
    let (_sim, endpoints) = listening().await;
    let connector = wire::connector(&endpoints, &["h2", "http/1.1"]);
    let vcenter = endpoints.vcenters["vc0"].address;
    let stream = wire::tls(&connector, vcenter, "localhost").await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let cluster = endpoints.cluster.address;
    let stream = wire::tls(&connector, cluster, "localhost").await.expect("a handshake");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
    tokio::spawn(connection);
    let request = http::Request::builder()
        .uri(format!("https://{cluster}/version"))
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .expect("the request is valid");
    let response = sender.send_request(request).await.expect("an answer");
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
    let stream = wire::tls(&wire::connector(&endpoints, &[]), cluster, "localhost").await;
    let mut sender = wire::http(stream.expect("a handshake")).await;
    let (status, _) =
        wire::exchange(&mut sender, wire::request("GET", "/version", "")).await.expect("HTTP/1.1");
    assert_eq!(status, 200);
}

#[tokio::test]
async fn requests_may_be_chunked_pipelined_and_announced() {
    let (_sim, address) = plain().await;
    let body = envelope(HELLO, CONTENT, "");
    let mut stream = TcpStream::connect(address).await.expect("a listener");
    // Chunked, in pieces that split tags.
    let mut chunked = "POST /sdk HTTP/1.1\r\nHost: vc\r\nContent-Type: text/xml\r\n\
        Transfer-Encoding: chunked\r\n\r\n"
        .to_owned();
    for piece in body.as_bytes().chunks(7) {
        chunked.push_str(&format!("{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece)));
    }
    chunked.push_str("0\r\n\r\n");
    stream.write_all(chunked.as_bytes()).await.expect("the connection is open");
    assert!(responses(&mut stream, 1).await.starts_with("HTTP/1.1 200 OK\r\n"));
    // Two pipelined requests on the same connection.
    let two = format!("{0}{body}{0}{body}", head(&body, ""));
    stream.write_all(two.as_bytes()).await.expect("the connection stays open");
    let text = responses(&mut stream, 2).await;
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2);
    assert!(text.contains("\r\ndate: ") && text.contains("\r\ncontent-length: "), "{text}");
    // A request whose body the client sends only after the server has answered 100.
    let announced = head(&body, "Expect: 100-continue\r\n");
    stream.write_all(announced.as_bytes()).await.expect("the connection stays open");
    let mut buffer = [0; 25];
    stream.read_exact(&mut buffer).await.expect("an interim answer");
    assert_eq!(&buffer, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).await.expect("the connection stays open");
    assert!(responses(&mut stream, 1).await.starts_with("HTTP/1.1 200 OK"));
}

#[tokio::test]
async fn a_request_that_names_no_host_is_refused() {
    let (_sim, address) = plain().await;
    let body = envelope(HELLO, CONTENT, "");
    for (version, status) in [("1.1", "400 Bad Request"), ("1.0", "200 OK")] {
        let mut stream = TcpStream::connect(address).await.expect("a listener");
        let request = format!(
            "POST /sdk HTTP/{version}\r\nConnection: close\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("the connection is open");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("an answer, and then its end");
        let line = text.lines().next().unwrap_or_default();
        assert!(line.ends_with(status), "HTTP/{version}: {text}");
    }
}

#[tokio::test]
async fn a_reset_rule_resets_the_connection() {
    let (sim, address) = plain().await;
    sim.fault(Rule::new("reset", [Action::Reset]).op([HELLO])).expect("the rule is valid").keep();
    let body = envelope(HELLO, CONTENT, "");
    let mut stream = TcpStream::connect(address).await.expect("a listener");
    stream.write_all((head(&body, "") + &body).as_bytes()).await.expect("the connection is open");
    let error = stream.read(&mut [0; 100]).await.expect_err("the server resets the connection");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn the_bytes_before_a_truncation_arrive() {
    let (sim, address) = plain().await;
    sim.fault(Rule::new("cut", [Action::truncate(100)]).op([HELLO])).expect("a rule").keep();
    let body = envelope(HELLO, CONTENT, "");
    let mut stream = TcpStream::connect(address).await.expect("a listener");
    stream.write_all((head(&body, "") + &body).as_bytes()).await.expect("the connection is open");
    let mut text = Vec::new();
    // The operating system decides how the connection ends; only the bytes before the end matter.
    let _ = stream.read_to_end(&mut text).await;
    let text = String::from_utf8(text).expect("text");
    let (head, rest) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert_eq!(rest.len(), 100, "{rest}");
}

#[tokio::test]
async fn a_vcenter_that_stops_breaks_its_connections_and_takes_no_more() {
    let (sim, address) = plain().await;
    let body = envelope(HELLO, CONTENT, "");
    let mut idle = TcpStream::connect(address).await.expect("a listener");
    idle.write_all((head(&body, "") + &body).as_bytes()).await.expect("the connection is open");
    responses(&mut idle, 1).await;
    sim.apply(Command::StopVCenter { vcenter: None }).expect("a vCenter");
    let error = idle.read(&mut [0; 100]).await.expect_err("the server resets the connection");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let refused = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all((head(&body, "") + &body).as_bytes()).await?;
        stream.read(&mut [0; 100]).await
    };
    assert!(matches!(refused.await, Err(_) | Ok(0)), "nothing answers");
}

#[tokio::test]
async fn a_shut_door_breaks_connections_and_records_nothing_until_it_opens() {
    let sim = Sim::builder().plain_text().start();
    let door = ClientGate::default();
    let transport = Transport::PlainText;
    let options = ListenOptions { transport, door: door.clone(), ..ListenOptions::default() };
    let endpoints = sim.listen(options).await.expect("free ports");
    let address = endpoints.vcenters["vc0"].address;
    let body = envelope(HELLO, CONTENT, "");
    let hello = head(&body, "") + &body;
    let mut before = TcpStream::connect(address).await.expect("a listener");
    before.write_all(hello.as_bytes()).await.expect("the connection is open");
    responses(&mut before, 1).await;
    let noted = sim.ledger().next_seq();
    door.shut();
    // The operating system decides whether the client can still send this request.
    let _ = before.write_all(hello.as_bytes()).await;
    let error = before.read(&mut [0; 100]).await.expect_err("the server resets the connection");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let refused = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(hello.as_bytes()).await?;
        stream.read(&mut [0; 100]).await
    };
    assert!(matches!(refused.await, Err(_) | Ok(0)), "nothing answers");
    assert_eq!(sim.ledger().next_seq(), noted, "{}", sim.ledger().to_jsonl());
    door.open();
    let mut after = TcpStream::connect(address).await.expect("a listener");
    after.write_all(hello.as_bytes()).await.expect("the connection is open");
    responses(&mut after, 1).await;
}

#[tokio::test]
async fn a_labelled_listener_names_its_clients_and_asks_for_credentials() {
    let sim = Sim::builder().plain_text().start();
    let nodes = b"GET /api/v1/nodes HTTP/1.1\r\nHost: k8s\r\n\r\n";
    for client in ["provider", "provider-1"] {
        let transport = Transport::PlainText;
        let client = client.to_owned();
        let options = ListenOptions { transport, client, ..ListenOptions::default() };
        let endpoints = sim.listen(options).await.expect("free ports");
        let body = envelope(HELLO, CONTENT, "");
        let address = endpoints.vcenters["vc0"].address;
        let mut stream = TcpStream::connect(address).await.expect("a listener");
        stream
            .write_all((head(&body, "") + &body).as_bytes())
            .await
            .expect("the connection is open");
        responses(&mut stream, 1).await;
        let mut stream = TcpStream::connect(endpoints.cluster.address).await.expect("a listener");
        stream.write_all(nodes).await.expect("the connection is open");
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 401");
    }
    let records = sim.ledger().records();
    let seen: Vec<_> =
        records.iter().map(|it| (it.client.client.as_str(), it.op.as_str())).collect();
    let lists = "list nodes";
    let wanted =
        [("provider", HELLO), ("provider", lists), ("provider-1", HELLO), ("provider-1", lists)];
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn a_shutdown_ends_within_seconds_despite_open_connections() {
    let (sim, endpoints) = listening().await;
    let connector = wire::connector(&endpoints, &[]);
    sim.fault(Rule::new("hole", [Action::Blackhole]).op([HELLO]))
        .expect("the rule is valid")
        .keep();
    let address = endpoints.vcenters["vc0"].address;
    let stream = wire::tls(&connector, address, "localhost").await.expect("a handshake");
    let mut sender = wire::http(stream).await;
    let hello = wire::request("POST", "/sdk", &envelope(HELLO, CONTENT, ""));
    let lost = tokio::spawn(async move { wire::exchange(&mut sender, hello).await });
    while sim.ledger().next_seq() < 3 {
        tokio::task::yield_now().await;
    }
    // A connection without a TLS handshake, because the client sends nothing.
    let _silent = TcpStream::connect(address).await.expect("a listener");
    let stopped = tokio::time::timeout(Duration::from_secs(5), sim.shutdown()).await;
    assert!(stopped.is_ok(), "the shutdown takes more than 5 s");
    assert!(lost.await.expect("no panic").is_err());
}

#[tokio::test]
async fn several_vcenters_listen_with_a_certificate_each() {
    let topology = sim::world::Topology::standard().vcenters(3);
    let sim = Sim::builder().topology(topology).start();
    let endpoints = sim.listen(ListenOptions::default()).await.expect("free ports");
    let ports: Vec<u16> = endpoints.vcenters.values().map(|it| it.address.port()).collect();
    assert_eq!(ports.len(), 3);
    let thumbprints: std::collections::BTreeSet<String> =
        endpoints.vcenters.values().map(|it| it.thumbprints().expect("TLS").sha1).collect();
    assert_eq!(thumbprints.len(), 3, "each vCenter has another certificate");
}

#[tokio::test]
async fn a_busy_port_is_an_error_that_names_the_address() {
    let (_sim, endpoints) = listening().await;
    let second = Sim::builder().start();
    let options = ListenOptions { cluster: endpoints.cluster.address, ..ListenOptions::default() };
    let error = second.listen(options).await.expect_err("the port is busy");
    let address = endpoints.cluster.address;
    assert_eq!(error.to_string(), format!("the listener cluster cannot listen on {address}"));
}
