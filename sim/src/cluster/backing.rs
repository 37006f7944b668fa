//! Passes requests on to another API server, which answers them in place of the built-in one.
//!
//! The sim still does TLS, credentials, the ledger, and the fault rules that delay, replace or cut
//! an answer. Only the built-in server can apply a rule that changes the content of an answer (a
//! list without some object, a silent watch) or compacts the history of the objects. The sim
//! refuses a call to which such a rule applies, instead of ignoring the rule.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use sim_world::objects::Status;

use super::ParsedRequest;
use crate::call::full;
use crate::faults::Effects;
use crate::{Body, Call, Class, Outcome, Reply};
use kube_sim_api::{self, AnswerFacts};

/// Future that yields the answer of a [`Backing`].
pub type AnswerFuture = Pin<Box<dyn Future<Output = io::Result<Response<Body>>> + Send>>;

/// API server that answers requests in place of the built-in one.
pub trait Backing: fmt::Debug + Send + Sync {
    /// Answers a request that the sim has authorized: the client's request without the header
    /// `Authorization` and without the headers that concern only the client's connection. For an
    /// error the sim answers 502.
    ///
    /// The sim drops the future when the client disconnects. Work that must complete even then
    /// needs a separate task.
    fn answer(&self, call: &Call, request: http::Request<Bytes>) -> AnswerFuture;
}

/// Slot for a [`Backing`]. Clones share the slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackingSlot(Arc<OnceLock<Arc<dyn Backing>>>);

impl BackingSlot {
    /// Makes `backing` answer the later requests that the sim admits. Does nothing if the slot is
    /// already set.
    pub(crate) fn set(&self, backing: Arc<dyn Backing>) {
        let _ = self.0.set(backing);
    }

    pub(super) fn get(&self) -> Option<&Arc<dyn Backing>> {
        self.0.get()
    }

    /// Copy of a request's head for the [`Backing`]; `None` if the slot is empty.
    pub(super) fn head(&self, parts: &Parts) -> Option<Box<Parts>> {
        self.get().map(|_| Box::new(parts.clone()))
    }
}

/// Headers that concern one connection, and the header with the credentials. The sim removes them
/// from each request that it passes on, and from the answer.
const NOT_PASSED_ON: [HeaderName; 8] =
    [AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, TE, TRANSFER_ENCODING, UPGRADE];

fn remove_hop_headers(headers: &mut HeaderMap) {
    for name in NOT_PASSED_ON {
        headers.remove(name);
    }
}

/// Passes a request to the backing server and returns the answer of that server. Answers 501
/// instead if a fault rule changes the content of the answer or compacts the history of the
/// objects, and 502 if the backing server gives no complete answer.
pub(super) async fn forward(
    backing: &dyn Backing,
    call: &Call,
    request: ParsedRequest,
    effects: &Effects,
) -> Reply {
    if effects.change_cluster_answers() {
        let why = "a fault rule changes the content of this answer, which only the built-in API \
                   server can do: remove the rule, or use the built-in API server";
        return failure(&Status::new(501, "NotImplemented", why));
    }
    let mut forwarded = http::Request::new(request.request.into_body());
    if let Some(head) = request.head {
        *forwarded.method_mut() = head.method;
        *forwarded.uri_mut() = head.uri;
        *forwarded.headers_mut() = head.headers;
        remove_hop_headers(forwarded.headers_mut());
    }
    match backing.answer(call, forwarded).await {
        Ok(response) => client_answer(call, response).await,
        Err(error) => bad_gateway(&error),
    }
}

fn bad_gateway(error: &io::Error) -> Reply {
    let why = format!("the API server behind the sim gave no complete answer: {error}");
    failure(&Status::new(StatusCode::BAD_GATEWAY.as_u16(), "BadGateway", why))
}

fn failure(status: &Status) -> Reply {
    kube_sim_api::Reply::failure(status).into()
}

