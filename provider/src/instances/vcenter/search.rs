//! Searches for single machines; no search delays the others.
//!
//! A vCenter may take very long over one machine while it answers at once for all others. A slow search therefore
//! continues beside the next ones, and its failure concerns that node alone, until several have failed.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use provider_vcenter::{CallError, Chain, FilterSpec, MoRef};

use super::{
    Shared, join, scope,
    state::{JoinRequest, Outcome, VcenterIndex},
};
use crate::{
    model::{MachineId, parse_uuid},
    mutant::mutant,
};

/// Time after which a search no longer delays the next one.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of slow searches: enough for a few bad machines, too few to burden a vCenter that hangs as a whole.
const MAX_HANGING: usize = 8;
/// Number of nodes in a row whose slow searches failed, from which on the vCenter is the cause and not the machines.
const TROUBLE: usize = 3;

type Search<'a> = BoxFuture<'a, (String, JoinRequest, Result<Outcome, CallError>)>;

/// Searches that are not answered yet, in one vCenter.
pub(super) struct Hanging<'a> {
    shared: &'a Shared,
    index: VcenterIndex,
    searches: FuturesUnordered<Search<'a>>,
    /// Nodes whose searches failed since the last one that succeeded, and that were not found in another way meanwhile.
    failed: BTreeSet<String>,
}

impl<'a> Hanging<'a> {
    pub(super) fn new(shared: &'a Shared, index: VcenterIndex) -> Self {
        Self { shared, index, searches: FuturesUnordered::new(), failed: BTreeSet::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.searches.is_empty()
    }

    /// Notes that a node was answered without a search.
    pub(super) fn answered(&mut self, name: &str) {
        self.failed.remove(name);
    }

    /// Waits for one search to end, and answers its node. Pending for ever if no search is running.
    ///
    /// Cancel safe: an unfinished search stays in the set.
    ///
    /// # Errors
    ///
    /// If the searches for [`TROUBLE`] nodes have failed: the vCenter itself is in trouble.
    pub(super) async fn next(&mut self) -> Result<(), CallError> {
        let Some((name, request, result)) = self.searches.next().await else {
            return std::future::pending().await;
        };
        let (outcome, trouble) = match result {
            Ok(outcome) => {
                self.failed.clear();
                (outcome, Ok(()))
            }
            Err(err) => {
                tracing::warn!(node = %name, error = %Chain(&err), "looking up the machine failed; retrying");
                self.failed.insert(name.clone());
                // Deleted nodes no longer count.
                let nodes = &self.shared.lock().nodes;
                self.failed.retain(|it| nodes.contains_key(it));
                let outcome = Outcome::Failed(Chain(&err).to_string());
                (outcome, if self.failed.len() >= TROUBLE { Err(err) } else { Ok(()) })
            }
        };
        join::answer(self.shared, self.index, &name, &request, outcome);
        trouble
    }

    /// Searches for the machine of one node; returns once the node is answered or the search is slow.
    ///
    /// # Errors
    ///
    /// If the search fails within [`PATIENCE`], without an answer to its node; or as [`Self::next`].
    pub(super) async fn search(
        &mut self,
        name: &str,
        request: &JoinRequest,
    ) -> Result<(), CallError> {
        while self.searches.len() >= MAX_HANGING {
            self.next().await?;
        }
        let (shared, index) = (self.shared, self.index);
        let (name, request) = (name.to_owned(), request.clone());
        let mut search: Search<'a> = Box::pin(async move {
            let result = by_search(shared, index, &request).await;
            (name, request, result)
        });
        match tokio::time::timeout(PATIENCE, &mut search).await {
            Ok((name, request, result)) => {
                join::answer(shared, index, &name, &request, result?);
                self.failed.clear();
            }
            Err(_) => self.searches.push(search),
        }
        Ok(())
    }
}

async fn by_search(
    shared: &Shared,
    index: VcenterIndex,
    request: &JoinRequest,
) -> Result<Outcome, CallError> {
    let client = &shared.vcenters[index].client;
    let mut absent = scope::blind_sieve(shared, index).absent();
    for uuid in &request.candidates {
        let machines = client.find_all_by_uuid(&uuid.hyphenated().to_string()).await?;
        if machines.is_empty() {
            continue;
        }
        let sieve = scope::sieve(shared, index, &machines).await?;
        let outcome = sieve.choose(shared, *uuid, &machines);
        if machines.iter().any(|machine| sieve.passes(machine)) {
            return Ok(outcome);
        }
        // A machine elsewhere does not count; the other byte order may match one inside.
        absent = outcome;
    }
    let Some(name) = &request.name else { return Ok(absent) };
    let mut machines = client.find_all_by_dns_name(name).await?;
    if let Some(first) = machines.first().cloned() {
        let sieve = scope::sieve(shared, index, &machines).await?;
        machines.retain(|machine| sieve.passes(machine));
        if machines.is_empty() {
            return Ok(sieve.choose(shared, MachineId::nil(), &[first]));
        }
    }
    match machines.as_slice() {
        [] => Ok(absent),
        [machine] => {
            let spec =
                FilterSpec::of_objects("VirtualMachine", &["config.uuid"], vec![machine.clone()]);
            let objects = client.retrieve(&spec).await?;
            let uuid = objects.first().and_then(|o| o.text("config.uuid")).and_then(parse_uuid);
            Ok(match uuid {
                Some(uuid) => Outcome::Hit(machine.clone(), uuid),
                None => Outcome::Failed("the machine of that name has no UUID yet".to_owned()),
            })
        }
        several => Ok(Outcome::Ambiguous(format!("{} machines report its name", several.len()))),
    }
}

pub(super) fn one_of(shared: &Shared, uuid: MachineId, machines: &[MoRef]) -> Outcome {
    match machines {
        [machine] => Outcome::Hit(machine.clone(), uuid),
        [first, ..] if mutant!(shared.policy.active, GuessDuplicates) => {
            Outcome::Hit(first.clone(), uuid)
        }
        several => Outcome::Ambiguous(format!("{} machines have the UUID {uuid}", several.len())),
    }
}
