//! CA-001 to CA-007 and CA-073: connections and the common behavior of all methods.

use std::time::Duration;

use futures::future::join_all;
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};
use tokio::time::Instant;

use super::options::defaults;
use super::trial::{UNIMPLEMENTED, any_group, ensure, optional};
use super::{Outcome, Trial};
use crate::judge::verdict::Verdict;
use crate::lab::autoscaler::{
    Answer, CallError, Credentials, Empty, OfGroup, OfNode, OfOptions, SentNode, Session,
};

/// Number of concurrent reads, and the time within which 99 of 100 must be answered.
const MANY: usize = 100;
const SOON: Duration = Duration::from_millis(200);
const DEADLINE_EXCEEDED: i32 = 4;
/// Codes with which a server may refuse a caller: unauthenticated, permission denied.
const REFUSALS: [i32; 2] = [16, 7];

/// A Node of which no server has heard.
const UNKNOWN: &str = "vsphere://00000000-0000-4000-8000-000000000001";

pub(super) async fn needs_no_refresh(trial: &Trial<'_>) -> Outcome {
    let session = trial.cold().await?;
    let group = any_group(&session).await?.id;
    session.gpu_label().await?;
    session.gpu_types().await?;
    session.group_of(SentNode::new(UNKNOWN, "unknown")).await?;
    session.target(&group).await?;
    session.instances(&group).await?;
    optional(session.template(&group).await)?;
    optional(session.options(&group, defaults(trial.generation, 1)).await)?;
    Ok(())
}

pub(super) async fn refuses_unknown_methods(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    match session.call_bytes("NodeGroupFly", Vec::new()).await {
        Err(CallError { code: UNIMPLEMENTED, .. }) => Ok(()),
        Err(err) => Err(Verdict::fail(format!("an unknown method was refused with {err}"))),
        Ok(_) => Err(Verdict::fail("an unknown method was answered")),
    }
}

/// Requires that a client with these credentials gets no answer of `call`.
async fn refused<T>(
    trial: &Trial<'_>,
    as_whom: Credentials,
    call: impl AsyncFn(&Session) -> Answer<T>,
) -> Outcome {
    // Shows that the server is there, so that a failure below is a refusal.
    trial.session().await?.groups().await?;
    let answer = match trial.connect(as_whom).await {
        Ok(connection) => call(&trial.over(connection.channel)).await,
        Err(err) => Err(err),
    };
    match answer {
        Ok(_) => Err(Verdict::fail("the call was executed")),
        Err(err) if err.is_answer && !REFUSALS.contains(&err.code) => {
            Err(Verdict::fail(format!("the server answered the call: {err}")))
        }
        Err(err) if err.code == DEADLINE_EXCEEDED => {
            Err(Verdict::inconclusive(format!("the call was neither executed nor refused: {err}")))
        }
        Err(_) => Ok(()),
    }
}

pub(super) async fn refuses_clients_without_certificate(trial: &Trial<'_>) -> Outcome {
    refused(trial, Credentials::None, Session::groups).await
}

pub(super) async fn refuses_strangers(trial: &Trial<'_>) -> Outcome {
    refused(trial, Credentials::Stranger, Session::groups).await
}

pub(super) async fn negotiates_http2(trial: &Trial<'_>) -> Outcome {
    // The client verifies the certificate against the name of the endpoint.
    let connection = trial.connect(Credentials::Expected).await?;
    let tls = connection.tls.ok_or_else(|| Verdict::inconclusive("no facts of the handshake"))?;
    ensure!(tls.alpn == "h2", "the server negotiated {:?} by ALPN, not h2", tls.alpn);
    let is_new = tls.version.contains("1_2") || tls.version.contains("1_3");
    ensure!(is_new, "the server speaks {}", tls.version);
    Ok(())
}

pub(super) async fn health_is_not_weaker(trial: &Trial<'_>) -> Outcome {
    for path in [
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ] {
        refused(trial, Credentials::None, async |it| it.call_path(path, Vec::new()).await).await?;
    }
    Ok(())
}

/// Returns the serialized request with fields that no release of the protocol has.
fn with_unknown_fields(request: &impl prost::Message) -> Vec<u8> {
    let mut bytes = request.encode_to_vec();
    for tag in 100..=110 {
        encode_key(tag, WireType::Varint, &mut bytes);
        encode_varint(u64::from(tag), &mut bytes);
    }
    bytes
}

pub(super) async fn ignores_unknown_fields(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let group = any_group(&session).await?.id;
    let node = OfNode { node: Some(SentNode::new(UNKNOWN, "unknown")) };
    let options = OfOptions { id: group.clone(), defaults: Some(defaults(trial.generation, 1)) };
    let of_group = OfGroup::new(&group);
    for (method, plain, extended) in [
        ("NodeGroups", Vec::new(), with_unknown_fields(&Empty {})),
        ("Refresh", Vec::new(), with_unknown_fields(&Empty {})),
        ("NodeGroupForNode", node.encode_to_vec(), with_unknown_fields(&node)),
        ("NodeGroupTargetSize", of_group.encode_to_vec(), with_unknown_fields(&of_group)),
        ("NodeGroupNodes", of_group.encode_to_vec(), with_unknown_fields(&of_group)),
        ("NodeGroupGetOptions", options.encode_to_vec(), with_unknown_fields(&options)),
    ] {
        let plain = session.call_bytes(method, plain).await;
        let extended = session.call_bytes(method, extended).await;
        let code = |it: &Answer<Vec<u8>>| it.as_ref().map_or_else(|err| err.code, |_| 0);
        let (usual, now) = (code(&plain), code(&extended));
        ensure!(usual == now, "{method} with unknown fields: code {now} in place of {usual}");
    }
    Ok(())
}

pub(super) async fn answers_many_reads(trial: &Trial<'_>) -> Outcome {
    let session = trial.session().await?;
    let group = any_group(&session).await?.id;
    let reads = (0..MANY).map(|n| {
        let (session, group) = (session.clone(), group.clone());
        async move {
            let begin = Instant::now();
            match n % 4 {
                0 => session.groups().await.map(drop),
                1 => session.group_of(SentNode::new(UNKNOWN, "unknown")).await.map(drop),
                2 => session.target(&group).await.map(drop),
                _ => session.instances(&group).await.map(drop),
            }?;
            Ok::<_, CallError>(begin.elapsed())
        }
    });
    let mut times = Vec::new();
    for time in join_all(reads).await {
        times.push(time?);
    }
    times.sort();
    let late = times[MANY * 99 / 100 - 1];
    ensure!(late < SOON, "of {MANY} concurrent reads 99 took up to {} ms", late.as_millis());
    Ok(())
}
