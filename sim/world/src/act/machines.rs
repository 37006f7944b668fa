//! The life of machines: moved, renamed, lost, rebuilt, destroyed.

use uuid::Uuid;

use super::Act;
use crate::vcenter::{
    Change, Connection, Data, Guest, HostConnection, Kind, Machine, MoRef, Power, VcFault,
};

impl Act<'_> {
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

    /// A machine whose files cannot be read can be taken out of the inventory, and not be registered again.
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
