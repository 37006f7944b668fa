//! The Kubernetes API server of a workload cluster or a Supervisor. Imitates kube-apiserver 1.36.3,
//! the "real server" of the comments.
//!
//! [`KubeApi::classify`] turns a request into the [`Call`] that the ledger records and fault rules
//! match. [`KubeApi::handle`] answers the request from the shared world, unless a [`Backing`]
//! answers in its place. This server writes objects only as JSON. A request for a resource or
//! feature of the real server that this server does not implement gets a `Status` that names the
//! resource or feature.

mod accept;
mod access;
mod answer;
mod backing;
mod body;
mod cluster;
mod discovery;
pub(crate) mod duplicates;
mod encodings;
mod failure;
mod faulty;
#[cfg(any(fuzzing, test))]
pub(crate) mod fuzzing;
mod health;
mod impersonation;
mod json;
mod not_found;
mod objects;
mod openapi;
mod options;
mod protobuf;
mod query;
mod render;
mod request;
mod reviews;
mod route;
mod served;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod tokens;
mod warnings;
mod watch;

use http::{Method, StatusCode};
use sim_world::ControlPlane;
use sim_world::objects::Status;

pub use access::Access;
pub(crate) use backing::BackingSlot;
pub use backing::{AnswerFuture, Backing};
pub(crate) use body::MAX_BODY_BYTES;
pub(crate) use cluster::ClusterHandle;
pub(crate) use request::Request;
pub use tokens::{Identity, Tokens};

use crate::faults::Effects;
use crate::{Call, Incoming, Reply};
use access::Attributes;
use encodings::EncodingCache;
use impersonation::Impersonators;
use route::Route;

/// The API server of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct KubeApi {
    server: String,
    cluster: ClusterHandle,
    tokens: Tokens,
    access: Access,
    encodings: EncodingCache,
    impersonators: Impersonators,
    backed: BackingSlot,
}

impl KubeApi {
    /// Creates an API server for the objects of `cluster`. The server accepts the bearer tokens in
    /// `tokens`, and the ledger calls it `server`.
    pub(crate) fn new(server: impl Into<String>, cluster: ClusterHandle, tokens: Tokens) -> Self {
        let access = Access::default();
        let (encodings, impersonators, backed) = Default::default();
        let server = server.into();
        Self { server, cluster, tokens, access, encodings, impersonators, backed }
    }

    /// Sets the authorizer of requests. By default every authenticated user may do everything.
    pub(crate) fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Sets the slot for a [`Backing`], another API server that answers requests in place of this
    /// one.
    pub(crate) fn with_backing(self, backed: BackingSlot) -> Self {
        Self { backed, ..self }
    }

    /// Control plane whose objects this server serves.
    pub(crate) fn plane(&self) -> ControlPlane {
        self.cluster.plane()
    }

    /// Parses a request and classifies it as a [`Call`]. Checks neither credentials nor
    /// permissions.
    pub(crate) fn classify(&self, incoming: &Incoming) -> (Call, Request) {
        let mut request = Request::read(incoming);
        request.head = self.backed.head(&incoming.parts);
        let user = match &request.certificate {
            Some(identity) => Some(identity.user.clone()),
            None => request.token.as_deref().and_then(|token| self.tokens.user_of(token)),
        };
        let kind = |resource: &_| {
            self.cluster.read(|store| {
                let def = store.resource(resource)?;
                Some((answer::api_version(def), def.kind.clone().into_owned()))
            })
        };
        let call = summary::call(self.cluster.face(), &self.server, incoming, &request, user, kind);
        (call, request)
    }

    /// Answers a classified request.
    ///
    /// Cancel safe without a [`Backing`]: if the future is dropped, each change of an object is
    /// either complete or not made.
    pub(crate) async fn handle(&self, call: &Call, request: Request, effects: &Effects) -> Reply {
        if let Some(reply) = unroutable(&request) {
            return reply;
        }
        if let Some(backing) = self.backed.get() {
            return match self.admit(&request) {
                Ok(_) => backing::forward(backing.as_ref(), call, request, effects).await,
                Err(status) => answer::failure(&status),
            };
        }
        let (is_pretty, is_head) = (request.is_pretty(), request.method == Method::HEAD);
        // The real server serves the OpenAPI documents as files, without compression.
        let is_zipped = request.takes_gzip && !matches!(request.route, Route::OpenApi(_));
        let reply = match self.admit(&request) {
            Ok(identity) => self.dispatch(call, request, &identity, effects),
            Err(status) if status.code == 401 => answer::failure(&status),
            Err(status) => answer::unsniffed(answer::failure(&status)),
        };
        let reply = if is_pretty { answer::pretty(reply).await } else { reply };
        let reply = if is_zipped { answer::zipped(reply).await } else { reply };
        answer::finished(reply, is_head)
    }

