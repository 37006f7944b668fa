//! The Kubernetes API of the workload cluster, as kube-apiserver 1.36.3 speaks it.
//!
//! [`KubeApi::classify`] says what a request is; [`KubeApi::handle`] answers it from the shared
//! world. Answers are JSON. What is not there is refused with a `Status` that names it.

mod answer;
mod discovery;
mod duplicates;
mod failure;
mod objects;
mod openapi;
mod query;
mod request;
mod reviews;
mod route;
mod summary;
#[cfg(test)]
mod tests;
mod tokens;
mod warnings;
mod watch;

use sim_world::objects::Status;

pub(crate) use request::Request;
pub use tokens::{Identity, Tokens};

use crate::faults::Effects;
use crate::{Call, Incoming, Reply, WorldHandle};
use route::Route;

/// The API server of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct KubeApi {
    server: String,
    world: WorldHandle,
    tokens: Tokens,
}

impl KubeApi {
    /// The API server named `server` in ledgers, over `world`, open to those who hold `tokens`.
    pub(crate) fn new(server: impl Into<String>, world: WorldHandle, tokens: Tokens) -> Self {
        Self { server: server.into(), world, tokens }
    }

    /// Says what a request is, without judging it.
    pub(crate) fn classify(&self, incoming: &Incoming) -> (Call, Request) {
        let request = Request::read(incoming);
        let user = request.token.as_deref().and_then(|token| self.tokens.user_of(token));
        let kind = |resource: &_| {
            self.world.read(|world| {
                world.cluster.resource(resource).map(|def| def.kind.clone().into_owned())
            })
        };
        let call = summary::call(&self.server, incoming, &request, user, kind);
        (call, request)
    }

    /// Answers a request.
    ///
    /// Cancel safe: what a dropped call has changed is changed as a whole.
    pub(crate) async fn handle(&self, call: &Call, request: Request, effects: &Effects) -> Reply {
        match self.authenticate(&request) {
            Ok(identity) => self.dispatch(call, request, &identity, effects),
            Err(status) => answer::failure(&status),
        }
    }

    fn authenticate(&self, request: &Request) -> Result<Identity, Status> {
        let unauthorized = || Status::new(401, "Unauthorized", "Unauthorized");
        match &request.token {
            Some(token) => self.tokens.identify(token, self.world.now()).ok_or_else(unauthorized),
            // Somebody in this process who needs no credentials.
            None if !request.client.is_empty() => Ok(Identity::admin()),
            None if request.route.is_public() => Ok(Identity::anonymous()),
            None => Err(unauthorized()),
        }
    }

    fn dispatch(
        &self,
        call: &Call,
        request: Request,
        identity: &Identity,
        effects: &Effects,
    ) -> Reply {
        match &request.route {
            Route::Health => answer::text(http::StatusCode::OK, "ok"),
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
            Route::Review(review) => {
                reviews::answer(*review, &request, &self.tokens, identity, self.world.now())
            }
            Route::Resource(target) => self.resource(call, &request, target, effects),
            Route::Absent(what) => answer::failure(&failure::not_implemented(what)),
            Route::NotAllowed => answer::failure(&failure::not_allowed()),
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
