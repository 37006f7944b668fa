//! vAPI REST of one vCenter: sessions, tagging and content libraries, in the `/rest` and the `/api`
//! dialect.

mod context;
mod dialect;
mod library;
mod route;
mod tagging;
mod template;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use sim_world::vcenter::{EndReason, Password, SessionService, VcFault};
use sim_world::{Outcome, VcRequest, World};

use crate::call::operations::vapi::Operation;
use crate::call::{Call, Caller, Class, Face, Incoming, RequestNote, Target, session_digest};
use crate::faults::Effects;
use crate::vcenter::soap::{label, text};
use crate::{Reply, WorldHandle, can_be_stale};
use context::Context;
use dialect::{Dialect, Error};
use route::Route;

const SESSION: &str = "vmware-api-session-id";

/// The vAPI face of one vCenter.
#[derive(Clone, Debug)]
pub(crate) struct VapiFace {
    world: WorldHandle,
    vcenter: String,
    /// True if the vCenter marks its cookies `Secure`.
    secure: bool,
}

/// A parsed request. Parts that could not be parsed are errors or `None`.
pub(crate) struct VapiRequest {
    dialect: Dialect,
    route: Result<Route, Error>,
    body: Bytes,
    /// True if the `Content-Type` header names another type than JSON.
    not_json: bool,
    credentials: Option<(String, Password)>,
    token: Option<String>,
    /// True if the answer to a login must not set a cookie with the session id, because the request
    /// has the header `vmware-use-header-authn`.
    header_only: bool,
    user_agent: String,
}

impl VapiFace {
    pub(crate) fn new(world: WorldHandle, vcenter: &str, secure: bool) -> Self {
        Self { world, vcenter: vcenter.to_owned(), secure }
    }

    /// True if a request with these headers belongs to an open session of vAPI or of SOAP, even to
    /// a SOAP session that is not logged in.
    pub(crate) fn is_logged_in(&self, world: &World, headers: &HeaderMap) -> bool {
        let is_session = |token: String| {
            world.vcenter(&self.vcenter).is_some_and(|vc| vc.logins.sessions.contains_key(&token))
        };
        session_id(headers).is_some_and(is_session)
    }

    /// Parses a request; does not read the world.
    pub(crate) fn parse(incoming: &Incoming) -> VapiRequest {
        let parts = &incoming.parts;
        let (dialect, route) = route::read(&parts.method, &parts.uri);
        let media_type = text(&parts.headers, header::CONTENT_TYPE);
        VapiRequest {
            dialect,
            route,
            body: incoming.body.clone(),
            not_json: !media_type.is_empty() && !media_type.contains("json"),
            credentials: basic(&parts.headers),
            token: session_id(&parts.headers),
            header_only: parts.headers.contains_key("vmware-use-header-authn"),
            user_agent: text(&parts.headers, header::USER_AGENT),
        }
    }

    /// Classifies a request. Does not check credentials or validity.
    pub(crate) fn classify(
        &self,
        world: &World,
        incoming: &Incoming,
        parsed: &VapiRequest,
    ) -> Call {
        let vc = world.vcenter(&self.vcenter);
        let session = |token: &String| vc?.logins.sessions.get(token)?.user.clone();
        let user = parsed.token.as_ref().and_then(session);
        let (operation, class, target, detail) = match &parsed.route {
            Ok(route) => (
                route.operation.name(),
                route.operation.class(),
                tagging::target(vc, route, &incoming.body),
                tagging::detail(route.operation.detail(), &incoming.body),
            ),
            Err(_) => {
                let parts = &incoming.parts;
                let detail = format!("{} {}", parts.method, parts.uri.path());
                ("unknown", Class::Read, Target::default(), detail)
            }
        };
        Call {
            face: Face::Vapi,
            server: self.vcenter.clone(),
            operation: operation.to_owned(),
            class,
            target,
            caller: Caller {
                client: label(incoming, user.as_deref()),
                user_agent: parsed.user_agent.clone(),
                user,
            },
            session: parsed.token.as_deref().map(session_digest),
            request: RequestNote { bytes: incoming.body.len() as u64, detail },
        }
    }

    /// Answers a request to `/rest` or `/api`; `effects` change the content of the answer.
    pub(crate) fn handle(&self, parsed: VapiRequest, effects: &Effects) -> Reply {
        let dialect = parsed.dialect;
        match self.answer(parsed, effects) {
            Ok(reply) => reply,
            Err(error) => dialect.failure(&error),
        }
    }

    /// Returns the answer with an HTTP status that a rule injects, in the format of `/api` if
    /// `incoming_api`, else in that of `/rest`. `message` replaces the usual text, except for 401.
    pub(crate) fn status(incoming_api: bool, code: StatusCode, message: Option<&str>) -> Reply {
        let dialect = if incoming_api { Dialect::Api } else { Dialect::Rest };
        dialect.failure(&Error::of_status(code, message))
    }

