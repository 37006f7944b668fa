//! Settings of a machine that the world keeps for clients. They change nothing else in the world.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Setting {
    /// A text, number, boolean, time or reference, as a client writes it.
    Text(String),
    /// The elements of a list.
    List(Vec<Setting>),
    /// A data object.
    Object(Structure),
}

/// A data object: its type and the fields that are set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Structure {
    /// Name of the vim25 type, such as `ResourceAllocationInfo`.
    pub kind: String,
    /// Values of the fields, by name.
    pub fields: BTreeMap<String, Setting>,
}

/// Settings by property path, such as `config.cpuHotAddEnabled`.
pub type Settings = BTreeMap<String, Setting>;

/// The property of the machine that shows a setting, and true if only a machine that is powered off
/// accepts another value.
const PATHS: &[(&str, bool)] = &[
    ("config.alternateGuestName", false),
    ("config.bootOptions", false),
    ("config.changeTrackingEnabled", false),
    ("config.consolePreferences", false),
    ("config.cpuAffinity", false),
    ("config.cpuAllocation", false),
    ("config.cpuHotAddEnabled", true),
    ("config.cpuHotRemoveEnabled", true),
    ("config.createDate", false),
    ("config.defaultPowerOps", false),
    ("config.files", false),
    ("config.firmware", true),
    ("config.flags", false),
    ("config.guestAutoLockEnabled", false),
    ("config.guestMonitoringModeInfo", false),
    ("config.hardware.motherboardLayout", true),
    ("config.hardware.numCoresPerSocket", true),
    ("config.hardware.simultaneousThreads", true),
    ("config.hardware.virtualICH7MPresent", true),
    ("config.hardware.virtualSMCPresent", true),
    ("config.latencySensitivity", false),
    ("config.locationId", false),
    ("config.managedBy", false),
    ("config.maxMksConnections", false),
    ("config.memoryAffinity", false),
    ("config.memoryAllocation", false),
    ("config.memoryHotAddEnabled", true),
    ("config.memoryReservationLockedToMax", false),
    ("config.messageBusTunnelEnabled", false),
    ("config.migrateEncryption", false),
    ("config.nestedHVEnabled", true),
    ("config.networkShaper", false),
    ("config.rebootPowerOff", false),
    ("config.scheduledHardwareUpgradeInfo", false),
    ("config.swapPlacement", false),
    ("config.tools", false),
    ("config.vAssertsEnabled", false),
    ("config.vPMCEnabled", true),
    ("config.vcpuConfig", false),
    ("config.version", true),
    ("config.vmOpNotificationTimeout", false),
    ("config.vmOpNotificationToAppEnabled", false),
    ("config.vmxStatsCollectionEnabled", false),
];

/// Values that the settings of a machine have before a client sets them; every other boolean is
/// false.
const DEFAULTS: &[(&str, &str)] = &[
    ("config.firmware", "bios"),
    ("config.hardware.numCoresPerSocket", "1"),
    ("config.version", "vmx-19"),
];

/// Returns the path as it is in the table of settings, and true if only a machine that is powered
/// off accepts another value; `None` if it is not a setting.
pub(crate) fn known(path: &str) -> Option<(&'static str, bool)> {
    PATHS.iter().copied().find(|(known, _)| *known == path)
}

/// True if `new` is the value that the setting has now.
pub(crate) fn is_present(settings: &Settings, path: &str, new: &Setting) -> bool {
    let default = DEFAULTS.iter().find(|(known, _)| *known == path).map_or("false", |it| it.1);
    match settings.get(path) {
        Some(present) => present == new,
        None => *new == Setting::Text(default.to_owned()),
    }
}

impl Setting {
    /// Takes over the values of `newer`. A data object of the same type keeps the fields that
    /// `newer` leaves out; any other value is replaced.
    pub(crate) fn merge(&mut self, newer: &Self) {
        match (self, newer) {
            (Self::Object(old), Self::Object(new)) if old.kind == new.kind => old.merge(new),
            (old, new) => old.clone_from(new),
        }
    }

    /// Returns the text of a text; `None` for any other value.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Structure {
    pub(crate) fn merge(&mut self, newer: &Self) {
        merge(&mut self.fields, &newer.fields);
    }
}

/// Takes over all settings of `newer`, and removes those that `newer` clears.
pub(crate) fn take_over(settings: &mut Settings, newer: &Settings) {
    merge(settings, newer);
    settings.retain(|path, _| !newer.get(path).is_some_and(|value| clears(path, value)));
}

/// True if a client clears the setting with this value, as vim25 defines it: an affinity without
/// elements, or a manager without a key.
fn clears(path: &str, value: &Setting) -> bool {
    let Setting::Object(Structure { fields, .. }) = value else { return false };
    match path {
        "config.cpuAffinity" | "config.memoryAffinity" => !fields.contains_key("affinitySet"),
        "config.managedBy" => {
            fields.get("extensionKey").and_then(Setting::text).is_none_or(str::is_empty)
        }
        _ => false,
    }
}

/// Takes over all values of `newer`.
fn merge(settings: &mut Settings, newer: &Settings) {
    for (name, value) in newer {
        match settings.get_mut(name) {
            Some(old) => old.merge(value),
            None => {
                settings.insert(name.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(fields: &[(&str, &str)]) -> Setting {
        let fields =
            fields.iter().map(|(name, text)| ((*name).into(), Setting::Text((*text).into())));
        Setting::Object(Structure {
            kind: "ResourceAllocationInfo".into(),
            fields: fields.collect(),
        })
    }

    #[test]
    fn an_object_keeps_the_fields_that_a_newer_one_leaves_out() {
        let mut setting = allocation(&[("limit", "-1"), ("reservation", "100")]);
        setting.merge(&allocation(&[("reservation", "200")]));
        assert_eq!(setting, allocation(&[("limit", "-1"), ("reservation", "200")]));
        setting.merge(&Setting::Text("x".into()));
        assert_eq!(setting, Setting::Text("x".into()));
    }

    #[test]
    fn the_table_of_settings_is_in_order_and_names_no_path_twice() {
        assert!(PATHS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
