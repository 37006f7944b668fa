//! The path of every call: classify → fault rules → ledger → login check → handler → world.
//!
//! Listeners, in-memory pipes and in-process services all call [`CallPath::serve`]. It returns a
//! response, or an error that breaks the connection.

mod body;
mod front;
mod inbox;
mod spoiled;

pub(crate) use front::Front;
#[cfg(feature = "listen")]
pub(crate) use inbox::Limit;
pub(crate) use inbox::{BodyError, BodyReader};

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt as _;
use sim_world::Command;
use tracing::Instrument as _;

use crate::call::{Call, Class, Incoming, Peer};
use crate::faults::{Faults, HttpStatus, ReplacedAnswer, SoapFault, Spoil, Verdict};
use crate::ledger::{Ended, Kind, Ledger};
use crate::{Body, Outcome, Reply, WorldHandle};
use body::Watched;
use front::FrontRequest;
use spoiled::spoiled;

/// Reason why a call has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    /// The server is a vCenter whose service is stopped, which refuses connections.
    #[error("connection refused")]
    Refused,
    /// A rule, or the stop of the vCenter, breaks the connection before an answer.
    #[error("connection reset")]
    Reset,
    /// A rule breaks the call, and the connection stays open if its protocol allows that.
    #[error("stream reset")]
    Stream,
}

impl From<Broken> for std::io::Error {
    fn from(broken: Broken) -> Self {
        let kind = match broken {
            Broken::Refused => std::io::ErrorKind::ConnectionRefused,
            Broken::Reset => std::io::ErrorKind::ConnectionReset,
            Broken::Stream => std::io::ErrorKind::Interrupted,
        };
        Self::new(kind, broken)
    }
}

/// True if the error breaks only its call, and not the connection.
#[cfg(feature = "listen")]
pub(crate) fn is_of_stream(error: &std::io::Error) -> bool {
    error.get_ref().and_then(|it| it.downcast_ref::<Broken>()) == Some(&Broken::Stream)
}

/// Marks a response after which its connection must end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastOfConnection;

/// Path of all calls to one server: the body reader, front end, rules, ledger and world through
/// which the calls pass.
#[derive(Clone, Debug)]
pub(crate) struct CallPath {
    pub(crate) world: WorldHandle,
    pub(crate) ledger: Ledger,
    pub(crate) faults: Faults,
    pub(crate) inbox: BodyReader,
    pub(crate) front: Arc<Front>,
}

/// True if an HTTP/1.1 request does not name its host. Servers must refuse such a request (RFC
/// 9112, section 3.2). The proxy in front of a vCenter refuses it.
fn lacks_host(parts: &Parts) -> bool {
    parts.version == http::Version::HTTP_11
        && !parts.headers.contains_key(http::header::HOST)
        && parts.uri.authority().is_none()
}

