//! `/sdk` of one vCenter: from HTTP to operations and back.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use sim_world::vcenter::{Family, MoRef, Service};
use sim_world::{Outcome, VcRequest};

use super::{MalformedEnvelope, Request, fault, read, response};
use crate::call::{Call, Caller, Class, Face, Incoming, RequestNote, Target};
use crate::faults::Effects;
use crate::ledger;
use crate::vim::{self, Failure, Node, Vim, VimFault};
use crate::{Reply, WorldHandle};

const XML: &str = "text/xml; charset=utf-8";
const COOKIE: &str = "vmware_soap_session";

/// The SOAP face of one vCenter.
#[derive(Debug)]
pub(crate) struct SoapFace {
    world: WorldHandle,
    vcenter: String,
    vim: Vim,
    /// Whether cookies are marked `Secure`: not without TLS, or some clients keep them back.
    secure: bool,
}

/// A request, parsed as far as it can be.
pub(crate) struct Parsed {
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

    /// Says what a request is, without judging it.
    pub(crate) fn classify(&self, incoming: &Incoming) -> (Call, Parsed) {
        let headers = &incoming.parts.headers;
        let token = cookie(headers);
        let user_agent = text(headers, header::USER_AGENT);
        let media_type = text(headers, header::CONTENT_TYPE);
        let parsed = Parsed {
            method: incoming.parts.method.clone(),
            path: incoming.parts.uri.path().to_owned(),
            envelope: read(&incoming.body),
            xml: media_type.is_empty() || media_type.contains("xml"),
            token,
            user_agent: user_agent.clone(),
        };
        let (operation, class, target, detail) = match &parsed.envelope {
            _ if parsed.method == Method::GET => {
                (format!("GET {}", parsed.path), Class::Read, Target::default(), String::new())
            }
            Err(_) => ("malformed".to_owned(), Class::Read, Target::default(), String::new()),
            Ok(request) => {
                let class = class_of(&request.operation);
                let detail = vim::detail(&request.operation, &request.arguments);
                (request.operation.clone(), class, self.target(request), detail)
            }
        };
        let user = parsed.token.as_ref().and_then(|token| {
            self.world.read(|world| {
                let vc = world.vcenter(&self.vcenter)?;
                vc.logins.session(Family::Soap, token)?.user.clone()
            })
        });
        let call = Call {
            face: Face::Soap,
            server: self.vcenter.clone(),
            operation,
            class,
            target,
            caller: Caller { client: label(incoming, user.as_deref()), user_agent, user },
            session: parsed.token.as_deref().map(ledger::digest),
            request: RequestNote { bytes: incoming.body.len() as u64, detail },
        };
        (call, parsed)
    }

