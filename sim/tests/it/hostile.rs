//! Clients that mean ill or know no better, on real sockets: an answer or a clean close for them, and nobody
//! beside them waits.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sim::ledger::Record;
use sim::world::Command;
use sim::world::objects::{self, GroupResource};
use sim::{ListenOptions, Sim, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Nothing here takes that long unless it hangs.
const DEADLINE: Duration = Duration::from_secs(60);

/// A cluster on a socket, in plain text.
struct Cluster {
    sim: Sim,
    address: SocketAddr,
    token: String,
}

impl Cluster {
    async fn new() -> Self {
        Self::patient(ListenOptions::default().patience).await
    }

    async fn patient(patience: Duration) -> Self {
        let sim = Sim::builder().plain_text().start();
        let transport = Transport::PlainText;
        let options = ListenOptions { transport, patience, ..ListenOptions::default() };
        let endpoints = sim.listen(options).await.expect("free ports");
        let token = sim.admin_token().to_owned();
        Self { sim, address: endpoints.cluster.address, token }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    /// Sends bytes, `$TOKEN` replaced; what comes until the answer is whole or the connection ends.
    async fn raw(&self, request: &[u8]) -> String {
        let request = replaced(request, &self.token);
        let (mut read, mut write) = self.connect().await.into_split();
        let mut answer = Vec::new();
        let exchange = async {
            // Whoever is refused early may not be read to the end.
            let send = async { write.write_all(&request).await.unwrap_or_default() };
            let receive = async {
                let mut buffer = vec![0; 65536];
                while !is_whole(&answer) {
                    match read.read(&mut buffer).await {
                        Ok(0) | Err(_) => break,
                        Ok(n) => answer.extend_from_slice(&buffer[..n]),
                    }
                }
            };
            tokio::join!(send, receive);
        };
        tokio::time::timeout(DEADLINE, exchange).await.expect("an answer or a close");
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn request(&self, path: &str) -> Request<Empty<Bytes>> {
        Request::builder()
            .uri(format!("http://{}{path}", self.address))
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.token))
            .body(Empty::new())
            .expect("a good request")
    }

    fn create(&self, kind: &'static str, namespace: &str, object: serde_json::Value) {
        let create = objects::Command::create(GroupResource::core(kind), namespace, object);
        self.sim.apply(Command::Cluster(create)).expect("a good object");
    }

    fn node(&self, name: &str) {
        self.create("nodes", "", serde_json::json!({"metadata": {"name": name}}));
    }

    /// The record of the first call whose detail or operation has this, once it has ended.
    async fn ended(&self, is_it: impl Fn(&Record) -> bool) -> Record {
        let ended = async {
            loop {
                let records = self.sim.ledger().records();
                let it = records.into_iter().find(|it| is_it(it) && it.ended.is_some());
                match it {
                    Some(it) => return it,
                    None => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        };
        tokio::time::timeout(DEADLINE, ended).await.expect("the call ends")
    }
}

fn replaced(request: &[u8], token: &str) -> Vec<u8> {
    const MARK: &[u8] = b"$TOKEN";
    let at = request.windows(MARK.len()).position(|window| window == MARK);
    match at {
        None => request.to_vec(),
        Some(at) => [&request[..at], token.as_bytes(), &request[at + MARK.len()..]].concat(),
    }
}

/// Whether an answer with a length has come to its end.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.to_ascii_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length: ").and_then(|length| length.parse::<usize>().ok())
    });
    length.is_some_and(|length| body.len() >= length)
}

/// Somebody who behaves: a connection for questions, and a watch of Nodes.
struct Neighbour<'a> {
    cluster: &'a Cluster,
    questions: http1::SendRequest<Empty<Bytes>>,
    watch: Incoming,
    n_nodes: u32,
}

impl<'a> Neighbour<'a> {
    async fn of(cluster: &'a Cluster) -> Self {
        let questions = speak(cluster).await;
        let mut watcher = speak(cluster).await;
        let version = cluster.sim.world().read(|world| world.cluster.revision());
        let path = format!("/api/v1/nodes?watch=1&resourceVersion={version}");
        let watch = watcher.send_request(cluster.request(&path)).await.expect("an answer");
        assert_eq!(watch.status(), 200);
        Self { cluster, questions, watch: watch.into_body(), n_nodes: 0 }
    }