impl CallPath {
    /// Serves one request: classifies it, applies the fault rules, records the call, and answers
    /// it.
    ///
    /// Cancel safe: if the caller drops the future, the ledger records the call as abandoned,
    /// unless the body of the request has not arrived yet. In that case the ledger has no record of
    /// the call.
    ///
    /// # Errors
    /// [`Broken`] if a rule or the stop of the vCenter breaks the connection, or if the vCenter is
    /// stopped.
    pub(crate) async fn serve<B>(
        &self,
        request: http::Request<B>,
        peer: Peer,
    ) -> Result<http::Response<Body>, Broken>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        // A service in this process is not an HTTP connection, so its callers need not name a host.
        let is_vcenter = matches!(*self.front, Front::VCenter { .. });
        if is_vcenter && !peer.address.is_empty() && lacks_host(&parts) {
            let unread = BodyError::Broken("missing required Host header".to_owned());
            return self.unread(parts, peer, &unread);
        }
        let read = self.front.read(&self.inbox, &self.world, &parts, body);
        let body = match read.await {
            Ok(body) => body,
            Err(unread) => return self.unread(parts, peer, &unread),
        };
        let incoming = Incoming { parts, body, peer };
        let (call, parsed) = self.arrive(&incoming)?;
        let verdict = self.faults.judge(&call, self.world.now());
        for id in &verdict.expired {
            let text = format!("rule {id} removed: its lifetime is over");
            self.ledger.note(self.world.now(), Kind::Fault, text);
        }
        let seq = self.ledger.open(self.world.now(), &call, verdict.evaluations.clone());
        let record = Open::new(self.clone(), seq, call.class);
        let is_last = verdict.effects.goaway;
        let took_time = verdict.delay > Duration::ZERO || call.class == Class::Longpoll;
        let span =
            tracing::debug_span!("call", seq, server = call.server, operation = call.operation);
        let carried_out = self.carry_out(&call, parsed, &incoming, verdict, record);
        let outcome = carried_out.instrument(span).await;
        // If the call took time, the service may have stopped meanwhile.
        match outcome {
            Ok(_) if took_time && self.front.is_down(&self.world.lock()) => Err(Broken::Reset),
            Ok(mut response) if is_last => {
                response.extensions_mut().insert(LastOfConnection);
                Ok(response)
            }
            outcome => outcome,
        }
    }

    /// Answers a call whose body cannot be read, or whose head lacks the host. Evaluates no rule,
    /// because without the body the operation may be unknown. Fails only if the server is down.
    fn unread(
        &self,
        parts: Parts,
        peer: Peer,
        unread: &BodyError,
    ) -> Result<http::Response<Body>, Broken> {
        let incoming = Incoming { parts, body: Bytes::new(), peer };
        let (call, _) = self.arrive(&incoming)?;
        let seq = self.ledger.open(self.world.now(), &call, Vec::new());
        Ok(Open::new(self.clone(), seq, call.class).answered(self.front.unread(unread), None))
    }

    /// Classifies a request, and advances the world to the present time.
    ///
    /// # Errors
    /// [`Broken::Refused`] if the server is down.
    fn arrive(&self, incoming: &Incoming) -> Result<(Call, FrontRequest), Broken> {
        let (parsed, call) = self.front.parse(incoming);
        let mut world = self.world.lock();
        if self.front.is_down(&world) {
            return Err(Broken::Refused);
        }
        let call = match call {
            Some(call) => call,
            None => self.front.classify(&world, incoming, &parsed),
        };
        world.advance();
        Ok((call, parsed))
    }

    /// Delays a call, handles it, and replaces its answer, as the rules in `verdict` require. The
    /// error breaks the connection without an answer.
    async fn carry_out(
        &self,
        call: &Call,
        parsed: FrontRequest,
        incoming: &Incoming,
        verdict: Verdict,
        record: Open,
    ) -> Result<http::Response<Body>, Broken> {
        let Verdict { delay, ending, applied, effects, .. } = verdict;
        if delay > Duration::ZERO {
            let now = self.world.now();
            self.world.reach(now + delay).await;
        }
        if let Some(keep) = effects.compact {
            // The world never refuses a compaction.
            let _ = self.world.apply(Command::CompactCluster { plane: self.front.plane(), keep });
        }
        let Some(ending) = ending else {
            let reply = self.front.handle(&self.world, call, parsed, &effects).await;
            return Ok(record.answered(reply, None));
        };
        let real = if applied
            || matches!(ending, ReplacedAnswer::Truncate { .. } | ReplacedAnswer::Spoil(_))
        {
            Some(self.front.handle(&self.world, call, parsed, &effects).await)
        } else {
            None
        };
        match ending {
            ReplacedAnswer::Reset => {
                record.broken("reset");
                Err(Broken::Reset)
            }
            ReplacedAnswer::StreamReset => {
                record.broken("reset");
                Err(Broken::Stream)
            }
            ReplacedAnswer::Grpc(status) => {
                Ok(record.answered(self.front.grpc_status(call, incoming, &status), None))
            }
            ReplacedAnswer::Blackhole => {
                record.wait_for_stop().await;
                Err(Broken::Reset)
            }
            ReplacedAnswer::Truncate { bytes } => match real {
                Some(reply) => Ok(record.answered(reply, Some(bytes))),
                None => Err(Broken::Reset),
            },
            ReplacedAnswer::Spoil(how) => match real {
                Some(reply) => Ok(record.answered(spoil(reply, how), None)),
                None => Err(Broken::Reset),
            },
            ReplacedAnswer::SoapFault(SoapFault { class, message, .. }) => {
                let reply = self.front.soap_fault(call, incoming, &class, message.as_deref());
                Ok(record.answered(reply, None))
            }
            ReplacedAnswer::Cluster(answer) => {
                Ok(record.answered(self.front.cluster_answer(call, incoming, &answer), None))
            }
            ReplacedAnswer::Status(status) => {
                Ok(record.answered(self.status_answer(call, incoming, &status), None))
            }
        }
    }

    /// Returns the answer with an HTTP status that a rule requires.
    fn status_answer(&self, call: &Call, incoming: &Incoming, status: &HttpStatus) -> Reply {
        let HttpStatus { code, retry_after, message, .. } = status;
        let code = StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut reply = self.front.status(call, incoming, code, message.as_deref(), *retry_after);
        if let Some(seconds) = retry_after {
            let value = HeaderValue::from(*seconds);
            reply.response.headers_mut().insert(header::RETRY_AFTER, value);
        }
        reply
    }
}

