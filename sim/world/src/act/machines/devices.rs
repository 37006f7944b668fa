//! Changes of the devices of a machine.

use std::collections::BTreeMap;

use crate::vcenter::identity::card;
use crate::vcenter::{
    Config, DeviceChange, DeviceSpec, Devices, FIRST_CARD, MoRef, NetworkCard, Setting, Structure,
    VcFault, default_devices, first_key,
};

/// Applies changes of devices in their order. An added device gets a new key; later changes may
/// refer to it as their controller by the key in its spec.
pub(super) fn change_devices(
    config: &mut Config,
    machine: MoRef,
    changes: &[DeviceChange],
) -> Result<(), VcFault> {
    let mut edit = Edit { config, machine, keys: BTreeMap::new() };
    for (index, change) in (0..).zip(changes) {
        let done = match change {
            DeviceChange::Add(spec) => edit.add(spec),
            DeviceChange::Edit(spec) => edit.edit(spec),
            DeviceChange::Remove(key) => edit.remove(*key),
        };
        done.map_err(|problem| VcFault::InvalidDevice {
            index,
            needs_controller: problem == Problem::Controller,
        })?;
    }
    Ok(())
}

/// Reason why a change is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Problem {
    /// The device has no controller that exists.
    Controller,
    /// The device does not exist, has another type, would shrink, or is the controller of a device.
    Device,
}

struct Edit<'a> {
    config: &'a mut Config,
    machine: MoRef,
    /// Keys of the added devices, by the keys in their specs.
    keys: BTreeMap<i32, i32>,
}

impl Edit<'_> {
    fn devices(&mut self) -> &mut Devices {
        self.config.devices.get_or_insert_with(|| Box::new(default_devices()))
    }

    fn add(&mut self, spec: &DeviceSpec) -> Result<(), Problem> {
        if let Some(network) = spec.network {
            return self.add_card(spec, network);
        }
        let first = first_key(&spec.device.kind).ok_or(Problem::Device)?;
        let mut device = spec.device.clone();
        let needs_controller = matches!(&*device.kind, "VirtualDisk" | "VirtualCdrom");
        match self.controller(spec)? {
            Some(key) => {
                device.fields.insert("controllerKey".to_owned(), Setting::Text(key.to_string()));
            }
            None if needs_controller => return Err(Problem::Controller),
            None => {}
        }
        let devices = self.devices();
        let key = (first..).find(|key| !devices.contains_key(key)).ok_or(Problem::Device)?;
        devices.insert(key, device);
        self.keys.insert(spec.key, key);
        Ok(())
    }

    /// Returns the key of the controller to which a device belongs; `None` if the spec names none.
    fn controller(&mut self, spec: &DeviceSpec) -> Result<Option<i32>, Problem> {
        let given = spec.device.fields.get("controllerKey").and_then(Setting::text);
        let Some(given) = given.and_then(|key| key.parse::<i32>().ok()) else { return Ok(None) };
        let key = self.keys.get(&given).copied().unwrap_or(given);
        if self.devices().contains_key(&key) { Ok(Some(key)) } else { Err(Problem::Controller) }
    }

    fn add_card(&mut self, spec: &DeviceSpec, network: MoRef) -> Result<(), Problem> {
        let cards = &self.config.cards;
        let is_free = |n: &u32| !cards.iter().any(|card| card.key == card_key(*n));
        let n = (0..10).find(is_free).ok_or(Problem::Device)?;
        let mut card = card(n, self.machine, network);
        self.keys.insert(spec.key, card.key);
        set_card(&mut card, spec);
        self.config.cards.push(card);
        self.config.cards.sort_by_key(|card| card.key);
        Ok(())
    }

    fn edit(&mut self, spec: &DeviceSpec) -> Result<(), Problem> {
        let key = self.keys.get(&spec.key).copied().unwrap_or(spec.key);
        if let Some(card) = self.config.cards.iter_mut().find(|card| card.key == key) {
            card.network = spec.network.unwrap_or(card.network);
            set_card(card, spec);
            return Ok(());
        }
        let controller = self.controller(spec)?;
        let device = self.devices().get_mut(&key).ok_or(Problem::Device)?;
        if device.kind != spec.device.kind {
            return Err(Problem::Device);
        }
        if capacity(&spec.device).is_some_and(|new| Some(new) < capacity(device)) {
            return Err(Problem::Device);
        }
        device.merge(&spec.device);
        if let Some(key) = controller {
            device.fields.insert("controllerKey".to_owned(), Setting::Text(key.to_string()));
        }
        Ok(())
    }

    fn remove(&mut self, key: i32) -> Result<(), Problem> {
        let n_cards = self.config.cards.len();
        self.config.cards.retain(|card| card.key != key);
        if self.config.cards.len() < n_cards {
            return Ok(());
        }
        let key_text = key.to_string();
        let uses = |it: &Structure| {
            it.fields.get("controllerKey").and_then(Setting::text) == Some(key_text.as_str())
        };
        if self.devices().values().any(uses) {
            return Err(Problem::Device);
        }
        self.devices().remove(&key).map(|_| ()).ok_or(Problem::Device)
    }
}

/// The capacity of a disk in KiB; `None` for any other device.
fn capacity(device: &Structure) -> Option<i64> {
    device.fields.get("capacityInKB")?.text()?.parse().ok()
}

fn card_key(n: u32) -> i32 {
    FIRST_CARD + i32::try_from(n).unwrap_or(0)
}

/// Sets MAC address, type and fields of a card.
fn set_card(card: &mut NetworkCard, spec: &DeviceSpec) {
    let mut device = spec.device.clone();
    let mac = device.fields.remove("macAddress");
    if let Some(mac) = mac.as_ref().and_then(Setting::text).filter(|mac| !mac.is_empty()) {
        card.mac = mac.to_lowercase();
    }
    match &mut card.device {
        Some(old) if old.kind == device.kind => old.merge(&device),
        old => *old = Some(Box::new(device)),
    }
}
