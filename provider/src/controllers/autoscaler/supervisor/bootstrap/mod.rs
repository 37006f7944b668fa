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
//! | [`data`] | Secrets with the user data; pure |
//! | [`plan`] | next write for a machine; pure |
//! | [`prepare`] | both Secrets of a new machine |
//! | [`keep`] | carries out the plans |

pub(super) mod data;
mod keep;
mod plan;
mod prepare;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use provider_vcenter::Jitter;
use tokio::sync::Notify;

use self::data::MachineData;
use super::super::tokens::{BootstrapTokens, MachineKey, Mirror, Origin, UUID_LABEL, Workload};
use crate::{
    cluster::{self, Cluster, Collection, encode},
    model::Clock,
    telemetry::Telemetry,
};

pub(super) use self::prepare::UserData;

/// Label of tokens: the namespace of the machines on the Supervisor. A server leaves tokens of other
/// namespaces alone.
const NAMESPACE_LABEL: &str = "vsphere.cloud-provider/supervisor-namespace";

/// The tokens of one namespace of a Supervisor.
pub(super) struct Bootstrap {
    workload: Workload,
    supervisor: Cluster,
    namespace: String,
    /// API version of VirtualMachines, for the owner of user data.
    api_version: String,
    seed: u64,
    data: Mirror<MachineData>,
}

impl Bootstrap {
    pub(super) fn new(
        of: BootstrapTokens,
        supervisor: Cluster,
        (namespace, version): (&str, &str),
        (clock, seed): (Clock, u64),
        telemetry: &Telemetry,
    ) -> Self {
        let wake = Arc::new(Notify::new());
        let origin = Origin { label: NAMESPACE_LABEL, value: namespace.to_owned() };
        Self {
            workload: Workload::new(of, origin, (clock, seed), &wake, telemetry),
            supervisor,
            namespace: namespace.to_owned(),
            api_version: format!("vmoperator.vmware.com/{version}"),
            seed,
            data: Mirror::new(&wake),
        }
    }

    /// Begins to watch Secrets and Nodes, and to keep the tokens.
    pub(super) fn use_from_now(&self) {
        self.workload.use_from_now();
    }

    fn data_path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets", self.namespace)
    }

    /// Keeps the known Secrets and Nodes current, forever, from the first group with `token` on.
    pub(super) async fn follow(&self) {
        self.workload.used().await;
        let data = Collection {
            cluster: &self.supervisor,
            kind: "Secret with user data",
            path: self.data_path(),
            selector: format!("labelSelector={}", encode(UUID_LABEL)),
        };
        let jitter = Jitter::new(self.seed, "autoscaler/data");
        tokio::join!(self.workload.follow(), cluster::follow(&data, &self.data, jitter));
    }
}
