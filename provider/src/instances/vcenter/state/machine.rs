//! Properties of one virtual machine as the property collector delivers them.

use std::{collections::BTreeMap, fmt};

use provider_vcenter::{Fault, FaultKind, MoRef, PropertyChange, xml::Element};

use crate::{
    instances::{Guest, Nic, Placement},
    model::MachineId,
    model::parse_uuid,
};

/// Property paths that the provider reads of every machine. Each is as narrow as possible, so that
/// the collector reports only changes that matter.
pub(in crate::instances::vcenter) const PATHS: &[&str] = &[
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

const EXTRA_CONFIG: &str = "config.extraConfig";
/// Prefixes of the paths that the addresses depend on.
pub(in crate::instances::vcenter) const ADDRESS_PATHS: &[&str] = &["guest.", EXTRA_CONFIG];
/// Prefixes of the paths that the zone depends on.
pub(in crate::instances::vcenter) const PLACEMENT_PATHS: &[&str] =
    &["runtime.host", "resourcePool", "parent"];
/// Prefix of the paths that the instance type depends on.
pub(in crate::instances::vcenter) const SIZE_PATHS: &[&str] = &["summary.config."];

/// Power state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::instances::vcenter) enum Power {
    On,
    Off,
    Suspended,
}

/// Reason why vCenter could not read a property. All reasons are equal, so that another text for the
/// same property is not a change of the machine.
#[derive(Clone, Debug)]
pub(in crate::instances::vcenter) struct Unread(Fault);

impl PartialEq for Unread {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Unread {}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Last known properties of one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::instances::vcenter) struct Machine {
    /// True if the collector shows the machine now. False has many possible reasons, such as a lost
    /// privilege.
    pub present: bool,
    /// Last reported BIOS UUID. It stays when the property becomes unset, as happens while a
    /// machine is inaccessible.
    pub uuid: Option<MachineId>,
    pub guest: Guest,
    /// True only if vCenter reports that VMware Tools are not running. The guest information may be
    /// out of date then.
    pub tools_stopped: bool,
    pub guest_id: Option<String>,
    pub n_cpus: Option<u32>,
    pub memory_mib: Option<u64>,
    pub power: Option<Power>,
    pub host: Option<MoRef>,
    pub pool: Option<MoRef>,
    pub parent: Option<MoRef>,
    pub vapp: Option<MoRef>,
    /// Paths that vCenter could not read the last time, with the reasons. Their fields keep the
    /// earlier values, if any.
    pub unread: BTreeMap<&'static str, Unread>,
}

impl Machine {
    /// Builds a machine from one complete read. A property that is neither in `changes` nor in
    /// `missing` is unset. Unreadable properties, and a UUID that is unset, keep their values from
    /// `before`.
    pub(in crate::instances::vcenter) fn entering(
        changes: &[PropertyChange],
        missing: &[(String, Fault)],
        before: Option<&Machine>,
    ) -> Self {
        let mut machine = before.cloned().unwrap_or_default();
        machine.present = true;
        // Cleared first, because a property that was unreadable before and is unset now is in
        // neither list.
        machine.unread.clear();
        machine.apply(changes, missing);
        for path in PATHS {
            if !machine.unread.contains_key(path) && !changes.iter().any(|c| c.name == *path) {
                machine.set(path, None);
            }
        }
        machine
    }

    /// Applies changed properties, and records those that vCenter could not read. The latter keep
    /// their values, except guestinfo that the login may not read: it becomes unset.
    pub(in crate::instances::vcenter) fn apply(
        &mut self,
        changes: &[PropertyChange],
        missing: &[(String, Fault)],
    ) {
        for change in changes {
            self.unread.remove(change.name.as_str());
            self.set(&change.name, change.value.as_ref());
        }
        for (path, fault) in missing {
            let of_it = |asked: &&&str| {
                asked.strip_prefix(path.as_str()).is_some_and(|rest| {
                    rest.is_empty() || rest.starts_with('.') || rest.starts_with('[')
                })
            };
            for asked in PATHS.iter().filter(of_it) {
                // Reading guestinfo may need an additional privilege. Without that privilege,
                // guestinfo counts as unset.
                if asked.starts_with(EXTRA_CONFIG) && fault.kind == FaultKind::NoPermission {
                    self.set(asked, None);
                } else {
                    self.unread.insert(asked, Unread(fault.clone()));
                }
            }
        }
    }

    /// Returns the first unreadable path that starts with one of these prefixes, and the reason.
    pub(in crate::instances::vcenter) fn unread_of(
        &self,
        prefixes: &[&str],
    ) -> Option<(&'static str, &Unread)> {
        let is_of = |path: &str| prefixes.iter().any(|prefix| path.starts_with(prefix));
        self.unread.iter().find(|(path, _)| is_of(path)).map(|(path, why)| (*path, why))
    }

