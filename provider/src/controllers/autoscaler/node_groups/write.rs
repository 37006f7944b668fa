//! Writes the statuses of the NodeGroup objects.
//!
//! A status is written only if it changes, with the resource version that was read, so that an object
//! that was created again never gets the status of the former one. A failed write is repeated after a
//! pause and stops nothing else.

use std::time::Duration;

use provider_vcenter::Chain;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    super::{backend::Backend, group::Group, instance::State},
    GROUP, NodeGroups, RESOURCE,
    decide::Decision,
    status::{self, Size},
};
use crate::cluster::{ClusterError, PatchKind, without_managed_fields};

/// Interval at which the statuses follow the sizes of the groups.
const PERIOD: Duration = Duration::from_secs(10);
/// Longest pause after failed writes.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

impl NodeGroups {
    /// Keeps the statuses of the objects current, until the stop.
    pub(crate) async fn write_statuses(&self, backend: &dyn Backend, stop: &CancellationToken) {
        let mut pause = PERIOD;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.decided.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
            let Some(written) = stop.run_until_cancelled(self.write_due(backend)).await else {
                return;
            };
            pause = if written { PERIOD } else { (2 * pause).min(LONGEST_PAUSE) };
        }
    }

    /// Writes each status that has to change. Returns false if a write failed.
    async fn write_due(&self, backend: &dyn Backend) -> bool {
        let due = {
            let known = self.known();
            if known.is_served() { known.decided() } else { Vec::new() }
        };
        let mut is_written = true;
        for (decision, object) in due {
            let size = decision.verdict.group().and_then(|group| size(backend, group));
            let now = self.clock.now();
            let Some(status) = status::patch(&object["status"], &decision, size, now) else {
                continue;
            };
            match self.write(&decision, &object, status).await {
                Ok(object) => {
                    self.metrics.status_written(true);
                    self.known().wrote(without_managed_fields(&object));
                }
                Err(err) if err.says_gone(&decision.object.name) => {}
                // The watch has not shown the latest state of the object yet.
                Err(err) if err.is_conflict() => is_written = false,
                Err(err) => {
                    is_written = false;
                    self.metrics.status_written(false);
                    warn(&decision, &err);
                    // Without an answer the others would wait for nothing.
                    if err.code().is_none() {
                        break;
                    }
                }
            }
        }
        is_written
    }

    async fn write(
        &self,
        decision: &Decision,
        object: &Value,
        status: Value,
    ) -> Result<Value, ClusterError> {
        let path = self.status_path(&decision.object.namespace, &decision.object.name);
        let version = &object["metadata"]["resourceVersion"];
        let body = json!({"metadata": {"resourceVersion": version}, "status": status});
        self.cluster.patch(&path, PatchKind::Merge, &body).await
    }
}

/// Returns the size of a group; `None` before the first view of the machines.
fn size(backend: &dyn Backend, group: &Group) -> Option<Size> {
    backend.view_age()?;
    let members = backend.members(group);
    let has_run = members.instances.iter().filter(|it| it.state == State::Running);
    Some(Size { target: members.target, machines: has_run.count() })
}

fn warn(decision: &Decision, err: &ClusterError) {
    let remedy = match err.code() {
        Some(403) => format!("; grant patch of {RESOURCE}/status.{GROUP} to the account"),
        _ => String::new(),
    };
    tracing::warn!(object = %decision.object, error = %Chain(err), "writing the status of a NodeGroup failed{remedy}; retrying");
}
