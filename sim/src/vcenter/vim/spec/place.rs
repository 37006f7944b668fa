//! Places in specs: `VirtualMachineRelocateSpec`, `VirtualMachineCloneSpec` and the files of a new
//! machine.

use sim_world::vcenter::{CloneWork, Kind, MachineSpec, MoRef, Setting, Structure, VCenter, Work};

use super::{Purpose, device, machine_spec, read};
use crate::call::vim25;
use crate::vcenter::vim::data::{Node, VimFault};

/// Returns the reference to an object of the type `wanted` in the element `name`; `None` if it is
/// absent.
///
/// # Errors
/// `InvalidArgument` if the client states another type, `ManagedObjectNotFound` for an id that no
/// object of the type `wanted` can have.
pub(in crate::vcenter::vim) fn inventory_ref(
    node: &Node,
    name: &str,
    wanted: &str,
) -> Result<Option<MoRef>, VimFault> {
    let Some(child) = node.child(name) else { return Ok(None) };
    let reference = child.reference();
    if !reference.kind.is_empty() && !vim25::is_a(&reference.kind, wanted) {
        return Err(VimFault::invalid_argument(name));
    }
    match MoRef::parse(reference.id).filter(|id| vim25::is_a(id.kind.type_name(), wanted)) {
        Some(id) => Ok(Some(id)),
        None => Err(VimFault::not_found(&reference.kind, reference.id)),
    }
}

/// Refuses the fields of a spec of type `kind` that the vCenter does not carry out.
fn refuse(kind: &str, spec: &Node) -> Result<(), VimFault> {
    for field in vim25::find(kind).into_iter().flat_map(vim25::Type::own_fields) {
        let given: Vec<&Node> = spec.all(field.name).collect();
        if !given.is_empty() {
            read::is_dropped(kind, &field, &given)?;
        }
    }
    Ok(())
}

/// Returns the work of `RelocateVM_Task`.
///
/// # Errors
/// `InvalidArgument` without a host, `NotSupported` for another datastore than the present one, for
/// changes of devices, and for a field that the vCenter does not carry out.
pub(in crate::vcenter::vim) fn relocation(
    vc: &VCenter,
    machine: &str,
    spec: &Node,
) -> Result<Work, VimFault> {
    refuse("VirtualMachineRelocateSpec", spec)?;
    let present = MoRef::parse(machine).and_then(|id| vc.inventory.machine(id));
    let datastore = inventory_ref(spec, "datastore", "Datastore")?;
    let moves = datastore.is_some_and(|to| present.is_some_and(|it| it.datastore != to));
    if moves || spec.child("deviceChange").is_some() {
        let message = "A move to another datastore or with changes of devices is not supported.";
        return Err(VimFault::new("NotSupported", message));
    }
    let host = inventory_ref(spec, "host", "HostSystem")?;
    Ok(Work::Relocate {
        host: host.ok_or_else(|| VimFault::invalid_argument("spec.host"))?,
        pool: inventory_ref(spec, "pool", "ResourcePool")?,
    })
}

/// Returns the work of `CloneVM_Task`.
///
/// # Errors
/// `InvalidArgument` for a template that shall be powered on, two names, and an invalid field,
/// `NotSupported` for a field that the vCenter does not carry out.
pub(in crate::vcenter::vim) fn clone(vc: &VCenter, arguments: &Node) -> Result<Work, VimFault> {
    let missing = |name: &'static str| move || VimFault::invalid_argument(name);
    let spec = arguments.child("spec").ok_or_else(missing("spec"))?;
    let location = spec.child("location").ok_or_else(missing("spec.location"))?;
    refuse("VirtualMachineCloneSpec", spec)?;
    refuse("VirtualMachineRelocateSpec", location)?;
    let mut settings = match spec.child("config") {
        Some(config) => machine_spec(vc, config, "spec.config", Purpose::Clone)?,
        None => MachineSpec::default(),
    };
    let name = arguments.required("name")?;
    if settings.name.as_deref().is_some_and(|other| other != name) {
        return Err(VimFault::invalid_argument("spec.config.name"));
    }
    settings.name = Some(name.to_owned());
    settings.datastore = inventory_ref(location, "datastore", "Datastore")?;
    let mut changes = device::changes(vc, location)?;
    changes.extend(settings.devices.take().unwrap_or_default());
    settings.devices = Some(changes).filter(|changes| !changes.is_empty());
    let template = spec.flag("template")?.unwrap_or(false);
    let power_on = spec.flag("powerOn")?.unwrap_or(false);
    if template && power_on {
        return Err(VimFault::invalid_argument("spec.powerOn"));
    }
    Ok(Work::Clone(Box::new(CloneWork {
        folder: inventory_ref(arguments, "folder", "Folder")?.ok_or_else(missing("folder"))?,
        spec: settings,
        pool: inventory_ref(location, "pool", "ResourcePool")?,
        host: inventory_ref(location, "host", "HostSystem")?,
        template,
        power_on,
    })))
}

/// Takes over `files.vmPathName`, `[datastore] directory/file.vmx`. A path without a directory names
/// only the datastore; one without a file gets the file `name.vmx`.
pub(super) fn files(
    vc: &VCenter,
    spec: &mut MachineSpec,
    path: &str,
    purpose: Purpose,
) -> Result<(), VimFault> {
    if purpose != Purpose::Create {
        return Err(VimFault::invalid_argument("spec.files.vmPathName"));
    }
    let invalid = || {
        VimFault::new("InvalidDatastorePath", format!("Invalid datastore path '{path}'."))
            .with("datastorePath", path)
    };
    let (datastore, file) =
        path.strip_prefix('[').and_then(|rest| rest.split_once(']')).ok_or_else(invalid)?;
    let mut datastores = vc.inventory.of_kind(Kind::Datastore);
    let found = datastores.find(|(_, it)| it.name == datastore).ok_or_else(invalid)?;
    spec.datastore = Some(found.0);
    let file = file.trim().trim_end_matches('/');
    let kept = match (file, spec.name.as_deref()) {
        ("", _) => None,
        (file, Some(name)) if !file.ends_with(".vmx") => {
            Some(format!("[{datastore}] {file}/{name}.vmx"))
        }
        (file, _) => Some(format!("[{datastore}] {file}")),
    };
    if let Some(Setting::Object(Structure { fields, .. })) = spec.settings.get_mut("config.files") {
        fields.remove("vmPathName");
        fields.extend(kept.map(|path| ("vmPathName".to_owned(), Setting::Text(path))));
    }
    Ok(())
}