    /// Sets the field of a path; `None` unsets the field, except for the UUID.
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
            other => tracing::debug!(
                path = other,
                "vCenter sent a property that was not requested; ignoring it"
            ),
        }
    }

    /// Returns the location of the machine in the inventory.
    pub(in crate::instances::vcenter) fn placement(&self, machine: &MoRef) -> Placement {
        Placement {
            machine: machine.clone(),
            host: self.host.clone(),
            pool: self.pool.clone(),
            parent: self.parent.clone().or_else(|| self.vapp.clone()),
        }
    }
}

/// Returns the text of the `value` child of an `OptionValue`, or the text of the element itself;
/// `None` if it is empty.
fn option_value(value: Option<&Element>) -> Option<String> {
    let value = value?;
    let text = value.child("value").map_or(value.text.as_str(), |v| v.text.as_str()).trim();
    Some(text.to_owned()).filter(|t| !t.is_empty())
}

/// Reads a list of `GuestNicInfo`.
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

    fn unread_of(machine: &Machine, prefixes: &[&str]) -> Option<&'static str> {
        machine.unread_of(prefixes).map(|(path, _)| path)
    }

    #[test]
    fn an_unset_uuid_keeps_the_known_one() {
        let uuid = "<val>42301AB2-c3d4-e5f6-0000-000000000001</val>";
        let mut machine = Machine::entering(&[change("config.uuid", uuid)], &[], None);
        let known = machine.uuid;
        assert!(known.is_some());
        machine.apply(&[PropertyChange { name: "config.uuid".into(), value: None }], &[]);
        assert_eq!(machine.uuid, known);
    }

    #[test]
    fn a_property_that_cannot_be_read_is_not_unset() {
        let missing = |path: &str, kind: FaultKind| {
            vec![(path.to_owned(), Fault { kind, message: String::new() })]
        };
        let system_error = || FaultKind::SystemError;
        let on = change("runtime.powerState", "<val>poweredOn</val>");
        let named = change("guest.hostName", "<val>n1</val>");
        let whole = Machine::entering(&[on.clone(), named.clone()], &[], None);
        assert!(whole.unread.is_empty());

        // A machine that enters the view again keeps the values of an unreadable part, which counts
        // as unread. A property that is missing is unset.
        let half = Machine::entering(
            std::slice::from_ref(&named),
            &missing("runtime", system_error()),
            Some(&whole),
        );
        assert_eq!((half.power, half.guest.host_name.as_deref()), (Some(Power::On), Some("n1")));
        assert_eq!(unread_of(&half, PLACEMENT_PATHS), Some("runtime.host"));
        assert_eq!(unread_of(&half, ADDRESS_PATHS), None);
        let mut other = Machine::entering(&[on], &missing("guest", system_error()), Some(&whole));
        assert_eq!(other.guest.host_name.as_deref(), Some("n1"));
        assert_eq!(unread_of(&other, ADDRESS_PATHS), Some("guest.hostName"));
        // A path whose value arrives is no longer unread; the other paths still are.
        other.apply(&[named], &[]);
        assert_eq!(unread_of(&other, ADDRESS_PATHS), Some("guest.ipAddress"));
        // After a complete read no path is unread, not even one whose property is unset.
        let complete = Machine::entering(
            &[change("runtime.powerState", "<val>poweredOn</val>")],
            &[],
            Some(&other),
        );
        assert!(complete.unread.is_empty(), "{:?}", complete.unread);
        assert_eq!(complete.guest.host_name, None);
        // For a login that may not read guestinfo, the machine has none.
        let refused =
            missing("config.extraConfig[\"guestinfo.metadata\"]", FaultKind::NoPermission);
        assert!(Machine::entering(&[], &refused, Some(&whole)).unread.is_empty());
    }

    #[test]
    fn all_fields_of_the_network_cards_of_a_guest_are_read() {
        let nics = "<val><GuestNicInfo><network>lan</network><ipAddress>10.0.0.5</ipAddress>\
            <ipAddress>fe80::1</ipAddress><macAddress>00:50</macAddress><deviceConfigId>4000</deviceConfigId>\
            <ipConfig><ipAddress><ipAddress>10.0.0.5</ipAddress><prefixLength>24</prefixLength></ipAddress></ipConfig>\
            </GuestNicInfo><GuestNicInfo><deviceConfigId>-1</deviceConfigId></GuestNicInfo></val>";
        let machine = Machine::entering(&[change("guest.net", nics)], &[], None);
        assert_eq!(machine.guest.nics.len(), 2);
        let first = &machine.guest.nics[0];
        assert_eq!(first.addresses, ["10.0.0.5", "fe80::1"]);
        assert_eq!(first.prefix_lengths.get("10.0.0.5"), Some(&24));
        assert_eq!((first.device, machine.guest.nics[1].device), (4000, -1));
    }
}
