//! Answers whether a machine exists, and proves its absence.
//!
//! With a reference, known to this process or noted on the node, the proof has two parts: vCenter answers the reference
//! with `ManagedObjectNotFound`, and a search by UUID in both byte orders finds nothing in any vCenter. An empty answer
//! alone proves nothing, because a login without privileges gets the same; an error proves nothing at all.
//!
//! Without a reference, nothing shows that this login ever saw the machine in this inventory: something else
//! initialized the node, and the machine has not been visible since. No search distinguishes such a machine from a
//! hidden one, so the answer is [`Unknown::Unproven`] until a person confirms by annotation that the machine is gone.
//! Even then the proof takes two searches a period apart, and a whole [`census`] in which every machine has a UUID.
//! Decision 11 has the reasons, and the other evidence that was considered.

use std::time::Duration;

use provider_vcenter::{CallError, Chain, FilterSpec, MoRef};
use tokio::time::Instant;

use super::{
    Shared, census, poll,
    state::{Link, VcenterIndex},
};
use crate::{
    model::{
        Lookup, MachineId, MachineReference, NodeIdentity, ProviderId, Unknown, parse_uuid,
        swap_byte_order,
    },
    mutant::mutant,
};

pub(super) const NOT_VISIBLE: &str = "its machine is not visible to this login; let the login read it, or delete the Node if the machine is gone";
pub(super) const UNPROVEN: &str = "no machine with its provider ID is visible, and no reference shows that this login ever \
    saw one; if the machine is gone, delete the Node, or annotate it with \
    vsphere.cloud-provider/machine-gone=<its provider ID>";
/// Pause before a question about a hidden machine reads again: privileges do not return within seconds.
const HIDDEN_PAUSE: Duration = Duration::from_secs(30);

enum Reference {
    /// vCenter answers with the node's machine, or with one that has no UUID now.
    There,
    /// vCenter answers "no such object".
    NotFound,
    /// vCenter answers with another machine: it reuses references after a restore from backup.
    Another,
    /// vCenter does not answer: it omits objects that a login cannot see.
    Hidden,
}

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
    let link = {
        let known = shared.with(|state, effects| {
            state.track(node, effects);
            let is_shown = Shared::linked(state, &node.name).is_some();
            if is_shown || Shared::is_nameless(state, &node.name) {
                if let Some(tracked) = state.nodes.get_mut(&node.name) {
                    tracked.seen = None;
                }
                return Err(Lookup::Found(()));
            }
            let Some(tracked) = state.nodes.get(&node.name) else {
                return Err(Lookup::Unknown(Unknown::Pending));
            };
            if tracked.was_just_seen(Instant::now()) {
                return Err(Lookup::Found(()));
            }
            // The machine exists outside the configured datacenters; no read is needed for a while.
            if let Some(why) = tracked.outside(Instant::now()) {
                return Err(Lookup::Unknown(Unknown::Outside(why)));
            }
            match tracked.gone {
                Some(proved_at) if proved_at >= proof_after => {
                    Err(Lookup::Gone { proved_at, matched: tracked.matched })
                }
                _ => match &tracked.hidden {
                    // A person's confirmation ends the pause.
                    Some((Unknown::Unproven(_), _)) if node.confirmed_gone => {
                        Ok(tracked.link.clone())
                    }
                    Some((why, until)) if Instant::now() < *until => {
                        Err(Lookup::Unknown(why.clone()))
                    }
                    _ => Ok(tracked.link.clone()),
                },
            }
        });
        match known {
            Ok(link) => link,
            Err(answer) => return answer,
        }
    };
    // A node without a provider ID was never ours, so the provider may not delete it (upstream: an error, not "no").
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

