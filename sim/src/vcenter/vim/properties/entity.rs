//! Properties of all inventory objects, and of folders, datacenters, datastores and networks.

use sim_world::vcenter::{Data, FolderKind, Kind, MoRef};

use super::{Prop, Reader, Subject, leaf, node};
use crate::vcenter::vim::content::BROWSER;
use crate::vcenter::vim::data::{Object, Reference, Value};

pub(super) const MANAGED_ENTITY: &[Prop] = &[
    leaf("parent", |_, it| {
        let (id, entity) = it.entity()?;
        // A machine in a vApp has `parentVApp` instead.
        let is_in_vapp = |up: &MoRef| (id.kind, up.kind) == (Kind::Machine, Kind::VirtualApp);
        entity.parent.filter(|up| !is_in_vapp(up)).map(Value::from)
    }),
    leaf("overallStatus", |_, _| Some(Value::Enum("ManagedEntityStatus", "green"))),
    leaf("configStatus", |_, _| Some(Value::Enum("ManagedEntityStatus", "green"))),
    leaf("effectiveRole", |_, _| Some(Value::List("int", vec![Value::Int(-1)]))),
    leaf("name", |_, it| {
        Some(Value::text(it.entity()?.1.name.replace('%', "%25").replace('/', "%2f")))
    }),
    leaf("recentTask", |reader, it| {
        let (id, _) = it.entity()?;
        let tasks = reader.vc.tasks.iter().filter(|(_, task)| task.entity == id);
        Some(Value::refs(tasks.map(|(task, _)| *task)))
    }),
    leaf("alarmActionsEnabled", |_, _| Some(Value::Bool(true))),
];

pub(super) const FOLDER: &[Prop] = &[
    leaf("childType", |_, it| {
        let Kind::Folder(kind) = it.entity()?.0.kind else { return None };
        Some(Value::texts(
            match kind {
                FolderKind::Datacenters => &["Folder", "Datacenter"][..],
                FolderKind::Machines => &["Folder", "VirtualMachine", "VirtualApp"],
                FolderKind::Hosts => &["Folder", "ComputeResource"],
                FolderKind::Datastores => &["Folder", "Datastore", "StoragePod"],
                FolderKind::Networks => &["Folder", "Network", "DistributedVirtualSwitch"],
            }
            .iter()
            .copied(),
        ))
    }),
    leaf("childEntity", |reader, it| match it.data()? {
        Data::Folder { children } => Some(visible(reader, children)),
        _ => None,
    }),
];

pub(super) const DATACENTER: &[Prop] = &[
    leaf("vmFolder", |_, it| folders(it).map(|it| it.0.into())),
    leaf("hostFolder", |_, it| folders(it).map(|it| it.1.into())),
    leaf("datastoreFolder", |_, it| folders(it).map(|it| it.2.into())),
    leaf("networkFolder", |_, it| folders(it).map(|it| it.3.into())),
    leaf("datastore", |reader, it| {
        let (_, _, datastores, _) = folders(it)?;
        children(reader, datastores)
    }),
    leaf("network", |reader, it| {
        let (_, _, _, networks) = folders(it)?;
        children(reader, networks)
    }),
    leaf("configuration", |_, _| {
        Some(Object::new("DatacenterConfigInfo").with("defaultHardwareVersionKey", "vmx-19").into())
    }),
];

