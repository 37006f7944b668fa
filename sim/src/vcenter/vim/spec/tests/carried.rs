//! Tests that prove the carried-out fields, by name.

use std::collections::BTreeSet;
use std::fs;

use super::super::fields::{FIELDS, Treatment};
use super::package;

/// Each field that is carried out, and the test in `tests/it/specs.rs` that proves it.
const PROOFS: &[(&str, &str, &str)] = &[
    ("CloneVM_Task", "folder", "a_clone_is_a_copy_in_the_place_of_its_spec"),
    ("CloneVM_Task", "name", "a_clone_is_a_copy_in_the_place_of_its_spec"),
    ("CloneVM_Task", "spec", "a_clone_is_a_copy_in_the_place_of_its_spec"),
    ("CreateVM_Task", "config", "a_new_machine_has_exactly_the_devices_of_its_spec"),
    ("CreateVM_Task", "pool", "a_new_machine_has_exactly_the_devices_of_its_spec"),
    ("CreateVM_Task", "host", "a_new_machine_has_exactly_the_devices_of_its_spec"),
    ("PowerOnVM_Task", "host", "a_machine_is_powered_on_on_the_given_host"),
    ("ReconfigVM_Task", "spec", "settings_are_visible_after_a_change"),
    ("RelocateVM_Task", "spec", "a_move_changes_host_and_pool_only"),
    ("OptionValue", "key", "settings_are_visible_after_a_change"),
    ("OptionValue", "value", "settings_are_visible_after_a_change"),
    ("VirtualMachineCloneSpec", "location", "a_clone_is_a_copy_in_the_place_of_its_spec"),
    ("VirtualMachineCloneSpec", "template", "a_template_is_cloned_into_a_pool"),
    ("VirtualMachineCloneSpec", "config", "a_clone_is_a_copy_in_the_place_of_its_spec"),
    ("VirtualMachineCloneSpec", "powerOn", "a_clone_is_a_copy_in_the_place_of_its_spec"),
    ("VirtualMachineRelocateSpec", "datastore", "a_move_changes_host_and_pool_only"),
    ("VirtualMachineRelocateSpec", "pool", "a_move_changes_host_and_pool_only"),
    ("VirtualMachineRelocateSpec", "host", "a_move_changes_host_and_pool_only"),
    ("VirtualMachineRelocateSpec", "deviceChange", "a_clone_is_a_copy_in_the_place_of_its_spec"),
    ("VirtualMachineConfigSpec", "changeVersion", "a_change_of_another_version_is_refused"),
    ("VirtualMachineConfigSpec", "name", "settings_are_visible_after_a_change"),
    ("VirtualMachineConfigSpec", "uuid", "settings_are_visible_after_a_change"),
    ("VirtualMachineConfigSpec", "instanceUuid", "settings_are_visible_after_a_change"),
    ("VirtualMachineConfigSpec", "guestId", "settings_are_visible_after_a_change"),
    ("VirtualMachineConfigSpec", "annotation", "settings_are_visible_after_a_change"),
    ("VirtualMachineConfigSpec", "numCPUs", "a_running_machine_gets_processors_only_with_hot_add"),
    ("VirtualMachineConfigSpec", "memoryMB", "a_running_machine_gets_processors_only_with_hot_add"),
    ("VirtualMachineConfigSpec", "deviceChange", "devices_are_added_changed_and_removed"),
    ("VirtualMachineConfigSpec", "extraConfig", "settings_are_visible_after_a_change"),
    ("VirtualMachineFileInfo", "vmPathName", "a_new_machine_has_exactly_the_devices_of_its_spec"),
    ("VirtualDeviceConfigSpec", "operation", "devices_are_added_changed_and_removed"),
    ("VirtualDeviceConfigSpec", "device", "devices_are_added_changed_and_removed"),
];

#[test]
fn a_test_proves_every_field_that_is_carried_out() {
    let carried: BTreeSet<(&str, &str)> = FIELDS
        .iter()
        .filter(|(_, _, treatment)| *treatment == Treatment::Carried)
        .map(|(owner, name, _)| (*owner, *name))
        .collect();
    let proved: BTreeSet<(&str, &str)> =
        PROOFS.iter().map(|(owner, name, _)| (*owner, *name)).collect();
    assert_eq!(carried, proved);
    let Some(package) = package() else { return };
    let tests = fs::read_to_string(package.join("tests/it/specs.rs")).unwrap();
    for (_, _, test) in PROOFS {
        assert!(tests.contains(&format!("async fn {test}()")), "the test {test} does not exist");
    }
}
