//! Changes of machines in the inventory: destruction, new names, places, connection states and ids.

mod clone;
mod creation;
mod devices;
mod placement;
mod power;
mod running;
mod slots;
#[cfg(test)]
mod tests;

use uuid::Uuid;

use super::Execution;
use crate::command::Named;
use crate::event::Event;
use crate::reactions::{Kubelet, Reaction};
use crate::vcenter::{
    Change, Connection, Data, Entity, Guest, HostConnection, Kind, Machine, MoRef, Power, VCenter,
    VcFault,
};

impl Execution<'_> {
    /// Destroys a machine in any power state. (`Destroy_Task` refuses a powered-on machine.)
    pub(super) fn destroy(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        self.machine(vcenter, id)?;
        self.stop_kubelet(vcenter, id);
        self.untag(vcenter, id);
        self.delete_items_of(vcenter, id);
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

    /// Moves a machine to `host` and to `pool`. Without `pool` the machine keeps its pool, or gets
    /// the root pool of the new host's cluster if the cluster changes. A machine that thereby
    /// leaves its vApp moves to the folder that shows the vApp. Refuses a machine or a host that is
    /// not connected, and a host or pool that does not exist.
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
            Some(pool) => match inventory.get(pool).map(|it| &it.data) {
                Some(Data::Pool { .. }) => Some(pool),
                _ => return Err(VcFault::ManagedObjectNotFound(pool)),
            },
            None if compute(host) == compute(machine.host) => machine.pool,
            None => match compute(host).and_then(|up| inventory.get(up)).map(|it| &it.data) {
                Some(Data::Compute { pool, .. }) => Some(*pool),
                _ => return Err(VcFault::InvalidState),
            },
        };
        if (machine.host, machine.pool) != (host, pool) {
            let left = machine.pool.filter(|before| Some(*before) != pool);
            let left = left.filter(|before| before.kind == Kind::VirtualApp);
            self.change(vcenter, id, Change::Placed { host, pool });
            if let Some(folder) = left.and_then(|vapp| self.places_of(vcenter, vapp)).map(|it| it.1)
            {
                self.change(vcenter, id, Change::Moved(folder));
            }
        }
        Ok(())
    }

    /// The pool that contains a vApp, and the folder that shows the vApp; `None` if `vapp` is not a
    /// vApp.
    fn places_of(&self, vcenter: &str, vapp: MoRef) -> Option<(MoRef, MoRef)> {
        let entity = self.vcenter(vcenter).ok()?.inventory.get(vapp)?;
        let Data::Pool { folder, .. } = &entity.data else { return None };
        Some((entity.parent?, (*folder)?))
    }

    /// Moves a machine into the vApp of this name, and creates the vApp if it does not exist. With
    /// `None`, moves the machine out of its vApp, if it is in one. Refuses a machine that is not
    /// connected or has no pool, and a name that is empty or that belongs to another kind of
    /// object.
    pub(super) fn set_vapp(
        &mut self,
        vcenter: &str,
        id: MoRef,
        vapp: Option<&str>,
    ) -> Result<(), VcFault> {
        let Machine { host, pool, .. } = self.manageable(vcenter, id)?;
        let (host, pool) = (*host, pool.ok_or(VcFault::InvalidState)?);
        let outside = self.places_of(vcenter, pool);
        let Some(name) = vapp else {
            if let Some((pool, folder)) = outside {
                self.change(vcenter, id, Change::Placed { host, pool: Some(pool) });
                self.change(vcenter, id, Change::Moved(folder));
            }
            return Ok(());
        };
        let inventory = &self.vcenter(vcenter)?.inventory;
        let folder = inventory.get(id).and_then(|it| it.parent);
        let (parent, folder) =
            outside.or(folder.map(|it| (pool, it))).ok_or(VcFault::InvalidState)?;
        let vapp = match inventory.child(parent, name) {
            Some(known) if known.kind == Kind::VirtualApp => known,
            Some(object) => return Err(VcFault::DuplicateName { name: name.to_owned(), object }),
            None => self.create_vapp(vcenter, name, parent, folder)?,
        };
        if vapp != pool {
            self.change(vcenter, id, Change::Placed { host, pool: Some(vapp) });
            self.change(vcenter, id, Change::Moved(vapp));
        }
        Ok(())
    }

    fn create_vapp(
        &mut self,
        vcenter: &str,
        name: &str,
        pool: MoRef,
        folder: MoRef,
    ) -> Result<MoRef, VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
        if name.is_empty() {
            return Err(VcFault::InvalidArgument("vapp".into()));
        }
        if let Some(object) = inventory.child(folder, name) {
            return Err(VcFault::DuplicateName { name: name.to_owned(), object });
        }
        let Some(Data::Pool { owner, .. }) = inventory.get(pool).map(|it| &it.data) else {
            return Err(VcFault::ManagedObjectNotFound(pool));
        };
        let data = Data::Pool {
            owner: *owner,
            pools: Default::default(),
            machines: Default::default(),
            folder: Some(folder),
        };
        let id = self.next_id(vcenter, Kind::VirtualApp)?;
        let entity = Entity { name: name.to_owned(), parent: Some(pool), data };
        self.change(vcenter, id, Change::Created(Box::new(entity)));
        Ok(id)
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

    /// Unregisters a machine and registers it again under a new id. Refuses this if the machine's
    /// configuration is unreadable, because vCenter could not register the machine again.
    pub(super) fn reregister(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        if !self.machine(vcenter, id)?.connection.has_config() {
            return Err(VcFault::InvalidState);
        }
        let inventory = &self.vcenter(vcenter)?.inventory;
        let entity = inventory.get(id).cloned().ok_or(VcFault::ManagedObjectNotFound(id))?;
        self.untag(vcenter, id);
        self.change(vcenter, id, Change::Removed);
        let new = self.next_id(vcenter, Kind::Machine)?;
        self.change(vcenter, new, Change::Created(Box::new(entity)));
        self.move_kubelet(vcenter, id, new);
        Ok(())
    }

    /// Gives each machine the id of the next one, and the last machine the id of the first. Refuses
    /// machines of several vCenters, fewer than two machines, a machine that occurs twice, and a
    /// machine that is busy, has lost its storage, or has a VirtualMachine in the Supervisor.
    pub(super) fn reassign_ids(&mut self, machines: &[Named]) -> Result<(), VcFault> {
        let mut ids = Vec::new();
        let mut owner = None;
        for named in machines {
            self.on_machine(named, |act, vcenter, id| {
                let is_of_another =
                    owner.replace(vcenter.to_owned()).is_some_and(|it| it != vcenter);
                if is_of_another || ids.contains(&id) {
                    return Err(VcFault::InvalidArgument("machines".into()));
                }
                let is_made = act.state.supervisor.object_of(&id.to_string()).is_some();
                let has_config = act.machine(vcenter, id)?.connection.has_config();
                if is_made || !has_config || act.is_busy(vcenter, id) {
                    return Err(VcFault::InvalidState);
                }
                ids.push(id);
                Ok(())
            })?;
        }
        let Some(vcenter) = owner.filter(|_| ids.len() > 1) else {
            return Err(VcFault::InvalidArgument("machines".into()));
        };
        let moves = ids.iter().zip(ids.iter().cycle().skip(1));
        let mut entities = Vec::new();
        let mut kubelets = Vec::new();
        for (from, to) in moves {
            let inventory = &self.vcenter(&vcenter)?.inventory;
            let entity = inventory.get(*from).cloned();
            entities.push((*to, entity.ok_or(VcFault::ManagedObjectNotFound(*from))?));
            if let Some((node, kubelet)) = self.kubelet_of(&vcenter, *from) {
                kubelets.push((node, Kubelet { machine: *to, ..kubelet }));
            }
        }
        for id in ids {
            self.untag(&vcenter, id);
            self.change(&vcenter, id, Change::Removed);
        }
        for (id, entity) in entities {
            self.change(&vcenter, id, Change::Created(Box::new(entity)));
        }
        // Removes all kubelets before it adds any, because each new entry has the machine id of an
        // old one.
        for (node, _) in &kubelets {
            self.emit(Event::KubeletSet { node: node.clone(), kubelet: None });
        }
        for (node, kubelet) in kubelets {
            self.emit(Event::KubeletSet { node, kubelet: Some(kubelet) });
        }
        Ok(())
    }

    /// True while a machine's guest boots or carries out a power request, or a task on the machine
    /// is running.
    fn is_busy(&self, vcenter: &str, id: MoRef) -> bool {
        self.state.to_come().any(|reaction| match reaction {
            Reaction::Guest { vcenter: of, machine, .. }
            | Reaction::GuestPower { vcenter: of, machine, .. } => of == vcenter && *machine == id,
            Reaction::TaskDue { vcenter: of, task } => {
                let entity = |vc: &VCenter| vc.tasks.get(task).map(|it| it.entity);
                of == vcenter && self.vcenter(of).ok().and_then(entity) == Some(id)
            }
            _ => false,
        })
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
        if !self.machine(vcenter, new)?.config.template {
            self.boot(vcenter, new);
        }
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

    /// Returns the machine if vCenter can operate on it, that is, if it is connected.
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