    fn answer(&self, parsed: VapiRequest, effects: &Effects) -> Result<Reply, Error> {
        let route = parsed.route?;
        match route.operation {
            Operation::SessionCreate => {
                return self.login(
                    parsed.dialect,
                    parsed.credentials,
                    parsed.header_only,
                    parsed.user_agent,
                );
            }
            Operation::SessionGet if parsed.token.is_none() => {
                return Err(Error::unauthenticated());
            }
            _ => {}
        }
        let token = parsed.token.ok_or_else(Error::unauthenticated)?;
        let user = self.user_of(&token).ok_or_else(Error::unauthenticated)?;
        let own = self.is_vapi(&token);
        if own {
            let began = VcRequest::CallBegan { token: token.clone() };
            self.request(began).map_err(Error::from)?;
        }
        let result = match route.operation {
            Operation::SessionGet => self.session(parsed.dialect, &token),
            Operation::SessionDelete => self
                .request(VcRequest::EndSession { token: token.clone(), reason: EndReason::Logout })
                .map(|_| parsed.dialect.nothing())
                .map_err(Error::from),
            _ if parsed.not_json && !parsed.body.is_empty() => Err(Error::unsupported_media_type()),
            _ => {
                let operation = route.operation.name();
                let past = effects.read_stale.filter(|_| can_be_stale(Face::Vapi, operation));
                let past = past.map(|n| self.world.before(&self.world.lock(), &self.vcenter, n));
                let context = Context {
                    world: past.as_ref().unwrap_or(&self.world),
                    vcenter: &self.vcenter,
                    dialect: parsed.dialect,
                    user: &user,
                    effects,
                };
                context.answer(&route, &parsed.body)
            }
        };
        if own {
            let _ = self.request(VcRequest::CallEnded { token });
        }
        result
    }

    fn login(
        &self,
        dialect: Dialect,
        credentials: Option<(String, Password)>,
        header_only: bool,
        user_agent: String,
    ) -> Result<Reply, Error> {
        let (user, password) = credentials.ok_or_else(Error::failed_to_login)?;
        let request = VcRequest::Login {
            family: SessionService::Vapi,
            token: None,
            user,
            password,
            user_agent,
        };
        let token = match self.request(request) {
            Ok(Outcome::Session(token)) => token,
            Ok(_) | Err(VcFault::InvalidLogin) => return Err(Error::failed_to_login()),
            Err(VcFault::TooManySessions) => return Err(Error::too_many_sessions()),
            Err(fault) => return Err(fault.into()),
        };
        let mut reply = dialect.created_plain(Value::from(token.as_str()));
        if !header_only {
            let path = if dialect == Dialect::Rest { "/rest" } else { "/api" };
            let secure = if self.secure { "; Secure" } else { "" };
            let cookie = format!("{SESSION}={token}; Path={path}; HttpOnly{secure}");
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                reply.response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
        }
        Ok(reply)
    }

    fn session(&self, dialect: Dialect, token: &str) -> Result<Reply, Error> {
        let shown = self.world.read(|world| {
            let vc = world.vcenter(&self.vcenter)?;
            let session = vc.logins.sessions.get(token)?;
            let at = |time: sim_world::Time| {
                let at = time.timestamp(world.epoch());
                format!("{at:.3}")
            };
            Some(json!({
                "user": session.user,
                "created_time": at(session.login_time),
                "last_accessed_time": at(session.last_active),
            }))
        });
        Ok(dialect.success(shown.ok_or_else(Error::unauthenticated)?))
    }

    /// Returns the user of a session; `None` if the session is not open or not logged in. As on
    /// modern servers, `token` may also be the cookie value of a SOAP session.
    fn user_of(&self, token: &str) -> Option<String> {
        self.world
            .read(|world| world.vcenter(&self.vcenter)?.logins.sessions.get(token)?.user.clone())
    }

    /// True if the token is that of a vAPI session, not of a SOAP session.
    fn is_vapi(&self, token: &str) -> bool {
        self.world.read(|world| {
            world
                .vcenter(&self.vcenter)
                .is_some_and(|vc| vc.logins.session(SessionService::Vapi, token).is_some())
        })
    }

    fn request(&self, request: VcRequest) -> Result<Outcome, VcFault> {
        match self.world.request(&self.vcenter, request) {
            Ok(outcome) => Ok(outcome),
            Err(sim_world::Fault::VCenter(fault)) => Err(fault),
            Err(_) => Err(VcFault::InvalidState),
        }
    }
}

impl Context<'_> {
    /// Answers a request to the service that its operation belongs to.
    fn answer(&self, route: &Route, body: &Bytes) -> Result<Reply, Error> {
        let name = route.operation.name();
        if name.starts_with("content.") {
            self.content(route, body)
        } else if name.starts_with("vcenter.vm-template.") {
            self.template(route, body)
        } else {
            self.tagging(route, body)
        }
    }
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    if let Some(id) = headers.get(SESSION).and_then(|value| value.to_str().ok()) {
        return Some(id.trim_matches('"').to_owned());
    }
    headers.get_all(header::COOKIE).iter().find_map(|value| {
        value.to_str().ok()?.split(';').find_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == SESSION).then(|| value.trim_matches('"').to_owned())
        })
    })
}

fn basic(headers: &HeaderMap) -> Option<(String, Password)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let decoded = STANDARD.decode(value.strip_prefix("Basic ")?.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), Password::new(password)))
}
