//! Machines in vCenter as the backend reads them, and the proof that one may be destroyed. Pure.

use provider_vcenter::{MoRef, ObjectContent, xml::Element};
use uuid::Uuid;

use super::journal::{Intent, IntentState};
use crate::model::parse_uuid;

/// Key of `extraConfig` with the mark of a machine: group, BIOS UUID and instance UUID with which
/// this server requested it.
pub(super) const MARK: &str = "vsphere.cloud-provider.node-group";
/// Key of `extraConfig` with the keys of the disks that the machine got from its template.
pub(super) const DISKS: &str = "vsphere.cloud-provider.disks";

/// Properties that the view reads of every machine.
pub(super) const OF_VIEW: [&str; 6] = [
    "name",
    "config.uuid",
    "config.instanceUuid",
    "config.template",
    "runtime.powerState",
    "guest.ipAddress",
];
/// Properties that a change of one machine needs.
pub(super) const OF_CHANGE: [&str; 9] = [
    "name",
    "parent",
    "config.uuid",
    "config.instanceUuid",
    "config.template",
    "runtime.powerState",
    "guest.ipAddress",
    "config.extraConfig",
    "config.hardware.device",
];

/// A machine as the view shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) object: MoRef,
    pub(super) name: String,
    pub(super) bios: Option<Uuid>,
    pub(super) instance: Option<Uuid>,
    pub(super) is_template: bool,
    pub(super) is_on: bool,
    pub(super) has_address: bool,
}

impl Seen {
    pub(super) fn read(content: &ObjectContent) -> Self {
        Self {
            object: content.object.clone(),
            name: content.text("name").unwrap_or_default().to_owned(),
            bios: content.text("config.uuid").and_then(parse_uuid),
            instance: content.text("config.instanceUuid").and_then(parse_uuid),
            is_template: content.text("config.template") == Some("true"),
            is_on: content.text("runtime.powerState") == Some("poweredOn"),
            has_address: content.text("guest.ipAddress").is_some(),
        }
    }
}

/// A machine with everything that a change of it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Detail {
    pub(super) seen: Seen,
    /// Folder of the machine; `None` within a vApp.
    pub(super) parent: Option<MoRef>,
    pub(super) mark: Option<String>,
    /// Keys of the disks from the template.
    pub(super) marked_disks: Vec<i32>,
    /// `None` if the devices of the machine cannot be read.
    pub(super) disks: Option<Vec<Disk>>,
}

/// A virtual disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) key: i32,
    pub(super) uuid: Option<Uuid>,
    /// True if the disk is a first class disk, as the volumes of the CSI driver are.
    pub(super) is_volume: bool,
    pub(super) controller: i32,
    pub(super) unit: i32,
    pub(super) file: String,
    pub(super) mode: String,
    pub(super) kib: i64,
}

/// Reason why a machine is not the one that an intent names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotOurs {
    #[error("it is a template")]
    Template,
    #[error("its BIOS UUID is {0}, not that of the journal")]
    BiosUuid(String),
    #[error("its instance UUID is {0}, not that of the journal")]
    InstanceUuid(String),
    #[error("its extraConfig key {MARK} is {0}, not what this server wrote")]
    Mark(String),
}

/// Reason why a machine must not be destroyed now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Protected {
    #[error("the journal does not name it for deletion")]
    NotNamed,
    #[error(transparent)]
    NotOurs(#[from] NotOurs),
    #[error("its disks cannot be read, so that some may be attached that would be lost")]
    UnreadDisks,
    #[error(
        "it shows none of the disks that it got from its template, so that others may be missing too"
    )]
    NoDisks,
    #[error("disks were attached to it later, and would be lost: {0}")]
    Disks(String),
}

impl Detail {
    pub(super) fn read(content: &ObjectContent) -> Self {
        let extra = |key: &str| {
            let options = content.properties.get("config.extraConfig");
            let mut options = options.into_iter().flat_map(|it| &it.children);
            let found = options.find(|it| it.text_of("key") == Some(key))?;
            found.text_of("value").map(str::to_owned)
        };
        let keys = extra(DISKS).unwrap_or_default();
        Self {
            seen: Seen::read(content),
            parent: content.reference("parent"),
            mark: extra(MARK),
            marked_disks: keys.split(',').filter_map(|key| key.parse().ok()).collect(),
            disks: disks(content),
        }
    }

