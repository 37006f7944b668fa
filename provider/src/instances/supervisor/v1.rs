//! Supervisor backend that makes upstream's calls one for one, for comparison and rollback: without
//! a cache, with reads by name and lists of all machines.
//!
//! It follows
//! `cloud-provider-vsphere: pkg/cloudprovider/vsphereparavirtual/{instances,zone,vmoperator}.go`,
//! and the order in which the framework asks. It keeps upstream's defects, even the dangerous ones:
//! a machine whose UUID the Supervisor writes in capitals matches no provider ID, and the machine
//! of a node whose provider ID has no UUID counts as gone. The guards of the lifecycle controller
//! remain in force.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::future::BoxFuture;
use provider_vcenter::{Chain, Jitter};
use tokio::time::Instant;

use super::{
    Tuning,
    api::{Api, ApiError, Paging},
    machine::{
        MachineName, MachineObject, PowerState,
        addresses::{AddressPolicy, node_addresses},
        identity::provider_id,
    },
};
use crate::{
    instances::{Instances, ZoneWanted, question_queue::QuestionQueue},
    model::{AddressOrder, Lookup, Metadata, NodeIdentity, NodeName, Unknown, Zone},
    tasks::Tasks,
    telemetry::RequestCounter,
};

/// Maximum number of attempts per lookup, whatever the failure (`DiscoverNodeBackoff`).
const ATTEMPTS: u32 = 20;
/// Minimum pause between two attempts; the maximum is twice that.
const PAUSE: Duration = Duration::from_millis(50);

/// Backend for one Supervisor namespace that looks up machines anew for each question.
#[derive(Clone)]
pub struct SupervisorV1 {
    shared: Arc<Shared>,
}

struct Shared {
    api: Api,
    addresses: AddressPolicy,
    jitter: Mutex<Jitter>,
    desk: QuestionQueue,
}

