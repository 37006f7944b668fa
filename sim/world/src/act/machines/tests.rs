//! Tests of changes of devices and settings.

use std::collections::BTreeSet;

use crate::vcenter::{
    CloneWork, Config, DeviceChange, DeviceSpec, Kind, MachineSpec, MoRef, Power, Setting,
    Structure, VcFault, Work,
};
use crate::{Command, Completion, Fault, Step, Time, Topology, VcRequest, World};

const NAME: &str = "node-0001";

/// A world with one machine, in which tasks end at once.
fn lab() -> World {
    let mut world =
        Topology::default().machines(1).build("2026-03-01T08:00:00Z".parse().unwrap(), 0);
    let (step, completion) = (Step::Task, Completion::Immediately);
    world.apply(Time::default(), Command::SetTiming { step, completion }).unwrap();
    world
}

fn structure(kind: &str, fields: &[(&str, &str)]) -> Structure {
    let text = |text: &str| Setting::Text(text.to_owned());
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), text(value)));
    Structure { kind: kind.to_owned(), fields: fields.collect() }
}

fn spec(key: i32, kind: &str, fields: &[(&str, &str)]) -> DeviceSpec {
    let network = kind.contains("Vmxnet").then(|| MoRef::new(Kind::Network, 0));
    DeviceSpec { key, network, device: structure(kind, fields) }
}

fn add(kind: &str, fields: &[(&str, &str)]) -> DeviceChange {
    DeviceChange::Add(spec(-1, kind, fields))
}

fn edit(key: i32, kind: &str, fields: &[(&str, &str)]) -> DeviceChange {
    DeviceChange::Edit(spec(key, kind, fields))
}

fn reconfigure(world: &mut World, spec: MachineSpec) -> Result<(), Fault> {
    world.apply(Time::default(), Command::Reconfigure { machine: NAME.into(), spec }).map(|_| ())
}

fn change(world: &mut World, changes: Vec<DeviceChange>) -> Result<(), Fault> {
    reconfigure(world, MachineSpec { devices: Some(changes), ..MachineSpec::default() })
}

/// Clones the machine as `copy`.
fn clone(world: &mut World, spec: MachineSpec, template: bool, power_on: bool) {
    let inventory = &world.vcenter("vc0").unwrap().inventory;
    let entity = inventory.by_machine_name(NAME).next().unwrap();
    let folder = inventory.get(entity).unwrap().parent.unwrap();
    let spec = MachineSpec { name: Some("copy".to_owned()), ..spec };
    let (pool, host) = (None, None);
    let work = Work::Clone(Box::new(CloneWork { folder, spec, pool, host, template, power_on }));
    let request = VcRequest::StartTask { user: String::new(), entity, work };
    world.apply(Time::default(), Command::Request { vcenter: "vc0".into(), request }).unwrap();
}

fn config_of(world: &World, name: &str) -> Config {
    let inventory = &world.vcenter("vc0").unwrap().inventory;
    let id = inventory.by_machine_name(name).next().unwrap();
    inventory.machine(id).unwrap().config.clone()
}

fn config(world: &World) -> Config {
    config_of(world, NAME)
}

/// A field of a device other than a card.
fn field(world: &World, key: i32, name: &str) -> String {
    let devices = config(world).devices.expect("a client has changed the devices");
    devices[&key].fields[name].text().expect("a text").to_owned()
}

/// Asserts that a change is refused because of the device at the end of `changes`.
fn assert_refused(world: &mut World, changes: Vec<DeviceChange>) {
    let what = format!("{changes:?}");
    let index = u32::try_from(changes.len() - 1).unwrap();
    let fault = VcFault::InvalidDevice { index, needs_controller: false };
    assert_eq!(change(world, changes), Err(fault.into()), "{what}");
}

#[test]
fn an_edit_of_a_card_with_another_type_is_refused() {
    let mut world = lab();
    assert_refused(&mut world, vec![edit(4000, "VirtualE1000", &[])]);
    assert_refused(&mut world, vec![edit(4000, "VirtualDisk", &[])]);
    change(&mut world, vec![edit(4000, "VirtualVmxnet3", &[])]).unwrap();
}

#[test]
fn a_card_added_to_a_clone_has_a_mac_address_of_its_own() {
    let mut world = lab();
    change(&mut world, vec![add("VirtualVmxnet3", &[])]).unwrap();
    change(&mut world, vec![DeviceChange::Remove(4000)]).unwrap();
    let devices = Some(vec![add("VirtualVmxnet3", &[])]);
    clone(&mut world, MachineSpec { devices, ..MachineSpec::default() }, false, false);
    let cards = config_of(&world, "copy").cards;
    assert_eq!(cards.iter().map(|card| card.key).collect::<Vec<_>>(), [4000, 4001]);
    assert_eq!(cards.iter().map(|card| &card.mac).collect::<BTreeSet<_>>().len(), 2, "{cards:?}");
}

