//! Answers whether a machine exists, and proves its absence.
//!
//! With a reference, from this process or from the node's annotation, the proof has two parts:
//! vCenter answers a read of the reference with the fault `ManagedObjectNotFound`, and a search by
//! UUID in both byte orders finds nothing in any vCenter. An empty answer to the read proves
//! nothing, because a login without privileges also gets an empty answer. An error proves nothing
//! either.
//!
//! Without a reference, nothing shows that this login ever saw the machine in this inventory:
//! another provider initialized the node, and the machine has not been visible since. No search
//! distinguishes such a machine from a hidden one, so the answer is [`Unknown::Unproven`] until a
//! person confirms by annotation that the machine is gone. Even then the proof takes two searches a
//! period apart, and a whole [`census`] of every vCenter in which every machine has a UUID. A
//! reference under which vCenter now returns another machine counts as none. Decision 11 has the
//! reasons, and the other evidence that was considered.

pub(super) mod census;

use std::time::Duration;

use provider_vcenter::{CallError, Chain, FilterSpec, MoRef};
use tokio::time::Instant;

use super::{
    Shared, poll,
    state::{Link, VcenterIndex},
};
use crate::{
    model::{
        Lookup, MachineId, MachineReference, NodeIdentity, ProviderId, Unknown, parse_uuid,
        swap_byte_order,
    },
    mutant::mutant,
};

pub(super) const NOT_VISIBLE: &str = "the node's machine is not visible to this login; let the login read it, or delete the Node if the machine is gone";
pub(super) const UNPROVEN: &str = "no machine with the node's provider ID is visible, and no reference shows that this login ever \
    saw one; if the machine is gone, delete the Node, or annotate it with \
    vsphere.cloud-provider/machine-gone=<provider ID of the Node>";
/// Time for which "cannot be proved" remains the answer without a new read, because privileges do
/// not return within seconds.
const HIDDEN_PAUSE: Duration = Duration::from_secs(30);

/// Answer of vCenter to a read of the node's reference.
enum Reference {
    /// vCenter returns the node's machine, or a machine that has no UUID now.
    There,
    /// vCenter answers `ManagedObjectNotFound` for the reference.
    NotFound,
    /// vCenter returns another machine. It reuses references after a restore from backup.
    Another,
    /// vCenter returns no object. It omits objects that a login cannot see.
    Hidden,
}

/// Answers whether the machine of a node exists: from the state where that suffices, else by a
/// proof. In polling mode, first reads the machines if the last read is too old. A proof that began
/// at `proof_after` or later is used again.
pub(super) async fn exists(
    shared: &Shared,
    node: &NodeIdentity,
    proof_after: Instant,
) -> Lookup<()> {
    if shared.polls()
        && let Err(why) = poll::refresh(shared, node).await
    {
        return Lookup::Unknown(why);
    }
    let link = match answer_from_state(shared, node, proof_after) {
        Err(answer) => return answer,
        Ok(link) => link,
    };
    // This provider did not initialize a node without a provider ID, so it may not delete that node
    // (upstream: an error, not "no").
    let uuid = match node.provider_id.as_deref().map(str::parse::<ProviderId>) {
        Some(Ok(ProviderId(uuid))) => uuid,
        Some(Err(err)) => return Lookup::Unknown(Unknown::NotOurs(err.to_string())),
        None => return Lookup::Unknown(Unknown::NotOurs("no provider ID".to_owned())),
    };
    let Ok(_permit) = shared.proofs.acquire().await else {
        return Lookup::Unknown(Unknown::Pending);
    };
    match prove(shared, node, link, uuid).await {
        Ok(answer) => answer,
        Err(err) => {
            tracing::warn!(node = %node.name, error = %Chain(&err), "proving the absence of the machine failed; the Node stays");
            if mutant!(shared.policy.active, ErrorIsGone) {
                return Lookup::Gone { proved_at: Instant::now(), matched: true };
            }
            Lookup::Unknown(Unknown::Unavailable(Chain(&err).to_string()))
        }
    }
}

