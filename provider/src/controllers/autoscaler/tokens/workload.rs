//! Requests to the workload cluster: watches of tokens and Nodes, and the writes of tokens.

use std::{sync::Arc, time::Duration};

use provider_vcenter::Jitter;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use super::{
    BootstrapTokens, MachineKey, SecretRandom, TOKENS,
    error::{BootstrapError, Side},
    mirror::{Mirror, Node, Nodes},
    token::{self, Token, TokenSecret},
};
use crate::{
    cluster::{self, Cluster, ClusterError, Collection, PatchKind, encode},
    controllers::autoscaler::group::GroupId,
    model::Clock,
    telemetry::Telemetry,
};

/// Requests per second after a burst, as to the Supervisor.
const QPS: f64 = 50.0;
const BURST: u32 = 100;
/// Number of tokens that are drawn for one machine, of which each has the ID of another one.
const MOST_DRAWS: usize = 5;
const CREATE_TOKEN: &str = "creating the bootstrap token of a new machine in the workload cluster";

/// Label of the tokens of one server. It leaves those of others alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) label: &'static str,
    pub(crate) value: String,
}

/// The tokens of one origin, and the Nodes.
pub(crate) struct Workload {
    cluster: Cluster,
    random: SecretRandom,
    origin: Origin,
    clock: Clock,
    seed: u64,
    tokens: Mirror<TokenSecret>,
    nodes: Mirror<Node>,
    /// True from the first group with `token` on. Until then the server sends no request.
    is_used: watch::Sender<bool>,
    wake: Arc<Notify>,
}

impl Workload {
    /// Returns the tokens of an origin. Each change of them or of a Node is a signal on `wake`.
    pub(crate) fn new(
        of: BootstrapTokens,
        origin: Origin,
        (clock, seed): (Clock, u64),
        wake: &Arc<Notify>,
        telemetry: &Telemetry,
    ) -> Self {
        let cluster = Cluster::new(of.client, QPS, BURST);
        Self {
            cluster: cluster.with_counter(telemetry.cluster_requests()),
            random: of.random,
            origin,
            clock,
            seed,
            tokens: Mirror::new(wake),
            nodes: Mirror::new(wake),
            is_used: watch::Sender::new(false),
            wake: Arc::clone(wake),
        }
    }

    /// Begins to watch Secrets and Nodes, and to keep the tokens.
    pub(crate) fn use_from_now(&self) {
        self.is_used.send_replace(true);
    }

    pub(crate) async fn used(&self) {
        // The sender lives as long as this value.
        drop(self.is_used.subscribe().wait_for(|is_used| *is_used).await);
    }

