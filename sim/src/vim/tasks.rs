//! Operations that answer with a task: their arguments read into what the world does.

use std::net::IpAddr;

use sim_world::vcenter::{Kind, MachineSpec, MoRef, Work};

use super::fault::VimFault;
use super::node::Node;

/// The work that an operation asks for; `None` if it is not one of those.
pub(crate) fn work(operation: &str, arguments: &Node) -> Result<Option<Work>, VimFault> {
    Ok(Some(match operation {
        "PowerOnVM_Task" => Work::PowerOn,
        "PowerOffVM_Task" => Work::PowerOff,
        "SuspendVM_Task" => Work::Suspend,
        "ResetVM_Task" => Work::Reset,
        "Destroy_Task" => Work::Destroy,
        "Rename_Task" => Work::Rename(arguments.required("newName")?.to_owned()),
        "ReconfigVM_Task" => Work::Reconfigure(Box::new(spec(arguments, "spec")?)),
        "CreateVM_Task" => Work::Create {
            spec: Box::new(spec(arguments, "config")?),
            pool: inventory_ref(arguments, "pool")?
                .ok_or_else(|| VimFault::invalid_argument("pool"))?,
            host: inventory_ref(arguments, "host")?,
        },
        "RelocateVM_Task" => {
            let spec = arguments.child("spec").ok_or_else(|| VimFault::invalid_argument("spec"))?;
            Work::Relocate {
                host: inventory_ref(spec, "host")?
                    .ok_or_else(|| VimFault::invalid_argument("spec.host"))?,
                pool: inventory_ref(spec, "pool")?,
            }
        }
        "SearchDatastore_Task" => {
            let path = arguments.required("datastorePath")?;
            let directory = path.split_once("] ").map_or(path, |(_, directory)| directory);
            Work::SearchDatastore(directory.trim_end_matches('/').to_owned())
        }
        _ => return Ok(None),
    }))
}

/// Which type of object an operation is for.
pub(crate) fn target(operation: &str) -> &'static str {
    match operation {
        "Destroy_Task" | "Rename_Task" => "ManagedEntity",
        "CreateVM_Task" => "Folder",
        "SearchDatastore_Task" => "HostDatastoreBrowser",
        _ => "VirtualMachine",
    }
}

fn inventory_ref(node: &Node, name: &str) -> Result<Option<MoRef>, VimFault> {
    let Some(child) = node.child(name) else { return Ok(None) };
    let reference = child.reference();
    match MoRef::parse(reference.id).filter(|id| id.kind != Kind::Task) {
        Some(id) => Ok(Some(id)),
        None => Err(VimFault::not_found(&reference.kind, reference.id)),
    }
}

/// A `VirtualMachineConfigSpec`, as far as the world has a place for it.
///
/// Devices and files are accepted and not kept: a simulated machine has one disk and one card. The
/// keys `SET.guest.hostName` and `SET.guest.ipAddress`, which test suites for simulators use, set
/// what the guest reports.
fn spec(arguments: &Node, name: &str) -> Result<MachineSpec, VimFault> {
    let node = arguments.child(name).ok_or_else(|| VimFault::invalid_argument(name))?;
    let size = |field: &'static str| -> Result<Option<u32>, VimFault> {
        match node.int(field)? {
            None => Ok(None),
            Some(value) => u32::try_from(value)
                .ok()
                .filter(|value| *value > 0)
                .map(Some)
                .ok_or_else(|| VimFault::invalid_argument(field)),
        }
    };
    let uuid = match node.text_of("uuid") {
        None | Some("") => None,
        Some(text) => Some(text.parse().map_err(|_| VimFault::invalid_argument("uuid"))?),
    };
    let mut spec = MachineSpec {
        name: node.text_of("name").map(str::to_owned),
        uuid,
        cpus: size("numCPUs")?,
        memory_mib: size("memoryMB")?,
        guest_id: node.text_of("guestId").map(str::to_owned),
        annotation: node.text_of("annotation").map(str::to_owned),
        ..MachineSpec::default()
    };
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
                return Err(VimFault::new(
                    "InvalidArgument",
                    format!(
                        "the sim sets SET.guest.hostName and SET.guest.ipAddress; {key} is not one of them"
                    ),
                )
                .with("invalidProperty", "extraConfig"));
            }
            _ => {
                spec.extra.insert(key.to_owned(), value.to_owned());
            }
        }
    }
    Ok(spec)
}