/// Returns the answer about existence as the error, if the state suffices for one. Else returns the
/// link of the node, if it has one, for a proof.
fn answer_from_state(
    shared: &Shared,
    node: &NodeIdentity,
    proof_after: Instant,
) -> Result<Option<Link>, Lookup<()>> {
    shared.with(|state, effects| {
        state.track(node, effects);
        let is_shown = Shared::link_and_machine(state, &node.name).is_some();
        if is_shown || Shared::lacks_uuid(state, &node.name) {
            if let Some(tracked) = state.nodes.get_mut(&node.name) {
                tracked.found_outside_view = None;
            }
            return Err(Lookup::Found(()));
        }
        let Some(tracked) = state.nodes.get(&node.name) else {
            return Err(Lookup::Unknown(Unknown::Pending));
        };
        if tracked.was_just_seen(Instant::now()) {
            return Err(Lookup::Found(()));
        }
        // The machine exists outside the configured datacenters. That answer holds for a while
        // without a read.
        if let Some(why) = tracked.outside(Instant::now()) {
            return Err(Lookup::Unknown(Unknown::Outside(why)));
        }
        match tracked.absence_proved_at {
            Some(proved_at) if proved_at >= proof_after => {
                Err(Lookup::Gone { proved_at, matched: tracked.matched })
            }
            _ => match &tracked.unprovable {
                // A person has confirmed that the machine is gone: the pause ends.
                Some((Unknown::Unproven(_), _)) if node.confirmed_gone => Ok(tracked.link.clone()),
                Some((why, until)) if Instant::now() < *until => Err(Lookup::Unknown(why.clone())),
                _ => Ok(tracked.link.clone()),
            },
        }
    })
}

/// Makes the proof with calls. Answers `Found`, `Gone`, or why neither can be proved.
async fn prove(
    shared: &Shared,
    node: &NodeIdentity,
    link: Option<Link>,
    uuid: MachineId,
) -> Result<Lookup<()>, CallError> {
    let active = shared.policy.active;
    // The proof is as old as its first read, because a later registration of the machine in a place
    // that the proof has already searched stays unnoticed.
    let began_at = Instant::now();
    let reference = match reference_to_read(shared, node, link, uuid).await? {
        Ok(reference) => reference,
        Err(answer) => return Ok(answer),
    };
    let mut was_seen = reference.is_some();
    if let Some(reference) = &reference {
        match by_reference(shared, reference).await? {
            Reference::NotFound => {}
            // vCenter reuses references after a restore from a backup, and the restore also loses
            // machines that still run. Absence from such an inventory proves nothing.
            Reference::Another => was_seen = false,
            Reference::There => {
                // The machine exists, but the view does not show it. A new lookup adds it to the
                // view again.
                note_found_outside_view(shared, node);
                return Ok(Lookup::Found(()));
            }
            Reference::Hidden => {
                return Ok(store_unprovable(shared, node, Unknown::Hidden(NOT_VISIBLE.to_owned())));
            }
        }
    }
    if is_found_by_uuid(shared, uuid).await? {
        note_found_outside_view(shared, node);
        return Ok(Lookup::Found(()));
    }
    if !was_seen && !mutant!(active, EmptySearchIsGone) {
        if !node.confirmed_gone {
            return Ok(store_unprovable(shared, node, Unknown::Unproven(UNPROVEN.to_owned())));
        }
        let since = first_absence(shared, node, Instant::now());
        if began_at.saturating_duration_since(since) < shared.tuning.absence_period {
            return Ok(Lookup::Unknown(Unknown::NotSeen));
        }
        if let Some(why) = census::reason_to_doubt(shared, uuid, since).await? {
            return Ok(store_unprovable(shared, node, Unknown::Unavailable(why)));
        }
    }
    let matched = shared.with(|state, _| {
        let Some(tracked) = state.nodes.get_mut(&node.name) else { return false };
        tracked.absence_proved_at = Some(began_at);
        tracked.matched || was_seen || mutant!(active, EmptySearchIsGone)
    });
    Ok(Lookup::Gone { proved_at: began_at, matched })
}

/// Returns the reference that the proof reads: that of the link, else that of the node's
/// annotation; `None` if the node has neither. The link does not count if its vCenter reported an
/// instance UUID only after an earlier login without one. Returns an answer as the inner error if
/// the annotation names a vCenter that is not configured.
async fn reference_to_read(
    shared: &Shared,
    node: &NodeIdentity,
    link: Option<Link>,
    uuid: MachineId,
) -> Result<Result<Option<Link>, Lookup<()>>, CallError> {
    // If the vCenter reported its instance UUID only after the first login, the reference may be
    // one of another server.
    let link = link.filter(|link| !shared.vcenters[link.vcenter].client.was_identified_late());
    if link.is_some() {
        return Ok(Ok(link));
    }
    let active = shared.policy.active;
    let noted = node.reference.as_ref().filter(|_| !mutant!(active, EmptySearchIsGone));
    let Some(noted) = noted else { return Ok(Ok(None)) };
    let Some(vcenter) = locate(shared, noted).await? else {
        // A running lookup may still find the machine in a configured vCenter, because a restored
        // vCenter has another instance UUID.
        if is_looked_for(shared, node) {
            return Ok(Err(Lookup::Unknown(Unknown::Pending)));
        }
        let why = Unknown::Elsewhere(unknown_vcenter_message(noted));
        return Ok(Err(store_unprovable(shared, node, why)));
    };
    let machine = MoRef::new("VirtualMachine", noted.machine.clone());
    Ok(Ok(Some(Link { vcenter, machine, uuid })))
}

