//! Failure and return of hosts, and the effects on their machines.

use super::Execution;
use crate::reactions::{Reaction, Step};
use crate::vcenter::{Change, Connection, Data, HostConnection, MoRef, Power, VcFault};

impl Execution<'_> {
    pub(super) fn disconnect_host(&mut self, vcenter: &str, host: MoRef) -> Result<(), VcFault> {
        self.set_host(vcenter, host, HostConnection::NotResponding, Connection::Disconnected)
    }

    pub(super) fn reconnect_host(&mut self, vcenter: &str, host: MoRef) -> Result<(), VcFault> {
        self.set_host(vcenter, host, HostConnection::Connected, Connection::Connected)
    }

    /// Disconnects the host, stops the kubelets of its machines, and schedules the HA restart of
    /// its machines. Refuses an unknown host.
    pub(super) fn fail_host(&mut self, vcenter: &str, host: MoRef) -> Result<(), VcFault> {
        self.disconnect_host(vcenter, host)?;
        for machine in self.machines_on(vcenter, host) {
            self.stop_kubelet(vcenter, machine);
        }
        let reaction = Reaction::HaRestart { vcenter: vcenter.to_owned(), host };
        self.after(Step::HaRestart, self.now, None, reaction);
        Ok(())
    }

    /// Moves the machines of a failed host to a connected host of the same cluster, sets them to
    /// connected, and boots those that were powered on. Does nothing if the failed host is
    /// connected again, or no other host is connected.
    pub(super) fn ha_restart(&mut self, vcenter: &str, failed: MoRef) {
        let Ok(vc) = self.vcenter(vcenter) else { return };
        let connected = |id: MoRef| {
            matches!(
                vc.inventory.get(id).map(|host| &host.data),
                Some(Data::Host { connection: HostConnection::Connected, .. })
            )
        };
        if connected(failed) {
            return;
        }
        let siblings = vc.inventory.get(failed).and_then(|host| host.parent);
        let target = match siblings.and_then(|up| vc.inventory.get(up)).map(|up| &up.data) {
            Some(Data::Compute { hosts, .. }) => hosts.iter().copied().find(|id| connected(*id)),
            _ => None,
        };
        let Some(host) = target else { return };
        for id in self.machines_on(vcenter, failed) {
            let Ok(machine) = self.machine(vcenter, id) else { continue };
            let (pool, on) = (machine.pool, machine.power == Power::PoweredOn);
            self.change(vcenter, id, Change::Placed { host, pool });
            self.change(vcenter, id, Change::Connection(Connection::Connected));
            if on {
                self.boot(vcenter, id);
            }
        }
    }

    fn set_host(
        &mut self,
        vcenter: &str,
        host: MoRef,
        to: HostConnection,
        machines: Connection,
    ) -> Result<(), VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
        let Some(Data::Host { connection, .. }) = inventory.get(host).map(|it| &it.data) else {
            return Err(VcFault::ManagedObjectNotFound(host));
        };
        if *connection != to {
            self.change(vcenter, host, Change::HostConnection(to));
        }
        for id in self.machines_on(vcenter, host) {
            let state = self.machine(vcenter, id)?.connection;
            if matches!(state, Connection::Connected | Connection::Disconnected) {
                self.set_connection(vcenter, id, machines)?;
            }
        }
        Ok(())
    }

    fn machines_on(&self, vcenter: &str, host: MoRef) -> Vec<MoRef> {
        match self.vcenter(vcenter).ok().and_then(|vc| vc.inventory.get(host)).map(|it| &it.data) {
            Some(Data::Host { machines, .. }) => machines.iter().copied().collect(),
            _ => Vec::new(),
        }
    }
}
