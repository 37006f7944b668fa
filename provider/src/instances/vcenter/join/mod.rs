//! Finds the machines of new nodes ("joins"): with one search per node while that is cheap, else
//! with one paged read of the inventory.
//!
//! A node that was initialized before a restart has a reference to its machine as an annotation.
//! One read of all these references spares most searches. The read also finds a machine that the
//! search index has lost because the storage of the machine is lost.

mod inventory;
pub(super) mod scope;
mod search;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use provider_vcenter::{Backoff, CallError, CallErrorKind, Chain, FilterSpec, Jitter, MoRef};
use tokio::time::Instant;

use self::search::SlowSearches;
use super::{
    Shared,
    state::{JoinRequest, VcenterAnswer, VcenterIndex},
};
use crate::{
    instances::datacenters::Tree,
    model::{NodeName, parse_uuid},
};

/// Number of nodes up to which the provider searches for each machine separately, whatever a read
/// of the inventory costs.
const FEW: usize = 3;
/// Maximum number of references that one call reads.
const CHUNK: usize = 1000;

/// Requests to find machines, by name of the node.
type Batch = BTreeMap<NodeName, JoinRequest>;

/// Finds machines in one vCenter whenever nodes wait for them. Never ends.
pub(super) async fn run(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    let jitter = Jitter::new(shared.tuning.seed, &format!("{}/join", backend.client.name()));
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), jitter);
    let mut hanging = SlowSearches::new(shared, index);
    loop {
        let mut asked = Batch::new();
        let result = tokio::select! {
            // Slow searches of earlier requests are answered before new requests.
            biased;
            result = hanging.next(), if !hanging.is_empty() => result,
            () = backend.join.notified() => {
                tokio::time::sleep(shared.tuning.join_window).await;
                let batch = std::mem::take(&mut shared.lock().vcenters[index].pending);
                if batch.is_empty() {
                    continue;
                }
                let result = resolve(shared, index, &batch, &mut hanging).await;
                if let Err(err) = &result {
                    let text = Chain(err).to_string();
                    for (name, request) in &batch {
                        answer(shared, index, name, request, VcenterAnswer::Failed(text.clone()));
                    }
                }
                asked = batch;
                result
            }
        };
        match result {
            Ok(()) if hanging.is_empty() => {
                backoff.reset();
                shared.lock().vcenters[index].last_call_failed = false;
            }
            Ok(()) => {}
            Err(err) => {
                tracing::warn!(error = %Chain(&err), "looking up the machines of nodes failed; retrying");
                shared.lock().vcenters[index].last_call_failed = true;
                let pause = err.retry().pause(backoff.next_pause());
                let text = Chain(&err).to_string();
                fail_fast(shared, index, &text, pause, is_search(&err).then_some(&asked)).await;
                ask_again(shared, asked);
            }
        }
    }
}

/// Starts a new lookup for every node that a failed batch left without a link. The controller would
/// start one much later, because it asks about an initialized node only once per address period.
fn ask_again(shared: &Shared, asked: Batch) {
    shared.with(|state, effects| {
        for name in asked.into_keys() {
            if state.nodes.get(&name).is_some_and(|it| it.link.is_none()) {
                state.start_attempt(&name, Instant::now(), effects);
            }
        }
    });
}

/// True if vCenter answered a search with a fault. The cause may be one machine and not the
/// vCenter.
fn is_search(err: &CallError) -> bool {
    err.operation.starts_with("Find") && err.fault().is_some()
}

/// Makes no call for `pause`. Meanwhile, if other vCenters are configured, answers requests at once
/// with the failure `why`. `searched` is the failed batch if the failure was a fault in a search.
/// If that batch had a single node, the first request for another node ends the pause: the search
/// for that node shows whether the trouble is the machine's or the vCenter's.
async fn fail_fast(
    shared: &Shared,
    index: VcenterIndex,
    why: &str,
    pause: Duration,
    searched: Option<&Batch>,
) {
    let until = Instant::now() + pause;
    let backend = &shared.vcenters[index];
    let alone = searched.filter(|batch| batch.len() == 1);
    while tokio::time::timeout_at(until, backend.join.notified()).await.is_ok() {
        let pending = |other: &Batch| {
            let asked = &shared.lock().vcenters[index].pending;
            asked.keys().any(|name| !other.contains_key(name))
        };
        if alone.is_some_and(pending) {
            break;
        }
        // With a single vCenter, requests wait for it, so that nodes do not retry with a back-off
        // each.
        if shared.vcenters.len() == 1 {
            continue;
        }
        let batch = std::mem::take(&mut shared.lock().vcenters[index].pending);
        for (name, request) in &batch {
            answer(shared, index, name, request, VcenterAnswer::Failed(why.to_owned()));
        }
    }
    backend.join.notify_one();
}

/// Passes the outcome for one node to the state.
fn answer(
    shared: &Shared,
    index: VcenterIndex,
    name: &NodeName,
    request: &JoinRequest,
    outcome: VcenterAnswer,
) {
    shared.with(|state, effects| {
        state.answer(index, name, request.attempt, outcome, Instant::now(), effects);
    });
}

