//! Access to the HTTPS endpoint: an API server reviews tokens (TokenReview) and requests
//! (SubjectAccessReview), as in `k8s.io/apiserver`'s delegated authentication and authorization.
//!
//! The provider reads neither client certificates nor the headers of a front proxy. If a flag for
//! them is set, the start fails.

mod cache;
mod paths;
mod review;

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, header};
use provider_vcenter::Chain;
use sha2::Digest as _;

use self::{
    cache::Cache,
    review::{User, is_allowed, user_of},
};
use crate::{
    cluster::{Cluster, ClusterError},
    telemetry::RequestCounter,
};

pub use paths::AllowedPaths;

/// Requests per second and burst of each client that sends reviews, as in upstream.
const PACE: (f64, u32) = (50.0, 100);

/// Settings of the access checks.
#[derive(Clone)]
pub struct AccessSettings {
    /// Client that reviews tokens; without it every caller is anonymous.
    pub authentication: Option<kube::Client>,
    /// Client that reviews requests; without it only requests for `always_allowed` and of
    /// `system:masters` are allowed.
    pub authorization: Option<kube::Client>,
    /// Paths that need no authorization.
    pub always_allowed: AllowedPaths,
    /// Time for which the provider caches the review of a token (default 10 s).
    pub token_ttl: Duration,
    /// Time for which the provider caches that a request is allowed (default 10 s).
    pub allowed_ttl: Duration,
    /// Time for which the provider caches that a request is refused (default 10 s).
    pub refused_ttl: Duration,
}

impl Default for AccessSettings {
    fn default() -> Self {
        let ttl = Duration::from_secs(10);
        Self {
            authentication: None,
            authorization: None,
            always_allowed: AllowedPaths::default(),
            token_ttl: ttl,
            allowed_ttl: ttl,
            refused_ttl: ttl,
        }
    }
}

impl std::fmt::Debug for AccessSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AccessSettings")
            .field("always_allowed", &self.always_allowed)
            .finish_non_exhaustive()
    }
}

/// Checks if a caller may send a request to the endpoint, and caches the reviews.
pub(super) struct Access {
    authentication: Option<Cluster>,
    authorization: Option<Cluster>,
    settings: AccessSettings,
    /// Users by digest of the token (`None` for an invalid token). The cache does not keep the
    /// tokens themselves.
    users: Cache<[u8; 32], Option<User>>,
    verdicts: Cache<(User, String, String), bool>,
}

impl Access {
    /// Makes the access checks; `requests` counts the reviews.
    pub(super) fn new(settings: AccessSettings, requests: RequestCounter) -> Self {
        let client = |client: &Option<kube::Client>| {
            let paced = client.clone().map(|client| Cluster::new(client, PACE.0, PACE.1));
            paced.map(|cluster| cluster.with_counter(requests.clone()))
        };
        Self {
            authentication: client(&settings.authentication),
            authorization: client(&settings.authorization),
            settings,
            users: Cache::default(),
            verdicts: Cache::default(),
        }
    }

    /// Checks if the endpoint may answer a request. If not, returns status and text of the refusal
    /// as the error: 401 if the token is invalid or cannot be reviewed, 403 if the cluster denies
    /// the request or no client reviews requests, 500 if the request cannot be reviewed.
    pub(super) async fn judge(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<(), (StatusCode, String)> {
        let user = match self.authenticate(headers).await {
            Ok(Some(user)) => user,
            Ok(None) => return Err((StatusCode::UNAUTHORIZED, "Unauthorized".to_owned())),
            Err(err) => {
                tracing::warn!(error = %Chain(&err), "reviewing the token of a caller of the HTTPS endpoint failed; refusing the request");
                return Err((StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()));
            }
        };
        if user.is_master() || self.settings.always_allowed.contains(path) {
            return Ok(());
        }
        let verb = method.as_str().to_ascii_lowercase();
        let name = user.name.clone();
        match self.authorize(user, verb.clone(), path).await {
            Ok(true) => Ok(()),
            Ok(false) => Err((
                StatusCode::FORBIDDEN,
                format!("forbidden: User {name:?} cannot {verb} path {path:?}"),
            )),
            Err(err) => {
                tracing::warn!(error = %Chain(&err), "reviewing the permission of a caller of the HTTPS endpoint failed; refusing the request");
                let what = "cannot determine whether the cluster allows this request".to_owned();
                Err((StatusCode::INTERNAL_SERVER_ERROR, what))
            }
        }
    }

    /// Returns the caller; `None` for an invalid token. Without a token, or without a client that
    /// reviews tokens, the caller is anonymous.
    async fn authenticate(&self, headers: &HeaderMap) -> Result<Option<User>, ClusterError> {
        let (Some(token), Some(cluster)) = (bearer(headers), &self.authentication) else {
            return Ok(Some(User::anonymous()));
        };
        let digest: [u8; 32] = sha2::Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.users.get(&digest) {
            return Ok(known);
        }
        let user = user_of(cluster, token).await?;
        self.users.insert(digest, user.clone(), self.settings.token_ttl);
        Ok(user)
    }

    async fn authorize(&self, user: User, verb: String, path: &str) -> Result<bool, ClusterError> {
        let Some(cluster) = &self.authorization else { return Ok(false) };
        let question = (user, verb, path.to_owned());
        if let Some(known) = self.verdicts.get(&question) {
            return Ok(known);
        }
        let is_allowed = is_allowed(cluster, &question.0, &question.1, path).await?;
        let AccessSettings { allowed_ttl, refused_ttl, .. } = self.settings;
        let ttl = if is_allowed { allowed_ttl } else { refused_ttl };
        self.verdicts.insert(question, is_allowed, ttl);
        Ok(is_allowed)
    }
}

/// Returns the bearer token in the header `Authorization`; `None` without a header of this form.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = text.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