    /// Authenticates and authorizes a request. Returns the identity whose permissions apply: the
    /// impersonated identity if the request impersonates, else that of the client.
    ///
    /// # Errors
    /// 401 or 403, or 400 for an impersonation without a user name.
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
        // Without RBAC a request that passes the checks above is allowed.
        if self.access.is_rbac() {
            let what = Attributes::of(method, path, query);
            let verdict = self.cluster.read(|store| self.access.decide(&identity, &what, store));
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
            Some(token) => self.tokens.identify(token, self.cluster.now()).ok_or_else(unauthorized),
            // A labelled client in this process needs no credentials.
            None if request.is_trusted => Ok(Identity::admin()),
            None if request.route.is_public() || self.access.is_rbac() => Ok(Identity::anonymous()),
            None => Err(unauthorized()),
        }
    }

    fn dispatch(
        &self,
        call: &Call,
        mut request: Request,
        identity: &Identity,
        effects: &Effects,
    ) -> Reply {
        // Only custom resources can be read with HEAD.
        if request.method == Method::HEAD && self.custom(&request).is_some() {
            request.method = Method::GET;
            request.route = Route::find(&request.method, &request.path, &request.query);
        }
        match &request.route {
            // For these documents the real server's router accepts only GET. Other documents, such
            // as `/apis`, accept every method.
            Route::Version | Route::Core | Route::GroupVersion(..)
                if request.method != Method::GET && self.has_service(&request.path) =>
            {
                answer::failure(&failure::not_allowed())
            }
            Route::Health => health::answer(&request.path, &request),
            Route::Version => discovery::version(),
            Route::Root => discovery::root(&self.cluster),
            Route::Core => discovery::core(&self.cluster, &request),
            Route::Groups => discovery::groups(&self.cluster, &request),
            Route::Group(group) => discovery::group(&self.cluster, group),
            Route::GroupVersion(group, version) => {
                discovery::group_version(&self.cluster, group, version)
                    .unwrap_or_else(|| self.absent(&request))
            }
            Route::OpenApi(path) => match path.strip_prefix('/') {
                None => openapi::index(&self.cluster),
                Some(path) => openapi::document(&self.cluster, path, &request),
            },
            Route::Review(review, namespace) => self
                .review(*review, namespace, &request, identity)
                .unwrap_or_else(|status| answer::failure(&status)),
            Route::Resource(target) => self.resource(call, &request, target, effects),
            Route::EmptyNamespace => self.unplaced(&request),
            Route::NotImplemented(_) if self.unserved_resource(&request).is_some() => {
                self.absent(&request)
            }
            Route::NotImplemented(what) => answer::failure(&failure::not_implemented(what)),
            Route::NotAllowed => self.not_allowed(&request),
            Route::Unknown | Route::Malformed | Route::VerbWithoutResource(_) => {
                self.absent(&request)
            }
        }
    }

    /// Answer to a request whose body ends early or violates HTTP: 500 with the message `why`.
    pub(crate) fn unreadable(why: impl Into<String>) -> Reply {
        answer::failure(&Status::new(500, "", why.into()))
    }

    /// Answer with the failure `code` that a fault rule requests, in the words of the real server.
    /// `reason`, `message` and `retry_after` (seconds) replace the usual values if they are set.
    pub(crate) fn failure(
        &self,
        call: &Call,
        code: u16,
        reason: Option<&str>,
        message: Option<&str>,
        retry_after: Option<u32>,
    ) -> Reply {
        let about = self.definition_of_call(call);
        let resource = about.as_ref().map(|def| &def.id);
        let status = failure::rule_failure(call, resource, code, reason, message, retry_after);
        let reply = answer::failure(&status);
        // The authorizer's 403 answers have `nosniff`, too.
        if code == 403 { answer::unsniffed(reply) } else { reply }
    }
}

/// Answer to a request whose path the real server refuses before authentication; `None` for every
/// other request.
fn unroutable(request: &Request) -> Option<Reply> {
    match &request.route {
        // The real server's HTTP library gives this answer.
        Route::Malformed => {
            let text = "400 Bad Request";
            Some(answer::text(StatusCode::BAD_REQUEST, text).with_fault("BadRequest"))
        }
        Route::VerbWithoutResource(uri) => {
            let uri = uri.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let text = format!(
                "Internal Server Error: \"{uri}\": failed to create RequestInfo: unable to determine kind and namespace from url, {uri}\n"
            );
            let reply = answer::text(StatusCode::INTERNAL_SERVER_ERROR, text);
            Some(answer::unsniffed(reply.with_fault("InternalError")))
        }
        _ => None,
    }
}