    /// A change is told and a question answered, now.
    async fn is_served(&mut self, during: &str) {
        self.n_nodes += 1;
        let name = format!("neighbour-{}", self.n_nodes);
        self.cluster.node(&name);
        let served = async {
            let frame = self.watch.frame().await.expect("the watch goes on").expect("no error");
            let event = frame.into_data().expect("data");
            let event: serde_json::Value = serde_json::from_slice(&event).expect("one event");
            assert_eq!(event["object"]["metadata"]["name"], *name, "{during}");
            let question = self.cluster.request(&format!("/api/v1/nodes/{name}"));
            let answer = self.questions.send_request(question).await.expect("an answer");
            assert_eq!(answer.status(), 200, "{during}");
            answer.into_body().collect().await.expect("a whole answer");
        };
        let served = tokio::time::timeout(DEADLINE, served).await;
        served.unwrap_or_else(|_| panic!("the neighbour waits: {during}"));
    }
}

async fn speak(cluster: &Cluster) -> http1::SendRequest<Empty<Bytes>> {
    let stream = TokioIo::new(cluster.connect().await);
    let (sender, connection) = http1::handshake(stream).await.expect("a connection");
    tokio::spawn(connection);
    sender
}

const AUTH: &str = "Host: x\r\nAuthorization: Bearer $TOKEN\r\n";

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\n{AUTH}\r\n").into_bytes()
}

fn with(method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = format!("Content-Length: {}\r\n", body.len());
    let head = format!("{method} {path} HTTP/1.1\r\n{AUTH}{length}{headers}\r\n");
    [head.as_bytes(), body].concat()
}

