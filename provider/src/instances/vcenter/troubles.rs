//! Finds the nodes whose machines this backend cannot manage, as far as it can tell without a call.

use std::time::Duration;

use provider_vcenter::Vcenter;
use tokio::time::Instant;

use super::{
    Shared, proof,
    state::{State, TrackedNode},
};
use crate::{
    instances::{Trouble, TroubleKind},
    model::{Unknown, parse_uuid},
};

/// Time within which vCenter should deliver the properties of a machine that was found; a longer
/// wait is trouble. Also the time for which an unproven absence is still reported after its pause
/// has ended.
const DELIVERY: Duration = Duration::from_secs(60);

/// Returns all nodes whose machines the backend cannot manage, in order of name.
pub(super) fn troubles(shared: &Shared) -> Vec<Trouble> {
    let state = shared.lock();
    let now = Instant::now();
    let found = state.nodes.iter().filter_map(|(name, tracked)| {
        let (kind, text) = trouble(shared, &state, tracked, now)?;
        Some(Trouble { node: name.clone(), kind, text })
    });
    found.collect()
}

/// Returns the trouble of one node, if any.
fn trouble(
    shared: &Shared,
    state: &State,
    tracked: &TrackedNode,
    now: Instant,
) -> Option<(TroubleKind, String)> {
    if let Some(link) = &tracked.link {
        let client = &shared.vcenters[link.vcenter].client;
        if let Some(text) = replaced(client) {
            return Some((TroubleKind::OtherInstance, text));
        }
        let is_delivered = state.vcenters[link.vcenter].machines.contains_key(&link.machine);
        let is_late = tracked.linked_at.is_some_and(|at| now.duration_since(at) > DELIVERY);
        return (!is_delivered && is_late).then(|| {
            let (machine, vcenter) = (&link.machine, client.name());
            let text = format!(
                "{vcenter} has delivered no properties of {machine} for more than a minute since it was found"
            );
            (TroubleKind::NotDelivered, text)
        });
    }
    if let Some((why @ Unknown::Unproven(_), until)) = &tracked.unprovable
        && *until + DELIVERY > now
    {
        return Some((TroubleKind::Unproven, why.to_string()));
    }
    let noted = tracked.identity.reference.as_ref()?;
    let mut is_ours = false;
    for backend in &shared.vcenters {
        // The instance UUID of a vCenter is unknown before the first login, so the vCenter may be
        // the one of the reference. The function reports nothing then.
        let instance = backend.client.instance_uuid().and_then(parse_uuid)?;
        if instance == noted.vcenter {
            is_ours = true;
            if let Some(text) = replaced(&backend.client) {
                return Some((TroubleKind::OtherInstance, text));
            }
        }
    }
    // A configured vCenter may still have the machine, because a restored vCenter has another
    // instance UUID.
    let was_looked_for = tracked.attempt.is_none() && tracked.absent_since.is_some();
    (!is_ours && was_looked_for)
        .then(|| (TroubleKind::UnknownVcenter, proof::unknown_vcenter_message(noted)))
}

/// Returns a message if the last login of this client led to another vCenter than the first login.
pub(super) fn replaced(client: &Vcenter) -> Option<String> {
    let other = client.other_instance()?;
    let (name, first) = (client.name(), client.instance_uuid().unwrap_or_default());
    Some(format!(
        "{name} answers with instance UUID {other} instead of {first}: it is another vCenter, and the provider does not \
         log in to it; restart the provider if it replaces the first one"
    ))
}
