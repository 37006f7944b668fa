//! Nodes whose machines this backend cannot look after, as far as it knows without a call.

use std::time::Duration;

use provider_vcenter::Vcenter;
use tokio::time::Instant;

use super::{
    Shared, proof,
    state::{State, Tracked},
};
use crate::{
    instances::{Trouble, TroubleKind},
    model::{Unknown, parse_uuid},
};

/// A machine that was found is delivered within moments; longer than this is trouble.
const DELIVERY: Duration = Duration::from_secs(60);

/// Every such node, in order of name.
pub(super) fn troubles(shared: &Shared) -> Vec<Trouble> {
    let state = shared.lock();
    let now = Instant::now();
    let found = state.nodes.iter().filter_map(|(name, tracked)| {
        let (kind, text) = trouble(shared, &state, tracked, now)?;
        Some(Trouble { node: name.clone(), kind, text })
    });
    found.collect()
}

fn trouble(
    shared: &Shared,
    state: &State,
    tracked: &Tracked,
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
            let text = format!("{machine} of {vcenter} was found more than a minute ago, and its properties were not delivered since");
            (TroubleKind::NotDelivered, text)
        });
    }
    if let Some((why @ Unknown::Unproven(_), until)) = &tracked.hidden
        && *until + DELIVERY > now
    {
        return Some((TroubleKind::Unproven, why.to_string()));
    }
    let noted = tracked.identity.reference.as_ref()?;
    let mut is_ours = false;
    for backend in &shared.vcenters {
        // Before the first login nobody knows which vCenter it is.
        let instance = backend.client.instance_uuid().and_then(parse_uuid)?;
        if instance == noted.vcenter {
            is_ours = true;
            if let Some(text) = replaced(&backend.client) {
                return Some((TroubleKind::OtherInstance, text));
            }
        }
    }
    // Its machine may still be found in one of ours: a vCenter that was restored has another instance UUID.
    let was_looked_for = tracked.attempt.is_none() && tracked.absent_since.is_some();
    (!is_ours && was_looked_for).then(|| (TroubleKind::UnknownVcenter, proof::elsewhere(noted)))
}

/// That another vCenter answers under a name, if one does.
fn replaced(client: &Vcenter) -> Option<String> {
    let other = client.other_instance()?;
    let (name, first) = (client.name(), client.instance_uuid().unwrap_or_default());
    Some(format!(
        "{name} answers with instance UUID {other} instead of {first}: it is another vCenter, and is not logged in to; \
         restart the provider if it is to take the place of the first"
    ))
}
