//! A sim on sockets, and a well-behaved client that uses the cluster beside the hostile clients.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sim::ledger::Record;
use sim::world::objects::{self, GroupResource};
use sim::world::{Command, Topology};
use sim::{ListenOptions, Sim, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Time after which an exchange counts as hanging.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);

/// A sim whose faces listen in plain text.
pub(super) struct Cluster {
    pub(super) sim: Sim,
    /// Address of the workload cluster.
    pub(super) address: SocketAddr,
    /// Address of the Supervisor.
    pub(super) supervisor: SocketAddr,
    /// Address of the admin port.
    pub(super) admin: SocketAddr,
    /// Address of the vCenter.
    pub(super) vcenter: SocketAddr,
    /// Bearer token of the cluster's administrator.
    pub(super) token: String,
}

impl Cluster {
    pub(super) async fn new() -> Self {
        Self::patient(ListenOptions::default().stall_timeout).await
    }

    /// Starts a sim whose listeners wait at most `patience` for a slow client.
    pub(super) async fn patient(patience: Duration) -> Self {
        let sim = Sim::builder().topology(Topology::standard().supervisor()).plain_text().start();
        let transport = Transport::PlainText;
        let options =
            ListenOptions { transport, stall_timeout: patience, ..ListenOptions::default() };
        let endpoints = sim.listen(options).await.expect("free ports");
        let token = sim.admin_token().to_owned();
        let vcenter = endpoints.vcenters["vc0"].address;
        let supervisor = endpoints.supervisor.as_ref().expect("the world has a Supervisor").address;
        let (address, admin) = (endpoints.cluster.address, endpoints.admin.address);
        Self { sim, address, supervisor, admin, vcenter, token }
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("the server listens")
    }

    /// Sends bytes to the cluster, with `$TOKEN` replaced by the token. Returns the answer when it
    /// is complete, or the part that has arrived when the connection ends. Panics after
    /// [`DEADLINE`].
    pub(super) async fn raw(&self, request: &[u8]) -> String {
        let request = replaced(request, &self.token);
        let (mut read, mut write) = self.connect().await.into_split();
        let mut answer = Vec::new();
        let exchange = async {
            // The server may refuse a request without reading it to the end.
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

    pub(super) fn request(&self, path: &str) -> Request<Empty<Bytes>> {
        Request::builder()
            .uri(format!("http://{}{path}", self.address))
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.token))
            .body(Empty::new())
            .expect("the request is valid")
    }

    pub(super) fn create(&self, kind: &'static str, namespace: &str, object: serde_json::Value) {
        let create = objects::Command::create(GroupResource::core(kind), namespace, object);
        self.sim.apply(Command::Cluster(create)).expect("the object is valid");
    }

    fn node(&self, name: &str) {
        self.create("nodes", "", serde_json::json!({"metadata": {"name": name}}));
    }

    /// Waits until `n_calls` calls have ended for which `is_it` is true, and returns their records.
    /// Panics after [`DEADLINE`].
    pub(super) async fn ended(
        &self,
        n_calls: usize,
        is_it: impl Fn(&Record) -> bool,
    ) -> Vec<Record> {
        let ended = self.sim.ledger().wait_for(|ledger| {
            let mut found = Vec::new();
            ledger.visit(|record| {
                if found.len() < n_calls && record.ended.is_some() && is_it(record) {
                    found.push(record.clone());
                }
            });
            (found.len() == n_calls).then_some(found)
        });
        tokio::time::timeout(DEADLINE, ended).await.expect("the calls end")
    }
}

pub(super) fn replaced(request: &[u8], token: &str) -> Vec<u8> {
    const MARK: &[u8] = b"$TOKEN";
    let at = request.windows(MARK.len()).position(|window| window == MARK);
    match at {
        None => request.to_vec(),
        Some(at) => [&request[..at], token.as_bytes(), &request[at + MARK.len()..]].concat(),
    }
}

/// True if the answer has a `content-length` and its body is complete.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.to_ascii_lowercase().lines().find_map(|line| {
        line.strip_prefix("content-length: ").and_then(|length| length.parse::<usize>().ok())
    });
    length.is_some_and(|length| body.len() >= length)
}

/// A well-behaved client: a connection for requests, and a watch of Nodes.
pub(super) struct OtherClient<'a> {
    cluster: &'a Cluster,
    questions: http1::SendRequest<Empty<Bytes>>,
    watch: Incoming,
    n_nodes: u32,
}

impl<'a> OtherClient<'a> {
    pub(super) async fn of(cluster: &'a Cluster) -> Self {
        let questions = speak(cluster).await;
        let mut watcher = speak(cluster).await;
        let version = cluster.sim.world().read(|world| world.cluster.revision());
        let path = format!("/api/v1/nodes?watch=1&resourceVersion={version}");
        let watch = watcher.send_request(cluster.request(&path)).await.expect("an answer");
        assert_eq!(watch.status(), 200);
        Self { cluster, questions, watch: watch.into_body(), n_nodes: 0 }
    }

    /// Creates a Node, and checks that the watch receives it and that a request gets its answer
    /// within [`DEADLINE`]. `during` describes the situation in error messages.
    pub(super) async fn is_served(&mut self, during: &str) {
        self.n_nodes += 1;
        let name = format!("neighbour-{}", self.n_nodes);
        self.cluster.node(&name);
        let served = async {
            let frame = self
                .watch
                .frame()
                .await
                .expect("the watch continues")
                .expect("the watch does not break");
            let event = frame.into_data().expect("data");
            let event: serde_json::Value = serde_json::from_slice(&event).expect("one event");
            assert_eq!(event["object"]["metadata"]["name"], *name, "{during}");
            let question = self.cluster.request(&format!("/api/v1/nodes/{name}"));
            let answer = self.questions.send_request(question).await.expect("an answer");
            assert_eq!(answer.status(), 200, "{during}");
            answer.into_body().collect().await.expect("the body is complete");
        };
        let served = tokio::time::timeout(DEADLINE, served).await;
        served.unwrap_or_else(|_| panic!("the other client has to wait: {during}"));
    }
}

async fn speak(cluster: &Cluster) -> http1::SendRequest<Empty<Bytes>> {
    let stream = TokioIo::new(cluster.connect().await);
    let (sender, connection) = http1::handshake(stream).await.expect("a connection");
    tokio::spawn(connection);
    sender
}
