//! Whether a machine exists, and the proof when it does not.
//!
//! With a reference: the reference itself must be answered with `ManagedObjectNotFound`, and a search by UUID in both
//! byte orders in every vCenter must come back empty. Without one (after a restart): two such searches a period
//! apart, in an inventory that can be seen. An empty answer alone proves nothing, because it is also what a login
//! without privileges gets; an error proves nothing at all.

use std::time::Duration;

use provider_vcenter::{CallError, Chain, FilterSpec};
use tokio::time::Instant;

use super::{Shared, state::Link};
use crate::{
    model::{Lookup, MachineId, NodeIdentity, ProviderId, Unknown, parse_uuid, swap_byte_order},
    mutant::mutant,
};

const NOT_VISIBLE: &str = "its machine is not visible to this login";
/// Privileges do not come back within seconds; asking at every look would only be noise.
const HIDDEN_PAUSE: Duration = Duration::from_secs(30);

enum Reference {
    /// Answered as the node's machine.
    IsThere,
    /// Answered with "no such object", or as another machine.
    IsGone,
}

pub(super) async fn exists(
    shared: &Shared,
    node: &NodeIdentity,
    proof_after: Instant,
) -> Lookup<()> {
    let link = {
        let known = shared.with(|state, effects| {
            state.track(node, effects);
            if Shared::linked(state, &node.name).is_some() {
                return Err(Lookup::Found(()));
            }
            let Some(tracked) = state.nodes.get(&node.name) else {
                return Err(Lookup::Unknown(Unknown::Pending));
            };
            match tracked.gone {
                Some(proved_at) if proved_at >= proof_after => {
                    Err(Lookup::Gone { proved_at, matched: tracked.matched })
                }
                _ if tracked.hidden_until.is_some_and(|until| Instant::now() < until) => {
                    Err(Lookup::Unknown(Unknown::Unavailable(NOT_VISIBLE.to_owned())))
                }
                _ => Ok(tracked.link.clone()),
            }
        });
        match known {
            Ok(link) => link,
            Err(answer) => return answer,
        }
    };
    // A node without a provider ID was never ours to take away (upstream: an error, not "no").
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
            tracing::warn!(node = %node.name, error = %Chain(&err), "absence not proved");
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
    if let Some(link) = &link {
        match by_reference(shared, link).await? {
            Ok(Reference::IsGone) => {}
            Ok(Reference::IsThere) => {
                // There, and not in the view: tell the view again.
                again(shared, node);
                return Ok(Lookup::Found(()));
            }
            Err(why) => {
                shared.with(|state, _| {
                    if let Some(tracked) = state.nodes.get_mut(&node.name) {
                        tracked.hidden_until = Some(Instant::now() + HIDDEN_PAUSE);
                    }
                });
                return Ok(Lookup::Unknown(why));
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
    let now = Instant::now();
    let is_proved = link.is_some()
        || mutant!(shared.policy.active, EmptySearchIsGone)
        || (first_absence(shared, node, now) && sees_inventory(shared).await?);
    if !is_proved {
        return Ok(Lookup::Unknown(Unknown::NotSeen));
    }
    let matched = shared.with(|state, _| {
        let Some(tracked) = state.nodes.get_mut(&node.name) else { return false };
        tracked.gone = Some(now);
        tracked.matched
    });
    Ok(Lookup::Gone { proved_at: now, matched })
}

/// Looks for the machine again, and shows it to the view again.
fn again(shared: &Shared, node: &NodeIdentity) {
    shared.with(|state, effects| {
        if let Some(tracked) = state.nodes.get_mut(&node.name) {
            tracked.absent_since = None;
            tracked.gone = None;
        }
        state.start_attempt(&node.name, Instant::now(), effects);
    });
}

async fn by_reference(
    shared: &Shared,
    link: &Link,
) -> Result<Result<Reference, Unknown>, CallError> {
    let client = &shared.vcenters[link.vcenter].client;
    let spec =
        FilterSpec::of_objects("VirtualMachine", &["config.uuid"], vec![link.machine.clone()]);
    match client.retrieve(&spec).await {
        Err(err) if err.is_object_gone() => Ok(Ok(Reference::IsGone)),
        Err(err) => Err(err),
        Ok(objects) => {
            let Some(object) = objects.first() else {
                return Ok(Err(Unknown::Unavailable(NOT_VISIBLE.to_owned())));
            };
            Ok(match object.text("config.uuid").and_then(parse_uuid) {
                // References are given out again after a restore from backup.
                Some(uuid) if uuid != link.uuid => Ok(Reference::IsGone),
                Some(_) | None => Ok(Reference::IsThere),
            })
        }
    }
}

/// Notes when the machine was first not to be found; true when that is long enough ago.
fn first_absence(shared: &Shared, node: &NodeIdentity, now: Instant) -> bool {
    shared.with(|state, _| {
        let Some(tracked) = state.nodes.get_mut(&node.name) else { return false };
        let since = *tracked.absent_since.get_or_insert(now);
        now.duration_since(since) >= shared.tuning.absence_period
    })
}

/// Whether every login sees an inventory at all: its root, something below it, and the machines it saw before.
async fn sees_inventory(shared: &Shared) -> Result<bool, CallError> {
    for (index, backend) in shared.vcenters.iter().enumerate() {
        let session = backend.client.session().await?;
        let root = session.content.root_folder.clone();
        let spec = FilterSpec::of_objects("Folder", &["childEntity"], vec![root]);
        let objects = backend.client.retrieve(&spec).await?;
        let has_children = objects
            .first()
            .and_then(|o| o.properties.get("childEntity"))
            .is_some_and(|children| !children.children.is_empty());
        if !has_children {
            return Ok(false);
        }
        let state = shared.lock();
        let vcenter = &state.vcenters[index];
        let has_machines = !vcenter.desired.is_empty();
        if has_machines && !vcenter.machines.values().any(|m| m.present) {
            return Ok(false);
        }
    }
    Ok(true)
}
