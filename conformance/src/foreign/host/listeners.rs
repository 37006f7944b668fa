//! The sim's listeners for one replica.
//!
//! Each replica has its own listeners, which carry the replica's label. So the ledger distinguishes
//! the replicas of any provider, even if they share user name, program and host, and the driver can
//! cut off one replica alone.

use std::net::SocketAddr;
use std::sync::Arc;

use sim::tls::Authority;
use sim::{ClientGate, Endpoints, ListenOptions, Sim};

use super::Setup;
use crate::lab::label;

/// The listeners of one replica.
#[derive(Debug)]
pub(super) struct ReplicaListeners {
    pub(super) endpoints: Endpoints,
    /// Gate of these listeners. The driver shuts it while it removes the replica's pod, because a
    /// pod cannot be killed at once.
    pub(super) door: ClientGate,
}

impl ReplicaListeners {
    /// Opens the listeners of `n` replicas, or of one if `n` is zero. One certificate authority
    /// signs all their certificates.
    pub(super) async fn open(setup: &Setup, sim: &Sim, n: usize) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        let mut authority = None;
        for index in 0..n.max(1) {
            let door = ClientGate::default();
            let options = options(setup, index, &door, authority.clone())?;
            let endpoints = sim.listen(options).await?;
            authority.clone_from(&endpoints.authority);
            all.push(Self { endpoints, door });
        }
        Ok(all)
    }
}

/// Returns the options for the listeners of a replica: its label, gate and authority. Their address
/// is the one that pods reach if the provider runs in a cluster, else loopback.
fn options(
    setup: &Setup,
    index: usize,
    door: &ClientGate,
    authority: Option<Arc<Authority>>,
) -> anyhow::Result<ListenOptions> {
    let (client, door) = (label(index), door.clone());
    let options = ListenOptions { client, door, authority, ..ListenOptions::default() };
    let Some(cluster) = &setup.cluster else { return Ok(options) };
    let picked = SocketAddr::new(cluster.address()?, 0);
    Ok(ListenOptions { vcenter: picked, cluster: picked, supervisor: picked, ..options })
}
