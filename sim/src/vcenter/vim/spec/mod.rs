//! Specs of machines in requests: their conversion to the world's settings, and the refusal of fields
//! that the vCenter does not carry out.

mod device;
mod fields;
mod place;
mod read;
#[cfg(test)]
mod tests;
mod values;

use std::net::IpAddr;

use sim_world::vcenter::{MachineSpec, Setting, VCenter};

use crate::call::vim25;
use crate::vcenter::vim::data::{Node, VimFault};
use fields::{Treatment, treatment};
pub(super) use place::{clone, inventory_ref, relocation};

/// Type of the specs of `CreateVM_Task` and `ReconfigVM_Task`.
const CONFIG_SPEC: &str = "VirtualMachineConfigSpec";

/// Use of a `VirtualMachineConfigSpec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A new machine, which has only the devices of the spec.
    Create,
    /// A change of a machine.
    Reconfigure,
    /// A copy of a machine.
    Clone,
}

/// Parses the `VirtualMachineConfigSpec` in `node`, which is the element `name` of the request.
///
/// The keys `SET.guest.hostName` and `SET.guest.ipAddress` in `extraConfig`, which test suites for
/// simulators use, set the values that the guest reports.
///
/// # Errors
/// `NotSupported` for a field that the vCenter does not carry out, `InvalidArgument` for an invalid
/// value and for another key that begins with `SET.`, `InvalidDatastorePath` for files of a datastore
/// that does not exist, and the faults of changes of devices.
pub(super) fn machine_spec(
    vc: &VCenter,
    node: &Node,
    name: &str,
    purpose: Purpose,
) -> Result<MachineSpec, VimFault> {
    let mut spec = MachineSpec {
        name: node.text_of("name").map(str::to_owned),
        uuid: uuid(node, "uuid")?,
        instance_uuid: uuid(node, "instanceUuid")?,
        cpus: size(node, "numCPUs")?,
        memory_mib: size(node, "memoryMB")?,
        guest_id: node.text_of("guestId").map(str::to_owned),
        annotation: node.text_of("annotation").map(str::to_owned),
        ..MachineSpec::default()
    };
    if purpose == Purpose::Reconfigure {
        spec.change_version = node.text_of("changeVersion").map(change_version);
    }
    let changes = device::changes(vc, node)?;
    if purpose == Purpose::Create || !changes.is_empty() {
        spec.devices = Some(changes);
    }
    keep_settings(&mut spec, node, name)?;
    if let Some(path) = node.child("files").and_then(|files| files.text_of("vmPathName")) {
        place::files(vc, &mut spec, path, purpose)?;
    }
    read_options(&mut spec, node)?;
    Ok(spec)
}

/// Reads the fields that the machine keeps, and refuses those that the vCenter does not carry out.
fn keep_settings(spec: &mut MachineSpec, node: &Node, name: &str) -> Result<(), VimFault> {
    for field in vim25::find(CONFIG_SPEC).into_iter().flat_map(vim25::Type::own_fields) {
        let given: Vec<&Node> = node.all(field.name).collect();
        if given.is_empty() || read::is_dropped(CONFIG_SPEC, &field, &given)? {
            continue;
        }
        if let Some(Treatment::Kept(path)) = treatment(CONFIG_SPEC, field.name) {
            let place = format!("{name}.{}", field.name);
            let value = read::setting(&given, CONFIG_SPEC, &field, &place)?;
            spec.settings.insert(path.to_owned(), value);
        }
    }
    let version = spec.settings.get("config.version").and_then(Setting::text);
    let is_version =
        |text: &str| text.strip_prefix("vmx-").is_some_and(|number| number.parse::<u8>().is_ok());
    if version.is_some_and(|text| !is_version(text)) {
        return Err(VimFault::invalid_argument(&format!("{name}.version")));
    }
    Ok(())
}

fn uuid(node: &Node, field: &'static str) -> Result<Option<uuid::Uuid>, VimFault> {
    match node.text_of(field) {
        None | Some("") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| VimFault::invalid_argument(field)),
    }
}

fn size(node: &Node, field: &'static str) -> Result<Option<u32>, VimFault> {
    let positive = |value| u32::try_from(value).ok().filter(|value| *value > 0);
    let value = node.int(field)?;
    value.map(|it| positive(it).ok_or_else(|| VimFault::invalid_argument(field))).transpose()
}

/// Returns the number at the end of a `changeVersion`; 0, which no configuration has, for a text of
/// another form.
fn change_version(text: &str) -> u64 {
    text.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

fn read_options(spec: &mut MachineSpec, node: &Node) -> Result<(), VimFault> {
    for option in node.all("extraConfig") {
        let key = option.required("key")?;
        let value = option.text_of("value").unwrap_or_default();
        match key {
            "SET.guest.hostName" => spec.host_name = Some(value.to_owned()),
            "SET.guest.ipAddress" => {
                let address: IpAddr =
                    value.parse().map_err(|_| VimFault::invalid_argument("extraConfig"))?;
                spec.addresses = Some(vec![address]);
            }
            _ if key.starts_with("SET.") => {
                let message = format!(
                    "unknown key {key}: expected SET.guest.hostName or SET.guest.ipAddress"
                );
                let fault = VimFault::new("InvalidArgument", message);
                return Err(fault.with("invalidProperty", "extraConfig"));
            }
            _ => {
                spec.extra.insert(key.to_owned(), value.to_owned());
            }
        }
    }
    Ok(())
}
