//! Tests of the API servers of a world: answers that rules force, and the planes' independence.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube_sim_api::{Access, Tokens};
use sim_world::{Command, ControlPlane, World};

use super::ClusterFace;
use crate::faults::{ClusterAnswer, Effects, KubeStatus};
use crate::{Clock, Incoming, Peer, WorldHandle};

fn world() -> WorldHandle {
    let epoch = "2026-03-01T08:00:00Z".parse().unwrap();
    WorldHandle::new(World::new(epoch, 7), Clock::starting_at(epoch))
}

fn face_of(world: WorldHandle) -> ClusterFace {
    let (tokens, access) = (Tokens::default(), Access::default());
    ClusterFace::new("cluster", world, ControlPlane::Workload, tokens, access)
}

fn face() -> ClusterFace {
    face_of(world())
}

fn incoming(path: &str) -> Incoming {
    let (parts, ()) = http::Request::get(path).body(()).unwrap().into_parts();
    let peer = Peer { client: "test".into(), ..Peer::default() };
    Incoming { parts, body: Bytes::new(), peer }
}

#[tokio::test(start_paused = true)]
async fn a_watch_survives_the_end_of_all_watches_of_the_other_plane() {
    let world = world();
    let face = face_of(world.clone());
    let (call, request) = face.classify(&incoming("/api/v1/nodes?watch=1&timeoutSeconds=60"));
    let reply = face.handle(&call, request, &Effects::default()).await;
    let mut body = reply.response.into_body();
    world.apply(Command::EndWatches { plane: ControlPlane::Supervisor }).unwrap();
    let half = std::time::Duration::from_secs(30);
    let running = tokio::time::timeout(half, body.frame()).await;
    assert!(running.is_err(), "the watch has ended");
    world.apply(Command::EndWatches { plane: ControlPlane::Workload }).unwrap();
    assert!(tokio::time::timeout(half, body.frame()).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_injected_failure_has_the_body_of_a_real_failure() {
    let face = face();
    let (parts, ()) = http::Request::get("/api/v1/nodes/n1").body(()).unwrap().into_parts();
    let incoming = Incoming { parts, body: Bytes::new(), peer: Peer::default() };
    let (call, _) = face.classify(&incoming);
    let mut seen = Vec::new();
    for (code, reason, retry) in [
        (429, None, Some(3)),
        (409, None, None),
        (403, None, None),
        (404, None, None),
        (503, None, None),
        (500, Some("ServerTimeout"), None),
    ] {
        let mut status = KubeStatus::new(code);
        status.reason = reason.map(str::to_owned);
        status.retry_after = retry;
        let what = ClusterAnswer::Status(status);
        let reply = face.forced_answer(&call, "/api/v1/nodes/n1", &what);
        let retry = reply.response.headers().get("retry-after").cloned();
        let body = reply.response.into_body().collect().await.unwrap();
        seen.push(format!("{retry:?} {}", String::from_utf8_lossy(&body.to_bytes()).trim_end()));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    Some("3") {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Too many requests, please try again later.","reason":"TooManyRequests","details":{"retryAfterSeconds":3},"code":429}
    None {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on nodes \"n1\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict","details":{"name":"n1","kind":"nodes"},"code":409}
    None {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"nodes \"n1\" is forbidden: User \"system:anonymous\" cannot get resource \"nodes\" in API group \"\" at the cluster scope","reason":"Forbidden","details":{"name":"n1","kind":"nodes"},"code":403}
    None {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"nodes \"n1\" not found","reason":"NotFound","details":{"name":"n1","kind":"nodes"},"code":404}
    None {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server is currently unable to handle the request","reason":"ServiceUnavailable","code":503}
    Some("1") {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"The get operation against nodes could not be completed at this time, please try again.","reason":"ServerTimeout","details":{"retryAfterSeconds":1},"code":500}
    "#);
}
