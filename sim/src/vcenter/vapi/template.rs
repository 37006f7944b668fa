//! The service of library items that contain a template: its hardware, and deployments of machines.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sim_world::vcenter::{
    CloneWork, Data, LibraryItem, Machine, MachineSpec, MoRef, Setting, TEMPLATE_ITEM, VCenter,
    VcFault,
};
use sim_world::{Outcome, VcRequest};

use super::context::Context;
use super::dialect::{Dialect, Error};
use super::route::Route;
use crate::Reply;
use crate::call::operations::vapi::Operation;

/// Type of the storage policy that is that of the template. No template has a policy.
const SOURCE_POLICY: &str = "USE_SOURCE_POLICY";
/// Size of the disk of a machine for which no client has set devices, in bytes.
const USUAL_DISK: u64 = 40 << 30;

/// The parts of a deployment that the sim carries out, by the part that contains them. It refuses
/// every other one by name.
const CARRIED_OUT: [(&str, &[&str]); 4] = [
    ("", &["name", "description", "placement", "vm_home_storage", "disk_storage", "powered_on"]),
    ("/placement", &["folder", "resource_pool", "host", "cluster"]),
    ("/vm_home_storage", &["datastore", "storage_policy"]),
    ("/disk_storage", &["datastore", "storage_policy"]),
];

/// A deployment of a machine.
#[derive(Deserialize)]
struct Deployment {
    name: String,
    description: Option<String>,
    placement: Option<Placement>,
    vm_home_storage: Option<Storage>,
    disk_storage: Option<Storage>,
    #[serde(default)]
    powered_on: bool,
}

/// Places of the new machine.
#[derive(Default, Deserialize)]
struct Placement {
    folder: Option<String>,
    resource_pool: Option<String>,
    host: Option<String>,
    cluster: Option<String>,
}

/// Place of files of the new machine.
#[derive(Deserialize)]
struct Storage {
    datastore: Option<String>,
}

impl Context<'_> {
    /// Answers a request to the service of items that contain a template.
    pub(super) fn template(&self, route: &Route, body: &Bytes) -> Result<Reply, Error> {
        let id = route.id.as_deref().ok_or_else(|| Error::invalid_argument("no id in the path"))?;
        let item = self.item(id)?;
        match route.operation {
            Operation::TemplateGet => self.info(&item),
            Operation::TemplateDeploy => self.deploy(id, &item, body),
            _ => Err(Error::operation_not_found(route.operation.name())),
        }
    }

    /// Describes the template of an item; unset if the item has none. vCenter requires a privilege on the
    /// item alone.
    fn info(&self, item: &LibraryItem) -> Result<Reply, Error> {
        let Some(template) = item.template.filter(|_| item.kind == TEMPLATE_ITEM) else {
            return Ok(self.dialect.unset());
        };
        let info = self.read(|vc| {
            if self.effects.hides_object(vc, template) {
                return None;
            }
            let machine = vc.inventory.machine(template)?;
            machine.connection.has_config().then(|| self.described(template, machine))
        });
        let info = info.ok_or_else(|| {
            Error::resource_inaccessible(format!("the template {template} cannot be read"))
        })?;
        Ok(self.value(info))
    }

    fn described(&self, id: MoRef, machine: &Machine) -> Value {
        let config = &machine.config;
        let storage = json!({ "datastore": machine.datastore.to_string() });
        let disk = |(key, capacity): (i32, u64)| {
            (key, json!({ "capacity": capacity, "disk_storage": storage }))
        };
        let nics = config.cards.iter().map(|card| {
            let kind = "STANDARD_PORTGROUP";
            let network = card.network.to_string();
            (card.key, json!({ "network": network, "backing_type": kind, "mac_type": "ASSIGNED" }))
        });
        json!({
            "vm_template": id.to_string(),
            "guest_OS": guest_os(&config.guest_id),
            "cpu": { "count": config.cpus, "cores_per_socket": 1 },
            "memory": { "size_MiB": config.memory_mib },
            "vm_home_storage": storage,
            "disks": self.map(disks(machine).into_iter().map(disk)),
            "nics": self.map(nics),
        })
    }

    /// Returns a map in the form of the dialect: a list of keys and values, or an object.
    fn map(&self, entries: impl Iterator<Item = (i32, Value)>) -> Value {
        let entries = entries.map(|(key, value)| (key.to_string(), value));
        match self.dialect {
            Dialect::Rest => {
                entries.map(|(key, value)| json!({ "key": key, "value": value })).collect()
            }
            Dialect::Api => Value::Object(entries.collect::<Map<_, _>>()),
        }
    }

    /// Creates a machine from the template of an item. The answer comes when the machine exists.
    fn deploy(&self, id: &str, item: &LibraryItem, body: &Bytes) -> Result<Reply, Error> {
        refuse_others(&self.spec(body, "spec")?)?;
        let deployment: Deployment = self.spec(body, "spec")?;
        let template = item.template.ok_or_else(|| VcFault::NoTemplate(id.to_owned()))?;
        let work = self.read(|vc| self.work(vc, template, deployment))?;
        match self.apply(VcRequest::Deploy { item: id.to_owned(), work: Box::new(work) })? {
            Outcome::Reference(machine) => Ok(self.value(machine.to_string().into())),
            _ => Ok(self.dialect.nothing()),
        }
    }

    fn work(
        &self,
        vc: &VCenter,
        template: MoRef,
        deployment: Deployment,
    ) -> Result<CloneWork, Error> {
        let Deployment { name, description, placement, vm_home_storage, disk_storage, powered_on } =
            deployment;
        if !vc.may_see(self.user, template) {
            return Err(Error::unauthorized());
        }
        let placement = placement.unwrap_or_default();
        let object = |key: &str, id: Option<String>| self.placed(vc, key, id);
        let folder = match object("folder", placement.folder)? {
            Some(folder) => folder,
            None => vc.inventory.get(template).and_then(|it| it.parent).ok_or_else(|| {
                Error::resource_inaccessible(format!("the template {template} cannot be read"))
            })?,
        };
        let host = object("host", placement.host)?;
        let cluster = object("cluster", placement.cluster)?;
        let pool = object("resource_pool", placement.resource_pool)?;
        if let Some(cluster) = cluster
            && (root_pool(vc, cluster).is_none() || pool.is_some_and(|it| !owns(vc, cluster, it)))
        {
            let text = "spec.placement.cluster: it is no cluster, or not that of the resource_pool";
            return Err(Error::invalid_argument(text));
        }
        let pool =
            pool.or_else(|| root_pool(vc, cluster.or_else(|| vc.inventory.get(host?)?.parent)?));
        if pool.is_none() {
            return Err(Error::invalid_argument(
                "spec.placement: resource_pool, cluster or host is required",
            ));
        }
        let storage = |it: Option<Storage>| object("datastore", it.and_then(|it| it.datastore));
        let (home, disks) = (storage(vm_home_storage)?, storage(disk_storage)?);
        if home.is_some() && disks.is_some() && home != disks {
            return Err(Error::invalid_argument(
                "spec.disk_storage: the sim keeps a machine on one datastore",
            ));
        }
        let (datastore, annotation) = (home.or(disks), description);
        let spec =
            MachineSpec { name: Some(name), annotation, datastore, ..MachineSpec::default() };
        Ok(CloneWork { folder, spec, pool, host, template: false, power_on: powered_on })
    }

    /// Returns the object that a deployment names.
    fn placed(&self, vc: &VCenter, key: &str, id: Option<String>) -> Result<Option<MoRef>, Error> {
        let Some(id) = id else { return Ok(None) };
        let object = MoRef::parse(&id).filter(|it| vc.inventory.get(*it).is_some());
        let object = object.filter(|it| !self.effects.hides_object(vc, *it));
        let object =
            object.ok_or_else(|| Error::not_found(format!("spec: {key}: no object is '{id}'")))?;
        let is_seen = vc.may_see(self.user, object);
        if is_seen { Ok(Some(object)) } else { Err(Error::unauthorized()) }
    }
}