/// Corrupts the body of an answer as a rule requires. The new body has an unknown length. The
/// ledger gets no fault and no digest, because the client may not be able to read the answer.
fn spoil(reply: Reply, how: Spoil) -> Reply {
    let Reply { response, outcome } = reply;
    let mut response = response.map(|body| spoiled(body, how));
    response.headers_mut().remove(header::CONTENT_LENGTH);
    Reply { response, outcome: Outcome { fault: None, digest: None, ..outcome } }
}

/// The open record of a call that the server still serves. Dropping it records the call as
/// abandoned.
struct Open {
    path: Option<CallPath>,
    seq: u64,
    class: Class,
}

impl Open {
    fn new(path: CallPath, seq: u64, class: Class) -> Self {
        Self { path: Some(path), seq, class }
    }

    /// Returns the response. The record closes at once if the body is complete and `cut` is not
    /// set, else when the body ends. If `cut` is set, the connection breaks after that many bytes
    /// of the body.
    fn answered(mut self, reply: Reply, cut: Option<u64>) -> http::Response<Body> {
        let Reply { response, outcome } = reply;
        let ended = Ended {
            status: Some(response.status().as_u16()),
            fault: outcome.fault,
            objects: outcome.objects,
            answer: outcome.answer,
            behind: outcome.behind,
            digest: outcome.digest.filter(|_| self.class == Class::Read),
            ..Ended::default()
        };
        let (seq, class) = (self.seq, self.class);
        match self.path.take() {
            None => response,
            Some(path) => response
                .map(|body| Watched::new(body, path, (seq, class), ended, cut).boxed_unsync()),
        }
    }

    fn broken(mut self, why: &'static str) {
        self.close(why);
    }

    /// Waits without an answer until the service stops, and then records the call as abandoned. A
    /// caller that goes away drops the future, with the same effect on the record.
    async fn wait_for_stop(self) {
        let Some(path) = &self.path else { return };
        let mut changes = path.world.changes();
        while !path.front.is_down(&path.world.lock()) {
            changes.changed().await;
        }
    }

    fn close(&mut self, why: &'static str) {
        if let Some(path) = self.path.take() {
            let ended = Ended { at: path.world.now(), broken: Some(why), ..Ended::default() };
            path.ledger.close(self.seq, ended);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.close("abandoned");
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use http_body_util::Empty;
    use tower::Service as _;
    use tracing_subscriber::fmt::MakeWriter;

    use super::*;
    use crate::Sim;

    /// Log lines of a test, kept in memory.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Log {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_line_of_a_handler_names_the_call_by_its_number_in_the_ledger() {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let sim = Sim::builder().start();
        let mut cluster = sim.cluster().service("test");
        for name in ["a", "b"] {
            let request = http::Request::get(format!("/api/v1/nodes/{name}"));
            cluster.call(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
        }
        let seq = sim.ledger().records()[1].seq;
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let line = text
            .lines()
            .rfind(|line| line.contains("the simulated API server refuses a request"))
            .unwrap();
        let span = format!(r#"call{{seq={seq} server="cluster" operation="get nodes"}}"#);
        assert!(line.contains(&span) && line.contains("NotFound"), "{line}");
    }
}