async fn prove(
    shared: &Shared,
    node: &NodeIdentity,
    link: Option<Link>,
    uuid: MachineId,
) -> Result<Lookup<()>, CallError> {
    let active = shared.policy.active;
    // The proof is as old as its first read: a machine that is registered anew where the proof has just looked is missed.
    let began_at = Instant::now();
    let noted = node.reference.as_ref().filter(|_| !mutant!(active, EmptySearchIsGone));
    // A reference from a server that did not say which vCenter it is may be that of another server.
    let link = link.filter(|link| !shared.vcenters[link.vcenter].client.was_identified_late());
    let reference = match (link, noted) {
        (Some(link), _) => Some(link),
        (None, Some(noted)) => {
            let Some(vcenter) = locate(shared, noted).await? else {
                // A configured vCenter may still have the machine: a restored vCenter has another instance UUID.
                if is_looked_for(shared, node) {
                    return Ok(Lookup::Unknown(Unknown::Pending));
                }
                return Ok(hide(shared, node, Unknown::Elsewhere(elsewhere(noted))));
            };
            let machine = MoRef::new("VirtualMachine", noted.machine.clone());
            Some(Link { vcenter, machine, uuid })
        }
        (None, None) => None,
    };
    let mut was_seen = reference.is_some();
    if let Some(reference) = &reference {
        match by_reference(shared, reference).await? {
            Reference::NotFound => {}
            // vCenter reuses references after a restore from a backup, which also loses running machines. Absence from
            // such an inventory proves nothing.
            Reference::Another => was_seen = false,
            Reference::There => {
                // The machine exists, but the view does not show it: add it to the view again.
                again(shared, node);
                return Ok(Lookup::Found(()));
            }
            Reference::Hidden => {
                return Ok(hide(shared, node, Unknown::Hidden(NOT_VISIBLE.to_owned())));
            }
        }
    }
    for backend in &shared.vcenters {
        for uuid in [uuid, swap_byte_order(uuid)] {
            let text = uuid.hyphenated().to_string();
            if !backend.client.find_all_by_uuid(&text).await?.is_empty() {
                again(shared, node);
                return Ok(Lookup::Found(()));
            }
        }
    }
    if !was_seen && !mutant!(active, EmptySearchIsGone) {
        if !node.confirmed_gone {
            return Ok(hide(shared, node, Unknown::Unproven(UNPROVEN.to_owned())));
        }
        let since = first_absence(shared, node, Instant::now());
        if began_at.saturating_duration_since(since) < shared.tuning.absence_period {
            return Ok(Lookup::Unknown(Unknown::NotSeen));
        }
        if let Some(why) = census::doubt(shared, uuid, since).await? {
            return Ok(hide(shared, node, Unknown::Unavailable(why)));
        }
    }
    let matched = shared.with(|state, _| {
        let Some(tracked) = state.nodes.get_mut(&node.name) else { return false };
        tracked.gone = Some(began_at);
        tracked.matched || was_seen || mutant!(active, EmptySearchIsGone)
    });
    Ok(Lookup::Gone { proved_at: began_at, matched })
}

/// Returns the vCenter whose instance UUID a noted reference names.
async fn locate(
    shared: &Shared,
    noted: &MachineReference,
) -> Result<Option<VcenterIndex>, CallError> {
    for (index, backend) in shared.vcenters.iter().enumerate() {
        // The UUID is known after the first login; a vCenter that never answered may be the one.
        if backend.client.instance_uuid().is_none() {
            backend.client.session().await?;
        }
        if backend.client.instance_uuid().and_then(parse_uuid) == Some(noted.vcenter) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Records why existence is unknown. The answer holds for [`HIDDEN_PAUSE`], because a read at every look would only add
/// noise.
fn hide(shared: &Shared, node: &NodeIdentity, why: Unknown) -> Lookup<()> {
    tracing::info!(node = %node.name, reason = %why, "cannot prove that the machine exists or not; the Node stays");
    shared.with(|state, _| {
        if let Some(tracked) = state.nodes.get_mut(&node.name) {
            tracked.hidden = Some((why.clone(), Instant::now() + HIDDEN_PAUSE));
        }
    });
    Lookup::Unknown(why)
}

/// True if a lookup of the machine is running.
fn is_looked_for(shared: &Shared, node: &NodeIdentity) -> bool {
    shared.lock().nodes.get(&node.name).is_some_and(|tracked| tracked.attempt.is_some())
}

/// Reason for a node whose reference names a vCenter that is not configured.
pub(super) fn elsewhere(noted: &MachineReference) -> String {
    format!(
        "its machine was in the vCenter with instance UUID {}, which the configuration does not reach; add that vCenter to \
         vsphere.conf, or delete the Node if its machine is gone",
        noted.vcenter
    )
}

/// Starts a new lookup of the machine, which also adds it to the view again.
fn again(shared: &Shared, node: &NodeIdentity) {
    shared.with(|state, effects| {
        if let Some(tracked) = state.nodes.get_mut(&node.name) {
            tracked.absent_since = None;
            tracked.gone = None;
            tracked.note_seen(Instant::now());
        }
        state.start_attempt(&node.name, Instant::now(), effects);
    });
}

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
                // A machine without a readable UUID has lost its storage, not its existence.
                Some(_) | None => Reference::There,
            })
        }
    }
}

/// Returns the time at which the machine was first found absent; notes `now` if this is the first time.
fn first_absence(shared: &Shared, node: &NodeIdentity, now: Instant) -> Instant {
    shared.with(|state, _| {
        let tracked = state.nodes.get_mut(&node.name);
        tracked.map_or(now, |tracked| *tracked.absent_since.get_or_insert(now))
    })
}