/// Returns the answer for the client, with the outcome for the ledger; 502 if the body breaks off.
/// A successful answer to a watch stays a stream, with an empty outcome.
async fn client_answer(call: &Call, mut response: Response<Body>) -> Reply {
    remove_hop_headers(response.headers_mut());
    if call.class == Class::Longpoll && response.status().is_success() {
        return Reply { response, outcome: Outcome::default() };
    }
    let (head, body) = response.into_parts();
    let body = match body.collect().await {
        Ok(whole) => whole.to_bytes(),
        Err(error) => return bad_gateway(&error),
    };
    let outcome = outcome(call, head.status, &head.headers, &body);
    Reply { response: Response::from_parts(head, full(body)), outcome }
}

fn outcome(call: &Call, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Outcome {
    let content_type = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let facts = AnswerFacts::read(content_type.unwrap_or_default(), body);
    if status.is_client_error() || status.is_server_error() {
        let reason = facts.map(|it| it.reason).filter(|it| !it.is_empty());
        let fault = reason.unwrap_or_else(|| status.as_u16().to_string());
        return Outcome { fault: Some(fault), ..Outcome::default() };
    }
    let is_about_objects = call.target != crate::Target::default();
    let objects = facts.filter(|_| is_about_objects).map_or(0, |it| it.objects);
    Outcome { objects, ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http_body_util::Full;
    use tower::Service as _;

    use super::*;
    use crate::Sim;
    use crate::faults::{Action, Rule};

    /// Gives the same answer to every request and records the requests.
    #[derive(Debug, Default)]
    struct Echo(Mutex<Vec<(String, HeaderMap)>>);

    impl Backing for Echo {
        fn answer(&self, _: &Call, request: http::Request<Bytes>) -> AnswerFuture {
            let asked = (request.uri().to_string(), request.headers().clone());
            self.0.lock().unwrap().push(asked);
            Box::pin(async {
                let list = r#"{"kind":"NodeList","items":[{},{}]}"#;
                let mut response = Response::new(full(list));
                let json = http::HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, json);
                Ok(response)
            })
        }
    }

    async fn get(sim: &Sim, token: &str) -> StatusCode {
        let request = http::Request::get("/api/v1/nodes?limit=500")
            .header(AUTHORIZATION, format!("Bearer {token}"))
            .header("accept", "application/json")
            .body(Full::new(Bytes::new()))
            .unwrap();
        sim.cluster().service("").call(request).await.unwrap().status()
    }

    #[tokio::test(start_paused = true)]
    async fn a_backing_api_server_answers_and_the_ledger_records_the_call() {
        let sim = Sim::builder().start();
        let echo = Arc::new(Echo::default());
        sim.back_cluster(echo.clone());
        let token = sim.admin_token().to_owned();
        assert_eq!(get(&sim, &token).await, StatusCode::OK);
        assert_eq!(get(&sim, "wrong").await, StatusCode::UNAUTHORIZED);
        let asked = echo.0.lock().unwrap();
        let [(uri, headers)] = asked.as_slice() else { panic!("{asked:?}") };
        assert_eq!(uri, "/api/v1/nodes?limit=500");
        assert_eq!(headers.get("accept").unwrap(), "application/json");
        assert!(headers.get(AUTHORIZATION).is_none());
        let records = sim.ledger().records();
        let ended = records[0].ended.as_ref().unwrap();
        assert_eq!(
            (records[0].op.as_str(), ended.status, ended.objects),
            ("list nodes", Some(200), 2)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn rules_apply_to_a_backed_cluster_and_a_hide_rule_is_answered_with_501() {
        let sim = Sim::builder().start();
        sim.back_cluster(Arc::new(Echo::default()));
        let token = sim.admin_token().to_owned();
        let busy = Action::status(503);
        for (action, want) in [(busy, 503), (Action::Hide("node-1".into()), 501)] {
            sim.fault(Rule::new("rule", [action])).unwrap().keep();
            assert_eq!(get(&sim, &token).await, want);
            sim.heal();
        }
        assert_eq!(get(&sim, &token).await, 200);
    }
}