#[test]
fn a_template_is_never_powered_on() {
    let mut world = lab();
    let copies = |world: &World| {
        let inventory = &world.vcenter("vc0").unwrap().inventory;
        let copies = inventory.by_machine_name("copy");
        copies.map(|id| inventory.machine(id).unwrap().power).collect::<Vec<_>>()
    };
    clone(&mut world, MachineSpec::default(), true, true);
    assert_eq!(copies(&world), []);
    clone(&mut world, MachineSpec::default(), true, false);
    let on = world.apply(Time::default(), Command::PowerOn("copy".into())).map(|_| ());
    assert_eq!(on, Err(VcFault::NotSupported.into()));
    let replace = Command::Replace { machine: "copy".into(), uuid: uuid::Uuid::nil() };
    world.apply(Time::default(), replace).unwrap();
    assert_eq!(copies(&world), [Power::PoweredOff]);
}

#[test]
fn a_capacity_given_in_one_unit_sets_both() {
    for (given, bytes, kib) in [
        (&[("capacityInBytes", "64424509440")][..], "64424509440", "62914560"),
        (&[("capacityInKB", "62914560")], "64424509440", "62914560"),
        (&[("capacityInKB", "1"), ("capacityInBytes", "64424509440")], "64424509440", "62914560"),
    ] {
        let mut world = lab();
        change(&mut world, vec![edit(2000, "VirtualDisk", given)]).unwrap();
        assert_eq!(field(&world, 2000, "capacityInBytes"), bytes, "{given:?}");
        assert_eq!(field(&world, 2000, "capacityInKB"), kib, "{given:?}");
    }
    assert_refused(&mut lab(), vec![edit(2000, "VirtualDisk", &[("capacityInBytes", "1048576")])]);
}

#[test]
fn an_empty_affinity_or_manager_clears_the_setting() {
    let mut affinity = structure("VirtualMachineAffinityInfo", &[]);
    let empty = affinity.clone();
    let processors = Setting::List(vec![Setting::Text("3".to_owned())]);
    affinity.fields.insert("affinitySet".to_owned(), processors);
    let manager = |key| structure("ManagedByInfo", &[("extensionKey", key), ("type", key)]);
    for (path, set, clear) in [
        ("config.cpuAffinity", &affinity, &empty),
        ("config.memoryAffinity", &affinity, &empty),
        ("config.managedBy", &manager("k"), &manager("")),
    ] {
        let mut world = lab();
        for (value, is_set) in [(set, true), (clear, false)] {
            let settings = [(path.to_owned(), Setting::Object(value.clone()))].into();
            reconfigure(&mut world, MachineSpec { settings, ..MachineSpec::default() }).unwrap();
            assert_eq!(config(&world).settings.contains_key(path), is_set, "{path}");
        }
    }
}

#[test]
fn a_device_without_a_unit_number_gets_the_lowest_free_one() {
    let mut world = lab();
    let disk = add("VirtualDisk", &[("controllerKey", "1000")]);
    change(&mut world, vec![disk; 8]).unwrap();
    let units: Vec<String> = (2000..2009).map(|key| field(&world, key, "unitNumber")).collect();
    assert_eq!(units, ["0", "1", "2", "3", "4", "5", "6", "8", "9"]);
}

#[test]
fn a_unit_number_that_is_taken_or_does_not_exist_is_refused() {
    let disk = |key, unit| add("VirtualDisk", &[("controllerKey", key), ("unitNumber", unit)]);
    for (key, unit) in [("1000", "0"), ("1000", "7"), ("1000", "16"), ("200", "2")] {
        assert_refused(&mut lab(), vec![disk(key, unit)]);
    }
    let mut world = lab();
    change(&mut world, vec![disk("1000", "15"), disk("200", "1")]).unwrap();
    let to = |unit| vec![edit(2000, "VirtualDisk", &[("unitNumber", unit)])];
    assert_refused(&mut world, to("15"));
    change(&mut world, to("0")).expect("the disk has this unit number");
    change(&mut world, to("2")).expect("the unit number is free");
}

#[test]
fn a_device_on_a_controller_of_another_class_is_refused() {
    for (kind, key) in [
        ("VirtualCdrom", "1000"),
        ("VirtualCdrom", "100"),
        ("VirtualDisk", "100"),
        ("VirtualDisk", "2000"),
        ("VirtualLsiLogicController", "200"),
        ("VirtualVmxnet3", "1000"),
    ] {
        assert_refused(&mut lab(), vec![add(kind, &[("controllerKey", key)])]);
    }
    let disk = edit(2000, "VirtualDisk", &[("controllerKey", "100")]);
    assert_refused(&mut lab(), vec![disk]);
}

#[test]
fn more_devices_than_a_machine_can_have_are_refused() {
    for (device, room) in [
        (add("VirtualDisk", &[("controllerKey", "1000")]), 14),
        (add("VirtualCdrom", &[("controllerKey", "200")]), 2),
        (add("VirtualVmxnet3", &[]), 9),
        (add("VirtualLsiLogicController", &[]), 3),
    ] {
        let mut world = lab();
        assert_refused(&mut world, vec![device.clone(); room + 1]);
        change(&mut world, vec![device; room]).unwrap();
    }
}
