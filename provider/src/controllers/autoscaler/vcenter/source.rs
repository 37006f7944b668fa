//! Objects of vCenter that a group names: template or library item, folder, pool, datastore, networks and tag.

use provider_vcenter::{CallError, CardNetwork, FilterSpec, MoRef, ObjectContent, TagId, Vcenter};

use super::{
    super::{
        group::{Capacity, CloneMode, CloneShape, Original},
        instance::Failure,
    },
    failure::Trouble,
    library::Item,
    machine::{cards, disks},
};
use crate::{controllers::quantity::Quantity, instances::instance_type::instance_type};

/// Everything that a clone needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) template: MoRef,
    pub(super) folder: MoRef,
    pub(super) pool: MoRef,
    pub(super) datastore: Option<MoRef>,
    /// Snapshot of the template, if the clones are linked to one.
    pub(super) snapshot: Option<MoRef>,
    pub(super) networks: Vec<CardNetwork>,
    /// Cards of the template, by type and key.
    pub(super) cards: Vec<(String, i32)>,
    /// Keys of the disks of the template.
    pub(super) disks: Vec<i32>,
    pub(super) tag: Option<TagId>,
    guest_id: String,
    cpus: u32,
    memory_mib: u32,
}

impl Source {
    /// Returns the resources of a clone.
    pub(super) fn capacity(&self, shape: &CloneShape) -> Capacity {
        let memory = shape.memory_mib().unwrap_or(self.memory_mib);
        Capacity {
            cpu: Quantity::whole(shape.cpus().unwrap_or(self.cpus)),
            memory: format!("{memory}Mi").parse().unwrap_or_default(),
        }
    }

    /// Returns the instance type with which the cloud provider labels the Node of a clone.
    pub(super) fn instance_type(&self, shape: &CloneShape) -> String {
        let memory = shape.memory_mib().unwrap_or(self.memory_mib);
        instance_type(&self.guest_id, shape.cpus().unwrap_or(self.cpus), memory.into())
    }
}

/// Reason why the objects of a group are not known.
#[derive(Clone, Debug)]
pub(super) enum Unresolved {
    /// The group names an object that the login does not see or may not use, or that is of another
    /// kind.
    Wrong(Failure),
    /// A call failed, so that nothing is known.
    Call(String),
}

impl Unresolved {
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Wrong(failure) => &failure.message,
            Self::Call(text) => text,
        }
    }
}

impl From<CallError> for Unresolved {
    fn from(err: CallError) -> Self {
        Self::Call(provider_vcenter::Chain(&err).to_string())
    }
}

/// Returns the path of an object: below the folder of its kind, or from the root if `name` begins
/// with a slash.
fn path(datacenter: &str, below: &str, name: &str) -> String {
    let datacenter = datacenter.trim_matches('/');
    match name.strip_prefix('/') {
        Some(path) => path.trim_end_matches('/').to_owned(),
        None => format!("{datacenter}/{below}/{}", name.trim_end_matches('/')),
    }
}

/// Returns the path of the folder of the clones.
pub(super) fn folder_path(shape: &CloneShape) -> String {
    path(&shape.datacenter, "vm", &shape.folder)
}

/// Finds the folder of the clones.
pub(super) async fn folder(vcenter: &Vcenter, shape: &CloneShape) -> Result<MoRef, Unresolved> {
    find(vcenter, "folder", &folder_path(shape), &["Folder"]).await
}

/// Finds the objects of a group. `folder` is that of the clones.
pub(super) async fn resolve(
    vcenter: &Vcenter,
    shape: &CloneShape,
    folder: &MoRef,
) -> Result<Source, Unresolved> {
    let at = |below: &str, name: &str| path(&shape.datacenter, below, name);
    let (template, content) = template(vcenter, shape).await?;
    let pool = at("host", &shape.resource_pool);
    let pool = find(vcenter, "resourcePool", &pool, &["ResourcePool", "VirtualApp"]).await?;
    let mut datastore = None;
    if let Some(name) = &shape.datastore {
        datastore = Some(find(vcenter, "datastore", &at("datastore", name), &["Datastore"]).await?);
    }
    let mut networks = Vec::new();
    for name in &shape.networks {
        networks.push(network(vcenter, &at("network", name)).await?);
    }
    let mut tag = None;
    if let Some((category, name)) = shape.tag() {
        let found = vcenter.find_tag(category, name).await?;
        tag = Some(found.ok_or_else(|| wrong("tag", &format!("{category}/{name}")))?);
    }
    let unread =
        |path: &str| Unresolved::Call(format!("{path} of the template {template} cannot be read"));
    let number = |path: &str| {
        let number = content.text(path).and_then(|it| it.parse().ok());
        number.filter(|it| *it > 0).ok_or_else(|| unread(path))
    };
    let (cpus, memory_mib) =
        (number("config.hardware.numCPU")?, number("config.hardware.memoryMB")?);
    let devices = || unread("config.hardware.device");
    let cards = cards(&content).ok_or_else(devices)?;
    let disks = disks(&content).ok_or_else(devices)?.iter().map(|it| it.key).collect();
    let snapshot = content.properties.get("snapshot").and_then(|it| it.child("currentSnapshot"));
    let snapshot = snapshot.and_then(MoRef::read);
    Ok(Source {
        template,
        folder: folder.clone(),
        pool,
        datastore,
        snapshot: snapshot.filter(|_| shape.clone_mode == CloneMode::Linked),
        networks,
        cards,
        disks,
        tag,
        guest_id: content.text("config.guestId").unwrap_or_default().to_owned(),
        cpus,
        memory_mib,
    })
}