fn post(path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    with("POST", path, &format!("Content-Type: {content_type}\r\n"), body)
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const TOO_LARGE: &str =
    r#""message":"Request entity too large: limit is 3145728","reason":"RequestEntityTooLarge""#;
const NOT_ALLOWED: &str = r#""reason":"MethodNotAllowed""#;
const NOT_FOUND: &str = "404 page not found";

/// Name, request, status line as far as it matters (empty: closed without a word), and a part of the body. All
/// but those marked are what kube-apiserver 1.36.3 answers.
fn requests() -> Vec<(&'static str, Vec<u8>, &'static str, &'static str)> {
    const JSON: &str = "application/json";
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let map = |data: &[u8]| [br#"{"metadata":{"name":"hostile"},"data":"#, data, b"}"].concat();
    let flood = |n: usize| (0..n).map(|n| format!("X-{n}: 1\r\n")).collect::<String>();
    let lengths = |length: &str, body: &str| {
        format!("POST {MAPS} HTTP/1.1\r\n{AUTH}Content-Length: {length}\r\n\r\n{body}").into_bytes()
    };
    let chunked = |body: &str| {
        format!("POST {MAPS} HTTP/1.1\r\n{AUTH}Content-Type: {JSON}\r\nTransfer-Encoding: chunked\r\n\r\n{body}")
            .into_bytes()
    };
    vec![
        (
            "a body of 3 MiB and one byte",
            post(MAPS, JSON, &vec![b' '; (3 << 20) + 1]),
            "413",
            TOO_LARGE,
        ),
        ("a body of 40 MiB", post(MAPS, JSON, &vec![b' '; 40 << 20]), "413", TOO_LARGE),
        (
            "a huge patch",
            with(
                "PATCH",
                "/api/v1/namespaces/default",
                "Content-Type: application/merge-patch+json\r\n",
                &vec![b' '; 4 << 20],
            ),
            "413",
            TOO_LARGE,
        ),
        ("a huge body to nowhere", post("/nowhere", JSON, &vec![b' '; 4 << 20]), "404", NOT_FOUND),
        (
            "deep JSON",
            post(MAPS, JSON, &deep),
            "400",
            "json parse error: invalid character '[' exceeded max depth",
        ),
        (
            "a deep patch",
            with(
                "PATCH",
                "/api/v1/namespaces/default",
                "Content-Type: application/merge-patch+json\r\n",
                &br#"{"a":"#.repeat(100_000),
            ),
            "400",
            "error decoding patch: invalid character '{' exceeded max depth",
        ),
        (
            "numbers for texts",
            post(MAPS, JSON, &map(br#"{"a":1}"#)),
            "400",
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "a list for an object",
            post(MAPS, JSON, b"[]"),
            "400",
            "json: cannot unmarshal array into Go value",
        ),
        (
            "text that is no UTF-8",
            post(&format!("{MAPS}?dryRun=All"), JSON, &map(b"{\"a\":\"x\xff\"}")),
            "201",
            "\"a\":\"x\u{fffd}\"",
        ),
        (
            "a key that is no UTF-8",
            post(MAPS, JSON, &map(b"{\"a\xff\":\"x\"}")),
            "422",
            "a valid config key must consist of",
        ),
        ("half a document", post(MAPS, JSON, b"{"), "400", "unexpected end of JSON input"),
        (
            "protobuf of no kind",
            post(MAPS, PROTOBUF, b"hello"),
            "400",
            "does not appear to be a protobuf message",
        ),
        (
            "protobuf of junk",
            post(MAPS, PROTOBUF, b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            "400",
            "proto: integer overflow",
        ),
        (
            "protobuf that ends early",
            post(MAPS, PROTOBUF, b"k8s\0\x0a\x10abc"),
            "400",
            "unexpected EOF",
        ),
        (
            "a length too short",
            lengths("5", r#"{"metadata":{"name":"hostile"}}"#),
            "400",
            "unexpected end of JSON input",
        ),
        ("a length that is a word", lengths("two", "{}"), "400", ""),
        ("two lengths", with("POST", MAPS, "Content-Length: 3\r\n", b"{}"), "400", ""),
        // The real server answers 500 "invalid byte in chunk length".
        ("a chunk of no length", chunked("zz\r\n{}\r\n0\r\n\r\n"), "500", r#""status":"Failure""#),
        // The real server takes as many headers as fit 1 MiB, and says so in a body.
        ("ten thousand headers", with("GET", MAPS, &flood(10_000), b""), "431", ""),
        (
            "a header of 2 MiB",
            with("GET", MAPS, &format!("X: {}\r\n", "a".repeat(2 << 20)), b""),
            "431",
            "",
        ),
        ("a path of 2 MiB", get(&format!("/{}", "a".repeat(2 << 20))), "4", ""),
        ("a header that is none", with("GET", MAPS, "nothing\r\n", b""), "400", ""),
        // These two the real server refuses with 400 and 417.
        (
            "no Host",
            b"GET /api/v1/nodes HTTP/1.1\r\nAuthorization: Bearer $TOKEN\r\n\r\n".to_vec(),
            "200",
            "NodeList",
        ),
        (
            "an expectation of nobody",
            with("GET", "/api/v1/nodes", "Expect: miracles\r\n", b""),
            "200",
            "NodeList",
        ),
        ("no HTTP", b"\x16\x03\x01\x00\x00garbage\r\n\r\n".to_vec(), "400", ""),
        ("a method of no one", with("BREW", MAPS, "", b""), "405", NOT_ALLOWED),
        ("TRACE", with("TRACE", "/api/v1/namespaces/default", "", b""), "405", NOT_ALLOWED),
        ("a method in lower case", with("get", MAPS, "", b""), "405", NOT_ALLOWED),
        ("two slashes at the beginning", get("//api/v1/nodes"), "404", NOT_FOUND),
        (
            "two slashes inside",
            get("/api/v1//nodes"),
            "404",
            "the server could not find the requested resource",
        ),
        (
            "a way up",
            get("/api/v1/../v1/nodes"),
            "404",
            "the server could not find the requested resource",
        ),
        ("a way out", get("/../../etc/passwd"), "404", NOT_FOUND),
        (
            "a name that leads up",
            get("/api/v1/nodes/%2e%2e"),
            "400",
            r#"Name parameter invalid: \"..\": may not be '..'"#,
        ),
        ("a name with a percent sign", get("/api/v1/nodes/a%25b"), "400", "may not contain '%'"),
        ("a slash in disguise", get("/api/v1/nodes/a%2Fstatus"), "404", r#"nodes \"a\" not found"#),
        ("an escape that is none", get("/api/v1/nodes/%zz"), "400", "400 Bad Request"),
        ("no path", get("nodes"), "400", "400 Bad Request"),
        (
            "a selector of 20,000 conditions",
            get(&format!("/api/v1/nodes?labelSelector={}a", "a,".repeat(20_000))),
            "200",
            "NodeList",
        ),
        (
            "a selector that is too long",
            get(&format!("/api/v1/nodes?labelSelector={}", "a".repeat(300))),
            "400",
            "<nil>: Invalid value",
        ),
        (
            "a copy of a copy of a copy",
            with(
                "PATCH",
                "/api/v1/namespaces/default",
                "Content-Type: application/json-patch+json\r\n",
                bomb().as_bytes(),
            ),
            "422",
            "the server rejected our request due to an error in our request",
        ),
        (
            "YAML of aliases of aliases",
            post(MAPS, "application/yaml", aliases().as_bytes()),
            "400",
            "the object provided is unrecognized",
        ),
    ]
}

/// Fifty doublings.
fn bomb() -> String {
    let copy =
        |n| format!(r#",{{"op":"copy","from":"/metadata/labels","path":"/metadata/labels/{n}"}}"#);
    let add = r#"{"op":"add","path":"/metadata/labels","value":{"a":"b"}}"#;
    format!("[{add}{}]", (0..50).map(copy).collect::<String>())
}

fn aliases() -> String {
    let line = |n: u32| format!("a{}: &a{} [{}]\n", n + 1, n + 1, format!("*a{n},").repeat(9));
    format!("a0: &a0 [x]\n{}", (0..9).map(line).collect::<String>())
}

#[tokio::test]
async fn every_request_gets_an_answer_and_the_neighbour_too() {
    let cluster = Cluster::new().await;
    let mut neighbour = Neighbour::of(&cluster).await;
    for (name, request, status, text) in requests() {
        let answer = cluster.raw(&request).await;
        let line = answer.lines().next().unwrap_or_default();
        let begin: String = answer.chars().take(600).collect();
        assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{name}: {begin}");
        assert!(answer.contains(text), "{name}: {begin}");
        neighbour.is_served(name).await;
    }
    // Nothing of it has changed anything.
    let maps = GroupResource::core("configmaps");
    let n_maps = cluster.sim.world().read(|world| world.cluster.count(&maps));
    assert_eq!(n_maps, 0);
}

#[tokio::test]
async fn requests_that_never_end_hold_nobody_up() {
    let cluster = Cluster::new().await;
    let mut neighbour = Neighbour::of(&cluster).await;
    let beginnings: [&[u8]; 5] = [
        b"",
        b"GET /api/v1/no",
        b"GET /api/v1/nodes HTTP/1.1\r\nHost: x\r\nX-",
        b"POST /api/v1/nodes HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{\"metadata\":",
        b"POST /api/v1/nodes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a",
    ];
    let mut open = Vec::new();
    for beginning in beginnings.iter().cycle().take(500) {
        let mut stream = cluster.connect().await;
        stream.write_all(beginning).await.expect("it listens");
        open.push(stream);
    }
    neighbour.is_served("500 requests have begun").await;
    drop(open);
    neighbour.is_served("500 clients have gone").await;
    let answer = cluster.raw(&get("/api/v1/nodes/neighbour-2")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_body_that_breaks_the_rules_of_http_is_in_the_ledger() {
    let cluster = Cluster::new().await;
    let request = format!("POST {MAPS} HTTP/1.1\r\n{AUTH}Transfer-Encoding: chunked\r\n\r\nzz\r\n");
    let answer = cluster.raw(request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    let record = cluster.ended(|record| record.op == "create configmaps").await;
    assert_eq!(record.ended.and_then(|ended| ended.status), Some(500));
}

#[tokio::test]
async fn five_thousand_watches_are_told_of_every_change() {
    const N_CONNECTIONS: usize = 50;
    const N_STREAMS: usize = 100;
    let cluster = Cluster::new().await;
    let mut neighbour = Neighbour::of(&cluster).await;
    let version = cluster.sim.world().read(|world| world.cluster.revision());
    let path = format!("/api/v1/namespaces/default/configmaps?watch=1&resourceVersion={version}");
    let mut watches = Vec::new();
    let mut senders = Vec::new();
    for _ in 0..N_CONNECTIONS {
        let stream = TokioIo::new(cluster.connect().await);
        let (mut sender, connection) =
            http2::handshake(TokioExecutor::new(), stream).await.expect("a connection");
        tokio::spawn(connection);
        for _ in 0..N_STREAMS {
            sender.ready().await.expect("room for a stream");
            watches.push(sender.send_request(cluster.request(&path)));
        }
        senders.push(sender);
    }
    let watches = join_all(watches).await;
    let mut bodies: Vec<Incoming> = watches
        .into_iter()
        .map(|watch| {
            let watch = watch.expect("an answer");
            assert_eq!(watch.status(), 200);
            watch.into_body()
        })
        .collect();
    assert_eq!(bodies.len(), 5_000);
    neighbour.is_served("5,000 watches are open").await;
    for name in ["one", "two"] {
        let map = serde_json::json!({"metadata": {"name": name, "namespace": "default"}});
        cluster.create("configmaps", "default", map);
        neighbour.is_served("5,000 watches have something to tell").await;
        let told = join_all(bodies.iter_mut().map(|body| async move {
            let frame = body.frame().await.expect("the watch goes on").expect("no error");
            let event: serde_json::Value =
                serde_json::from_slice(&frame.into_data().expect("data")).expect("one event");
            event["type"] == "ADDED" && event["object"]["metadata"]["name"] == *name
        }));
        let told = tokio::time::timeout(DEADLINE, told).await.expect("everybody is told");
        assert_eq!(told.iter().filter(|told| **told).count(), 5_000, "{name}");
    }
}

#[tokio::test]
async fn whoever_reads_nothing_is_cut_off_and_delays_nobody() {
    const N_READERS: usize = 20;
    let cluster = Cluster::patient(Duration::from_millis(500)).await;
    let data = "x".repeat(800 << 10);
    for n in 0..40 {
        let name = format!("large-{n}");
        let map = serde_json::json!({"metadata": {"name": name, "namespace": "default"}, "data": {"a": data}});
        cluster.create("configmaps", "default", map);
    }
    let mut neighbour = Neighbour::of(&cluster).await;
    let mut readers = Vec::new();
    for _ in 0..N_READERS {
        let mut stream = cluster.connect().await;
        let watch = replaced(&get(&format!("{MAPS}?watch=1")), &cluster.token);
        stream.write_all(&watch).await.expect("it listens");
        readers.push(stream);
    }
    neighbour.is_served("twenty read nothing").await;
    let is_slow = |record: &Record| record.op == "watch configmaps";
    cluster.ended(is_slow).await;
    let all_ended = async {
        loop {
            let records = cluster.sim.ledger().records();
            let slow: Vec<&Record> = records.iter().filter(|it| is_slow(it)).collect();
            let ended: Vec<_> = slow.iter().filter_map(|it| it.ended.as_ref()).collect();
            if ended.len() == N_READERS {
                for ended in ended {
                    assert_eq!(ended.broken, Some("abandoned"));
                    // Of 32 MiB: what fits the buffers of the system and of one connection.
                    assert!(ended.bytes < 24 << 20, "{} bytes for nobody", ended.bytes);
                }
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(DEADLINE, all_ended).await.expect("they are cut off");
    neighbour.is_served("twenty are cut off").await;
    for mut reader in readers {
        // What was sent is there, and then a reset or an end; no event of a watch that goes on.
        let mut buffer = vec![0; 1 << 20];
        while reader.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
    }
}
