//! `/sdk` of one vCenter: converts HTTP requests to operations, and results to answers.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use sim_world::vcenter::{MoRef, Service, SessionService};
use sim_world::{Outcome, VcRequest, World};

use super::{MalformedEnvelope, Request, fault, read, response, versions};
use crate::call::operations::soap::Subject;
use crate::call::{Call, Caller, Class, Face, Incoming, RequestNote, Target, session_digest};
use crate::faults::Effects;
use crate::shared_world::Locked;
use crate::vcenter::vim::{self, Failure, Node, Progress, Vim, VimFault};
use crate::{Reply, WorldHandle, can_be_stale};

const XML: &str = "text/xml; charset=utf-8";
const COOKIE: &str = "vmware_soap_session";

/// The SOAP face of one vCenter.
#[derive(Debug)]
pub(crate) struct SoapFace {
    world: WorldHandle,
    vcenter: String,
    vim: Vim,
    /// True if the vCenter marks its cookies `Secure`. Without TLS some clients would not send such
    /// cookies back.
    secure: bool,
}

/// A parsed request; its envelope may be an error.
pub(crate) struct SoapRequest {
    method: Method,
    path: String,
    envelope: Result<Request, MalformedEnvelope>,
    xml: bool,
    token: Option<String>,
    user_agent: String,
}

impl SoapFace {
    pub(crate) fn new(world: WorldHandle, vcenter: &str, secure: bool) -> Self {
        let vim = Vim::new(world.clone(), vcenter);
        Self { world, vcenter: vcenter.to_owned(), vim, secure }
    }

    /// True if a request with these headers belongs to a session that is logged in.
    pub(crate) fn is_logged_in(&self, world: &World, headers: &HeaderMap) -> bool {
        let session = |token: String| {
            let session =
                world.vcenter(&self.vcenter)?.logins.session(SessionService::Soap, &token)?;
            session.user.clone()
        };
        cookie(headers).and_then(session).is_some()
    }

    /// Parses a request; does not read the world.
    pub(crate) fn parse(incoming: &Incoming) -> SoapRequest {
        let headers = &incoming.parts.headers;
        let media_type = text(headers, header::CONTENT_TYPE);
        SoapRequest {
            method: incoming.parts.method.clone(),
            path: incoming.parts.uri.path().to_owned(),
            envelope: read(&incoming.body),
            xml: media_type.is_empty() || media_type.contains("xml"),
            token: cookie(headers),
            user_agent: text(headers, header::USER_AGENT),
        }
    }

    /// Classifies a request. Does not check the session or the arguments.
    pub(crate) fn classify(
        &self,
        world: &World,
        incoming: &Incoming,
        parsed: &SoapRequest,
    ) -> Call {
        let (operation, class, target, detail) = match &parsed.envelope {
            _ if parsed.method == Method::GET => {
                (format!("GET {}", parsed.path), Class::Read, Target::default(), String::new())
            }
            Err(_) => ("malformed".to_owned(), Class::Read, Target::default(), String::new()),
            Ok(request) => {
                let Request { operation, arguments, .. } = request;
                let detail = vim::argument_summary(operation.detail(), arguments);
                let name = operation.name().to_owned();
                (name, operation.class(), self.target(world, request), detail)
            }
        };
        let user = parsed.token.as_ref().and_then(|token| {
            let vc = world.vcenter(&self.vcenter)?;
            vc.logins.session(SessionService::Soap, token)?.user.clone()
        });
        let user_agent = parsed.user_agent.clone();
        Call {
            face: Face::Soap,
            server: self.vcenter.clone(),
            operation,
            class,
            target,
            caller: Caller { client: label(incoming, user.as_deref()), user_agent, user },
            session: parsed.token.as_deref().map(session_digest),
            request: RequestNote { bytes: incoming.body.len() as u64, detail },
        }
    }

    /// Answers with the versions of vim25 that this vCenter supports.
    fn versions(&self) -> Reply {
        let world = self.world.lock();
        let release = world.vcenter(&self.vcenter).map(|vc| vc.release.clone()).unwrap_or_default();
        Reply::new(StatusCode::OK, XML, versions::document(&release))
    }

