//! The listeners of the sim for one replica.
//!
//! Each replica has listeners of its own, with the replica's label. So the ledger tells the replicas of any provider
//! apart, whatever user name, program and machine they share, and a replica can be cut off alone.

use std::net::SocketAddr;
use std::sync::Arc;

use sim::tls::Authority;
use sim::{Door, Endpoints, ListenOptions, Sim};

use super::Setup;
use crate::lab::label;

/// The listeners of one replica.
#[derive(Debug)]
pub(super) struct Entrance {
    pub(super) endpoints: Endpoints,
    /// Shut while the replica ends, if it cannot be killed at once.
    pub(super) door: Door,
}

impl Entrance {
    /// Opens the listeners of `n` replicas, at least of one. One authority signs all their certificates.
    pub(super) async fn open(setup: &Setup, sim: &Sim, n: usize) -> anyhow::Result<Vec<Self>> {
        let mut all = Vec::new();
        let mut authority = None;
        for index in 0..n.max(1) {
            let door = Door::default();
            let options = options(setup, index, &door, authority.clone())?;
            let endpoints = sim.listen(options).await?;
            authority.clone_from(&endpoints.authority);
            all.push(Self { endpoints, door });
        }
        Ok(all)
    }
}

/// Returns the addresses and the label: loopback, or the address that pods reach.
fn options(
    setup: &Setup,
    index: usize,
    door: &Door,
    authority: Option<Arc<Authority>>,
) -> anyhow::Result<ListenOptions> {
    let (client, door) = (label(index), door.clone());
    let options = ListenOptions { client, door, authority, ..ListenOptions::default() };
    let Some(cluster) = &setup.cluster else { return Ok(options) };
    let picked = SocketAddr::new(cluster.address()?, 0);
    Ok(ListenOptions { vcenter: picked, cluster: picked, supervisor: picked, ..options })
}
