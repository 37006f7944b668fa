//! The description of an initial Supervisor.

use serde::{Deserialize, Serialize};

/// The description of an initial Supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct SupervisorTopology {
    /// Supervisor namespace of the workload cluster; contains the cluster's VirtualMachine objects.
    pub namespace: String,
    /// The workload cluster's name, which the labels of the initial VirtualMachines contain.
    pub cluster: String,
}

impl Default for SupervisorTopology {
    fn default() -> Self {
        Self { namespace: "workloads".into(), cluster: "kubernetes".into() }
    }
}
