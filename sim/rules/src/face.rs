//! Protocol front ends of the simulator, which rules name as `protocol`.

use serde::{Deserialize, Serialize};

/// Protocol front end of the simulator. The enum is closed, so that a program that handles each
/// front end does not compile after one is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Face {
    /// vim25 over SOAP, at `/sdk`.
    #[serde(rename = "soap")]
    Soap,
    /// vAPI REST, at `/rest` and `/api`.
    #[serde(rename = "vapi")]
    Vapi,
    /// The workload cluster's Kubernetes API.
    #[serde(rename = "k8s.guest")]
    Cluster,
    /// The Supervisor's Kubernetes API.
    #[serde(rename = "k8s.supervisor")]
    Supervisor,
    /// The calls of Cluster Autoscalers (`--cloud-provider=externalgrpc`), which the simulator forwards to
    /// a server.
    #[serde(rename = "grpc.ca")]
    Autoscaler,
}

impl Face {
    /// The name used in rules and in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Soap => "soap",
            Self::Vapi => "vapi",
            Self::Cluster => "k8s.guest",
            Self::Supervisor => "k8s.supervisor",
            Self::Autoscaler => "grpc.ca",
        }
    }

    /// True if the face is a Kubernetes API.
    pub fn is_kubernetes(self) -> bool {
        matches!(self, Self::Cluster | Self::Supervisor)
    }
}
