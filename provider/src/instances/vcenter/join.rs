//! Finds the machines of new nodes: with one search each while that is cheap, else with one paged read of the
//! inventory.
//!
//! A node that was initialized before a restart carries a reference to its machine. One read of all those references
//! spares most searches, and also finds a machine that the search index has lost together with its storage.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use provider_vcenter::{Backoff, CallError, CallErrorKind, Chain, FilterSpec, Jitter, MoRef};
use tokio::time::Instant;

use super::{
    Shared, inventory, scope,
    search::Hanging,
    state::{JoinRequest, Outcome, VcenterIndex},
};
use crate::{instances::datacenters::Tree, model::parse_uuid};

/// Number of joins up to which each node is searched alone, whatever the inventory costs.
const FEW: usize = 3;
/// Objects per call.
const CHUNK: usize = 1000;

/// Requests by name of the node.
pub(super) type Batch = BTreeMap<String, JoinRequest>;

/// Serves joins for ever.
pub(super) async fn run(shared: &Shared, index: VcenterIndex) {
    let backend = &shared.vcenters[index];
    let jitter = Jitter::new(shared.tuning.seed, &format!("{}/join", backend.client.name()));
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60), jitter);
    let mut hanging = Hanging::new(shared, index);
    loop {
        let mut asked = Batch::new();
        let result = tokio::select! {
            // Earlier requests are answered first.
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
                        answer(shared, index, name, request, Outcome::Failed(text.clone()));
                    }
                }
                asked = batch;
                result
            }
        };
        match result {
            Ok(()) if hanging.is_empty() => {
                backoff.reset();
                shared.lock().vcenters[index].troubled = false;
            }
            Ok(()) => {}
            Err(err) => {
                tracing::warn!(error = %Chain(&err), "looking up machines failed; retrying");
                shared.lock().vcenters[index].troubled = true;
                let pause = err.retry().pause(backoff.fail());
                let text = Chain(&err).to_string();
                fail_fast(shared, index, &text, pause, is_search(&err).then_some(&asked)).await;
                ask_again(shared, asked);
            }
        }
    }
}

/// Starts a new lookup for every node that a failed batch left without a link. The next question may come much later:
/// the controller asks about an initialized node once per address period.
fn ask_again(shared: &Shared, asked: Batch) {
    shared.with(|state, effects| {
        for name in asked.into_keys() {
            if state.nodes.get(&name).is_some_and(|it| it.link.is_none()) {
                state.start_attempt(&name, Instant::now(), effects);
            }
        }
    });
}

/// True if a search was answered with a fault, which may be the trouble of one machine alone.
fn is_search(err: &CallError) -> bool {
    err.operation.starts_with("Find") && err.fault().is_some()
}

/// Leaves the vCenter alone for a pause. Meanwhile, if other vCenters are configured, answers requests at once with
/// the failure. After a fault in the search for a single node, the first other node that joins ends the pause: its
/// search shows whether the trouble is the machine's or the vCenter's.
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
        // With a single vCenter, nodes wait for it instead of retrying with their own backoff.
        if shared.vcenters.len() == 1 {
            continue;
        }
        let batch = std::mem::take(&mut shared.lock().vcenters[index].pending);
        for (name, request) in &batch {
            answer(shared, index, name, request, Outcome::Failed(why.to_owned()));
        }
    }
    backend.join.notify_one();
}

pub(super) fn answer(
    shared: &Shared,
    index: VcenterIndex,
    name: &str,
    request: &JoinRequest,
    outcome: Outcome,
) {
    shared.with(|state, effects| {
        state.answer(index, name, request.attempt, outcome, Instant::now(), effects);
    });
}

async fn resolve(
    shared: &Shared,
    index: VcenterIndex,
    batch: &Batch,
    hanging: &mut Hanging<'_>,
) -> Result<(), CallError> {
    let mut left: BTreeSet<&String> = batch.keys().collect();
    match by_reference(shared, index, batch, &mut left).await {
        // One machine that hangs delays the read of all; the searches show which one hangs.
        Err(err) if err.is_timeout() => {
            tracing::warn!(error = %Chain(&err), "reading machines by their recorded references timed out; searching for each machine instead");
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

/// Searches node by node. A failure among successes is that node's own trouble and delays no other. Two failures in a
/// row, or only failures, are trouble of the vCenter. A search that hangs is neither and continues beside the others.
async fn search_each(
    shared: &Shared,
    index: VcenterIndex,
    batch: &Batch,
    left: &BTreeSet<&String>,
    hanging: &mut Hanging<'_>,
) -> Result<(), CallError> {
    let mut failed: Vec<(&String, CallError)> = Vec::new();
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
        answer(shared, index, name, &batch[name], Outcome::Failed(Chain(&err).to_string()));
    }
    Ok(())
}

/// Returns the most telling failure: a later one may only say that it is too early to try again.
fn cause(earlier: Vec<(&String, CallError)>, last: CallError) -> CallError {
    match last.kind {
        CallErrorKind::NotYet(_) => earlier.into_iter().next().map_or(last, |(_, first)| first),
        _ => last,
    }
}

/// Reads the references that nodes carry. Nodes that are not found this way stay in `left`.
async fn by_reference<'a>(
    shared: &Shared,
    index: VcenterIndex,
    batch: &'a Batch,
    left: &mut BTreeSet<&'a String>,
) -> Result<(), CallError> {
    if batch.values().all(|request| request.reference.is_none()) {
        return Ok(());
    }
    let client = &shared.vcenters[index].client;
    client.session().await?;
    let here = client.instance_uuid().and_then(parse_uuid);
    let known: BTreeMap<MoRef, &String> = batch
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
                // The machine exists without a readable UUID: its storage is lost. Nothing is published from it until
                // it has one.
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
