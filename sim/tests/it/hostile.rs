//! Tests of hostile and broken clients on real sockets: they get an answer or lose their
//! connection, and other clients do not have to wait.

mod cluster;
mod requests;

use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sim::ledger::Record;
use sim::world::objects::GroupResource;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use cluster::{Cluster, DEADLINE, OtherClient, replaced};
use requests::{AUTH, MAPS, get, requests};

#[tokio::test]
async fn hostile_requests_get_answers_and_do_not_delay_another_client() {
    let cluster = Cluster::new().await;
    let mut neighbour = OtherClient::of(&cluster).await;
    for (name, request, status, text) in requests() {
        let answer = cluster.raw(&request).await;
        let line = answer.lines().next().unwrap_or_default();
        let begin: String = answer.chars().take(600).collect();
        assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{name}: {begin}");
        assert!(answer.contains(text), "{name}: {begin}");
        neighbour.is_served(name).await;
    }
    // None of the requests has changed the world.
    let maps = GroupResource::core("configmaps");
    let n_maps = cluster.sim.world().read(|world| world.cluster.count(&maps));
    assert_eq!(n_maps, 0);
}

#[tokio::test]
async fn unfinished_requests_do_not_delay_another_client() {
    let cluster = Cluster::new().await;
    let mut neighbour = OtherClient::of(&cluster).await;
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
        stream.write_all(beginning).await.expect("the server listens");
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
    let records = cluster.ended(1, |record| record.op == "create configmaps").await;
    assert_eq!(records[0].ended.as_ref().and_then(|ended| ended.status), Some(500));
}

#[tokio::test]
async fn five_thousand_watches_receive_every_change() {
    const N_CONNECTIONS: usize = 50;
    const N_STREAMS: usize = 100;
    let cluster = Cluster::new().await;
    let mut neighbour = OtherClient::of(&cluster).await;
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
        neighbour.is_served("5,000 watches send a change").await;
        let told = join_all(bodies.iter_mut().map(|body| async move {
            let frame =
                body.frame().await.expect("the watch continues").expect("the watch does not break");
            let event: serde_json::Value =
                serde_json::from_slice(&frame.into_data().expect("data")).expect("one event");
            event["type"] == "ADDED" && event["object"]["metadata"]["name"] == *name
        }));
        let told =
            tokio::time::timeout(DEADLINE, told).await.expect("every watch receives the change");
        assert_eq!(told.iter().filter(|told| **told).count(), 5_000, "{name}");
    }
}

#[tokio::test]
async fn an_unfinished_request_head_is_cut_off_and_an_idle_connection_is_not() {
    let cluster = Cluster::patient(Duration::from_millis(300)).await;
    let whole = "GET /sdk/vimServiceVersions.xml HTTP/1.1\r\nHost: x\r\n\r\n";
    let posted = "POST /sdk HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n<a>";
    let chunked =
        "POST /sdk HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n<a>\r\n0\r\n\r\n";
    let half = &whole[..20];
    for face in [cluster.address, cluster.supervisor, cluster.vcenter] {
        let connect = || async { TcpStream::connect(face).await.expect("the server listens") };
        let mut kept = vec![connect().await];
        for request in [whole, posted, chunked] {
            let mut idle = connect().await;
            idle.write_all(request.as_bytes()).await.expect("the connection is open");
            is_answered(&mut idle).await;
            kept.push(idle);
        }
        let stream = TokioIo::new(connect().await);
        let framed = http2::handshake(TokioExecutor::new(), stream);
        let (mut http2, connection) = framed.await.expect("the handshake ends");
        tokio::spawn(connection);
        for beginning in [
            half.to_owned(),
            format!("{whole}{half}"),
            format!("{posted}{half}"),
            format!("{chunked}{half}"),
            format!("\r\n{half}"),
            "PRI * HTTP/2.0\r\n\r\nSM".to_owned(),
        ] {
            let mut slow = connect().await;
            slow.write_all(beginning.as_bytes()).await.expect("the connection is open");
            let mut rest = Vec::new();
            let ended = tokio::time::timeout(DEADLINE, slow.read_to_end(&mut rest)).await;
            assert!(ended.is_ok(), "{face}: {beginning:?} stays open");
        }
        for mut kept in kept {
            kept.write_all(whole.as_bytes()).await.expect("the connection is open");
            is_answered(&mut kept).await;
        }
        if face != cluster.vcenter {
            let request = cluster.request("/version");
            http2.send_request(request).await.expect("frames have no deadline between requests");
        }
    }
}

