//! Finds the machine of a node in the view.

use super::{Entry, View};
use crate::{
    instances::supervisor::machine::identity::Identity,
    model::NodeIdentity,
    mutant::{Active, mutant},
};

/// Returns the machine with the identity of the node; `None` if the view does not have it.
pub(in crate::instances::supervisor) fn find_strict<'a>(
    view: &'a View,
    identity: &Identity,
    node: &NodeIdentity,
) -> Option<&'a Entry> {
    match identity {
        Identity::Uuid(key) => view.by_uuid(key, &node.name),
        Identity::Name => {
            view.by_name(node.name.as_str()).filter(|_| !matches_no_machine(view.active, node))
        }
    }
}

/// True if a node that is identified by name must match no machine, because its provider ID has no
/// UUID. Only a mutant causes this.
pub(in crate::instances::supervisor) fn matches_no_machine(
    active: Active,
    node: &NodeIdentity,
) -> bool {
    node.provider_id.is_some() && mutant!(active, EmptyUuidIsGone)
}