/// Finds the template of a group, and reads it.
async fn template(
    vcenter: &Vcenter,
    shape: &CloneShape,
) -> Result<(MoRef, ObjectContent), Unresolved> {
    match shape.original() {
        Some(Original::LibraryItem { library, item }) => {
            let item = Item { library: &library, name: &item };
            let template = item.template(vcenter).await?;
            let read = retrieve(vcenter, &template, &TEMPLATE).await;
            let content = read.map_err(|err| item.failed(err))?;
            let content = content.ok_or_else(|| item.unseen(&template))?;
            Ok((template, content))
        }
        Some(Original::Template(name)) => {
            let path = path(&shape.datacenter, "vm", &name);
            let template = find(vcenter, "template", &path, &["VirtualMachine"]).await?;
            let content = read(vcenter, &template, &TEMPLATE).await?;
            Ok((template, content))
        }
        None => Err(wrong("template", "")),
    }
}

/// Properties of a template that its clones depend on.
const TEMPLATE: [&str; 5] = [
    "config.hardware.numCPU",
    "config.hardware.memoryMB",
    "config.hardware.device",
    "config.guestId",
    "snapshot",
];

async fn find(
    vcenter: &Vcenter,
    key: &str,
    path: &str,
    kinds: &[&str],
) -> Result<MoRef, Unresolved> {
    let found = vcenter.find_by_inventory_path(path).await?;
    found.filter(|it| kinds.contains(&it.kind())).ok_or_else(|| wrong(key, path))
}

/// Finds a network, and reads what a card needs to know of it.
async fn network(vcenter: &Vcenter, path: &str) -> Result<CardNetwork, Unresolved> {
    let kinds = ["Network", "DistributedVirtualPortgroup"];
    let network = find(vcenter, "networks", path, &kinds).await?;
    if network.kind() == "Network" {
        let content = read(vcenter, &network, &["name"]).await?;
        let name = content.text("name").unwrap_or_default().to_owned();
        return Ok(CardNetwork::Standard { network, name });
    }
    let content = read(vcenter, &network, &["key", "config.distributedVirtualSwitch"]).await?;
    let switch = content.reference("config.distributedVirtualSwitch");
    let switch = switch.ok_or_else(|| wrong("networks", path))?;
    let uuid = read(vcenter, &switch, &["uuid"]).await?;
    let text = |content: &ObjectContent, path: &str| content.text(path).map(str::to_owned);
    let (portgroup, switch) = (text(&content, "key"), text(&uuid, "uuid"));
    match (portgroup, switch) {
        (Some(portgroup), Some(switch)) => Ok(CardNetwork::Distributed { portgroup, switch }),
        _ => Err(wrong("networks", path)),
    }
}

async fn read(
    vcenter: &Vcenter,
    object: &MoRef,
    paths: &[&str],
) -> Result<ObjectContent, Unresolved> {
    retrieve(vcenter, object, paths).await?.ok_or_else(|| unread(object))
}

async fn retrieve(
    vcenter: &Vcenter,
    object: &MoRef,
    paths: &[&str],
) -> Result<Option<ObjectContent>, CallError> {
    let spec = FilterSpec::of_objects(object.kind(), paths, vec![object.clone()]);
    Ok(vcenter.retrieve(&spec).await?.into_iter().next())
}

fn unread(object: &MoRef) -> Unresolved {
    Unresolved::Call(format!("vCenter returned no properties of {object}"))
}

fn wrong(key: &str, path: &str) -> Unresolved {
    let text =
        format!("{key}: vCenter has no such object at {path:?}, or the login does not see it");
    Unresolved::Wrong(Trouble::bad_configuration(&text).failure)
}
