//! Names and places of new machines.

use crate::act::Execution;
use crate::vcenter::{Data, FolderKind, HostConnection, Kind, MachineSpec, MoRef, VcFault};

/// Places of a new machine.
pub(super) struct Places {
    pub(super) host: MoRef,
    pub(super) datastore: MoRef,
    /// First network of the cluster; `None` if it has none.
    pub(super) network: Option<MoRef>,
}

impl Execution<'_> {
    /// Returns the name of a new machine in `folder`. Refuses a folder that is not for machines, and
    /// a name that is missing, empty or taken.
    pub(super) fn free_name(
        &self,
        vcenter: &str,
        folder: MoRef,
        spec: &MachineSpec,
    ) -> Result<String, VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
        let name = spec.name.clone().filter(|name| !name.is_empty());
        let name = name.ok_or(VcFault::InvalidArgument("name".into()))?;
        if folder.kind != Kind::Folder(FolderKind::Machines) {
            return Err(VcFault::NotSupported);
        }
        if inventory.get(folder).is_none() {
            return Err(VcFault::ManagedObjectNotFound(folder));
        }
        match inventory.child(folder, &name) {
            Some(object) => Err(VcFault::DuplicateName { name, object }),
            None => Ok(name),
        }
    }

    /// Returns the places of a new machine in `pool`: `host` or the first usable host of the pool's
    /// cluster, and `datastore` or the first datastore of the cluster. A usable host is connected and
    /// not in maintenance mode.
    pub(super) fn places(
        &self,
        vcenter: &str,
        pool: MoRef,
        host: Option<MoRef>,
        datastore: Option<MoRef>,
    ) -> Result<Places, VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
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
        let datastore = match datastore {
            Some(wanted) if !datastores.contains(&wanted) => {
                return Err(VcFault::InvalidDatastore(wanted));
            }
            Some(wanted) => wanted,
            None => {
                let first = datastores.first().copied();
                first.ok_or(VcFault::InvalidArgument("datastore".into()))?
            }
        };
        Ok(Places { host, datastore, network: networks.first().copied() })
    }
}
