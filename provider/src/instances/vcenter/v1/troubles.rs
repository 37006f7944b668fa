//! Finds the nodes whose machines this backend cannot manage, as far as it can tell without a call.
//! Upstream reports none.

use provider_vcenter::Vcenter;

use super::{Shared, State};
use crate::{
    instances::{
        Trouble, TroubleKind,
        vcenter::{index::PerVcenter, proof, troubles::replaced},
    },
    model::{NodeIdentity, parse_uuid},
};

impl Shared {
    /// Returns all nodes whose machines the backend cannot manage, in order of name.
    pub(super) fn troubles(&self) -> Vec<Trouble> {
        let state = self.lock();
        let found = state.seen.values().filter_map(|node| {
            let (kind, text) = trouble(&self.vcenters, &state, node)?;
            Some(Trouble { node: node.name.clone(), kind, text })
        });
        found.collect()
    }
}

/// Returns the trouble of one node, if any.
fn trouble(
    vcenters: &PerVcenter<Vcenter>,
    state: &State,
    node: &NodeIdentity,
) -> Option<(TroubleKind, String)> {
    let other = |client: &Vcenter| replaced(client).map(|text| (TroubleKind::OtherInstance, text));
    if let Some(known) = state.known.get(&node.name) {
        return other(&vcenters[known.vcenter]);
    }
    let noted = node.reference.as_ref()?;
    for client in vcenters {
        // The instance UUID of a vCenter is unknown before the first login, so the vCenter may be
        // the one of the reference.
        if client.instance_uuid().and_then(parse_uuid)? == noted.vcenter {
            return other(client);
        }
    }
    // A configured vCenter may still have the machine, because a restored vCenter has another
    // instance UUID.
    let was_looked_for = !state.registrations.contains_key(&node.name);
    was_looked_for.then(|| (TroubleKind::UnknownVcenter, proof::unknown_vcenter_message(noted)))
}
