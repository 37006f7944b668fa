//! Creation of machines, and changes of their settings.

use super::devices::change_devices;
use super::placement::Places;
use crate::act::Execution;
use crate::vcenter::identity::{bios_uuid, card, spare_address};
use crate::vcenter::{
    Change, Config, Connection, Data, Entity, Guest, Kind, Machine, MachineSpec, MoRef,
    NextGuestReport, Power, Settings, VcFault, base_devices, known, take_over,
};

impl Execution<'_> {
    /// Creates a machine in the cluster or standalone host that `cluster` names. Without a name,
    /// takes the first cluster, or the first standalone host of a vCenter without clusters. Without
    /// `vcenter`, takes the first vCenter. Then adds a stopped kubelet if `kubelet` is true, and
    /// powers the machine on if `power_on` is true.
    pub(in crate::act) fn create_machine(
        &mut self,
        vcenter: Option<String>,
        spec: MachineSpec,
        cluster: Option<String>,
        power_on: bool,
        kubelet: bool,
    ) -> Result<MoRef, VcFault> {
        let vcenter = self.vcenter_name(vcenter)?;
        let inventory = &self.vcenter(&vcenter)?.inventory;
        let compute = match cluster {
            Some(name) => self.object(&vcenter, &name)?,
            None => inventory
                .of_kind(Kind::Cluster)
                .chain(inventory.of_kind(Kind::Standalone))
                .map(|(id, _)| id)
                .next()
                .ok_or(VcFault::InvalidArgument("the vCenter has no cluster or host".into()))?,
        };
        let Some(Data::Compute { pool, .. }) = inventory.get(compute).map(|it| &it.data) else {
            return Err(VcFault::InvalidArgument(format!("`{compute}` is not a cluster")));
        };
        let pool = *pool;
        let datacenter = inventory.datacenter_of(compute).ok_or(VcFault::InvalidState)?;
        let Some(Data::Datacenter { machines, .. }) = inventory.get(datacenter).map(|it| &it.data)
        else {
            return Err(VcFault::InvalidState);
        };
        let folder = *machines;
        let id = self.create_in(&vcenter, folder, &spec, pool, None)?;
        if kubelet {
            self.add_kubelet(&vcenter, id);
        }
        if power_on {
            self.power_on(&vcenter, id)?;
        }
        Ok(id)
    }

    /// Creates a powered-off machine in `folder` and `pool`, on `host` or, without one, on the
    /// first usable host of the pool's cluster. A usable host is connected and not in maintenance
    /// mode. Refuses a `host` that is not usable or not in the cluster, a cluster without a usable
    /// host or a datastore, a folder that is not for machines, a pool that does not exist, and a
    /// name that is missing, empty or taken.
    pub(in crate::act) fn create_in(
        &mut self,
        vcenter: &str,
        folder: MoRef,
        spec: &MachineSpec,
        pool: MoRef,
        host: Option<MoRef>,
    ) -> Result<MoRef, VcFault> {
        let name = self.free_name(vcenter, folder, spec)?;
        let Places { host, datastore, network } =
            self.places(vcenter, pool, host, spec.datastore)?;
        check(spec)?;
        let id = self.next_id(vcenter, Kind::Machine)?;
        let path = format!("{vcenter}/{id}");
        let ids = self.state.ids;
        let mut machine = Machine {
            config: Config {
                uuid: Some(bios_uuid(ids, &path)),
                instance_uuid: ids.uuid("instance", &path),
                guest_id: "ubuntu64Guest".to_owned(),
                cpus: 2,
                memory_mib: 4096,
                annotation: String::new(),
                extra: Default::default(),
                cards: network.map(|to| card(0, id, to)).into_iter().collect(),
                devices: None,
                settings: Settings::default(),
                template: false,
                change_version: 1,
                created: self.now,
            },
            power: Power::PoweredOff,
            connection: Connection::Connected,
            host,
            pool: Some(pool),
            datastore,
            booted: None,
            guest: Guest::silent(),
            plan: NextGuestReport {
                host_name: name.clone(),
                addresses: vec![vec![spare_address(vcenter, id.number)]],
                swapped_uuid: true,
            },
            boot: 0,
        };
        if spec.devices.is_some() {
            machine.config.cards.clear();
            machine.config.devices = Some(Box::new(base_devices()));
        }
        settle(&mut machine, id, spec)?;
        let entity = Entity { name, parent: Some(folder), data: Data::Machine(Box::new(machine)) };
        self.change(vcenter, id, Change::Created(Box::new(entity)));
        Ok(id)
    }

    pub(in crate::act) fn reconfigure(
        &mut self,
        vcenter: &str,
        id: MoRef,
        spec: &MachineSpec,
    ) -> Result<(), VcFault> {
        let mut machine = self.manageable(vcenter, id)?.clone();
        if spec.change_version.is_some_and(|expected| expected != machine.config.change_version) {
            return Err(VcFault::ConcurrentAccess);
        }
        check(spec)?;
        let (config, plan) = (machine.config.clone(), machine.plan.clone());
        settle(&mut machine, id, spec)?;
        if let Some(name) = &spec.name {
            self.rename(vcenter, id, name)?;
        }
        if machine.config != config {
            machine.config.change_version += 1;
            self.change(vcenter, id, Change::Config(Box::new(machine.config)));
        }
        if machine.plan != plan {
            self.change(vcenter, id, Change::Plan(Box::new(machine.plan)));
        }
        Ok(())
    }
}

/// Checks that every setting in `spec` is one that the world keeps.
pub(super) fn check(spec: &MachineSpec) -> Result<(), VcFault> {
    match spec.settings.keys().find(|path| known(path).is_none()) {
        Some(path) => Err(VcFault::InvalidArgument(path.clone())),
        None => Ok(()),
    }
}

/// Applies all settings of `spec` except name, place and expected version. `machine` is not in the
/// inventory yet, or is a copy. Refuses what [`change_devices`] refuses.
pub(super) fn settle(machine: &mut Machine, id: MoRef, spec: &MachineSpec) -> Result<(), VcFault> {
    let MachineSpec {
        name: _,
        uuid,
        cpus,
        memory_mib,
        guest_id,
        annotation,
        extra,
        host_name,
        addresses,
        instance_uuid,
        change_version: _,
        datastore: _,
        devices,
        settings,
    } = spec;
    let config = &mut machine.config;
    change_devices(config, id, devices.as_deref().unwrap_or_default())?;
    take_over(&mut config.settings, settings);
    config.uuid = uuid.or(config.uuid);
    config.instance_uuid = instance_uuid.unwrap_or(config.instance_uuid);
    config.cpus = cpus.unwrap_or(config.cpus);
    config.memory_mib = memory_mib.unwrap_or(config.memory_mib);
    if let Some(guest_id) = guest_id {
        config.guest_id.clone_from(guest_id);
    }
    if let Some(annotation) = annotation {
        config.annotation.clone_from(annotation);
    }
    for (key, value) in extra {
        if value.is_empty() {
            config.extra.remove(key);
        } else {
            config.extra.insert(key.clone(), value.clone());
        }
    }
    if let Some(host_name) = host_name {
        machine.plan.host_name.clone_from(host_name);
    }
    if let Some(addresses) = addresses {
        machine.plan.addresses = vec![addresses.clone()];
    }
    Ok(())
}
