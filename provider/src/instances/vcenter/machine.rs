//! One virtual machine as the property collector delivers it.

use provider_vcenter::{MoRef, PropertyChange, xml::Element};

use crate::{
    instances::{Guest, Nic, Placement},
    model::MachineId,
    model::parse_uuid,
};

/// Paths asked of every machine. Leaves only: the collector then tells of changes that matter and of no others.
pub(super) const PATHS: &[&str] = &[
    "config.uuid",
    "guest.hostName",
    "guest.ipAddress",
    "guest.net",
    "guest.toolsRunningStatus",
    "summary.config.guestId",
    "summary.config.numCpu",
    "summary.config.memorySizeMB",
    "runtime.powerState",
    "runtime.host",
    "resourcePool",
    "parent",
    "parentVApp",
    "config.extraConfig[\"guestinfo.metadata\"]",
    "config.extraConfig[\"guestinfo.metadata.encoding\"]",
];

/// Power state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Power {
    On,
    Off,
    Suspended,
}

/// What is known of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Machine {
    /// Whether the collector shows it now. False says nothing about why.
    pub present: bool,
    /// BIOS UUID. Kept when it becomes unset, as happens while a machine is inaccessible.
    pub uuid: Option<MachineId>,
    pub guest: Guest,
    /// False only when the guest says so; what it reported before may be stale then.
    pub tools_stopped: bool,
    pub guest_id: Option<String>,
    pub n_cpus: Option<u32>,
    pub memory_mib: Option<u64>,
    pub power: Option<Power>,
    pub host: Option<MoRef>,
    pub pool: Option<MoRef>,
    pub parent: Option<MoRef>,
    pub vapp: Option<MoRef>,
}

impl Machine {
    /// A machine that just began to match, with everything that was asked.
    pub(super) fn entering(changes: &[PropertyChange], before: Option<&Machine>) -> Self {
        let mut machine =
            Self { present: true, uuid: before.and_then(|m| m.uuid), ..Self::default() };
        machine.apply(changes);
        machine
    }

    /// Takes over changed properties.
    pub(super) fn apply(&mut self, changes: &[PropertyChange]) {
        for change in changes {
            self.set(&change.name, change.value.as_ref());
        }
    }

    fn set(&mut self, path: &str, value: Option<&Element>) {
        let text = || value.map(|v| v.text.trim()).filter(|t| !t.is_empty()).map(str::to_owned);
        let reference = || value.and_then(MoRef::read);
        match path {
            "config.uuid" => {
                if let Some(uuid) = text().as_deref().and_then(parse_uuid) {
                    self.uuid = Some(uuid);
                }
            }
            "guest.hostName" => self.guest.host_name = text(),
            "guest.ipAddress" => self.guest.primary = text(),
            "guest.net" => self.guest.nics = value.map(read_nics).unwrap_or_default(),
            "guest.toolsRunningStatus" => {
                self.tools_stopped = text().as_deref() == Some("guestToolsNotRunning");
            }
            "summary.config.guestId" => self.guest_id = text(),
            "summary.config.numCpu" => self.n_cpus = text().and_then(|t| t.parse().ok()),
            "summary.config.memorySizeMB" => {
                self.memory_mib = text().and_then(|t| t.parse().ok());
            }
            "runtime.powerState" => {
                self.power = match text().as_deref() {
                    Some("poweredOn") => Some(Power::On),
                    Some("poweredOff") => Some(Power::Off),
                    Some("suspended") => Some(Power::Suspended),
                    _ => None,
                }
            }
            "runtime.host" => self.host = reference(),
            "resourcePool" => self.pool = reference(),
            "parent" => self.parent = reference(),
            "parentVApp" => self.vapp = reference(),
            "config.extraConfig[\"guestinfo.metadata\"]" => {
                self.guest.cloud_init = option_value(value);
            }
            "config.extraConfig[\"guestinfo.metadata.encoding\"]" => {
                self.guest.cloud_init_encoding = option_value(value);
            }
            other => tracing::debug!(path = other, "a property that was not asked"),
        }
    }

    /// Where it stands.
    pub(super) fn placement(&self, machine: &MoRef) -> Placement {
        Placement {
            machine: machine.clone(),
            host: self.host.clone(),
            pool: self.pool.clone(),
            parent: self.parent.clone().or_else(|| self.vapp.clone()),
        }
    }
}

/// The value inside an `OptionValue`, or the text itself.
fn option_value(value: Option<&Element>) -> Option<String> {
    let value = value?;
    let text = value.child("value").map_or(value.text.as_str(), |v| v.text.as_str()).trim();
    Some(text.to_owned()).filter(|t| !t.is_empty())
}

fn read_nics(value: &Element) -> Vec<Nic> {
    value
        .children
        .iter()
        .map(|nic| Nic {
            network: nic.text_of("network").map(str::to_owned),
            addresses: nic.all("ipAddress").map(|a| a.text.trim().to_owned()).collect(),
            prefix_lengths: nic
                .child("ipConfig")
                .into_iter()
                .flat_map(|config| config.all("ipAddress"))
                .filter_map(|entry| {
                    let length = entry.text_of("prefixLength")?.parse().ok()?;
                    Some((entry.text_of("ipAddress")?.to_owned(), length))
                })
                .collect(),
            device: nic.text_of("deviceConfigId").and_then(|d| d.parse().ok()).unwrap_or(0),
            mac: nic.text_of("macAddress").unwrap_or_default().to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, xml: &str) -> PropertyChange {
        let value = provider_vcenter::xml::parse(xml).unwrap();
        PropertyChange { name: name.to_owned(), value: Some(value) }
    }

    #[test]
    fn an_unset_uuid_keeps_the_known_one() {
        let uuid = "<val>42301AB2-c3d4-e5f6-0000-000000000001</val>";
        let mut machine = Machine::entering(&[change("config.uuid", uuid)], None);
        let known = machine.uuid;
        assert!(known.is_some());
        machine.apply(&[PropertyChange { name: "config.uuid".into(), value: None }]);
        assert_eq!(machine.uuid, known);
    }

    #[test]
    fn guest_cards_are_read_whole() {
        let nics = "<val><GuestNicInfo><network>lan</network><ipAddress>10.0.0.5</ipAddress>\
            <ipAddress>fe80::1</ipAddress><macAddress>00:50</macAddress><deviceConfigId>4000</deviceConfigId>\
            <ipConfig><ipAddress><ipAddress>10.0.0.5</ipAddress><prefixLength>24</prefixLength></ipAddress></ipConfig>\
            </GuestNicInfo><GuestNicInfo><deviceConfigId>-1</deviceConfigId></GuestNicInfo></val>";
        let machine = Machine::entering(&[change("guest.net", nics)], None);
        assert_eq!(machine.guest.nics.len(), 2);
        let first = &machine.guest.nics[0];
        assert_eq!(first.addresses, ["10.0.0.5", "fe80::1"]);
        assert_eq!(first.prefix_lengths.get("10.0.0.5"), Some(&24));
        assert_eq!((first.device, machine.guest.nics[1].device), (4000, -1));
    }
}