    /// Answers a request.
    ///
    /// Cancel safe: a dropped call has been carried out as a whole or not at all.
    pub(crate) async fn handle(&self, parsed: Parsed, effects: &Effects) -> Reply {
        if parsed.method == Method::GET {
            return self.get(&parsed.path);
        }
        if parsed.method != Method::POST {
            return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are served here");
        }
        if !parsed.xml {
            return plain(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "a SOAP request has content type text/xml",
            );
        }
        let request = match parsed.envelope {
            Ok(request) => request,
            Err(malformed) => return failed(&VimFault::invalid_request(malformed.to_string())),
        };
        let (token, fresh) = match self.session(parsed.token, &parsed.user_agent) {
            Ok(session) => session,
            Err(reply) => return *reply,
        };
        let _served = Served::begin(&self.world, &self.vcenter, &token);
        let caller = vim::Caller { token: &token, user_agent: &parsed.user_agent };
        let this = (request.this.0.as_str(), request.this.1.as_str());
        let result =
            self.vim.call(&caller, &request.operation, this, &request.arguments, effects).await;
        let (mut reply, set_cookie) = match result {
            Ok(answer) => {
                let body = response(&request.operation, answer.result.as_ref());
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

    /// A fault that a rule asks for.
    pub(crate) fn fault(class: &str, message: Option<&str>) -> Reply {
        failed(&VimFault::named(class, message))
    }

    /// A status that a rule asks for: what the proxy in front of the service answers.
    pub(crate) fn status(code: StatusCode, message: Option<&str>) -> Reply {
        plain(code, message.unwrap_or("no healthy upstream"))
    }

    /// The live session of a token, or a new anonymous one. `true`: new, so the cookie must be sent.
    fn session(
        &self,
        token: Option<String>,
        user_agent: &str,
    ) -> Result<(String, bool), Box<Reply>> {
        let live = |token: &String| {
            self.world.read(|world| {
                world
                    .vcenter(&self.vcenter)
                    .is_some_and(|vc| vc.logins.session(Family::Soap, token).is_some())
            })
        };
        if let Some(token) = token.filter(live) {
            return Ok((token, false));
        }
        let request = VcRequest::OpenSession { user_agent: user_agent.to_owned() };
        match self.world.request(&self.vcenter, request) {
            Ok(Outcome::Session(token)) => Ok((token, true)),
            _ => Err(Box::new(unavailable("the maximum number of sessions has been reached"))),
        }
    }

    fn get(&self, path: &str) -> Reply {
        match path.trim_end_matches('/') {
            "/sdk/vimServiceVersions.xml" => {
                Reply::new(StatusCode::OK, XML, super::VERSIONS.to_owned())
            }
            _ => plain(StatusCode::NOT_FOUND, "Not Found"),
        }
    }

    fn target(&self, request: &Request) -> Target {
        let (kind, id) = &request.this;
        let arguments = &request.arguments;
        let id = match request.operation.as_str() {
            // What is read matters more than the collector that reads it.
            "RetrievePropertiesEx" | "RetrieveProperties" => start_object(arguments).or(Some(id)),
            _ => Some(id),
        };
        let moref = id.and_then(|id| MoRef::parse(id));
        let uuid = arguments.text_of("uuid").map(str::to_owned);
        let name = self.world.read(|world| {
            let vc = world.vcenter(&self.vcenter)?;
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

/// The only start object of the first spec.
fn start_object(arguments: &Node) -> Option<&String> {
    let mut starts = arguments.child("specSet")?.all("objectSet");
    let first = starts.next()?;
    starts.next().is_none().then(|| first.child("obj").map(|obj| &obj.text))?
}

/// Whether a vCenter answers at all: `None` if it does, else what its proxy says.
pub(crate) fn refusal(world: &WorldHandle, vcenter: &str) -> Option<Refusal> {
    match world.read(|world| world.vcenter(vcenter).map(|vc| vc.service))? {
        Service::Running => None,
        Service::Starting => Some(Refusal::Answer(unavailable("no healthy upstream"))),
        Service::Stopped => Some(Refusal::Connection),
    }
}

/// What a vCenter that does not serve does instead.
pub(crate) enum Refusal {
    /// Its proxy answers.
    Answer(Reply),
    /// Nothing listens.
    Connection,
}

/// Marks a session busy for as long as it lives.
struct Served<'a> {
    world: &'a WorldHandle,
    vcenter: &'a str,
    token: &'a str,
}

impl<'a> Served<'a> {
    fn begin(world: &'a WorldHandle, vcenter: &'a str, token: &'a str) -> Self {
        let _ = world.request(vcenter, VcRequest::CallBegan { token: token.to_owned() });
        Self { world, vcenter, token }
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        let ended = VcRequest::CallEnded { token: self.token.to_owned() };
        let _ = self.world.request(self.vcenter, ended);
    }
}

fn class_of(operation: &str) -> Class {
    match operation {
        "Login" | "Logout" | "CloneSession" | "TerminateSession" => Class::Login,
        "WaitForUpdatesEx" | "WaitForUpdates" => Class::Longpoll,
        _ if operation.ends_with("_Task") => Class::Task,
        "ShutdownGuest" | "RebootGuest" | "StandbyGuest" => Class::Write,
        _ if operation.starts_with("Create")
            || operation.starts_with("Destroy")
            || operation.starts_with("Modify")
            || operation.starts_with("Reset") =>
        {
            Class::Write
        }
        _ => Class::Read,
    }
}

/// The token in the session cookie. Some clients send back the whole `Set-Cookie` text, some keep
/// the quotes.
fn cookie(headers: &HeaderMap) -> Option<String> {
    headers.get_all(header::COOKIE).iter().find_map(|value| {
        value.to_str().ok()?.split(';').find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            let value = value.trim().trim_matches('"');
            (name == COOKIE && !value.is_empty()).then(|| value.to_owned())
        })
    })
}

pub(crate) fn text(headers: &HeaderMap, name: header::HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// Who a connection belongs to: the driver's label, else the user.
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
