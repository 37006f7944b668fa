//! Targets of requests: the simulated cluster in this process, or an API server at a URL.

use std::io;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use tower::Service as _;

/// An answer whose body arrives in parts, as that of a watch does.
pub type StreamedResponse = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// Users of sequences and their bearer tokens. `conformance/peers/cluster.sh` configures the real
/// server with the same ones.
pub const USERS: &[(&str, &str)] =
    &[("admin", "admin-token"), ("alice", "alice-token"), ("bob", "bob-token")];

/// A Kubernetes API server.
#[derive(Clone)]
pub enum TargetServer {
    /// The simulated cluster in this process, without sockets.
    Simulated(sim::Service, sim::WorldHandle),
    /// A running server, over the network.
    Live(LiveServer),
}

/// A running API server at a URL.
#[derive(Clone)]
pub struct LiveServer {
    client: kube::Client,
    /// Token of the administrator.
    token: String,
    /// URL of the server's etcd, over plain HTTP.
    etcd: Option<String>,
}

impl TargetServer {
    /// Returns the running server at a URL. Its certificate is not checked, because a test server
    /// signs its own.
    ///
    /// # Errors
    /// Fails if the URL is not valid, or if the HTTP client cannot be made.
    pub fn live(server: &str, token: &str, etcd: Option<&str>) -> anyhow::Result<Self> {
        let url = server.parse().with_context(|| {
            format!(
                "{server:?} is not a valid URL of an API server; write one such as \
                 https://127.0.0.1:6443"
            )
        })?;
        let mut config = kube::Config::new(url);
        config.accept_invalid_certs = true;
        // The client must not repeat requests, because 429, 503 and 504 are answers to compare.
        config.default_retry = false;
        let client = kube::Client::try_from(config)
            .with_context(|| format!("cannot make an HTTP client for the API server {server}"))?;
        let etcd = etcd.map(str::to_owned);
        Ok(Self::Live(LiveServer { client, token: token.to_owned(), etcd }))
    }

    /// True if the objects of a sequence stay on the server after the sequence.
    pub fn keeps(&self) -> bool {
        matches!(self, Self::Live(_))
    }

    /// Returns the bearer token of a user: `None` for `nobody`, an invalid token for an unknown
    /// user.
    pub fn token(&self, user: &str) -> Option<String> {
        match (self, user) {
            (_, "nobody") => None,
            (Self::Live(live), "admin") => Some(live.token.clone()),
            _ => {
                let known = USERS.iter().find(|(name, _)| *name == user);
                Some(known.map_or("unknown-token", |(_, token)| token).to_owned())
            }
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Fails if the server does not answer.
    pub async fn send(&self, request: Request<Bytes>) -> anyhow::Result<StreamedResponse> {
        match self {
            Self::Simulated(service, _) => {
                let mut service = service.clone();
                Ok(service.call(request.map(Full::new)).await?)
            }
            Self::Live(LiveServer { client, .. }) => {
                let request = request.map(|body| kube::client::Body::from(body.to_vec()));
                let answer = client.send(request).await.context(
                    "the API server does not answer; check that it runs, and that the URL of \
                     --server is right",
                )?;
                Ok(answer.map(|body| body.map_err(io::Error::other).boxed_unsync()))
            }
        }
    }

    /// Makes the server forget all revisions before `revision`, the present one. The simulated
    /// cluster ignores `revision`.
    ///
    /// # Errors
    /// Fails if the URL of the server's etcd is not configured or not valid, if etcd does not
    /// answer or rejects the request, or if the simulated world refuses the compaction.
    pub async fn compact(&self, revision: u64) -> anyhow::Result<()> {
        let live = match self {
            Self::Simulated(_, world) => {
                world.apply(sim::world::Command::CompactCluster {
                    plane: sim::world::ControlPlane::Workload,
                    keep: 0,
                })?;
                return Ok(());
            }
            Self::Live(live) => live,
        };
        let etcd = live.etcd.as_deref().context(
            "a sequence compacts the etcd of the API server; name that etcd with --etcd \
             http://HOST:PORT",
        )?;
        let url = etcd.parse().with_context(|| {
            format!("--etcd {etcd:?} is not a valid URL; write one such as http://127.0.0.1:2379")
        })?;
        let etcd = kube::Client::try_from(kube::Config::new(url))?;
        let revision = revision.to_string();
        // API servers announce a compaction to each other in this key of etcd. A server that sees a
        // new value drops its cached copies.
        let told = json!({
            "key": STANDARD.encode("compact_rev_key"),
            "value": STANDARD.encode(&revision),
        });
        let compaction = json!({"revision": revision, "physical": true});
        for (path, body) in [("/v3/kv/compaction", compaction), ("/v3/kv/put", told)] {
            let request = Request::post(path)
                .header("content-type", "application/json")
                .body(kube::client::Body::from(serde_json::to_vec(&body)?))?;
            let answer = etcd
                .send(request)
                .await
                .context("etcd does not answer; check the URL of --etcd")?;
            anyhow::ensure!(
                answer.status() == 200,
                "etcd answers the request for {path} with {} instead of 200",
                answer.status()
            );
        }
        Ok(())
    }
}