    /// Returns the signal of changes.
    pub(crate) fn wake(&self) -> &Notify {
        &self.wake
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    /// Returns the tokens; `None` before the first list.
    pub(crate) fn tokens(&self) -> Option<Vec<TokenSecret>> {
        self.tokens.all()
    }

    /// Returns the Nodes. Without permission for Nodes, no machine is one.
    pub(crate) fn nodes(&self) -> Nodes {
        Nodes::new(self.nodes.all().unwrap_or_default())
    }

    /// Keeps the known Secrets and Nodes current, forever.
    pub(crate) async fn follow(&self) {
        let jitter = |what: &str| Jitter::new(self.seed, &format!("autoscaler/{what}"));
        let Origin { label, value } = &self.origin;
        let tokens = Collection {
            cluster: &self.cluster,
            kind: "bootstrap token",
            path: TOKENS.to_owned(),
            selector: format!("labelSelector={}", encode(&format!("{label}={value}"))),
        };
        let nodes = Collection {
            cluster: &self.cluster,
            kind: "Node",
            path: "/api/v1/nodes".to_owned(),
            selector: String::new(),
        };
        tokio::join!(
            cluster::follow(&tokens, &self.tokens, jitter("tokens")),
            cluster::follow(&nodes, &self.nodes, jitter("nodes")),
        );
    }

    /// Creates a token that lives for `ttl`, for at most `within`. A lost answer leads to a second
    /// token; no user data has the first one.
    ///
    /// # Errors
    ///
    /// If the cluster refuses the token, or does not answer in time.
    pub(crate) async fn mint(
        &self,
        group: (&str, &GroupId),
        key: &MachineKey,
        ttl: Duration,
        within: Duration,
    ) -> Result<Token, BootstrapError> {
        let minted = tokio::time::timeout(within, self.draw(group, key, ttl)).await;
        minted.map_err(|_| BootstrapError::late(CREATE_TOKEN, within))?
    }

    async fn draw(
        &self,
        group: (&str, &GroupId),
        key: &MachineKey,
        ttl: Duration,
    ) -> Result<Token, BootstrapError> {
        let mut n_lost = 0;
        let mut last = None;
        for _ in 0..MOST_DRAWS {
            let token = Token::draw(&self.random).map_err(BootstrapError::Random)?;
            let answer = self.create(&token, group, key, ttl).await;
            n_lost += usize::from(answer.as_ref().is_err_and(ClusterError::lost_the_answer));
            match answer {
                Ok(()) => {
                    tracing::info!(group = %group.1, machine = %key.name, token = %token.id, "created a bootstrap token");
                    return Ok(token);
                }
                Err(err) if err.is_conflict() || (err.lost_the_answer() && n_lost < 2) => {
                    last = Some(err);
                }
                Err(err) => return Err(BootstrapError::of(CREATE_TOKEN, Side::Workload, &err)),
            }
        }
        let what = "no free ID for a new token".to_owned();
        let err = last.unwrap_or(ClusterError::Malformed { path: TOKENS.to_owned(), what });
        Err(BootstrapError::of(CREATE_TOKEN, Side::Workload, &err))
    }

    /// Creates the Secret of a token.
    pub(crate) async fn create(
        &self,
        token: &Token,
        group: (&str, &GroupId),
        key: &MachineKey,
        ttl: Duration,
    ) -> Result<(), ClusterError> {
        let expires = token::expiration(self.clock.now(), ttl);
        let object = token.manifest(key, &self.origin, group, (expires, ttl));
        let created = self.cluster.post(TOKENS, &object).await?;
        self.tokens.apply(&created);
        Ok(())
    }

    /// Moves the expiration of a token. Returns false if the token no longer exists.
    pub(crate) async fn renew(
        &self,
        token: &TokenSecret,
        ttl: Duration,
    ) -> Result<bool, ClusterError> {
        let path = format!("{TOKENS}/{}", encode(&token.name));
        let patch = token::renewal(&token.uid, token::expiration(self.clock.now(), ttl));
        match self.cluster.patch(&path, PatchKind::Merge, &patch).await {
            Ok(object) => {
                tracing::info!(machine = %token.key.name, token = %token.id, "renewed a bootstrap token");
                self.tokens.apply(&object);
                Ok(true)
            }
            other => {
                if other.as_ref().is_err_and(|err| err.says_gone(&token.name)) {
                    self.tokens.remove(&token.name);
                }
                gone(other, &token.name).map(|()| false)
            }
        }
    }

    /// Deletes a token.
    pub(crate) async fn revoke(&self, token: &TokenSecret) -> Result<(), ClusterError> {
        tracing::info!(machine = %token.key.name, token = %token.id, "deleting a bootstrap token");
        let path = format!("{TOKENS}/{}", encode(&token.name));
        let result = self.cluster.delete(&path, Some(&token.uid)).await;
        if is_over(&result, &token.name) {
            self.tokens.remove(&token.name);
        }
        gone(result, &token.name)
    }
}

/// True if the object no longer exists.
pub(crate) fn is_over(result: &Result<Value, ClusterError>, name: &str) -> bool {
    result.as_ref().map_or_else(|err| err.says_gone(name), |_| true)
}

/// Returns success for an object that is gone or was created anew, which the watch tells, too.
pub(crate) fn gone(result: Result<Value, ClusterError>, name: &str) -> Result<(), ClusterError> {
    match result {
        Ok(_) => Ok(()),
        Err(err) if err.says_gone(name) || err.is_conflict() => Ok(()),
        Err(err) => Err(err),
    }
}
