//! Reads from a VirtualMachine object what the provider needs, in any API version.
//!
//! The paths are the same in v1alpha2, v1alpha5 and v1alpha6 (an older version lacks some), so one
//! reader serves all. The rest of the object is dropped at once, because a namespace of ten
//! thousand machines of ten kilobytes each must not stay in memory. A field of an unexpected type
//! makes only its [`Field`] unreadable, not the object; only an object without a name is refused.

pub(super) mod addresses;
pub(super) mod identity;
mod names;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

pub(super) use self::names::{MachineName, UuidKey};

/// Label whose value is the machine's zone.
const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// Power state of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PowerState {
    /// Running.
    On,
    /// Switched off.
    Off,
    /// Suspended. As upstream, the backend does not count this as shut down.
    Suspended,
    /// Not reported, or a state that the provider does not support.
    #[default]
    Unknown,
}

/// Part of a machine that may be unreadable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    /// `metadata.labels`.
    Labels,
    /// `status.biosUUID` or `spec.biosUUID`.
    Uuid,
    /// `status.powerState`.
    Power,
    /// Any part of `status.network`.
    Network,
}

/// A machine as the provider reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MachineObject {
    /// `metadata.name`; usually also the name of the node.
    pub name: MachineName,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.creationTimestamp`; `None` if it is missing or cannot be parsed.
    pub created: Option<Timestamp>,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// The label `topology.kubernetes.io/zone`, when not empty.
    pub zone: Option<String>,
    /// `status.biosUUID` as written; `None` if not set yet.
    pub bios_uuid: Option<String>,
    /// `spec.biosUUID` as written; `None` if not set, and in versions without it.
    pub wanted_uuid: Option<String>,
    /// `status.powerState`.
    pub power: PowerState,
    /// `status.network.primaryIP4`, when not empty.
    pub primary4: Option<String>,
    /// `status.network.primaryIP6`, when not empty.
    pub primary6: Option<String>,
    /// Addresses of all interfaces in order, without prefix lengths.
    pub interface_addresses: Vec<String>,
    /// Parts with a value that could not be read. Such a value is missing here, unless the whole
    /// part has the values of the view's earlier object.
    pub unreadable: BTreeSet<Field>,
}

/// Error for an object without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the VirtualMachine has no name (metadata.name)")]
pub(super) struct MissingName;

impl MachineObject {
    /// Reads an object.
    ///
    /// # Errors
    ///
    /// If the object has no name.
    pub(super) fn from_json(value: &Value) -> Result<Self, MissingName> {
        let mut read = Reader { value, unreadable: BTreeSet::new() };
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            return Err(MissingName);
        }
        let meta = |key: &str| {
            let text = value.pointer(&format!("/metadata/{key}")).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let deletion = value.pointer("/metadata/deletionTimestamp");
        let zone = read.label(ZONE_LABEL);
        let power = match read.text("/status/powerState", Field::Power).as_deref() {
            Some("PoweredOn") => PowerState::On,
            Some("PoweredOff") => PowerState::Off,
            Some("Suspended") => PowerState::Suspended,
            // The provider does not act on a state that it does not support.
            _ => PowerState::Unknown,
        };
        Ok(Self {
            name: MachineName::from(name),
            uid: meta("uid"),
            resource_version: meta("resourceVersion"),
            created: meta("creationTimestamp").parse().ok(),
            deleting: deletion.is_some_and(|at| !at.is_null()),
            zone,
            bios_uuid: read.text("/status/biosUUID", Field::Uuid),
            wanted_uuid: read.text("/spec/biosUUID", Field::Uuid),
            power,
            primary4: read.text("/status/network/primaryIP4", Field::Network),
            primary6: read.text("/status/network/primaryIP6", Field::Network),
            interface_addresses: read.interface_addresses(),
            unreadable: read.unreadable,
        })
    }

    /// Returns the normalized `status.biosUUID`; `None` if the machine has none (yet).
    pub(super) fn uuid_key(&self) -> Option<UuidKey> {
        self.bios_uuid.as_deref().and_then(UuidKey::of)
    }

    /// Replaces the fields of all unreadable parts by their values from `before`, if that is the
    /// same object (the same UID).
    pub(super) fn with_unreadable_from(mut self, before: &Self) -> Self {
        if self.uid != before.uid {
            return self;
        }
        for field in &self.unreadable {
            match field {
                Field::Labels => self.zone.clone_from(&before.zone),
                Field::Uuid => {
                    self.bios_uuid.clone_from(&before.bios_uuid);
                    self.wanted_uuid.clone_from(&before.wanted_uuid);
                }
                Field::Power => self.power = before.power,
                Field::Network => {
                    self.primary4.clone_from(&before.primary4);
                    self.primary6.clone_from(&before.primary6);
                    self.interface_addresses.clone_from(&before.interface_addresses);
                }
            }
        }
        self
    }

    /// True if both objects have the same UID and the same values for a node's metadata. The set of
    /// unreadable parts does not count.
    pub(super) fn gives_same_metadata(&self, other: &Self) -> bool {
        let it = |m: &Self| {
            (
                m.uid.clone(),
                m.zone.clone(),
                m.bios_uuid.clone(),
                m.primary4.clone(),
                m.primary6.clone(),
                m.interface_addresses.clone(),
            )
        };
        it(self) == it(other)
    }
}

/// Reads fields and notes those that cannot be read.
struct Reader<'a> {
    value: &'a Value,
    unreadable: BTreeSet<Field>,
}

impl Reader<'_> {
    /// Reads a text; `None` if the value is missing, null, empty or unreadable.
    fn text(&mut self, pointer: &str, field: Field) -> Option<String> {
        let value = self.value;
        let mut parents = pointer.match_indices('/').map(|(at, _)| &pointer[..at]).skip(1);
        if parents.any(|parent| !is_object_or_nothing(value.pointer(parent))) {
            self.unreadable.insert(field);
            return None;
        }
        match value.pointer(pointer) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.is_empty()),
            Some(_) => {
                self.unreadable.insert(field);
                None
            }
        }
    }

    /// Reads a label; `None` if it is missing, null, empty or unreadable.
    fn label(&mut self, key: &str) -> Option<String> {
        match self.value.pointer("/metadata/labels") {
            None | Some(Value::Null) => None,
            Some(Value::Object(labels)) => match labels.get(key) {
                None | Some(Value::Null) => None,
                Some(Value::String(value)) => Some(value.clone()).filter(|it| !it.is_empty()),
                Some(_) => {
                    self.unreadable.insert(Field::Labels);
                    None
                }
            },
            Some(_) => {
                self.unreadable.insert(Field::Labels);
                None
            }
        }
    }

    /// Reads `status.network.interfaces[].ip.addresses[].address`, each up to its first slash.
    fn interface_addresses(&mut self) -> Vec<String> {
        let value = self.value;
        let mut addresses = Vec::new();
        for interface in self.list(value.pointer("/status/network/interfaces")) {
            match interface.get("ip") {
                // An interface without an address is skipped, as upstream does.
                None | Some(Value::Null) if interface.is_object() => {}
                Some(ip) if ip.is_object() => {
                    for entry in self.list(ip.get("addresses")) {
                        match entry.get("address") {
                            Some(Value::String(text)) => {
                                let address = text.split('/').next().unwrap_or_default();
                                addresses.push(address.to_owned());
                            }
                            None | Some(Value::Null) if entry.is_object() => {}
                            _ => {
                                self.unreadable.insert(Field::Network);
                            }
                        }
                    }
                }
                _ => {
                    self.unreadable.insert(Field::Network);
                }
            }
        }
        addresses
    }

    /// Reads a list inside `status.network`; empty if it is missing, null or unreadable.
    fn list<'v>(&mut self, value: Option<&'v Value>) -> &'v [Value] {
        match value {
            None | Some(Value::Null) => &[],
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.unreadable.insert(Field::Network);
                &[]
            }
        }
    }
}

fn is_object_or_nothing(value: Option<&Value>) -> bool {
    matches!(value, None | Some(Value::Null | Value::Object(_)))
}

#[cfg(test)]
mod tests;
