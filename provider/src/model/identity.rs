//! Identity of a node's machine: provider ID, BIOS UUID and its two byte orders.

use std::{fmt, str::FromStr};

use serde::Serialize;
use uuid::Uuid;

use super::{MachineReference, NodeName};

/// A machine's BIOS UUID, in vCenter's byte order unless documented otherwise.
pub type MachineId = Uuid;

/// A node's `spec.providerID`, written as `vsphere://` and the machine's BIOS UUID in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(pub MachineId);

/// Reason why [`ProviderId`] cannot be parsed from a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseProviderIdError {
    /// The text has the scheme of another provider, or no scheme.
    #[error("the provider ID does not begin with vsphere://")]
    Scheme,
    /// The scheme is not followed by a valid UUID, or is followed by the nil UUID.
    #[error("the provider ID has no valid UUID after vsphere://")]
    Uuid,
}

impl FromStr for ProviderId {
    type Err = ParseProviderIdError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let uuid = s.strip_prefix("vsphere://").ok_or(ParseProviderIdError::Scheme)?;
        parse_uuid(uuid).map(Self).ok_or(ParseProviderIdError::Uuid)
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vsphere://{}", self.0.hyphenated())
    }
}

/// Parses a UUID in any form that [`Uuid::parse_str`] accepts, with or without blanks around it;
/// returns `None` for another text and for the nil UUID.
pub(crate) fn parse_uuid(text: &str) -> Option<Uuid> {
    Uuid::parse_str(text.trim()).ok().filter(|uuid| !uuid.is_nil())
}

/// Returns the UUID with the bytes of each of its first three groups reversed, as guests of
/// hardware version 13 and newer report it. A second call reverses the first.
///
/// Upstream: `cloud-provider-vsphere: pkg/cloudprovider/vsphere/util.go`, `ConvertK8sUUIDtoNormal`.
pub fn swap_byte_order(uuid: Uuid) -> Uuid {
    Uuid::from_bytes_le(uuid.into_bytes())
}

/// `metadata.uid` of a Node. A Node with the same name and another UID is another Node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NodeUid(String);

impl NodeUid {
    /// Returns the UID as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for NodeUid {
    fn from(uid: String) -> Self {
        Self(uid)
    }
}

impl From<&str> for NodeUid {
    fn from(uid: &str) -> Self {
        Self(uid.to_owned())
    }
}

impl fmt::Display for NodeUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The fields of a Node that identify its machine, and the Node's two annotations about that
/// machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIdentity {
    /// Name of the Node object.
    pub name: NodeName,
    /// UID of the Node object: a Node with the same name and another UID is another node.
    pub uid: NodeUid,
    /// `spec.providerID`, when set.
    pub provider_id: Option<String>,
    /// `status.nodeInfo.systemUUID`, when set.
    pub system_uuid: Option<String>,
    /// Reference of the machine that the provider found for the node earlier, from the Node's
    /// annotation; `None` if the annotation is absent or cannot be parsed. Not part of the
    /// identity.
    pub reference: Option<MachineReference>,
    /// True if a person has confirmed by annotation that this machine is gone. Not part of the
    /// identity.
    pub confirmed_gone: bool,
}

impl NodeIdentity {
    /// True if both have the same name, UID, provider ID and system UUID.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let Self { name, uid, provider_id, system_uuid, reference: _, confirmed_gone: _ } = self;
        (name, uid, provider_id, system_uuid)
            == (&other.name, &other.uid, &other.provider_id, &other.system_uuid)
    }

    /// Returns the UUIDs under which vCenter may have the machine, the likelier one first: one UUID
    /// in both byte orders. Empty if the node has neither a provider ID nor a valid system UUID.
    ///
    /// If the node has a provider ID, only the UUID in that counts: as written, then byte-swapped.
    /// Otherwise the system UUID counts, swapped first, because guests of hardware version 13 and
    /// newer report it swapped (`cpi-vsphere` 3.2).
    ///
    /// # Errors
    ///
    /// If the provider ID is not of the form `vsphere://<UUID>`, or has the nil UUID. A node whose
    /// provider ID has another scheme belongs to another provider.
    pub fn candidates(&self) -> Result<Vec<MachineId>, ParseProviderIdError> {
        let mut candidates = Vec::new();
        if let Some(provider_id) = &self.provider_id {
            let ProviderId(uuid) = provider_id.parse()?;
            candidates.push(uuid);
            candidates.push(swap_byte_order(uuid));
        } else if let Some(uuid) = self.system_uuid.as_deref().and_then(parse_uuid) {
            candidates.push(swap_byte_order(uuid));
            candidates.push(uuid);
        }
        candidates.dedup();
        Ok(candidates)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_ids_parse_as_upstream_writes_them() {
        let id = ProviderId(Uuid::parse_str("421a7c0e-1111-4222-8333-abcdefabcdef").unwrap());
        for (name, text, want) in [
            ("as we write it", "vsphere://421a7c0e-1111-4222-8333-abcdefabcdef", Ok(id)),
            (
                "upper case, as older releases wrote it",
                "vsphere://421A7C0E-1111-4222-8333-ABCDEFABCDEF",
                Ok(id),
            ),
            ("spaces", "vsphere:// 421a7c0e-1111-4222-8333-abcdefabcdef ", Ok(id)),
            (
                "no scheme",
                "421a7c0e-1111-4222-8333-abcdefabcdef",
                Err(ParseProviderIdError::Scheme),
            ),
            ("another cloud", "k3s://node-1", Err(ParseProviderIdError::Scheme)),
            ("empty", "vsphere://", Err(ParseProviderIdError::Uuid)),
            (
                "nil",
                "vsphere://00000000-0000-0000-0000-000000000000",
                Err(ParseProviderIdError::Uuid),
            ),
        ] {
            assert_eq!(text.parse::<ProviderId>(), want, "{name}");
        }
        assert_eq!(id.to_string(), "vsphere://421a7c0e-1111-4222-8333-abcdefabcdef");
    }

    #[test]
    fn the_byte_order_of_a_uuid_is_swapped_as_by_upstream() {
        let as_guest = Uuid::parse_str("56492e42-22ad-3911-6d72-59cc8f26bc90").unwrap();
        let as_vcenter = Uuid::parse_str("422e4956-ad22-1139-6d72-59cc8f26bc90").unwrap();
        assert_eq!(swap_byte_order(as_guest), as_vcenter);
        assert_eq!(swap_byte_order(as_vcenter), as_guest);
    }

    #[test]
    fn the_system_uuid_is_tried_swapped_first() {
        let mut node = NodeIdentity {
            name: "n".into(),
            uid: "u".into(),
            provider_id: None,
            system_uuid: Some("56492E42-22AD-3911-6D72-59CC8F26BC90".into()),
            reference: None,
            confirmed_gone: false,
        };
        let text = |c: Vec<Uuid>| c.iter().map(Uuid::to_string).collect::<Vec<_>>();
        assert_eq!(
            text(node.candidates().unwrap()),
            ["422e4956-ad22-1139-6d72-59cc8f26bc90", "56492e42-22ad-3911-6d72-59cc8f26bc90"]
        );
        node.provider_id = Some("vsphere://422e4956-ad22-1139-6d72-59cc8f26bc90".into());
        assert_eq!(text(node.candidates().unwrap())[0], "422e4956-ad22-1139-6d72-59cc8f26bc90");
        node.provider_id = Some("aws:///i-1".into());
        assert_eq!(node.candidates(), Err(ParseProviderIdError::Scheme));
        node.provider_id = None;
        node.system_uuid = None;
        assert!(node.candidates().unwrap().is_empty());
    }
}
