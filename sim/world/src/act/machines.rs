//! The life of machines: created, powered, moved, renamed, lost, rebuilt, destroyed.

use uuid::Uuid;

use super::Act;
use crate::completion::Step;
use crate::reactions::Reaction;
use crate::topology;
use crate::vcenter::{
    Change, Config, Connection, Data, Entity, FolderKind, Guest, GuestPlan, HostConnection, Kind,
    Machine, MachineSpec, MoRef, Power, VcFault,
};

impl Act<'_> {
    /// Creates a machine where the topology would put the next one.
    pub(super) fn create_machine(
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
                .ok_or(VcFault::InvalidArgument("no cluster to create in".into()))?,
        };
        let Some(Data::Compute { pool, .. }) = inventory.get(compute).map(|it| &it.data) else {
            return Err(VcFault::InvalidArgument(format!("`{compute}` is no cluster")));
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

    /// Creates a powered-off machine in `folder`.
    pub(super) fn create_in(
        &mut self,
        vcenter: &str,
        folder: MoRef,
        spec: &MachineSpec,
        pool: MoRef,
        host: Option<MoRef>,
    ) -> Result<MoRef, VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
        let name = spec.name.clone().filter(|name| !name.is_empty());
        let name = name.ok_or(VcFault::InvalidArgument("name".into()))?;
        if folder.kind != Kind::Folder(FolderKind::Machines) {
            return Err(VcFault::NotSupported);
        }
        if inventory.get(folder).is_none() {
            return Err(VcFault::ManagedObjectNotFound(folder));
        }
        if let Some(object) = inventory.child(folder, &name) {
            return Err(VcFault::DuplicateName { name, object });
        }
        let Some(Data::Pool { owner, .. }) = inventory.get(pool).map(|it| &it.data) else {
            return Err(VcFault::ManagedObjectNotFound(pool));
        };
        let Some(Data::Compute { hosts, datastores, networks, .. }) =
            inventory.get(*owner).map(|it| &it.data)
        else {
            return Err(VcFault::InvalidState);
        };
        let usable = |id: &MoRef| {
            matches!(
                inventory.get(*id).map(|it| &it.data),
                Some(Data::Host { connection: HostConnection::Connected, maintenance: false, .. })
            )
        };
        let host = match host {
            Some(host) if !hosts.contains(&host) => {
                return Err(VcFault::InvalidArgument("host".into()));
            }
            Some(host) if !usable(&host) => return Err(VcFault::HostNotConnected),
            Some(host) => host,
            None => hosts.iter().copied().find(usable).ok_or(VcFault::HostNotConnected)?,
        };
        let datastore =
            datastores.first().copied().ok_or(VcFault::InvalidArgument("datastore".into()))?;
        let id = self.next_id(vcenter, Kind::Machine)?;
        let path = format!("{vcenter}/{id}");
        let ids = self.state.ids;
        let network = networks.first().copied();
        let mut machine = Machine {
            config: Config {
                uuid: Some(topology::bios_uuid(ids, &path)),
                instance_uuid: ids.uuid("instance", &path),
                guest_id: "ubuntu64Guest".to_owned(),
                cpus: 2,
                memory_mib: 4096,
                annotation: String::new(),
                extra: Default::default(),
                cards: network.map(|to| topology::card(0, id, to)).into_iter().collect(),
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
            plan: GuestPlan {
                host_name: name.clone(),
                addresses: vec![vec![topology::spare_address(vcenter, id.number)]],
                swapped_uuid: true,
            },
            boot: 0,
        };
        settle(&mut machine, spec);
        let entity = Entity { name, parent: Some(folder), data: Data::Machine(Box::new(machine)) };
        self.change(vcenter, id, Change::Created(Box::new(entity)));
        Ok(id)
    }

    pub(super) fn power_on(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let machine = self.manageable(vcenter, id)?;
        if machine.power == Power::PoweredOn {
            return Err(VcFault::InvalidPowerState {
                requested: Some(Power::PoweredOff),
                existing: Power::PoweredOn,
            });
        }
        self.boot(vcenter, id);
        Ok(())
    }

    /// Powers the machine on and lets its guest boot.
    pub(super) fn boot(&mut self, vcenter: &str, id: MoRef) {
        let Ok(machine) = self.machine(vcenter, id) else { return };
        let boot = machine.boot + 1;
        let guest = machine.guest.stopped();
        let booted = Some(self.now);
        self.change(vcenter, id, Change::Power { power: Power::PoweredOn, booted, boot });
        self.change(vcenter, id, Change::Guest(Box::new(guest)));
        let name = self.name_of(vcenter, id);
        for step in [Step::Tools, Step::Interface, Step::Address, Step::HostName, Step::Kubelet] {
            let vcenter = vcenter.to_owned();
            let reaction = Reaction::Guest { vcenter, machine: id, boot, step };
            self.after(step, self.now, Some(&name), reaction);
        }
    }

    pub(super) fn power_off(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let existing = self.manageable(vcenter, id)?.power;
        if existing == Power::PoweredOff {
            return Err(VcFault::InvalidPowerState { requested: Some(Power::PoweredOn), existing });
        }
        self.halt(vcenter, id, Power::PoweredOff);
        Ok(())
    }

    pub(super) fn suspend(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let existing = self.manageable(vcenter, id)?.power;
        if existing != Power::PoweredOn {
            return Err(VcFault::InvalidPowerState { requested: Some(Power::PoweredOn), existing });
        }
        self.halt(vcenter, id, Power::Suspended);
        Ok(())
    }

    pub(super) fn reset(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let existing = self.manageable(vcenter, id)?.power;
        if existing != Power::PoweredOn {
            return Err(VcFault::InvalidPowerState { requested: Some(Power::PoweredOn), existing });
        }
        self.stop_kubelet(vcenter, id);
        self.boot(vcenter, id);
        Ok(())
    }

    /// The guest stops running: its addresses go, its kubelet falls silent.
    fn halt(&mut self, vcenter: &str, id: MoRef, power: Power) {
        let Ok(machine) = self.machine(vcenter, id) else { return };
        let (boot, guest) = (machine.boot, machine.guest.stopped());
        self.change(vcenter, id, Change::Power { power, booted: None, boot: boot + 1 });
        self.change(vcenter, id, Change::Guest(Box::new(guest)));
        self.stop_kubelet(vcenter, id);
    }

    /// Destroys a machine, whatever its power state: tests say what happens, not how.
    pub(super) fn destroy(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        self.machine(vcenter, id)?;
        self.stop_kubelet(vcenter, id);
        self.untag(vcenter, id);
        self.change(vcenter, id, Change::Removed);
        Ok(())
    }

    pub(super) fn rename(&mut self, vcenter: &str, id: MoRef, to: &str) -> Result<(), VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
        let entity = inventory.get(id).ok_or(VcFault::ManagedObjectNotFound(id))?;
        if to.is_empty() {
            return Err(VcFault::InvalidArgument("newName".into()));
        }
        if entity.name == to {
            return Ok(());
        }
        if let Some(object) = entity.parent.and_then(|parent| inventory.child(parent, to)) {
            return Err(VcFault::DuplicateName { name: to.to_owned(), object });
        }
        self.change(vcenter, id, Change::Renamed(to.to_owned()));
        Ok(())
    }

    pub(super) fn vmotion(&mut self, vcenter: &str, id: MoRef, host: &str) -> Result<(), VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
        let host = inventory
            .of_kind(Kind::Host)
            .find(|(_, it)| it.name == host)
            .map(|(host, _)| host)
            .ok_or_else(|| VcFault::NoSuchName { kind: "host".into(), name: host.to_owned() })?;
        self.relocate(vcenter, id, host, None)
    }

    /// Moves a machine to `host`, and to `pool` or the root pool of the host's cluster if it leaves its own.
    pub(super) fn relocate(
        &mut self,
        vcenter: &str,
        id: MoRef,
        host: MoRef,
        pool: Option<MoRef>,
    ) -> Result<(), VcFault> {
        let machine = self.manageable(vcenter, id)?;
        let inventory = &self.vcenter(vcenter)?.inventory;
        let Some(Data::Host { connection, .. }) = inventory.get(host).map(|it| &it.data) else {
            return Err(VcFault::ManagedObjectNotFound(host));
        };
        if *connection != HostConnection::Connected {
            return Err(VcFault::HostNotConnected);
        }
        let compute = |host| inventory.get(host).and_then(|it| it.parent);
        let pool = match pool {
            Some(pool) if inventory.get(pool).is_none() => {
                return Err(VcFault::ManagedObjectNotFound(pool));
            }
            Some(pool) => Some(pool),
            None if compute(host) == compute(machine.host) => machine.pool,
            None => match compute(host).and_then(|up| inventory.get(up)).map(|it| &it.data) {
                Some(Data::Compute { pool, .. }) => Some(*pool),
                _ => return Err(VcFault::InvalidState),
            },
        };
        if (machine.host, machine.pool) != (host, pool) {
            self.change(vcenter, id, Change::Placed { host, pool });
        }
        Ok(())
    }

    pub(super) fn lose_storage(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        self.set_connection(vcenter, id, Connection::Inaccessible)
    }

    pub(super) fn orphan(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        self.set_connection(vcenter, id, Connection::Orphaned)
    }

    pub(super) fn connect(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        self.set_connection(vcenter, id, Connection::Connected)
    }

    pub(super) fn set_connection(
        &mut self,
        vcenter: &str,
        id: MoRef,
        to: Connection,
    ) -> Result<(), VcFault> {
        if self.machine(vcenter, id)?.connection != to {
            self.change(vcenter, id, Change::Connection(to));
        }
        Ok(())
    }

    pub(super) fn reregister(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
        let entity = inventory.get(id).cloned().ok_or(VcFault::ManagedObjectNotFound(id))?;
        self.untag(vcenter, id);
        self.change(vcenter, id, Change::Removed);
        let new = self.next_id(vcenter, Kind::Machine)?;
        self.change(vcenter, new, Change::Created(Box::new(entity)));
        self.move_kubelet(vcenter, id, new);
        Ok(())
    }

    pub(super) fn replace(&mut self, vcenter: &str, id: MoRef, uuid: Uuid) -> Result<(), VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
        let mut entity = inventory.get(id).cloned().ok_or(VcFault::ManagedObjectNotFound(id))?;
        let new = self.next_id(vcenter, Kind::Machine)?;
        let instance = self.state.ids.uuid("instance", &format!("{vcenter}/{new}"));
        if let Data::Machine(machine) = &mut entity.data {
            machine.config.uuid = Some(uuid);
            machine.config.instance_uuid = instance;
            machine.config.created = self.now;
            machine.power = Power::PoweredOff;
            machine.guest = Guest::silent();
        }
        self.stop_kubelet(vcenter, id);
        self.untag(vcenter, id);
        self.change(vcenter, id, Change::Removed);
        self.change(vcenter, new, Change::Created(Box::new(entity)));
        self.move_kubelet(vcenter, id, new);
        self.boot(vcenter, new);
        Ok(())
    }

    pub(super) fn set_uuid(
        &mut self,
        vcenter: &str,
        id: MoRef,
        uuid: Option<Uuid>,
    ) -> Result<(), VcFault> {
        let mut config = self.machine(vcenter, id)?.config.clone();
        if config.uuid != uuid {
            config.uuid = uuid;
            config.change_version += 1;
            self.change(vcenter, id, Change::Config(Box::new(config)));
        }
        Ok(())
    }

    pub(super) fn reconfigure(
        &mut self,
        vcenter: &str,
        id: MoRef,
        spec: &MachineSpec,
    ) -> Result<(), VcFault> {
        let mut machine = self.manageable(vcenter, id)?.clone();
        let (config, plan) = (machine.config.clone(), machine.plan.clone());
        if let Some(name) = &spec.name {
            self.rename(vcenter, id, name)?;
        }
        settle(&mut machine, spec);
        if machine.config != config {
            machine.config.change_version += 1;
            self.change(vcenter, id, Change::Config(Box::new(machine.config)));
        }
        if machine.plan != plan {
            self.change(vcenter, id, Change::Plan(Box::new(machine.plan)));
        }
        Ok(())
    }

    /// A machine that its host lets vCenter work on.
    pub(super) fn manageable(&self, vcenter: &str, id: MoRef) -> Result<&Machine, VcFault> {
        let machine = self.machine(vcenter, id)?;
        match machine.connection {
            Connection::Connected => Ok(machine),
            Connection::Disconnected => Err(VcFault::HostNotConnected),
            Connection::Orphaned | Connection::Inaccessible | Connection::Invalid => {
                Err(VcFault::InvalidState)
            }
        }
    }
}

/// Applies settings to a machine that is not in the inventory yet, or a copy of one that is.
fn settle(machine: &mut Machine, spec: &MachineSpec) {
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
    } = spec;
    let config = &mut machine.config;
    config.uuid = uuid.or(config.uuid);
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
}