    /// Answers a request to `/sdk`; `effects` change the content of the answer.
    ///
    /// Cancel safe: if the future is dropped, the call has had its whole effect or none.
    pub(crate) async fn handle(&self, parsed: SoapRequest, effects: &Effects) -> Reply {
        let SoapRequest { token, user_agent, .. } = &parsed;
        let request = match readable(&parsed, || self.versions()) {
            Ok(request) => request,
            Err(reply) => return refused(&self.world.lock(), &self.vcenter).unwrap_or(*reply),
        };
        let (token, fresh, step) = match self.begin(request, token.as_ref(), user_agent, effects) {
            Ok(begun) => begun,
            Err(reply) => return *reply,
        };
        let result = match step {
            Ok(Progress::Done(answer)) => Ok(answer),
            Ok(Progress::Waits(wait)) => {
                let _served = Served { world: &self.world, vcenter: &self.vcenter, token: &token };
                let caller = vim::Caller { token: &token, user_agent };
                let reply = self.vim.wait(&caller, wait, effects).await;
                reply.map(vim::Answer::from).map_err(Failure::from)
            }
            Err(failure) => Err(failure),
        };
        let (mut reply, set_cookie) = match result {
            Ok(answer) => {
                let body = response(request.operation.name(), answer.result.as_ref());
                let objects = answer.result.as_ref().map_or(0, vim::count_objects);
                (
                    Reply::new(StatusCode::OK, XML, body).with_objects(objects),
                    fresh || answer.logged_in,
                )
            }
            Err(Failure::Fault(fault)) => (failed(&fault), fresh),
            Err(Failure::TooManySessions) => (unavailable("too many sessions"), false),
        };
        let headers = reply.response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if set_cookie {
            let secure = if self.secure { " Secure;" } else { "" };
            let cookie = format!("{COOKIE}=\"{token}\"; Path=/; HttpOnly;{secure}");
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                headers.insert(header::SET_COOKIE, cookie);
            }
        }
        reply
    }

    /// Returns the answer with the fault `class` that a rule injects. An unknown class becomes
    /// `SystemError`. `message` replaces the usual message of the class.
    pub(crate) fn fault(class: &str, message: Option<&str>) -> Reply {
        failed(&VimFault::named(class, message))
    }

    /// Returns the answer with an HTTP status that a rule injects, in the format of the proxy in
    /// front of a real vCenter's services. `message` replaces the text `no healthy upstream`.
    pub(crate) fn status(code: StatusCode, message: Option<&str>) -> Reply {
        plain(code, message.unwrap_or("no healthy upstream"))
    }

    /// Finds the session of a token or opens a new one, then carries out the operation, or begins
    /// it if it blocks. Holds one lock of the world throughout.
    ///
    /// Returns the session's token, `true` for a new session, and the step. The error is the answer
    /// to the client if the services of the vCenter still start, or if it has too many sessions.
    fn begin(
        &self,
        request: &Request,
        token: Option<&String>,
        user_agent: &str,
        effects: &Effects,
    ) -> Result<(String, bool, Result<Progress, Failure>), Box<Reply>> {
        let mut world = self.world.lock();
        if let Some(reply) = refused(&world, &self.vcenter) {
            return Err(Box::new(reply));
        }
        let (token, fresh) = self.session(&mut world, token, user_agent)?;
        let began = VcRequest::CallBegan { token: token.clone() };
        // Cannot fail, because the session is open.
        let _ = world.request(&self.vcenter, began);
        let caller = vim::Caller { token: &token, user_agent };
        let this = (request.this.0.as_str(), request.this.1.as_str());
        let (operation, arguments) = (&request.operation, &request.arguments);
        let past = effects.read_stale.filter(|_| can_be_stale(Face::Soap, operation.name()));
        let step = match past.map(|n| self.world.before(&world, &self.vcenter, n)) {
            Some(past) => {
                self.vim.call(&mut past.lock(), &caller, operation, this, arguments, effects)
            }
            None => self.vim.call(&mut world, &caller, operation, this, arguments, effects),
        };
        if !matches!(step, Ok(Progress::Waits(_))) {
            let ended = VcRequest::CallEnded { token: token.clone() };
            let _ = world.request(&self.vcenter, ended);
        }
        Ok((token, fresh, step))
    }

    /// Returns the token of the open session that `token` names, or that of a new anonymous
    /// session. The flag is `true` for a new session: the answer must then set the session cookie.
    /// The error is the answer to the client if the vCenter has too many sessions.
    fn session(
        &self,
        world: &mut Locked<'_>,
        token: Option<&String>,
        user_agent: &str,
    ) -> Result<(String, bool), Box<Reply>> {
        let vc = world.vcenter(&self.vcenter);
        let live = |token: &&String| {
            vc.is_some_and(|vc| vc.logins.session(SessionService::Soap, token).is_some())
        };
        if let Some(token) = token.filter(live) {
            return Ok((token.clone(), false));
        }
        let request = VcRequest::OpenSession { user_agent: user_agent.to_owned() };
        match world.request(&self.vcenter, request) {
            Ok(Outcome::Session(token)) => Ok((token, true)),
            _ => Err(Box::new(unavailable("the maximum number of sessions has been reached"))),
        }
    }

    fn target(&self, world: &World, request: &Request) -> Target {
        let (kind, id) = &request.this;
        let arguments = &request.arguments;
        let id = match request.operation.subject() {
            Subject::This => Some(id),
            Subject::StartObject => start_object(arguments).or(Some(id)),
        };
        let moref = id.and_then(|id| MoRef::parse(id));
        let uuid = arguments.text_of("uuid").map(str::to_owned);
        let name = world.vcenter(&self.vcenter).and_then(|vc| {
            let by_uuid = || {
                let uuid = uuid::Uuid::try_parse(uuid.as_deref()?).ok()?;
                let swapped = sim_world::vcenter::swap_uuid(uuid);
                let inventory = &vc.inventory;
                inventory.by_bios_uuid(uuid).chain(inventory.by_bios_uuid(swapped)).next()
            };
            let id = moref.or_else(by_uuid)?;
            vc.inventory.get(id).map(|entity| entity.name.clone())
        });
        Target {
            kind: Some(moref.map_or_else(|| kind.clone(), |id| id.kind.type_name().to_owned())),
            name,
            namespace: None,
            moref: id.cloned(),
            uuid,
        }
    }
}