async fn is_answered(stream: &mut TcpStream) {
    let mut buffer = vec![0; 65536];
    let n = stream.read(&mut buffer).await.expect("the server answers");
    assert!(buffer[..n].starts_with(b"HTTP/1.1 "), "{:?}", String::from_utf8_lossy(&buffer[..n]));
}

#[tokio::test]
async fn a_client_that_is_not_logged_in_to_vcenter_may_send_one_mib() {
    let cluster = Cluster::new().await;
    for (path, kind) in [("/sdk", "text/xml"), ("/api/session", "application/json")] {
        for (size, is_too_large) in [(1 << 20, false), ((1 << 20) + 1, true)] {
            let mut stream = TcpStream::connect(cluster.vcenter).await.expect("the server listens");
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n\r\n"
            );
            for part in [head.as_bytes(), &vec![b' '; size]] {
                stream.write_all(part).await.expect("the server listens");
            }
            let mut line = [0; 12];
            stream.read_exact(&mut line).await.expect("the server answers");
            let line = String::from_utf8_lossy(&line);
            assert_eq!(line == "HTTP/1.1 413", is_too_large, "{size} bytes to {path}: {line}");
        }
    }
}

#[tokio::test]
async fn unfinished_bodies_at_one_face_do_not_block_the_other_faces() {
    // A cluster accepts bodies of up to 3 MiB, and 256 MiB of unfinished bodies in all: 88 bodies
    // of 2.9 MiB.
    const N_BODIES: usize = 90;
    const N_REFUSED: usize = 2;
    let size = (29 << 20) / 10;
    let cluster = Cluster::new().await;
    let head = |path: &str, kind: &str, length: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let mut unfinished: FuturesUnordered<_> = (0..N_BODIES)
        .map(|_| async {
            let mut stream = cluster.connect().await;
            let head = head("/api/v1/nodes", "application/json", size + 1);
            stream.write_all(head.as_bytes()).await.expect("the server listens");
            // The server does not read a refused body to the end.
            let _ = stream.write_all(&vec![b' '; size]).await;
            let mut line = [0; 12];
            stream.read_exact(&mut line).await.map(|_| line)
        })
        .collect();
    for _ in 0..N_REFUSED {
        let answer = tokio::time::timeout(DEADLINE, unfinished.next()).await;
        let answer =
            answer.expect("an answer within the deadline").expect("a body without an answer");
        assert!(answer.is_err() || answer.is_ok_and(|line| &line == b"HTTP/1.1 503"));
    }
    for (face, path, kind) in [
        (cluster.vcenter, "/sdk", "text/xml"),
        (cluster.supervisor, "/api/v1/nodes", "application/json"),
        (cluster.admin, "/world/events", "application/json"),
    ] {
        let mut stream = TcpStream::connect(face).await.expect("the server listens");
        let half = vec![b' '; 1 << 19];
        let head = head(path, kind, 2 * half.len());
        for part in [head.as_bytes(), &half, &half] {
            stream.write_all(part).await.expect("the server listens");
        }
        let mut line = [0; 12];
        stream.read_exact(&mut line).await.expect("the server answers");
        assert_ne!(&line, b"HTTP/1.1 503", "{path} at {face}");
    }
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_disconnected_and_delays_no_other() {
    const N_READERS: usize = 20;
    let cluster = Cluster::patient(Duration::from_millis(500)).await;
    let data = "x".repeat(800 << 10);
    for n in 0..40 {
        let name = format!("large-{n}");
        let map = serde_json::json!({"metadata": {"name": name, "namespace": "default"}, "data": {"a": data}});
        cluster.create("configmaps", "default", map);
    }
    let mut neighbour = OtherClient::of(&cluster).await;
    let mut readers = Vec::new();
    for _ in 0..N_READERS {
        let mut stream = cluster.connect().await;
        let watch = replaced(&get(&format!("{MAPS}?watch=1")), &cluster.token);
        stream.write_all(&watch).await.expect("the server listens");
        readers.push(stream);
    }
    neighbour.is_served("20 clients read nothing").await;
    let is_slow = |record: &Record| record.op == "watch configmaps";
    for record in cluster.ended(N_READERS, is_slow).await {
        let ended = record.ended.expect("the call has ended");
        assert_eq!(ended.broken, Some("abandoned"));
        // The server sends only the part of the 31 MiB that fits into the buffers of the system and
        // of one connection.
        assert!(ended.bytes < 24 << 20, "{} bytes sent to a client that reads none", ended.bytes);
    }
    neighbour.is_served("20 clients are disconnected").await;
    for mut reader in readers {
        // The connection ends or is reset after the sent bytes; the watch sends no further events.
        let mut buffer = vec![0; 1 << 20];
        while reader.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
    }
}
