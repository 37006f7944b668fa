//! Face `grpc.ca`: the calls of Cluster Autoscalers (`--cloud-provider=externalgrpc`) to a server, which
//! the sim forwards, so that rules can disturb them and the ledger has them.
//!
//! The sim does not answer these calls itself. It reads requests and answers only to name the group, the
//! sizes and the instances in the ledger.

mod forward;
mod messages;

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use sim_rules::GrpcStatus;

use crate::call::full;
use crate::call::operations::autoscaler::METHODS;
use crate::ledger::Ledger;
use crate::{Body, Call, Caller, Class, Face, Incoming, Outcome, Reply, RequestNote, Target};
use forward::{Forward, ForwardedAnswer};

pub use forward::{Dial, Io};

/// Name of the server in the ledger and in rules.
pub const AUTOSCALER: &str = "autoscaler";
/// Service of the calls that the ledger names by their method alone.
const SERVICE: &str = "clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider";
const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

/// Names of the gRPC codes from 0 on.
const CODES: [&str; 17] = [
    "OK",
    "Cancelled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];
const INTERNAL: u32 = 13;
const UNAVAILABLE: u32 = 14;

/// Forwards calls to a server, and describes them.
pub(crate) struct AutoscalerFace {
    forward: Forward,
    ledger: Ledger,
}

impl fmt::Debug for AutoscalerFace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AutoscalerFace")
    }
}

impl AutoscalerFace {
    /// Creates a face whose calls go to the server that `dial` connects to.
    pub(crate) fn new(dial: Dial, ledger: Ledger) -> Self {
        Self { forward: Forward::new(dial), ledger }
    }

    /// Names operation, group and caller of a call.
    pub(crate) fn classify(&self, incoming: &Incoming) -> Call {
        let Incoming { parts, body, peer } = incoming;
        let path = parts.uri.path().trim_start_matches('/');
        let method = path.strip_prefix(SERVICE).and_then(|it| it.strip_prefix('/'));
        let known = METHODS.into_iter().find(|(name, _)| Some(*name) == method);
        let (operation, class) = known.unwrap_or((method.unwrap_or(path), Class::Read));
        let request = known.and_then(|_| messages::request(operation, message(body)?));
        let request = request.unwrap_or_default();
        let agent = parts.headers.get(header::USER_AGENT).and_then(|it| it.to_str().ok());
        Call {
            face: Face::Autoscaler,
            server: AUTOSCALER.to_owned(),
            operation: operation.to_owned(),
            class,
            target: Target {
                kind: request.group.as_ref().map(|_| "NodeGroup".to_owned()),
                name: request.group,
                ..Target::default()
            },
            caller: Caller {
                client: peer.client.clone(),
                user_agent: agent.unwrap_or_default().to_owned(),
                user: None,
            },
            session: None,
            request: RequestNote { bytes: body.len() as u64, detail: request.detail },
        }
    }

    /// Sends a call on, and returns the answer of the server. Code 14 says that the server cannot be
    /// reached or did not answer.
    pub(crate) async fn handle(&self, call: &Call, request: http::Request<Bytes>) -> Reply {
        let first = self.ledger.next_seq();
        let answered = self.forward.send(request).await;
        let behind = self.calls_since(first);
        let ForwardedAnswer { head, body, trailers } = match answered {
            Ok(answer) => answer,
            Err(why) => {
                let status = GrpcStatus::new(UNAVAILABLE).message(why.to_string());
                return Self::grpc_status(&status);
            }
        };
        let status = status(&head.headers).or_else(|| trailers.as_ref().and_then(status));
        let answer = message(&body).and_then(|it| messages::answer(&call.operation, it));
        let answer = answer.unwrap_or_default();
        let outcome = match &status {
            Some((0, _)) => Outcome {
                objects: answer.objects,
                answer: Some(answer.text).filter(|it| !it.is_empty()),
                ..Outcome::default()
            },
            Some((code, text)) => Outcome {
                fault: Some(name(*code)),
                answer: Some(text.clone()),
                ..Outcome::default()
            },
            None => Outcome { fault: Some("no grpc-status".to_owned()), ..Outcome::default() },
        };
        let mut response = http::Response::from_parts(head, answered_body(body, trailers));
        response.headers_mut().remove(header::CONTENT_LENGTH);
        Reply { response, outcome: Outcome { behind: Some(behind), ..outcome } }
    }