/// Returns the id of the start object of the first `specSet`; `None` unless that spec has exactly
/// one start object.
fn start_object(arguments: &Node) -> Option<&String> {
    let mut starts = arguments.child("specSet")?.all("objectSet");
    let first = starts.next()?;
    starts.next().is_none().then(|| first.child("obj").map(|obj| &obj.text))?
}

/// Returns the operation request in the envelope of a POST. The error is the answer to any other
/// request. `versions` makes the answer to a GET of `/sdk/vimServiceVersions.xml`.
fn readable(
    parsed: &SoapRequest,
    versions: impl FnOnce() -> Reply,
) -> Result<&Request, Box<Reply>> {
    Err(Box::new(match (&parsed.method, &parsed.envelope) {
        (&Method::GET, _) => match parsed.path.trim_end_matches('/') {
            "/sdk/vimServiceVersions.xml" => versions(),
            _ => plain(StatusCode::NOT_FOUND, "Not Found"),
        },
        (&Method::POST, _) if !parsed.xml => {
            plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a SOAP request has content type text/xml")
        }
        (&Method::POST, Err(malformed)) => {
            failed(&VimFault::invalid_request(malformed.to_string()))
        }
        (&Method::POST, Ok(request)) => return Ok(request),
        _ => plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are served here"),
    }))
}

/// Returns the 503 answer of the vCenter's proxy while the services start; `None` otherwise.
pub(crate) fn refused(world: &World, vcenter: &str) -> Option<Reply> {
    let service = world.vcenter(vcenter)?.service;
    (service == Service::Starting).then(|| unavailable("no healthy upstream"))
}

/// Guard that, on drop, records in the world that the call of a wait has ended.
struct Served<'a> {
    world: &'a WorldHandle,
    vcenter: &'a str,
    token: &'a str,
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let ended = VcRequest::CallEnded { token: self.token.to_owned() };
        let _ = self.world.request(self.vcenter, ended);
    }
}

/// Returns the token in the session cookie; `None` without one. Accepts the whole `Set-Cookie` text
/// and quotes around the token, because some clients send these.
fn cookie(headers: &HeaderMap) -> Option<String> {
    headers.get_all(header::COOKIE).iter().find_map(|value| {
        value.to_str().ok()?.split(';').find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            let value = value.trim().trim_matches('"');
            (name == COOKIE && !value.is_empty()).then(|| value.to_owned())
        })
    })
}

/// Returns a header as text; empty if it is absent or not text.
pub(crate) fn text(headers: &HeaderMap, name: header::HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// Returns the label of the caller: that of the connection, else the user, else `anonymous`.
pub(crate) fn label(incoming: &Incoming, user: Option<&str>) -> String {
    match incoming.peer.client.as_str() {
        "" => user.unwrap_or("anonymous").to_owned(),
        client => client.to_owned(),
    }
}

fn failed(raised: &VimFault) -> Reply {
    let body: Bytes = fault(raised).into();
    Reply::new(StatusCode::INTERNAL_SERVER_ERROR, XML, body).with_fault(raised.class())
}

fn plain(status: StatusCode, text: &str) -> Reply {
    let reason = status.canonical_reason().unwrap_or("error");
    Reply::new(status, "text/plain", format!("{text}\n")).with_fault(reason)
}

fn unavailable(text: &str) -> Reply {
    plain(StatusCode::SERVICE_UNAVAILABLE, text)
}
