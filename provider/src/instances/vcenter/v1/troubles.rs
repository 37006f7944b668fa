//! Reports nodes whose machines are out of reach, as far as the backend knows without a call. Upstream reports none.

use provider_vcenter::Vcenter;

use super::{Shared, State};
use crate::{
    instances::{
        Trouble, TroubleKind,
        vcenter::{proof, troubles::replaced},
    },
    model::{NodeIdentity, parse_uuid},
};

impl Shared {
    /// Returns all such nodes, in order of name.
    pub(super) fn troubles(&self) -> Vec<Trouble> {
        let state = self.lock();
        let found = state.seen.values().filter_map(|node| {
            let (kind, text) = trouble(&self.vcenters, &state, node)?;
            Some(Trouble { node: node.name.clone(), kind, text })
        });
        found.collect()
    }
}

fn trouble(
    vcenters: &[Vcenter],
    state: &State,
    node: &NodeIdentity,
) -> Option<(TroubleKind, String)> {
    let other = |client: &Vcenter| replaced(client).map(|text| (TroubleKind::OtherInstance, text));
    if let Some(known) = state.known.get(&node.name) {
        return other(&vcenters[known.vcenter]);
    }
    let noted = node.reference.as_ref()?;
    for client in vcenters {
        // Before the first login, the instance UUID of the vCenter is unknown.
        if client.instance_uuid().and_then(parse_uuid)? == noted.vcenter {
            return other(client);
        }
    }
    // A configured vCenter may still have the machine, because a restored vCenter has another instance UUID.
    let was_looked_for = !state.registrations.contains_key(&node.name);
    was_looked_for.then(|| (TroubleKind::UnknownVcenter, proof::elsewhere(noted)))
}
