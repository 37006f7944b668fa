//! Changes of the devices of a machine.

use std::collections::BTreeMap;

use super::slots::{number, on_pci, place};
use crate::vcenter::identity::{card, card_key};
use crate::vcenter::{
    Config, DeviceChange, DeviceSpec, Devices, MoRef, NetworkCard, Setting, Structure, VcFault,
    default_devices, device_keys,
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
pub(super) enum Problem {
    /// The device has no controller that exists.
    Controller,
    /// The device does not exist, has another type, would shrink, is the controller of a device, has
    /// no free unit number of its controller, or the machine has too many of its type.
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
        let mut keys = device_keys(&spec.device.kind).ok_or(Problem::Device)?;
        let mut device = self.normalized(spec);
        let devices = self.devices();
        place(devices, None, &mut device)?;
        let key = keys.find(|key| !devices.contains_key(key)).ok_or(Problem::Device)?;
        devices.insert(key, device);
        self.keys.insert(spec.key, key);
        Ok(())
    }

    /// Returns the device of a spec with the key that its controller has, and with its capacity in
    /// both units.
    fn normalized(&self, spec: &DeviceSpec) -> Structure {
        let mut device = spec.device.clone();
        let given = number(&device, "controllerKey");
        if let Some(key) = given.and_then(|key| self.keys.get(&key)) {
            device.fields.insert("controllerKey".to_owned(), Setting::Text(key.to_string()));
        }
        set_capacity(&mut device);
        device
    }

    /// Checks that the controller in the spec of a card, if there is one, takes cards.
    fn check_card(&self, spec: &DeviceSpec) -> Result<(), Problem> {
        let device = self.normalized(spec);
        match &self.config.devices {
            Some(devices) => on_pci(devices, &device),
            None => on_pci(&default_devices(), &device),
        }
    }

    fn add_card(&mut self, spec: &DeviceSpec, network: MoRef) -> Result<(), Problem> {
        self.check_card(spec)?;
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
        if self.config.cards.iter().any(|card| card.key == key) {
            return self.edit_card(key, spec);
        }
        let newer = self.normalized(spec);
        let devices = self.devices();
        let mut device = devices.get(&key).ok_or(Problem::Device)?.clone();
        if device.kind != newer.kind {
            return Err(Problem::Device);
        }
        if capacity(&newer).is_some_and(|new| Some(new) < capacity(&device)) {
            return Err(Problem::Device);
        }
        let controller = number(&newer, "controllerKey");
        if controller.is_some() && controller != number(&device, "controllerKey") {
            device.fields.remove("unitNumber");
        }
        device.merge(&newer);
        if controller.is_some() || newer.fields.contains_key("unitNumber") {
            place(devices, Some(key), &mut device)?;
        }
        devices.insert(key, device);
        Ok(())
    }

    fn edit_card(&mut self, key: i32, spec: &DeviceSpec) -> Result<(), Problem> {
        self.check_card(spec)?;
        let card = self.config.cards.iter_mut().find(|card| card.key == key);
        let card = card.filter(|card| card.kind() == spec.device.kind).ok_or(Problem::Device)?;
        card.network = spec.network.unwrap_or(card.network);
        set_card(card, spec);
        Ok(())
    }

    fn remove(&mut self, key: i32) -> Result<(), Problem> {
        let n_cards = self.config.cards.len();
        self.config.cards.retain(|card| card.key != key);
        if self.config.cards.len() < n_cards {
            return Ok(());
        }
        if self.devices().values().any(|it| number(it, "controllerKey") == Some(key)) {
            return Err(Problem::Device);
        }
        self.devices().remove(&key).map(|_| ()).ok_or(Problem::Device)
    }
}

/// The capacity of a disk in KiB; `None` for any other device.
fn capacity(device: &Structure) -> Option<i64> {
    device.fields.get("capacityInKB")?.text()?.parse().ok()
}

/// Sets the capacity of a disk in one unit by that in the other. If the client gives both, the one in
/// bytes counts.
fn set_capacity(device: &mut Structure) {
    if device.kind != "VirtualDisk" {
        return;
    }
    let number = |name: &str| device.fields.get(name)?.text()?.parse::<i64>().ok();
    let (name, value) = match (number("capacityInBytes"), number("capacityInKB")) {
        (Some(bytes), _) => ("capacityInKB", bytes / 1024),
        (None, Some(kib)) => ("capacityInBytes", kib.saturating_mul(1024)),
        (None, None) => return,
    };
    device.fields.insert(name.to_owned(), Setting::Text(value.to_string()));
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