/// Finds the machines of a batch: first by reference. If more than [`FEW`] nodes with a UUID are
/// left, then in the inventory, unless that seems to cost at least as much as single searches.
/// Searches for the machines of the remaining nodes one by one; slow searches continue in
/// `hanging`.
async fn resolve(
    shared: &Shared,
    index: VcenterIndex,
    batch: &Batch,
    hanging: &mut SlowSearches<'_>,
) -> Result<(), CallError> {
    let mut left: BTreeSet<&NodeName> = batch.keys().collect();
    match by_reference(shared, index, batch, &mut left).await {
        // One machine for which vCenter hangs delays the read of all references. The single
        // searches show which one it is.
        Err(err) if err.is_timeout() => {
            tracing::warn!(error = %Chain(&err), "reading machines by their recorded references timed out; searching for the machines instead");
        }
        other => other?,
    }
    let n_by_uuid = left.iter().filter(|name| batch[**name].name.is_none()).count();
    let cost = inventory::estimate(shared, index);
    if n_by_uuid > FEW && cost.is_none_or(|cost| cost < n_by_uuid) {
        inventory::search(shared, index, batch, &mut left).await?;
    }
    for name in batch.keys().filter(|name| !left.contains(name)) {
        hanging.answered(name);
    }
    search_each(shared, index, batch, &left, hanging).await
}

/// Searches node by node. A single failure is the answer for that node alone and delays no other.
/// After two failures in a row, or if every search failed, returns an error: then the vCenter
/// counts as the cause. A search that hangs counts as a success here, and continues in `hanging`.
async fn search_each(
    shared: &Shared,
    index: VcenterIndex,
    batch: &Batch,
    left: &BTreeSet<&NodeName>,
    hanging: &mut SlowSearches<'_>,
) -> Result<(), CallError> {
    let mut failed: Vec<(&NodeName, CallError)> = Vec::new();
    let mut any_went_well = false;
    let mut before_failed = false;
    for name in left {
        match hanging.search(name, &batch[*name]).await {
            Ok(()) => (any_went_well, before_failed) = (true, false),
            Err(err) if before_failed => return Err(cause(failed, err)),
            Err(err) => {
                failed.push((name, err));
                before_failed = true;
            }
        }
    }
    if !any_went_well && let Some((_, err)) = failed.pop() {
        return Err(err);
    }
    for (name, err) in failed {
        tracing::warn!(node = %name, error = %Chain(&err), "looking up the machine failed; retrying");
        answer(shared, index, name, &batch[name], VcenterAnswer::Failed(Chain(&err).to_string()));
    }
    Ok(())
}

/// Returns the failure to report: the last one, or the first of the earlier ones if the last one
/// only says that it is too early for a new login.
fn cause(earlier: Vec<(&NodeName, CallError)>, last: CallError) -> CallError {
    match last.kind {
        CallErrorKind::NotYet(_) => earlier.into_iter().next().map_or(last, |(_, first)| first),
        _ => last,
    }
}

/// Reads the machines of those references of the batch's nodes that name this vCenter. If vCenter
/// returns a machine with a UUID of its node, or without a UUID, answers the node and removes the
/// node from `left`.
async fn by_reference<'a>(
    shared: &Shared,
    index: VcenterIndex,
    batch: &'a Batch,
    left: &mut BTreeSet<&'a NodeName>,
) -> Result<(), CallError> {
    if batch.values().all(|request| request.reference.is_none()) {
        return Ok(());
    }
    let client = &shared.vcenters[index].client;
    client.session().await?;
    let here = client.instance_uuid().and_then(parse_uuid);
    let known: BTreeMap<MoRef, &NodeName> = batch
        .iter()
        .filter_map(|(name, request)| {
            let reference = request.reference.as_ref().filter(|r| Some(r.vcenter) == here)?;
            Some((MoRef::new("VirtualMachine", reference.machine.clone()), name))
        })
        .collect();
    let machines: Vec<MoRef> = known.keys().cloned().collect();
    for chunk in machines.chunks(CHUNK) {
        let mut spec = FilterSpec::of_objects("VirtualMachine", &["config.uuid"], chunk.to_vec());
        let with_tree = scope::wants_tree(shared, index);
        if with_tree {
            spec = spec.with_datacenters(client.session().await?.content.root_folder);
        }
        let objects = client.retrieve(&spec.tolerating_missing()).await?;
        if with_tree {
            scope::learn(shared, index, &Tree::of(&objects));
        }
        let there: Vec<MoRef> = objects.iter().map(|object| object.object.clone()).collect();
        let there: Vec<MoRef> = there.into_iter().filter(|it| known.contains_key(it)).collect();
        let sieve = scope::sieve(shared, index, &there).await?;
        for object in objects {
            let Some(name) = known.get(&object.object) else { continue };
            let candidates = &batch[*name].candidates;
            let uuid = match object.text("config.uuid").and_then(parse_uuid) {
                Some(uuid) => Some(uuid).filter(|uuid| candidates.contains(uuid)),
                // The machine exists without a readable UUID, because its storage is lost. The
                // provider publishes nothing from it until it has a UUID.
                None => candidates.first().copied(),
            };
            if let Some(uuid) = uuid {
                left.remove(name);
                let outcome = sieve.choose(shared, uuid, &[object.object]);
                answer(shared, index, name, &batch[*name], outcome);
            }
        }
    }
    Ok(())
}