    /// Returns the number of calls to other faces from this number of the ledger on.
    fn calls_since(&self, first: u64) -> u64 {
        let mut n = 0;
        self.ledger.visit_from(first, |record| {
            n += u64::from(record.face.is_some_and(|it| it != Face::Autoscaler));
        });
        n
    }

    /// Answer with this gRPC status in the headers and without a message.
    pub(crate) fn grpc_status(status: &GrpcStatus) -> Reply {
        let mut response = http::Response::new(full(Bytes::new()));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, MEDIA_TYPE);
        headers.insert("grpc-status", HeaderValue::from(status.code));
        let text = status.message.as_deref().unwrap_or("a rule of the sim");
        if status.code != 0
            && let Ok(value) = HeaderValue::from_str(&percent_encoded(text))
        {
            headers.insert("grpc-message", value);
        }
        let reply = Reply { response, outcome: Outcome::default() };
        if status.code == 0 { reply } else { reply.with_fault(name(status.code)) }
    }

    /// Answer with an HTTP status, as a proxy in front of the server gives it.
    pub(crate) fn http_status(status: StatusCode, text: Option<&str>) -> Reply {
        let text = text.or(status.canonical_reason()).unwrap_or_default();
        Reply::new(status, "text/plain", format!("{text}\n")).with_fault(status.as_str())
    }

    /// Answer to a request that no server of gRPC understands, and to a fault of another protocol.
    pub(crate) fn internal(text: &str) -> Reply {
        Self::grpc_status(&GrpcStatus::new(INTERNAL).message(text))
    }
}

fn name(code: u32) -> String {
    let name = usize::try_from(code).ok().and_then(|it| CODES.get(it));
    name.map_or_else(|| format!("code {code}"), |it| (*it).to_owned())
}

/// Returns code and message of a gRPC status.
fn status(headers: &HeaderMap) -> Option<(u32, String)> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let text = headers.get("grpc-message").and_then(|it| it.to_str().ok());
    Some((code, percent_decoded(text.unwrap_or_default())))
}

/// Returns the only message of a body, without its length; `None` if it is compressed or incomplete.
fn message(body: &Bytes) -> Option<Bytes> {
    let (head, rest) = body.split_at_checked(5)?;
    let length = u32::from_be_bytes(head[1..].try_into().ok()?);
    (head[0] == 0 && u32::try_from(rest.len()).ok() == Some(length)).then(|| body.slice(5..))
}

/// Encodes a message of a status: bytes outside printable ASCII, and `%`, as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' => out.push_str("%25"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let decoded = digits.and_then(|it| u8::from_str_radix(it, 16).ok());
        (rest, _) = match (first, decoded) {
            (b'%', Some(byte)) => (&tail[2..], bytes.push(byte)),
            _ => (tail, bytes.push(*first)),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns a body with the message and the trailers of an answer.
fn answered_body(data: Bytes, trailers: Option<HeaderMap>) -> Body {
    let data = Some(data).filter(|it| !it.is_empty());
    Answer { data, trailers }.boxed_unsync()
}

/// A message and its trailers. Its length is not known to HTTP, so that trailers can follow.
struct Answer {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let data = self.data.take().map(Frame::data);
        let next = data.or_else(|| self.trailers.take().map(Frame::trailers));
        std::task::Poll::Ready(next.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_end_stream() { SizeHint::with_exact(0) } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_status_survive_their_encoding() {
        for text in ["", "plain text", "50 % of größe\n", "%zz", "a%2"] {
            assert_eq!(percent_decoded(&percent_encoded(text)), text);
        }
        assert_eq!(percent_encoded("é\n%"), "%C3%A9%0A%25");
        assert_eq!(percent_decoded("%C3%A9 %zz %2"), "é %zz %2");
    }

    #[test]
    fn a_body_has_one_message_that_is_not_compressed() {
        let body = |bytes: &[u8]| message(&Bytes::copy_from_slice(bytes));
        assert_eq!(body(&[0, 0, 0, 0, 2, 7, 8]), Some(Bytes::from_static(&[7, 8])));
        assert_eq!(body(&[0, 0, 0, 0, 0]), Some(Bytes::new()));
        for wrong in
            [&[][..], &[0, 0, 0, 0], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 2, 7], &[0, 0, 0, 0, 1, 7, 8]]
        {
            assert_eq!(body(wrong), None, "{wrong:?}");
        }
    }
}
