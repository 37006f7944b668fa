//! Bootstrap tokens of new machines: the server creates one for each machine of a group with `token`,
//! renews it until the machine is a Node, and deletes it then or when the machine is deleted.
//!
//! A machine has two Secrets. That of the token is in the workload cluster. That with the user data is
//! beside the VirtualMachine and belongs to it, so that the Supervisor deletes both together. An
//! increase writes the token, then the user data, then the VirtualMachine: a machine never waits for
//! its data. A crash between two of these writes leaves a Secret without machine, which
//! [`keep`] deletes later. Nothing else has to be completed except the owner of the user data.
//!
//! | part | task |
//! | --- | --- |
//! | [`token`] | tokens, and their Secrets; pure |
//! | [`data`] | Secrets with the user data; pure |
//! | [`plan`] | next write for a machine; pure |
//! | [`mirror`] | the Secrets and Nodes that the server knows |
//! | [`prepare`] | both Secrets of a new machine |
//! | [`keep`] | carries out the plans |
//! | [`error`] | failures, without text that could contain a token |

pub(super) mod data;
mod error;
mod keep;
mod mirror;
mod plan;
mod prepare;
#[cfg(test)]
mod tests;
mod token;

use std::{sync::Arc, time::Duration};

use provider_vcenter::Jitter;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use self::{
    data::MachineData,
    mirror::{Mirror, Node},
    token::TokenSecret,
};
use super::{BURST, QPS};
use crate::{
    cluster::{self, Cluster, Collection, encode},
    model::Clock,
    telemetry::Telemetry,
};

pub(super) use self::{error::BootstrapError, prepare::UserData};

/// Labels of both Secrets of a machine: its name and its BIOS UUID.
const MACHINE_LABEL: &str = "vsphere.cloud-provider/machine";
const UUID_LABEL: &str = "vsphere.cloud-provider/bios-uuid";
/// Label of tokens: the namespace of the machines on the Supervisor. A server leaves tokens of other
/// namespaces alone.
const NAMESPACE_LABEL: &str = "vsphere.cloud-provider/supervisor-namespace";
/// Collection of the tokens in the workload cluster.
const TOKENS: &str = "/api/v1/namespaces/kube-system/secrets";

/// Fills a buffer with bytes that nobody can predict, or says why it cannot.
pub type SecretRandom = Arc<dyn Fn(&mut [u8]) -> Result<(), String> + Send + Sync>;

/// Workload cluster in which the server creates bootstrap tokens.
#[derive(Clone)]
pub struct BootstrapTokens {
    /// Client of the cluster. It needs the permissions of `docs/autoscaler.md`.
    pub client: kube::Client,
    /// Source of the secrets.
    pub random: SecretRandom,
}

/// Name and BIOS UUID of a machine, which both Secrets have as labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MachineKey {
    name: String,
    bios_uuid: Uuid,
}

/// The tokens of one namespace of a Supervisor.
pub(super) struct Bootstrap {
    workload: Cluster,
    supervisor: Cluster,
    random: SecretRandom,
    namespace: String,
    /// API version of VirtualMachines, for the owner of user data.
    api_version: String,
    clock: Clock,
    seed: u64,
    tokens: Mirror<TokenSecret>,
    data: Mirror<MachineData>,
    nodes: Mirror<Node>,
    /// True from the first group with `token` on. Until then the server sends no request.
    is_used: watch::Sender<bool>,
    wake: Arc<Notify>,
}

impl Bootstrap {
    pub(super) fn new(
        of: BootstrapTokens,
        supervisor: Cluster,
        (namespace, version): (&str, &str),
        (clock, seed): (Clock, u64),
        telemetry: &Telemetry,
    ) -> Self {
        let workload =
            Cluster::new(of.client, QPS, BURST).with_counter(telemetry.cluster_requests());
        let wake = Arc::new(Notify::new());
        Self {
            workload,
            supervisor,
            random: of.random,
            namespace: namespace.to_owned(),
            api_version: format!("vmoperator.vmware.com/{version}"),
            clock,
            seed,
            tokens: Mirror::new(&wake),
            data: Mirror::new(&wake),
            nodes: Mirror::new(&wake),
            is_used: watch::Sender::new(false),
            wake,
        }
    }

    /// Begins to watch Secrets and Nodes, and to keep the tokens.
    pub(super) fn use_from_now(&self) {
        self.is_used.send_replace(true);
    }

    async fn used(&self) {
        // The sender lives as long as this value.
        drop(self.is_used.subscribe().wait_for(|is_used| *is_used).await);
    }

    fn data_path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    /// Keeps the known Secrets and Nodes current, forever, from the first group with `token` on.
    pub(super) async fn follow(&self) {
        self.used().await;
        let jitter = |what: &str| Jitter::new(self.seed, &format!("autoscaler/{what}"));
        let tokens = Collection {
            cluster: &self.workload,
            kind: "bootstrap token",
            path: TOKENS.to_owned(),
            selector: format!(
                "labelSelector={}",
                encode(&format!("{NAMESPACE_LABEL}={}", self.namespace))
            ),
        };
        let data = Collection {
            cluster: &self.supervisor,
            kind: "Secret with user data",
            path: self.data_path(),
            selector: format!("labelSelector={}", encode(UUID_LABEL)),
        };
        let nodes = Collection {
            cluster: &self.workload,
            kind: "Node",
            path: "/api/v1/nodes".to_owned(),
            selector: String::new(),
        };
        tokio::join!(
            cluster::follow(&tokens, &self.tokens, jitter("tokens")),
            cluster::follow(&data, &self.data, jitter("data")),
            cluster::follow(&nodes, &self.nodes, jitter("nodes")),
        );
    }

    /// Returns the time at which a token that is made or renewed now expires.
    fn expiration(&self, ttl: Duration) -> jiff::Timestamp {
        token::expiration(self.clock.now(), ttl)
    }
}
