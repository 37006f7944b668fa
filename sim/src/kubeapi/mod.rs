//! The Kubernetes API of the workload cluster, as kube-apiserver 1.36.3 speaks it.
//!
//! [`KubeApi::classify`] says what a request is; [`KubeApi::handle`] answers it from the shared
//! world. Answers are JSON. What is not there is refused with a `Status` that names it.

mod accept;
mod access;
mod answer;
mod discovery;
mod duplicates;
mod encodings;
mod failure;
mod health;
mod objects;
mod openapi;
mod options;
mod protobuf;
mod query;
mod render;
mod request;
mod reviews;
mod route;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod tokens;
mod warnings;
mod watch;

use http::Method;
use jiff::Timestamp;
use sim_world::objects::Status;

pub use access::Access;
pub(crate) use request::Request;
pub use tokens::{Identity, Tokens};

use crate::faults::Effects;
use crate::{Call, Incoming, Reply, WorldHandle};
use access::{Attributes, Object};
use encodings::Encodings;
use route::Route;

/// The API server of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct KubeApi {
    server: String,
    world: WorldHandle,
    tokens: Tokens,
    access: Access,
    encodings: Encodings,
}

impl KubeApi {
    /// The API server named `server` in ledgers, over `world`, open to those who hold `tokens`.
    pub(crate) fn new(server: impl Into<String>, world: WorldHandle, tokens: Tokens) -> Self {
        let access = Access::default();
        Self { server: server.into(), world, tokens, access, encodings: Encodings::default() }
    }

    /// The same with `access` as what decides who may do what.
    pub(crate) fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Says what a request is, without judging it.
    pub(crate) fn classify(&self, incoming: &Incoming) -> (Call, Request) {
        let request = Request::read(incoming);
        let user = match &request.certificate {
            Some(identity) => Some(identity.user.clone()),
            None => request.token.as_deref().and_then(|token| self.tokens.user_of(token)),
        };
        let kind = |resource: &_| {
            self.world.read(|world| {
                let def = world.cluster.resource(resource)?;
                Some((answer::api_version(def), def.kind.clone().into_owned()))
            })
        };
        let call = summary::call(&self.server, incoming, &request, user, kind);
        (call, request)
    }

    /// Answers a request.
    ///
    /// Cancel safe: what a dropped call has changed is changed as a whole.
    pub(crate) async fn handle(&self, call: &Call, request: Request, effects: &Effects) -> Reply {
        let (is_pretty, is_head) = (request.is_pretty(), request.method == Method::HEAD);
        let reply = match self.admit(&request) {
            Ok(identity) => self.dispatch(call, request, &identity, effects),
            Err(status) => answer::failure(&status),
        };
        let reply = if is_head { answer::without_body(reply) } else { reply };
        let reply = answer::never_cached(reply);
        if is_pretty { answer::pretty(reply).await } else { reply }
    }

    /// Who asks, if they may.
    fn admit(&self, request: &Request) -> Result<Identity, Status> {
        let identity = self.authenticate(request)?.authenticated();
        let (method, path, query) = (&request.method, request.path.as_str(), &request.query);
        let identity = match &request.impersonated {
            None => identity,
            Some(other) => {
                let what = Attributes::of(method, path, query);
                self.impersonate(&identity, other, what)?
            }
        };
        // Nothing more to decide for those who may do everything.
        if self.access.is_rbac() {
            let what = Attributes::of(method, path, query);
            let verdict =
                self.world.read(|world| self.access.decide(&identity, &what, &world.cluster));
            if !verdict.is_allowed {
                return Err(access::forbidden(&identity, &what, &verdict.reason));
            }
        }
        Ok(identity)
    }

    fn authenticate(&self, request: &Request) -> Result<Identity, Status> {
        let unauthorized = || Status::new(401, "Unauthorized", "Unauthorized");
        if let Some(identity) = &request.certificate {
            return Ok(identity.clone());
        }
        match &request.token {
            Some(token) => self.tokens.identify(token, self.world.now()).ok_or_else(unauthorized),
            // Somebody in this process who needs no credentials.
            None if !request.client.is_empty() => Ok(Identity::admin()),
            None if request.route.is_public() || self.access.is_rbac() => Ok(Identity::anonymous()),
            None => Err(unauthorized()),
        }
    }

    /// Whether somebody may act as somebody else.
    ///
    /// After `apiserver: pkg/endpoints/filters/impersonation`.
    fn impersonate(
        &self,
        identity: &Identity,
        other: &Identity,
        what: Attributes,
    ) -> Result<Identity, Status> {
        if other.user.is_empty() {
            let groups: Vec<String> = other.groups.iter().map(|it| format!("{it:?}")).collect();
            return Err(Status::bad_request(format!(
                "requested &user.DefaultInfo{{Name:\"\", UID:\"\", Groups:[]string{{{}}}, Extra:map[string][]string(nil)}} without impersonating a user name",
                groups.join(", ")
            )));
        }
        let users = ("users", &other.user);
        let groups = other.groups.iter().map(|group| ("groups", group));
        for (resource, name) in std::iter::once(users).chain(groups) {
            let object =
                Object { resource: resource.into(), name: name.clone(), ..Object::default() };
            let asked = Attributes {
                verb: "impersonate".into(),
                object: Some(object),
                ..Attributes::default()
            };
            let verdict =
                self.world.read(|world| self.access.decide(identity, &asked, &world.cluster));
            if !verdict.is_allowed {
                let verb = format!("impersonate-on:user-info:{}", what.verb);
                return Err(access::forbidden(identity, &Attributes { verb, ..what }, ""));
            }
        }
        Ok(other.clone().authenticated())
    }

    fn dispatch(
        &self,
        call: &Call,
        request: Request,
        identity: &Identity,
        effects: &Effects,
    ) -> Reply {
        match &request.route {
            Route::Health => health::answer(&request.path, &request),
            Route::Version => discovery::version(),
            Route::Root => discovery::root(&self.world),
            Route::Core => discovery::core(&self.world, &request),
            Route::Groups => discovery::groups(&self.world, &request),
            Route::Group(group) => discovery::group(&self.world, group),
            Route::GroupVersion(group, version) => {
                discovery::group_version(&self.world, group, version)
            }
            Route::OpenApi(path) if path.is_empty() => openapi::index(&self.world),
            Route::OpenApi(path) => openapi::document(&self.world, path, &request),
            Route::Review(review, namespace) => self
                .review(*review, namespace, &request, identity)
                .unwrap_or_else(|status| answer::failure(&status)),
            Route::Resource(target) => self.resource(call, &request, target, effects),
            Route::Absent(what) => answer::failure(&failure::not_implemented(what)),
            Route::NotAllowed => answer::failure(&failure::not_allowed()),
            Route::NoSuchDoor(target) => self.nowhere(target),
            Route::Unknown => answer::page_not_found(),
        }
    }

    /// The answer that a fault rule asks for, in the words of the real server.
    #[expect(clippy::unused_self, reason = "every face has this method")]
    pub(crate) fn failure(
        &self,
        call: &Call,
        code: u16,
        reason: Option<&str>,
        message: Option<&str>,
        retry_after: Option<u32>,
    ) -> Reply {
        answer::failure(&failure::asked_for(call, code, reason, message, retry_after))
    }
}

/// Now, as objects tell it.
fn timestamp(world: &WorldHandle) -> Timestamp {
    world.now().timestamp(world.clock().epoch())
}