/// Refuses the parts of a deployment that the sim does not carry out.
fn refuse_others(spec: &Value) -> Result<(), Error> {
    for (part, keys) in CARRIED_OUT {
        let given = spec.pointer(part).and_then(Value::as_object).into_iter().flatten();
        let mut given = given.filter(|(_, value)| !value.is_null());
        if let Some((key, _)) = given.find(|(key, _)| !keys.contains(&key.as_str())) {
            return Err(not_carried_out(&format!("{part}/{key}")));
        }
    }
    for part in ["/vm_home_storage/storage_policy", "/disk_storage/storage_policy"] {
        let given = spec.pointer(part).filter(|policy| !policy.is_null());
        let is_of_source =
            |policy: &Value| policy["type"] == SOURCE_POLICY && policy["policy"].is_null();
        if !given.is_none_or(is_of_source) {
            return Err(not_carried_out(part));
        }
    }
    Ok(())
}

fn not_carried_out(part: &str) -> Error {
    let path = format!("spec{part}").replace('/', ".");
    Error::invalid_argument(format!("{path}: the sim does not carry this out in a deployment"))
}

/// Returns the root pool of a cluster or of the compute resource of a standalone host.
fn root_pool(vc: &VCenter, compute: MoRef) -> Option<MoRef> {
    match &vc.inventory.get(compute)?.data {
        Data::Compute { pool, .. } => Some(*pool),
        _ => None,
    }
}

/// True if a pool is in this cluster or compute resource.
fn owns(vc: &VCenter, compute: MoRef, pool: MoRef) -> bool {
    let pool = vc.inventory.get(pool).map(|it| &it.data);
    matches!(pool, Some(Data::Pool { owner, .. }) if *owner == compute)
}

/// Keys and capacities of the disks of a machine, in bytes.
fn disks(machine: &Machine) -> Vec<(i32, u64)> {
    let Some(devices) = &machine.config.devices else { return vec![(2000, USUAL_DISK)] };
    let disks = devices.iter().filter(|(_, it)| it.kind == "VirtualDisk");
    let capacity = |fields: &std::collections::BTreeMap<String, Setting>| {
        let kib = fields.get("capacityInKB").and_then(Setting::text);
        kib.and_then(|it| it.parse::<u64>().ok()).unwrap_or_default() << 10
    };
    disks.map(|(key, it)| (*key, capacity(&it.fields))).collect()
}

/// Returns the name of a guest in vAPI.
fn guest_os(guest_id: &str) -> &'static str {
    match guest_id {
        "ubuntu64Guest" => "UBUNTU_64",
        "debian12_64Guest" => "DEBIAN_12_64",
        "otherLinux64Guest" => "OTHER_LINUX_64",
        "vmwarePhoton64Guest" => "VMWARE_PHOTON_64",
        _ => "OTHER_64",
    }
}
