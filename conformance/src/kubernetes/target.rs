//! Where requests go: the simulated cluster in this process, or a server behind a URL.

use std::io;

use anyhow::Context as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tower::Service as _;

/// An answer whose body may go on for as long as a watch does.
pub type Streamed = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// Users of sequences and their bearer tokens. `conformance/peers/cluster.sh` gives the same ones to the real server.
pub const USERS: &[(&str, &str)] =
    &[("admin", "admin-token"), ("alice", "alice-token"), ("bob", "bob-token")];

/// A Kubernetes API server.
#[derive(Clone)]
pub enum Target {
    /// Ours, without sockets.
    Simulated(sim::Service),
    /// Any, over the network; the second is the token that administrators have there.
    Live(kube::Client, String),
}

impl Target {
    /// A server at a URL. Its certificate is not checked: a test server signs its own.
    ///
    /// # Errors
    /// If the URL is none.
    pub fn live(server: &str, token: &str) -> anyhow::Result<Self> {
        let url = server.parse().with_context(|| {
            format!("{server:?} is no URL; give one like https://127.0.0.1:6443")
        })?;
        let mut config = kube::Config::new(url);
        config.accept_invalid_certs = true;
        // 429, 503 and 504 are answers, and they are compared.
        config.default_retry = false;
        let client = kube::Client::try_from(config).context("no client for this server")?;
        Ok(Self::Live(client, token.to_owned()))
    }

    /// Whether what a sequence makes stays there when it is over.
    pub fn keeps(&self) -> bool {
        matches!(self, Self::Live(..))
    }

    /// The bearer token of a user; none for `nobody`, a wrong one for whom it does not know.
    pub fn token(&self, user: &str) -> Option<String> {
        match (self, user) {
            (_, "nobody") => None,
            (Self::Live(_, token), "admin") => Some(token.clone()),
            _ => {
                let known = USERS.iter().find(|(name, _)| *name == user);
                Some(known.map_or("unknown-token", |(_, token)| token).to_owned())
            }
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// If there is no answer at all.
    pub async fn send(&self, request: Request<Bytes>) -> anyhow::Result<Streamed> {
        match self {
            Self::Simulated(service) => {
                let mut service = service.clone();
                Ok(service.call(request.map(Full::new)).await?)
            }
            Self::Live(client, _) => {
                let request = request.map(|body| kube::client::Body::from(body.to_vec()));
                let answer = client.send(request).await.context(
                    "the server does not answer; is it still running, and is the URL right?",
                )?;
                Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
            }
        }
    }
}
