//! Asks again for properties that could not be read when a machine was delivered.
//!
//! A server in trouble names them in `missingSet`, and nothing obliges it to tell when they have become readable. So
//! all machines that lack something are read together after a while, less and less often, until they are whole.

use std::time::Duration;

use provider_vcenter::{Backoff, Chain, FilterSpec, Jitter, MoRef, PropertyChange};
use tokio::time::Instant;

use super::{Shared, machine::Machine, state::VcenterIndex};

/// Objects per call.
const CHUNK: usize = 1000;

/// When to ask again, for one vCenter.
pub(super) struct Reread<'a> {
    shared: &'a Shared,
    index: VcenterIndex,
    paths: &'a [&'static str],
    backoff: Backoff,
    at: Option<Instant>,
}

impl<'a> Reread<'a> {
    pub(super) fn new(shared: &'a Shared, index: VcenterIndex, paths: &'a [&'static str]) -> Self {
        let name = shared.vcenters[index].client.name();
        let jitter = Jitter::new(shared.tuning.seed, &format!("{name}/reread"));
        let backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60), jitter);
        Self { shared, index, paths, backoff, at: None }
    }

    /// Sets the time of the next read, or none when every machine is whole.
    pub(super) fn plan(&mut self) {
        if self.torn().is_empty() {
            self.backoff.reset();
            self.at = None;
        } else if self.at.is_none() {
            self.at = Some(Instant::now() + self.backoff.fail());
        }
    }

    /// Ends when it is time to read; never, when nothing lacks.
    ///
    /// Cancel safe.
    pub(super) async fn due(&self) {
        match self.at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Reads all machines that lack something.
    pub(super) async fn run(&mut self) {
        self.at = None;
        let client = &self.shared.vcenters[self.index].client;
        let machines = self.torn();
        tracing::info!(n_machines = machines.len(), "asking again for what could not be read");
        for chunk in machines.chunks(CHUNK) {
            let spec = FilterSpec::of_objects("VirtualMachine", self.paths, chunk.to_vec());
            let objects = match client.retrieve(&spec.tolerating_missing()).await {
                Ok(objects) => objects,
                Err(err) => {
                    tracing::warn!(error = %Chain(&err), "properties not read again");
                    return;
                }
            };
            self.shared.with(|state, effects| {
                for object in objects {
                    let changes = PropertyChange::from_values(object.properties);
                    // A machine that has left meanwhile stays away.
                    let change = |before: Option<&Machine>| {
                        let before = before.filter(|machine| machine.present)?;
                        Some(Machine::entering(&changes, &object.missing, Some(before)))
                    };
                    state.machine_changed(self.index, &object.object, change, effects);
                }
            });
        }
    }

    fn torn(&self) -> Vec<MoRef> {
        let state = self.shared.lock();
        let machines = &state.vcenters[self.index].machines;
        let is_torn = |machine: &Machine| machine.present && !machine.unread.is_empty();
        machines.iter().filter(|(_, m)| is_torn(m)).map(|(id, _)| id.clone()).collect()
    }
}
