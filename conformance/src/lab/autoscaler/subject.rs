//! A server under judgment: how to reach it, what may be done to it, and what is known about it.

use std::time::Duration;

use futures::future::BoxFuture;
use serde::Deserialize;

use super::client::{CallError, Channel};

/// Generation of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// Autoscaler 1.25 to 1.34.1.
    G1,
    /// Autoscaler 1.34.2 and later 1.34 releases.
    G2,
    /// Autoscaler 1.35 and later.
    G3,
}

impl Generation {
    /// Every generation, oldest first.
    pub const ALL: [Self; 3] = [Self::G1, Self::G2, Self::G3];

    /// Returns the name, such as `g1`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::G1 => "g1",
            Self::G2 => "g2",
            Self::G3 => "g3",
        }
    }

    /// True if the client sends the fields with types of Kubernetes.
    pub const fn has_old_fields(self) -> bool {
        !matches!(self, Self::G3)
    }

    /// True if the client sends and reads the fields that replace those.
    pub const fn has_new_fields(self) -> bool {
        !matches!(self, Self::G1)
    }
}

/// Identity with which a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The certificate that the server expects, or none if it speaks plain text.
    Expected,
    /// No certificate, over TLS.
    None,
    /// A certificate of an authority that the server does not know.
    Stranger,
}

/// An open connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Sends calls.
    pub channel: Channel,
    /// Facts of the TLS handshake; `None` for plain text.
    pub tls: Option<TlsFacts>,
}

/// Facts of a TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// Protocol that both sides agreed on, such as `h2`; empty for none.
    pub alpn: String,
    /// Version, such as `TLSv1_3`.
    pub version: String,
}

/// Opens connections to a server.
pub trait Endpoint: Send + Sync {
    /// Opens a connection. The client verifies the certificate of the server against the name of
    /// the endpoint.
    fn connect(&self, as_whom: Credentials) -> BoxFuture<'_, Result<Connection, CallError>>;

    /// True if the endpoint speaks TLS.
    fn is_tls(&self) -> bool;
}

/// A change of the circumstances under which a server works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Creations fail at once, in the call that asks for them.
    RefuseCreations,
    /// Creations are accepted and then fail for lack of capacity.
    ExhaustCapacity,
    /// Creations are accepted and then fail because of a wrong configuration.
    BreakConfiguration,
    /// Creations are accepted and do not begin.
    HoldCreations,
    /// Deletions are accepted and take longer than any deadline.
    SlowDeletions,
    /// Ends each of the acts above.
    Release,
    /// Destroys the machine of the instance with this ID, unknown to the server.
    DestroyMachine(String),
    /// The backend answers no more.
    StopBackend,
    /// The backend answers again.
    StartBackend,
    /// Kills the process of the server, without a signal that it could handle, and starts it again.
    Restart,
}

impl Act {
    /// Returns the word for the act in manifests and reports.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::RefuseCreations => "refuse-creations",
            Self::ExhaustCapacity => "exhaust-capacity",
            Self::BreakConfiguration => "break-configuration",
            Self::HoldCreations => "hold-creations",
            Self::SlowDeletions => "slow-deletions",
            Self::Release => "release",
            Self::DestroyMachine(_) => "destroy-machine",
            Self::StopBackend => "stop-backend",
            Self::StartBackend => "start-backend",
            Self::Restart => "restart",
        }
    }
}

/// Failure to carry out an act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActError {
    /// The lab cannot do this to the server.
    #[error("the lab has no way to {0} here")]
    NotSupported(&'static str),
    /// The act failed.
    #[error("{0}")]
    Failed(String),
}

/// Carries out acts.
pub trait Control: Send + Sync {
    /// Carries out the act. Returns when it has taken effect.
    fn carry_out(&self, act: &Act) -> BoxFuture<'_, Result<(), ActError>>;
}

/// A server under judgment.
pub struct Subject {
    /// Opens connections.
    pub endpoint: Box<dyn Endpoint>,
    /// Carries out acts; `None` if the lab can only send calls.
    pub control: Option<Box<dyn Control>>,
    /// True if checks may create and delete machines.
    pub may_change: bool,
    /// True if checks may also delete machines that were there before.
    pub may_delete_existing: bool,
    /// Deadline of each call.
    pub deadline: Duration,
    /// Age from which the server must no longer trust its view of the machines.
    pub staleness: Duration,
    /// Settings that each group overrides, by ID of the group; `None` if unknown.
    pub overrides: Option<Overrides>,
}

/// Names of overridden settings by ID of the group.
pub type Overrides = std::collections::BTreeMap<String, Vec<Setting>>;

/// A setting of a group that can be overridden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Setting {
    /// Share of use below which a Node is unneeded.
    #[serde(rename = "scaleDownUtilizationThreshold")]
    Utilization,
    /// The same for Nodes with GPUs.
    #[serde(rename = "scaleDownGpuUtilizationThreshold")]
    GpuUtilization,
    /// Time for which a Node must be unneeded.
    #[serde(rename = "scaleDownUnneededTime")]
    Unneeded,
    /// The same for a Node that is not ready.
    #[serde(rename = "scaleDownUnreadyTime")]
    Unready,
    /// Time within which a machine must become a Node.
    #[serde(rename = "maxNodeProvisionTime")]
    Provision,
}
