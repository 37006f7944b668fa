//! The API server: parses, admits and dispatches requests.

mod health;
mod not_found;
mod reviews;
mod service;

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, StatusCode};
use kube_sim_store::{ResourceDef, Status};

pub use service::Service;

use crate::answer::{self, Reply, failure};
use crate::auth::access::{self, Access, Attributes};
use crate::auth::impersonation::Impersonators;
use crate::auth::tokens::{Identity, Tokens};
use crate::backend::{Backend, Cluster};
use crate::objects::{Effects, Objects};
use crate::request::route::Route;
use crate::request::{Client, Request, Summary, summary};
use crate::{discovery, openapi};

/// The API server of one cluster. Clones share objects, tokens and permissions.
#[derive(Clone, Debug)]
pub struct KubeApi {
    pub(crate) cluster: Cluster,
    pub(crate) tokens: Tokens,
    pub(crate) access: Access,
    pub(crate) objects: Objects,
    pub(crate) impersonators: Impersonators,
}

impl KubeApi {
    /// Creates an API server for the objects of `backend`. The server accepts the bearer tokens in
    /// `tokens`.
    pub fn new(backend: Arc<dyn Backend>, tokens: Tokens) -> Self {
        let access = Access::default();
        let cluster = Cluster::new(backend);
        let objects = Objects::new(cluster.clone());
        Self { cluster, tokens, access, objects, impersonators: Impersonators::default() }
    }

    /// Sets the authorizer of requests. By default every authenticated user may do everything.
    pub fn with_access(self, access: Access) -> Self {
        Self { access, ..self }
    }

    /// Parses and summarizes a request of `client`. Checks neither credentials nor permissions.
    /// [`handle`](Self::handle) refuses a request that needs its body if `body` is longer than
    /// [`MAX_BODY_BYTES`](crate::MAX_BODY_BYTES).
    pub fn classify(&self, parts: &Parts, body: &Bytes, client: &Client) -> (Summary, Request) {
        let request = Request::read(parts, body, client);
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
        let summary = summary::summarize(parts, &request, user, kind);
        (summary, request)
    }

    /// Answers a request, with the changes of the answer that `effects` contains.
    ///
    /// Cancel safe: if the future is dropped, each change of an object is either complete or not
    /// made.
    pub async fn handle(&self, request: Request, effects: &Effects) -> Reply {
        if let Some(reply) = unroutable(&request) {
            return reply;
        }
        let (is_pretty, is_head) = (request.is_pretty(), request.method == Method::HEAD);
        // The real server serves the OpenAPI documents as files, without compression.
        let is_zipped = request.takes_gzip && !matches!(request.route, Route::OpenApi(_));
        let reply = match self.admit(&request) {
            Ok(identity) => self.dispatch(request, &identity, effects),
            Err(status) if status.code == 401 => answer::failure(&status),
            Err(status) => answer::unsniffed(answer::failure(&status)),
        };
        let reply = if is_pretty { answer::pretty(reply).await } else { reply };
        let reply = if is_zipped { answer::zipped(reply).await } else { reply };
        answer::finished(reply, is_head)
    }

    /// Answer to a request that this server refuses by its path, its credentials or its
    /// permissions; `None` for a request that it admits. For callers that answer admitted requests
    /// themselves.
    pub fn refusal(&self, request: &Request) -> Option<Reply> {
        unroutable(request)
            .or_else(|| self.admit(request).err().map(|status| answer::failure(&status)))
    }

    /// Answer to a request for a resource that this server does not serve. `path` is the path of
    /// the request; its group and version decide between a `Status` and a page of plain text.
    pub fn not_served(&self, path: &str) -> Reply {
        if self.has_service(path) {
            answer::failure(&failure::no_such_resource())
        } else {
            answer::page_not_found()
        }
    }

    /// Definition of the kind `kind` with the plural name `plural`, such as `Node` and `nodes`;
    /// `None` if the server does not serve it.
    pub fn definition(&self, plural: &str, kind: &str) -> Option<ResourceDef> {
        self.cluster.read(|store| {
            let is_it = |def: &&ResourceDef| def.id.resource == plural && def.kind == kind;
            store.resources().find(is_it).cloned()
        })
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
                let decide = |what: &_| {
                    self.cluster.read(|store| self.access.decide(&identity, what, store))
                };
                self.impersonators.permit(&identity, other, what, decide)?
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

    fn dispatch(&self, mut request: Request, identity: &Identity, effects: &Effects) -> Reply {
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
            Route::Resource(target) => self
                .objects
                .answer(&request, target, effects)
                .unwrap_or_else(|| self.misplaced(&request, target)),
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
