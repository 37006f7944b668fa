//! The admin port: shows and changes the world, sets fault rules, and serves the ledger and the
//! endpoints.
//!
//! The admin port has its own listener and is not part of the simulation. Rules do not match its
//! requests, and the ledger does not count them as calls. The ledger notes their changes of the
//! world, of the rules and of the Supervisor, except `supervisor.grant`. Every path of the admin
//! port is below `/admin/v1`; all but `version` and `healthz` are also at the root. Error answers
//! are JSON with the problem and a remedy.

mod body;
mod endpoints;
mod error;
mod events;
mod faults;
mod guard;
mod ledger;
mod look;
mod supervisor;

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::routing::{delete, get, post};
use http::StatusCode;

use crate::shared_world::Control;
use crate::{Endpoints, Supervisor};
use error::AdminError;
#[cfg(feature = "cli")]
pub(crate) use error::ErrorBody;

/// State that the handlers read and change.
#[derive(Clone)]
struct AdminState {
    control: Control,
    supervisor: Option<Supervisor>,
    endpoints: Arc<Endpoints>,
}

impl FromRef<AdminState> for Control {
    fn from_ref(ruled: &AdminState) -> Self {
        ruled.control.clone()
    }
}

/// Returns the router of the admin port. If `endpoints` has an admin token, clients must send it
/// with every request except `healthz`.
pub(crate) fn router(
    control: Control,
    supervisor: Option<Supervisor>,
    endpoints: Endpoints,
) -> Router {
    let guard = guard::Guard::new(endpoints.admin_token.as_deref(), &endpoints.admin.url);
    let ruled = AdminState { control, supervisor, endpoints: Arc::new(endpoints) };
    let api = Router::new()
        .route("/world", get(look::world))
        .route("/world/events", post(events::happen))
        .route("/faults", get(faults::list).post(faults::add).delete(faults::clear))
        .route("/faults/{id}", delete(faults::remove))
        .route("/ledger", get(ledger::read))
        .route("/clock", get(look::clock))
        .route("/endpoints", get(endpoints::tell));
    let versioned = api.clone().route("/version", get(look::version));
    let router = Router::new()
        .merge(api)
        .nest("/admin/v1", versioned)
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed);
    body::bounded(router)
        .layer(axum::middleware::from_fn_with_state(guard, guard::check))
        // Added after the guard's layer, which thus does not apply: a health check has no token.
        .route("/admin/v1/healthz", get(|| async { "ok\n" }).fallback(not_allowed))
        .layer(axum::middleware::map_response(signed))
        .with_state(ruled)
}

/// Header of every answer, by which clients recognize a sim.
pub(crate) const VERSION_HEADER: &str = "sim-version";

/// Adds [`VERSION_HEADER`] to an answer.
async fn signed(mut response: axum::response::Response) -> axum::response::Response {
    let version = http::HeaderValue::from_static(env!("CARGO_PKG_VERSION"));
    response.headers_mut().insert(VERSION_HEADER, version);
    response
}

async fn unknown(uri: http::Uri) -> AdminError {
    AdminError::new(StatusCode::NOT_FOUND, format!("the admin port serves nothing at {}", uri.path())).remedy(
        "expected one of GET /world, POST /world/events, GET/POST/DELETE /faults, DELETE /faults/ID, \
         GET /ledger, GET /clock, GET /endpoints, GET /admin/v1/healthz and GET /admin/v1/version",
    )
}

async fn not_allowed(method: http::Method, uri: http::Uri) -> AdminError {
    let what = format!("method {method} is not allowed at {}", uri.path());
    AdminError::new(StatusCode::METHOD_NOT_ALLOWED, what).remedy("use another method")
}
