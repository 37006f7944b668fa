//! The Kubernetes front ends of the world: the API servers of the workload cluster and of the
//! Supervisor.
//!
//! [`KubeApi`] answers the requests. This module gives it the objects of the world, converts its
//! answers to [`Reply`], carries out what fault rules force on a Kubernetes API, and passes
//! requests on to a [`Backing`], another API server, if the cluster has one.

mod backend;
mod backing;
mod failure;
mod forced;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::request::Parts;
use serde_json::Value;
use sim_world::ControlPlane;
use sim_world::objects::Status;

pub(crate) use backing::BackingSlot;
pub use backing::{AnswerFuture, Backing};

use crate::faults::Effects;
use crate::ledger::Digest;
use crate::{
    Call, Caller, Class, Face, Incoming, Outcome, Reply, RequestNote, Target, WorldHandle,
};
use backend::PlaneBackend;
use kube_sim_api::{self, Access, Client, KubeApi, Summary, Tokens};

/// The API server of one control plane of the world.
#[derive(Clone, Debug)]
pub(crate) struct ClusterFace {
    server: String,
    plane: ControlPlane,
    api: KubeApi,
    backed: BackingSlot,
}

/// A parsed request to an API server.
pub(crate) struct ParsedRequest {
    request: kube_sim_api::Request,
    /// Method, URI and headers as the client sent them, for the [`Backing`]; `None` without one.
    head: Option<Box<Parts>>,
}

impl ClusterFace {
    /// Creates the API server for the objects of `plane`. `server` is the name of the API server in
    /// the ledger. The API server accepts the bearer tokens in `tokens`; `access` decides what a
    /// client may do.
    pub(crate) fn new(
        server: impl Into<String>,
        world: WorldHandle,
        plane: ControlPlane,
        tokens: Tokens,
        access: Access,
    ) -> Self {
        let backend = Arc::new(PlaneBackend { world, plane });
        let api = KubeApi::new(backend, tokens).with_access(access);
        Self { server: server.into(), plane, api, backed: BackingSlot::default() }
    }

    /// Sets the slot for a [`Backing`].
    pub(crate) fn with_backing(self, backed: BackingSlot) -> Self {
        Self { backed, ..self }
    }

    /// Control plane whose objects this server serves.
    pub(crate) fn plane(&self) -> ControlPlane {
        self.plane
    }

    /// Parses a request and classifies it as a [`Call`]. Checks neither credentials nor
    /// permissions.
    pub(crate) fn classify(&self, incoming: &Incoming) -> (Call, ParsedRequest) {
        let Incoming { parts, body, peer } = incoming;
        let client =
            Client { certificate: peer.identity.get().cloned(), is_trusted: peer.is_trusted() };
        let (summary, request) = self.api.classify(parts, body, &client);
        let head = self.backed.head(parts);
        (self.call(summary, &peer.client), ParsedRequest { request, head })
    }

    /// Converts the summary of a request to a call. `label` is the label of the connection; empty
    /// without one.
    fn call(&self, summary: Summary, label: &str) -> Call {
        let Summary {
            operation,
            class,
            kind,
            name,
            namespace,
            user_agent,
            user,
            token_digest,
            bytes,
            detail,
        } = summary;
        let client = match label {
            "" => user.clone().unwrap_or_default(),
            label => label.to_owned(),
        };
        Call {
            face: match self.plane {
                ControlPlane::Workload => Face::Cluster,
                ControlPlane::Supervisor => Face::Supervisor,
            },
            server: self.server.clone(),
            operation,
            class: match class {
                kube_sim_api::Class::Read => Class::Read,
                kube_sim_api::Class::Write => Class::Write,
                kube_sim_api::Class::Watch => Class::Longpoll,
            },
            target: Target { kind, name, namespace, ..Target::default() },
            caller: Caller { client, user_agent, user },
            session: token_digest,
            request: RequestNote { bytes, detail },
        }
    }

    /// Answers a classified request from the world, or through the [`Backing`] if the cluster has
    /// one.
    ///
    /// Cancel safe without a [`Backing`]: if the future is dropped, each change of an object is
    /// either complete or not made.
    pub(crate) async fn handle(
        &self,
        call: &Call,
        request: ParsedRequest,
        effects: &Effects,
    ) -> Reply {
        let reply: Reply = match self.backed.get() {
            None => self.api.handle(request.request, &effects.for_cluster()).await.into(),
            Some(backing) => match self.api.refusal(&request.request) {
                Some(refusal) => refusal.into(),
                None => backing::forward(backing.as_ref(), call, request, effects).await,
            },
        };
        if let Some(fault) = &reply.outcome.fault {
            let code = reply.response.status().as_u16();
            tracing::trace!(operation = %call.operation, code, fault, "the simulated API server refuses a request");
        }
        reply
    }

    /// Answer to a request whose body ends early or violates HTTP: 500 with the message `why`.
    pub(crate) fn unreadable(why: impl Into<String>) -> Reply {
        kube_sim_api::Reply::failure(&Status::new(500, "", why.into())).into()
    }
}

impl From<kube_sim_api::Reply> for Reply {
    fn from(reply: kube_sim_api::Reply) -> Self {
        let kube_sim_api::Reply { response, outcome: kube_sim_api::Outcome { fault, objects } } =
            reply;
        let digest = objects.as_ref().map(|it| versions(it.iter().map(AsRef::as_ref)));
        let objects = objects.map_or(0, |it| it.len() as u64);
        Self { response, outcome: Outcome { fault, objects, digest, ..Outcome::default() } }
    }
}

/// Returns the digest of the UIDs and resourceVersions of objects, in their order. Other fields and
/// the encoding of the answer do not change the digest.
fn versions<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Digest {
    let said = objects.into_iter().flat_map(|object| {
        let metadata = &object["metadata"];
        ["uid", "resourceVersion"].map(|key| metadata[key].as_str().unwrap_or_default())
    });
    Digest::of_parts(said)
}
