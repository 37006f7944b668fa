//! Determines how the backend finds the machine of a node in the namespace.

use super::UuidKey;
use crate::model::{NodeIdentity, Unknown};

const SCHEME: &str = "vsphere://";

/// Search key for the machine of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::instances::supervisor) enum Identity {
    /// The machine with this UUID.
    Uuid(UuidKey),
    /// The machine with the node's name. The node has no provider ID yet, or one without a UUID, as
    /// an old defect wrote it.
    Name,
}

/// Returns the search key for the machine of a node.
///
/// # Errors
///
/// [`Unknown::NotOurs`] for a provider ID of another provider. Upstream treats that ID as a UUID
/// that no machine has, and deletes the node.
pub(in crate::instances::supervisor) fn identity(node: &NodeIdentity) -> Result<Identity, Unknown> {
    let Some(provider_id) = &node.provider_id else { return Ok(Identity::Name) };
    let Some(uuid) = provider_id.strip_prefix(SCHEME) else {
        return Err(Unknown::NotOurs(format!(
            "the provider ID {provider_id:?} is not one of vSphere"
        )));
    };
    Ok(UuidKey::of(uuid).map_or(Identity::Name, Identity::Uuid))
}

/// True if a provider ID has the inventory path or the name of a machine in place of a UUID, as old
/// in-tree providers wrote it: a text with a character that no UUID has, or the node's name. `key`
/// is the part after the scheme. No machine has such a UUID, so no list proves that the machine is
/// gone.
pub(in crate::instances::supervisor) fn is_path_or_name(
    key: &UuidKey,
    node: &NodeIdentity,
) -> bool {
    let is_of_uuid = |c: char| c.is_ascii_hexdigit() || c == '-';
    !key.as_str().chars().all(is_of_uuid) || Some(key) == UuidKey::of(node.name.as_str()).as_ref()
}

/// Returns the provider ID of a machine. It keeps the UUID as the Supervisor writes it, because
/// Cluster API compares the text.
pub(in crate::instances::supervisor) fn provider_id(bios_uuid: &str) -> String {
    format!("{SCHEME}{bios_uuid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_id_decides_whether_uuid_or_name_identifies_a_node() {
        let uuid = |text: &str| UuidKey::of(text).map(Identity::Uuid);
        for (provider_id, want) in [
            (None, Some(Identity::Name)),
            (Some("vsphere://"), Some(Identity::Name)),
            (Some("vsphere:// \n"), Some(Identity::Name)),
            (Some("vsphere://4215f0de"), uuid("4215f0de")),
            (Some("vsphere:// 4215F0DE "), uuid("4215f0de")),
            (Some("aws:///i-1"), None),
            (Some("4215f0de"), None),
            (Some("VSPHERE://4215f0de"), None),
            (Some("vsphere:/4215f0de"), None),
        ] {
            let node = NodeIdentity {
                name: "n".into(),
                uid: "u".into(),
                provider_id: provider_id.map(str::to_owned),
                system_uuid: None,
                reference: None,
                confirmed_gone: false,
            };
            assert_eq!(identity(&node).ok(), want, "{provider_id:?}");
        }
        assert_eq!(provider_id("4215F0DE"), "vsphere://4215F0DE");
    }
}