impl SupervisorV1 {
    /// Creates a backend that sends its requests with `client`, which has the address and the
    /// token. It sends no request before a question.
    ///
    /// The caller must run inside a tokio runtime with time enabled.
    pub(crate) fn new(
        client: kube::Client,
        namespace: &str,
        tuning: Tuning,
        counter: RequestCounter,
    ) -> Self {
        let shared = Shared {
            api: Api::patient(client, namespace, tuning.version, counter),
            addresses: tuning.addresses,
            jitter: Mutex::new(Jitter::new(tuning.seed, "supervisor/v1")),
            desk: QuestionQueue::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Starts the task that answers the node controller's questions.
    pub(crate) fn spawn(&self, tasks: &Tasks) {
        let shared = Arc::clone(&self.shared);
        let span = tracing::info_span!("supervisor", task = "v1");
        tasks.spawn_droppable(span, async move { shared.run().await });
    }
}

/// Returns the UUID that upstream searches for. A foreign provider ID counts as a UUID that no
/// machine has.
fn uuid_of(provider_id: &str) -> String {
    provider_id.strip_prefix("vsphere://").unwrap_or(provider_id).trim().to_lowercase()
}

fn unavailable(err: &ApiError) -> Unknown {
    Unknown::Unavailable(Chain(err).to_string())
}

impl Shared {
    /// Answers the node controller's questions, one after the other. Never ends.
    async fn run(&self) {
        loop {
            self.desk.wait().await;
            while let Some((node, wanted)) = self.desk.next() {
                let answer = match self.metadata(&node, wanted).await {
                    Ok(metadata) => Lookup::Found(metadata),
                    Err(why) => Lookup::Unknown(why),
                };
                self.desk.answer(node.name, wanted, answer).await;
            }
        }
    }

    /// Counts a failed attempt. Waits before the next attempt and returns true, or returns false at
    /// once if no attempt is left.
    async fn may_try_again(&self, n_failed: &mut u32, err: &ApiError) -> bool {
        *n_failed += 1;
        if *n_failed >= ATTEMPTS {
            return false;
        }
        tracing::debug!(n_failed, error = %Chain(err), "VirtualMachine lookup failed; retrying");
        let pause = {
            let mut jitter = self.jitter.lock().expect("nothing panics under this lock");
            jitter.stretch(PAUSE, 1.0)
        };
        tokio::time::sleep(pause).await;
        true
    }

    /// Reads a machine by name, with retries; `None` if no machine has that name.
    async fn by_name(&self, name: &str) -> Result<Option<MachineObject>, ApiError> {
        let name = MachineName::from(name);
        let mut n_failed = 0;
        loop {
            match self.api.get(&name).await {
                Ok(found) => return Ok(found),
                Err(err) => {
                    if !self.may_try_again(&mut n_failed, &err).await {
                        return Err(err);
                    }
                }
            }
        }
    }

    /// Searches for a machine by provider ID in a list of all machines, with retries; `None` if the
    /// list has no such machine. Returns `None` without a request if the provider ID has no UUID.
    async fn by_id(&self, provider_id: &str) -> Result<Option<MachineObject>, ApiError> {
        let uuid = uuid_of(provider_id);
        if uuid.is_empty() {
            return Ok(None);
        }
        let mut n_failed = 0;
        loop {
            match self.api.list(Paging::AllAtOnce).await {
                Ok(listing) => {
                    let found = listing
                        .machines()
                        .find(|machine| machine.bios_uuid.as_deref() == Some(uuid.as_str()));
                    return Ok(found.map(|machine| MachineObject::clone(machine)));
                }
                Err(err) => {
                    if !self.may_try_again(&mut n_failed, &err).await {
                        return Err(err);
                    }
                }
            }
        }
    }

    /// Searches for a machine by provider ID. Searches by name if the node has no provider ID, or
    /// if the first search finds nothing or fails. [`Unknown::NotSeen`] if no machine has the name.
    async fn by_id_or_name(&self, id: Option<&str>, name: &str) -> Result<MachineObject, Unknown> {
        if let Some(id) = id
            && let Ok(Some(machine)) = self.by_id(id).await
        {
            return Ok(machine);
        }
        let found = self.by_name(name).await.map_err(|err| unavailable(&err))?;
        found.ok_or(Unknown::NotSeen)
    }

    /// Returns the provider ID of a node. Without one, returns that of the machine with the node's
    /// name; `None` if no machine has that name. Fails if the machine has no BIOS UUID yet.
    async fn id_of(&self, node: &NodeIdentity) -> Result<Option<String>, Unknown> {
        if let Some(id) = &node.provider_id {
            return Ok(Some(id.clone()));
        }
        let found = self.by_name(node.name.as_str()).await.map_err(|err| unavailable(&err))?;
        let Some(machine) = found else { return Ok(None) };
        let Some(uuid) = &machine.bios_uuid else {
            return Err(Unknown::Incomplete(
                "the node's VirtualMachine has no BIOS UUID yet".to_owned(),
            ));
        };
        Ok(Some(provider_id(uuid)))
    }

    async fn metadata(&self, node: &NodeIdentity, wanted: ZoneWanted) -> Result<Metadata, Unknown> {
        let id = match wanted {
            ZoneWanted::Yes => Some(self.id_of(node).await?.ok_or(Unknown::NotSeen)?),
            // The periodic update of addresses uses the provider ID of the node, even if it has
            // none.
            ZoneWanted::No => node.provider_id.clone(),
        };
        let machine = self.by_id_or_name(id.as_deref(), node.name.as_str()).await?;
        let addresses = Ok(node_addresses(&machine, self.addresses));
        let zone = match wanted {
            ZoneWanted::Yes => self.by_id_or_name(id.as_deref(), node.name.as_str()).await?.zone,
            ZoneWanted::No => None,
        };
        let zone = Ok(zone.map(|zone| Zone { zone, region: None }));
        let uuid = machine.bios_uuid.as_deref().unwrap_or_default();
        Ok(Metadata {
            provider_id: id.unwrap_or_else(|| provider_id(uuid)),
            reference: None,
            instance_type: None,
            addresses,
            order: AddressOrder::Kept,
            zone,
        })
    }

    async fn exists(&self, node: &NodeIdentity) -> Lookup<()> {
        let gone = || Lookup::Gone { proved_at: Instant::now(), matched: true };
        let found = match self.id_of(node).await {
            Ok(Some(id)) => self.by_id(&id).await.map_err(|err| unavailable(&err)),
            Ok(None) => return gone(),
            Err(why) => Err(why),
        };
        match found {
            Ok(Some(_)) => {}
            Ok(None) => return gone(),
            Err(why) => return Lookup::Unknown(why),
        }
        let off = self.is_off(node).await;
        self.desk.store_power(&node.name, off);
        Lookup::Found(())
    }

    /// Looks up the machine again, as the framework does, and returns whether it is switched off.
    /// If the node has no provider ID and no machine has its name, the answer is false.
    async fn is_off(&self, node: &NodeIdentity) -> Lookup<bool> {
        let id = match self.id_of(node).await {
            Ok(Some(id)) => id,
            Ok(None) => return Lookup::Found(false),
            Err(why) => return Lookup::Unknown(why),
        };
        match self.by_id(&id).await {
            Ok(Some(machine)) => Lookup::Found(machine.power == PowerState::Off),
            Ok(None) => Lookup::Unknown(Unknown::NotSeen),
            Err(err) => Lookup::Unknown(unavailable(&err)),
        }
    }
}

impl Instances for SupervisorV1 {
    fn observe(&self, _node: &NodeIdentity) {}

    fn forget(&self, name: &NodeName) {
        self.shared.desk.forget(name);
    }

    fn metadata(&self, node: &NodeIdentity, zone: ZoneWanted) -> Lookup<Metadata> {
        self.shared.desk.ask(node, zone)
    }

    /// Makes one lookup instead of a proof, because upstream believes it and the user has chosen
    /// upstream's behavior.
    fn exists<'a>(
        &'a self,
        node: &'a NodeIdentity,
        _proof_after: Instant,
    ) -> BoxFuture<'a, Lookup<()>> {
        Box::pin(self.shared.exists(node))
    }

    fn shutdown(&self, node: &NodeIdentity) -> Lookup<bool> {
        self.shared.desk.take_power(&node.name)
    }

    /// One question about existence at a time, as in the loop of upstream's framework.
    fn max_concurrent_exists(&self) -> usize {
        1
    }

    fn n_missing(&self) -> usize {
        0
    }

    fn changed(&self) -> BoxFuture<'_, BTreeSet<NodeName>> {
        Box::pin(self.shared.desk.changed())
    }
}