    /// Checks that this is the machine of the intent: by both UUIDs and by the mark. A copy of the
    /// machine has the mark, but other UUIDs; a machine that happens to have its name has neither.
    pub(super) fn is_of(&self, intent: &Intent) -> Result<(), NotOurs> {
        let shown = |uuid: Option<Uuid>| uuid.map_or("unknown".to_owned(), |it| it.to_string());
        if self.seen.is_template {
            return Err(NotOurs::Template);
        }
        if self.seen.instance != Some(intent.instance) {
            return Err(NotOurs::InstanceUuid(shown(self.seen.instance)));
        }
        if self.seen.bios != Some(intent.bios) {
            return Err(NotOurs::BiosUuid(shown(self.seen.bios)));
        }
        if self.mark.as_deref() != Some(&*intent.mark()) {
            return Err(NotOurs::Mark(self.mark.clone().unwrap_or("missing".to_owned())));
        }
        Ok(())
    }

    /// Checks that the machine may be destroyed with all its disks.
    pub(super) fn may_be_destroyed(&self, intent: &Intent) -> Result<(), Protected> {
        if intent.state != IntentState::Deleting {
            return Err(Protected::NotNamed);
        }
        self.is_of(intent)?;
        let disks = self.disks.as_ref().ok_or(Protected::UnreadDisks)?;
        if disks.is_empty() && !self.marked_disks.is_empty() {
            return Err(Protected::NoDisks);
        }
        let foreign: Vec<&str> = disks
            .iter()
            .filter(|it| !self.is_own_disk(it, intent))
            .map(|it| it.file.as_str())
            .collect();
        if foreign.is_empty() { Ok(()) } else { Err(Protected::Disks(foreign.join(", "))) }
    }

    /// True if the machine got the disk from its template.
    fn is_own_disk(&self, disk: &Disk, intent: &Intent) -> bool {
        let is_same = |known: &Uuid| disk.uuid.is_none_or(|uuid| uuid == *known);
        !disk.is_volume
            && self.marked_disks.contains(&disk.key)
            && intent.disks.get(&disk.key).is_none_or(is_same)
    }
}

/// Reads the virtual disks of a machine or template; `None` if its devices cannot be read.
pub(super) fn disks(content: &ObjectContent) -> Option<Vec<Disk>> {
    let is_disk = |it: &&Element| it.xsi_type.as_deref() == Some("VirtualDisk");
    Some(devices(content)?.iter().filter(is_disk).map(disk).collect())
}

/// Returns type and key of each network card; `None` if the devices cannot be read.
pub(super) fn cards(content: &ObjectContent) -> Option<Vec<(String, i32)>> {
    let is_card = |it: &&Element| it.text_of("macAddress").is_some();
    let card = |it: &Element| Some((it.xsi_type.as_deref()?.to_owned(), number(it, "key")?));
    Some(devices(content)?.iter().filter(is_card).filter_map(card).collect())
}

/// Returns the devices. A machine without any does not exist, so that an empty list is unreadable.
fn devices(content: &ObjectContent) -> Option<&[Element]> {
    let devices = &content.properties.get("config.hardware.device")?.children;
    (!devices.is_empty()).then_some(devices.as_slice())
}

fn disk(device: &Element) -> Disk {
    let backing = device.child("backing");
    let text = |name: &str| backing.and_then(|it| it.text_of(name));
    Disk {
        // A key that no mark has.
        key: number(device, "key").unwrap_or(-1),
        uuid: text("uuid").and_then(parse_uuid),
        is_volume: device.child("vDiskId").is_some(),
        controller: number(device, "controllerKey").unwrap_or_default(),
        unit: number(device, "unitNumber").unwrap_or_default(),
        file: text("fileName").unwrap_or("a disk without file").to_owned(),
        mode: text("diskMode").unwrap_or("persistent").to_owned(),
        kib: device.text_of("capacityInKB").and_then(|it| it.parse().ok()).unwrap_or_default(),
    }
}

fn number(element: &Element, name: &str) -> Option<i32> {
    element.text_of(name)?.parse().ok()
}
