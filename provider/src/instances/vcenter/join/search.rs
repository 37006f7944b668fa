//! Searches for machines one by one; a slow search does not delay the others.
//!
//! A vCenter may take very long to search for one machine while it answers at once for all others.
//! A slow search therefore continues beside the next ones. The failure of a slow search concerns
//! its node alone, until slow searches for three nodes have failed.

use std::{collections::BTreeSet, time::Duration};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use provider_vcenter::{CallError, Chain, FilterSpec};

use super::{answer, scope};
use crate::{
    instances::vcenter::{
        Shared,
        state::{JoinRequest, VcenterAnswer, VcenterIndex},
    },
    model::{MachineId, NodeName, parse_uuid},
};

/// Time after which a search no longer delays the next one.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of slow searches at a time: enough for a few bad machines, too few to burden a
/// vCenter that hangs as a whole.
const MAX_HANGING: usize = 8;
/// Number of consecutive nodes with failed slow searches from which on the vCenter counts as the
/// cause, not the machines.
const TROUBLE: usize = 3;

type Search<'a> = BoxFuture<'a, (NodeName, JoinRequest, Result<VcenterAnswer, CallError>)>;

/// Slow searches in one vCenter that vCenter has not answered yet.
pub(super) struct SlowSearches<'a> {
    shared: &'a Shared,
    index: VcenterIndex,
    searches: FuturesUnordered<Search<'a>>,
    /// Nodes whose slow searches failed since the last success, except those that were answered in
    /// another way meanwhile.
    failed: BTreeSet<NodeName>,
}

impl<'a> SlowSearches<'a> {
    pub(super) fn new(shared: &'a Shared, index: VcenterIndex) -> Self {
        Self { shared, index, searches: FuturesUnordered::new(), failed: BTreeSet::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.searches.is_empty()
    }

    /// Notes that a node was answered without a search of its own.
    pub(super) fn answered(&mut self, name: &NodeName) {
        self.failed.remove(name);
    }

    /// Waits for one slow search to end, and passes its outcome to the state. Pending for ever if
    /// no search is running.
    ///
    /// Cancel safe: an unfinished search stays in the set.
    ///
    /// # Errors
    ///
    /// The failure of this search, if the slow searches for at least [`TROUBLE`] nodes have failed
    /// since the last success, so that the vCenter counts as the cause.
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
                let outcome = VcenterAnswer::Failed(Chain(&err).to_string());
                (outcome, if self.failed.len() >= TROUBLE { Err(err) } else { Ok(()) })
            }
        };
        answer(self.shared, self.index, &name, &request, outcome);
        trouble
    }

    /// Searches for the machine of one node. Returns once the node is answered, or after
    /// [`PATIENCE`]; [`Self::next`] then continues the search. If [`MAX_HANGING`] slow searches are
    /// running, first waits for one of them to end.
    ///
    /// # Errors
    ///
    /// If the search fails within [`PATIENCE`]; the node is not answered then. Also as
    /// [`Self::next`].
    pub(super) async fn search(
        &mut self,
        name: &NodeName,
        request: &JoinRequest,
    ) -> Result<(), CallError> {
        while self.searches.len() >= MAX_HANGING {
            self.next().await?;
        }
        let (shared, index) = (self.shared, self.index);
        let (name, request) = (name.clone(), request.clone());
        let mut search: Search<'a> = Box::pin(async move {
            let result = by_search(shared, index, &request).await;
            (name, request, result)
        });
        match tokio::time::timeout(PATIENCE, &mut search).await {
            Ok((name, request, result)) => {
                answer(shared, index, &name, &request, result?);
                self.failed.clear();
            }
            Err(_) => self.searches.push(search),
        }
        Ok(())
    }
}

/// Searches for the machine of one node by the candidate UUIDs, or by the node's DNS name if the
/// node has no UUID. Machines outside the configured datacenters do not count.
async fn by_search(
    shared: &Shared,
    index: VcenterIndex,
    request: &JoinRequest,
) -> Result<VcenterAnswer, CallError> {
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
        // A machine outside the configured datacenters does not count. The other byte order may
        // match one inside.
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
                Some(uuid) => VcenterAnswer::Hit(machine.clone(), uuid),
                None => {
                    VcenterAnswer::Failed("the machine of that name has no UUID yet".to_owned())
                }
            })
        }
        several => Ok(VcenterAnswer::Ambiguous(format!(
            "{} machines report the name of the node",
            several.len()
        ))),
    }
}
