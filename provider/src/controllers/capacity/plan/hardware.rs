//! Reads the resources of a machine from a VirtualMachineClass, or from a template whose machines
//! Cluster API clones in vCenter.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    super::{
        keys::{LINUX, WINDOWS},
        settings::{Device, GpuMapping},
    },
    text,
};
use crate::{InputError, controllers::quantity::Quantity};

/// Fewest CPUs of a machine that Cluster API clones.
const FEWEST_CPUS: i64 = 2;
/// Memory of a machine that Cluster API clones from a template without a size, in MiB.
const DEFAULT_MEMORY: i64 = 2048;

/// Resources of each machine; `None` or empty if they are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hardware {
    pub(super) cpu: Option<Quantity>,
    pub(super) memory: Option<Quantity>,
    pub(super) ephemeral_storage: Option<Quantity>,
    pub(super) devices: Vec<Device>,
}

/// Reads a VirtualMachineClass.
///
/// # Errors
///
/// If a number is not one; the definition of the kind does not permit that.
pub(super) fn of_class(class: &Value) -> Result<Hardware, InputError> {
    let hardware = &class["spec"]["hardware"];
    let at = |key: &'static str| {
        move |err: InputError| err.at_key(key).at_key("hardware").at_key("spec")
    };
    let cpus = integer(&hardware["cpus"]).map_err(at("cpus"))?;
    let memory = quantity(&hardware["memory"]).map_err(at("memory"))?;
    let vgpus = hardware["devices"]["vgpuDevices"].as_array().into_iter().flatten();
    let passed = hardware["devices"]["dynamicDirectPathIODevices"].as_array().into_iter().flatten();
    let vgpus = vgpus.map(|it| Device::Profile(text(&it["profileName"]).to_owned()));
    let passed = passed.filter_map(|it| pci(&it["vendorID"], &it["deviceID"]));
    Ok(Hardware {
        cpu: whole(cpus),
        memory: memory.filter(|it| *it > Quantity::default()),
        ephemeral_storage: None,
        devices: vgpus.chain(passed).collect(),
    })
}

/// Checks the values of a VirtualMachineClass.
///
/// # Errors
///
/// As [`of_class`].
pub(crate) fn check_class(class: &Value) -> Result<(), InputError> {
    of_class(class).map(|_| ())
}

/// Reads a template whose machines Cluster API clones in vCenter, as the code that clones applies
/// it: at least 2 CPUs, and 2048 MiB of memory if the template names none. Only a full clone gets
/// the disk of the template.
///
/// # Errors
///
/// If a number is not one; the definition of the kind does not permit that.
pub(super) fn of_template(template: &Value) -> Result<Hardware, InputError> {
    let spec = &template["spec"]["template"]["spec"];
    let number = |key: &'static str| {
        let at = |err: InputError| err.at_key(key).at_key("spec").at_key("template").at_key("spec");
        integer(&spec[key]).map_err(at)
    };
    let memory = match number("memoryMiB")? {
        ..=0 => DEFAULT_MEMORY,
        memory => memory,
    };
    let disk = number("diskGiB")?;
    let is_full_clone = spec["cloneMode"] == "fullClone";
    let devices = spec["pciDevices"].as_array().into_iter().flatten();
    let devices = devices.filter_map(|it| match text(&it["vGPUProfile"]) {
        "" => pci(&it["vendorId"], &it["deviceId"]),
        profile => Some(Device::Profile(profile.to_owned())),
    });
    Ok(Hardware {
        cpu: whole(number("numCPUs")?.max(FEWEST_CPUS)),
        memory: whole(memory).map(|it| it.times(1 << 20)),
        ephemeral_storage: whole(disk).filter(|_| is_full_clone).map(|it| it.times(1 << 30)),
        devices: devices.collect(),
    })
}

/// Returns the operating system of a template whose machines Cluster API clones in vCenter; `None`
/// if the template names one that Kubernetes does not know.
pub(super) fn operating_system(template: &Value) -> Option<&'static str> {
    match text(&template["spec"]["template"]["spec"]["os"]) {
        "" | "Linux" => Some(LINUX),
        "Windows" => Some(WINDOWS),
        _ => None,
    }
}

/// Returns the number of devices that provide each mapped resource, which may be zero.
pub(super) fn gpu_counts(devices: &[Device], gpus: &[GpuMapping]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for mapping in gpus {
        let n_devices = devices.iter().filter(|device| **device == mapping.device).count();
        *counts.entry(mapping.resource.clone()).or_default() += n_devices;
    }
    counts
}

fn whole(number: i64) -> Option<Quantity> {
    u32::try_from(number).ok().filter(|number| *number > 0).map(Quantity::whole)
}

/// Reads a whole number; 0 if the field is absent.
fn integer(value: &Value) -> Result<i64, InputError> {
    let problem = "is not a whole number";
    match value {
        Value::Null => Ok(0),
        Value::String(text) => Err(InputError::invalid(text, problem)),
        value => value.as_i64().ok_or_else(|| InputError::invalid(&value.to_string(), problem)),
    }
    .map_err(|err| err.remedy("write a number such as 4, without quotes"))
}

fn quantity(value: &Value) -> Result<Option<Quantity>, InputError> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Quantity::of_object(text).map(Some),
        value => Quantity::of_object(&value.to_string()).map(Some),
    }
}

fn pci(vendor: &Value, device: &Value) -> Option<Device> {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    Some(Device::Pci { vendor: id(vendor)?, device: id(device)? })
}