/// True if a search by UUID, in either byte order, finds a machine in any vCenter.
async fn is_found_by_uuid(shared: &Shared, uuid: MachineId) -> Result<bool, CallError> {
    for backend in shared.vcenters.iter() {
        for uuid in [uuid, swap_byte_order(uuid)] {
            let text = uuid.hyphenated().to_string();
            if !backend.client.find_all_by_uuid(&text).await?.is_empty() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns the vCenter whose instance UUID is that of the reference in the node's annotation;
/// `None` if no configured vCenter has it. Logs in to vCenters whose instance UUID is not known
/// yet.
async fn locate(
    shared: &Shared,
    noted: &MachineReference,
) -> Result<Option<VcenterIndex>, CallError> {
    for index in shared.vcenters.indexes() {
        let backend = &shared.vcenters[index];
        // The instance UUID is known after the first login. A vCenter that has never answered may
        // be the wanted one.
        if backend.client.instance_uuid().is_none() {
            backend.client.session().await?;
        }
        if backend.client.instance_uuid().and_then(parse_uuid) == Some(noted.vcenter) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Stores and logs the reason why existence is unknown. Returns it as the answer, which holds for
/// [`HIDDEN_PAUSE`], because a new proof for every question would only cost calls.
fn store_unprovable(shared: &Shared, node: &NodeIdentity, why: Unknown) -> Lookup<()> {
    tracing::info!(node = %node.name, reason = %why, "cannot prove that the machine exists or not; the Node stays");
    shared.with(|state, _| {
        if let Some(tracked) = state.nodes.get_mut(&node.name) {
            tracked.unprovable = Some((why.clone(), Instant::now() + HIDDEN_PAUSE));
        }
    });
    Lookup::Unknown(why)
}

/// True if a lookup of the machine is running.
fn is_looked_for(shared: &Shared, node: &NodeIdentity) -> bool {
    shared.lock().nodes.get(&node.name).is_some_and(|tracked| tracked.attempt.is_some())
}

/// Returns the message for a node whose reference names a vCenter that is not configured.
pub(super) fn unknown_vcenter_message(noted: &MachineReference) -> String {
    format!(
        "the node's machine was in the vCenter with instance UUID {}, which the configuration does not name; add that vCenter to \
         vsphere.conf, or delete the Node if the machine is gone",
        noted.vcenter
    )
}

/// Notes that the machine exists although the view does not show it, and starts a new lookup, which
/// adds it to the view again.
fn note_found_outside_view(shared: &Shared, node: &NodeIdentity) {
    shared.with(|state, effects| {
        if let Some(tracked) = state.nodes.get_mut(&node.name) {
            tracked.absent_since = None;
            tracked.absence_proved_at = None;
            tracked.note_seen(Instant::now());
        }
        state.start_attempt(&node.name, Instant::now(), effects);
    });
}

/// Reads the UUID of the machine under a reference, and returns what the answer means.
async fn by_reference(shared: &Shared, link: &Link) -> Result<Reference, CallError> {
    let client = &shared.vcenters[link.vcenter].client;
    let spec =
        FilterSpec::of_objects("VirtualMachine", &["config.uuid"], vec![link.machine.clone()]);
    match client.retrieve(&spec).await {
        Err(err) if err.says_gone(&link.machine) => Ok(Reference::NotFound),
        Err(err) => Err(err),
        Ok(objects) => {
            let Some(object) = objects.first() else { return Ok(Reference::Hidden) };
            Ok(match object.text("config.uuid").and_then(parse_uuid) {
                Some(uuid) if uuid != link.uuid && uuid != swap_byte_order(link.uuid) => {
                    Reference::Another
                }
                // The machine exists. Its UUID is unreadable while its storage is lost.
                Some(_) | None => Reference::There,
            })
        }
    }
}

/// Returns the time since which lookups and proofs have found the machine absent without
/// interruption. Stores `now` as this time if the state has none yet. If the node is not tracked,
/// returns `now` and stores nothing.
fn first_absence(shared: &Shared, node: &NodeIdentity, now: Instant) -> Instant {
    shared.with(|state, _| {
        let tracked = state.nodes.get_mut(&node.name);
        tracked.map_or(now, |tracked| *tracked.absent_since.get_or_insert(now))
    })
}
