//! Operations that return a task, and requests to the VMware Tools of a guest. The module converts
//! the arguments of these operations to the world's [`Work`].

use std::net::IpAddr;

use sim_world::vcenter::{GuestRequest, Kind, MachineSpec, MoRef, SessionService, Work};
use sim_world::{Outcome, VcRequest};

use super::operations::{Answer, Caller, Failure, Vim};
use crate::call::operations::soap::Operation as Op;
use crate::shared_world::Locked;
use crate::vcenter::vim::content::BROWSER;
use crate::vcenter::vim::data::{Node, Reference, Value, VimFault};

impl Vim {
    pub(super) fn start_task(
        &self,
        world: &mut Locked<'_>,
        caller: &Caller<'_>,
        operation: Op,
        (claimed, id): (&str, &str),
        arguments: &Node,
    ) -> Result<Answer, Failure> {
        let Some(work) = work(operation, arguments)? else {
            return Err(VimFault::not_supported(claimed, operation.name()).into());
        };
        let entity = MoRef::parse(id.trim_start_matches(BROWSER))
            .ok_or_else(|| VimFault::not_found(claimed, id))?;
        let session = self.vc(world).logins.session(SessionService::Soap, caller.token);
        let user = session
            .and_then(|session| session.user.clone())
            .ok_or_else(VimFault::not_authenticated)?;
        match self.request(world, VcRequest::StartTask { user, entity, work })? {
            Outcome::Reference(task) => Ok(Some(Value::from(Reference::from(task))).into()),
            _ => Ok(Answer::default()),
        }
    }

    /// Answers `ShutdownGuest`, `RebootGuest` and `StandbyGuest`. The answer does not wait for the
    /// guest to carry out the request. Fails for any other operation, for a machine that does not
    /// exist, and for a machine that is not connected, is not powered on, or does not run VMware
    /// Tools.
    pub(super) fn guest_request(
        &self,
        world: &mut Locked<'_>,
        operation: Op,
        (claimed, id): (&str, &str),
    ) -> Result<Answer, Failure> {
        let request = match operation {
            Op::ShutdownGuest => GuestRequest::Shutdown,
            Op::RebootGuest => GuestRequest::Reboot,
            Op::StandbyGuest => GuestRequest::Standby,
            other => return Err(VimFault::not_supported(claimed, other.name()).into()),
        };
        let machine = MoRef::parse(id).ok_or_else(|| VimFault::not_found(claimed, id))?;
        self.request(world, VcRequest::Guest { machine, request })?;
        Ok(Answer::default())
    }
}

/// Returns the work of an operation; `None` if the operation starts no task. Fails with
/// `InvalidArgument` if an argument is missing or invalid.
fn work(operation: Op, arguments: &Node) -> Result<Option<Work>, VimFault> {
    Ok(Some(match operation {
        Op::PowerOn => Work::PowerOn,
        Op::PowerOff => Work::PowerOff,
        Op::Suspend => Work::Suspend,
        Op::Reset => Work::Reset,
        Op::Destroy => Work::Destroy,
        Op::Rename => Work::Rename(arguments.required("newName")?.to_owned()),
        Op::Reconfigure => Work::Reconfigure(Box::new(spec(arguments, "spec")?)),
        Op::Create => Work::Create {
            spec: Box::new(spec(arguments, "config")?),
            pool: inventory_ref(arguments, "pool")?
                .ok_or_else(|| VimFault::invalid_argument("pool"))?,
            host: inventory_ref(arguments, "host")?,
        },
        Op::Relocate => {
            let spec = arguments.child("spec").ok_or_else(|| VimFault::invalid_argument("spec"))?;
            Work::Relocate {
                host: inventory_ref(spec, "host")?
                    .ok_or_else(|| VimFault::invalid_argument("spec.host"))?,
                pool: inventory_ref(spec, "pool")?,
            }
        }
        Op::SearchDatastore => {
            let path = arguments.required("datastorePath")?;
            let directory = path.split_once(']').map_or(path, |(_, directory)| directory);
            Work::SearchDatastore(directory.trim().trim_end_matches('/').to_owned())
        }
        _ => return Ok(None),
    }))
}

fn inventory_ref(node: &Node, name: &str) -> Result<Option<MoRef>, VimFault> {
    let Some(child) = node.child(name) else { return Ok(None) };
    let reference = child.reference();
    match MoRef::parse(reference.id).filter(|id| id.kind != Kind::Task) {
        Some(id) => Ok(Some(id)),
        None => Err(VimFault::not_found(&reference.kind, reference.id)),
    }
}

/// Parses those fields of the `VirtualMachineConfigSpec` in the element `name` that the world
/// models.
///
/// Ignores devices and files, because the world sets the disk and the network card of a machine.
/// The keys `SET.guest.hostName` and `SET.guest.ipAddress` in `extraConfig`, which test suites for
/// simulators use, set the values that the guest reports.
///
/// Fails with `InvalidArgument` if the element or the key of an option is missing, if a size, the
/// UUID or the address is invalid, or if another key begins with `SET.`.
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
                        "unknown key {key}: expected SET.guest.hostName or SET.guest.ipAddress"
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
