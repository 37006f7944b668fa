//! The two Kubernetes API servers of a world.

use serde::{Deserialize, Serialize};

/// A Kubernetes API server of the world.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum ControlPlane {
    /// The API server of the workload cluster, which has the Nodes that a provider manages.
    #[default]
    Workload,
    /// The API server of the Supervisor, which has the VirtualMachine objects.
    Supervisor,
}