pub(super) const DATASTORE: &[Prop] = &[
    leaf("info", |_, it| {
        let (_, entity) = it.entity()?;
        let info = Object::new("DatastoreInfo")
            .with("name", entity.name.as_str())
            .with("url", url(it)?)
            .with("freeSpace", FREE)
            .with("maxFileSize", CAPACITY)
            .with("maxMemoryFileSize", CAPACITY);
        Some(info.into())
    }),
    node(
        "summary",
        "DatastoreSummary",
        &[
            leaf("datastore", |_, it| Some(it.entity()?.0.into())),
            leaf("name", |_, it| Some(it.entity()?.1.name.as_str().into())),
            leaf("url", |_, it| url(it).map(Value::from)),
            leaf("capacity", |_, _| Some(CAPACITY.into())),
            leaf("freeSpace", |_, _| Some(FREE.into())),
            leaf("uncommitted", |_, _| Some(0_i64.into())),
            leaf("accessible", |_, _| Some(true.into())),
            leaf("multipleHostAccess", |_, _| Some(true.into())),
            leaf("type", |_, _| Some("VMFS".into())),
            leaf("maintenanceMode", |_, _| Some("normal".into())),
        ],
    ),
    leaf("host", |reader, it| {
        let (id, _) = it.entity()?;
        let mounts = hosts_of(reader, |datastores, _| datastores.contains(&id)).map(|host| {
            let info = Object::new("HostMountInfo")
                .with("path", "/vmfs/volumes")
                .with("accessMode", "readWrite")
                .with("mounted", true)
                .with("accessible", true);
            Object::new("DatastoreHostMount").with("key", host).with("mountInfo", info).into()
        });
        Some(Value::List("DatastoreHostMount", mounts.collect()))
    }),
    leaf("vm", |reader, it| match it.data()? {
        Data::Datastore { machines, .. } => Some(visible(reader, machines)),
        _ => None,
    }),
    leaf("browser", |_, it| {
        let id = format!("{BROWSER}{}", it.entity()?.0);
        Some(Reference::new("HostDatastoreBrowser", id).into())
    }),
];

pub(super) const NETWORK: &[Prop] = &[
    node(
        "summary",
        "NetworkSummary",
        &[
            leaf("network", |_, it| Some(it.entity()?.0.into())),
            leaf("name", |_, it| Some(it.entity()?.1.name.as_str().into())),
            leaf("accessible", |_, _| Some(true.into())),
            leaf("ipPoolName", |_, _| Some("".into())),
        ],
    ),
    leaf("host", |reader, it| {
        let (id, _) = it.entity()?;
        Some(Value::refs(hosts_of(reader, |_, networks| networks.contains(&id))))
    }),
    leaf("vm", |reader, it| match it.data()? {
        Data::Network { machines, .. } => Some(visible(reader, machines)),
        _ => None,
    }),
];

pub(super) const VIRTUAL_APP: &[Prop] = &[
    leaf("parentFolder", |_, it| match it.data()? {
        Data::Pool { folder, .. } => folder.map(Value::from),
        _ => None,
    }),
    leaf("parentVApp", |_, it| {
        it.entity()?.1.parent.filter(|up| up.kind == Kind::VirtualApp).map(Value::from)
    }),
];

const CAPACITY: i64 = 10 << 40;
const FREE: i64 = 8 << 40;

fn url(it: Subject<'_>) -> Option<String> {
    Some(format!("ds:///vmfs/volumes/{}/", it.entity()?.0))
}

fn folders(it: Subject<'_>) -> Option<(MoRef, MoRef, MoRef, MoRef)> {
    match it.data()? {
        Data::Datacenter { machines, hosts, datastores, networks } => {
            Some((*machines, *hosts, *datastores, *networks))
        }
        _ => None,
    }
}

fn children(reader: &Reader<'_>, folder: MoRef) -> Option<Value> {
    match &reader.vc.inventory.get(folder)?.data {
        Data::Folder { children } => Some(visible(reader, children)),
        _ => None,
    }
}

/// Returns references to the objects among `objects` that the caller may see.
pub(super) fn visible<'a>(
    reader: &Reader<'_>,
    objects: impl IntoIterator<Item = &'a MoRef>,
) -> Value {
    Value::refs(objects.into_iter().copied().filter(|id| reader.sees(*id)))
}

/// Returns the hosts of every compute resource whose datastores and networks satisfy `uses`.
fn hosts_of<'a>(
    reader: &'a Reader<'_>,
    uses: impl Fn(&std::collections::BTreeSet<MoRef>, &std::collections::BTreeSet<MoRef>) -> bool + 'a,
) -> impl Iterator<Item = MoRef> + 'a {
    let inventory = &reader.vc.inventory;
    inventory
        .of_kind(Kind::Cluster)
        .chain(inventory.of_kind(Kind::Standalone))
        .filter_map(move |(_, entity)| match &entity.data {
            Data::Compute { hosts, datastores, networks, .. } if uses(datastores, networks) => {
                Some(hosts.iter().copied())
            }
            _ => None,
        })
        .flatten()
}

impl Reader<'_> {
    /// True if the caller may see an inventory object. An anonymous caller sees none.
    pub(crate) fn sees(&self, id: MoRef) -> bool {
        self.user.is_some_and(|user| self.vc.may_see(user, id))
    }
}
