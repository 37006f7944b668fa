//! Lookup of the objects that commands name.

use super::Execution;
use crate::command::Named;
use crate::vcenter::{Kind, Machine, MoRef, VcFault};

impl Execution<'_> {
    /// Returns `name` if a vCenter of this name exists, else fails. Without a name, returns the
    /// name of the first vCenter.
    pub(super) fn vcenter_name(&self, name: Option<String>) -> Result<String, VcFault> {
        match name {
            Some(name) => self.vcenter(&name).map(|_| name),
            None => self
                .state
                .vcenters
                .keys()
                .next()
                .cloned()
                .ok_or_else(|| VcFault::NoSuchVCenter(String::new())),
        }
    }

    /// Finds the machine of this name, the one with the lowest id if several have it, and calls
    /// `what` with its vCenter and id. Fails with [`VcFault::NoSuchName`] if no machine has the
    /// name, for an unknown vCenter, and if `what` fails.
    pub(super) fn on_machine(
        &mut self,
        named: &Named,
        what: impl FnOnce(&mut Self, &str, MoRef) -> Result<(), VcFault>,
    ) -> Result<(), VcFault> {
        let (vcenter, id) =
            self.find(named, "machine", |vc, name| vc.inventory.by_machine_name(name).next())?;
        what(self, &vcenter, id)
    }

    /// Finds the host of this name, the one with the lowest id if several have it, and calls `what`
    /// with its vCenter and id. Fails with [`VcFault::NoSuchName`] if no host has the name, for an
    /// unknown vCenter, and if `what` fails.
    pub(super) fn on_host(
        &mut self,
        named: &Named,
        what: impl FnOnce(&mut Self, &str, MoRef) -> Result<(), VcFault>,
    ) -> Result<(), VcFault> {
        let (vcenter, id) = self.find(named, "host", |vc, name| {
            vc.inventory.of_kind(Kind::Host).find(|(_, host)| host.name == name).map(|(id, _)| id)
        })?;
        what(self, &vcenter, id)
    }

    fn find(
        &self,
        named: &Named,
        kind: &str,
        search: impl Fn(&crate::vcenter::VCenter, &str) -> Option<MoRef>,
    ) -> Result<(String, MoRef), VcFault> {
        if let Some(vcenter) = &named.vcenter {
            self.vcenter(vcenter)?;
        }
        self.state
            .vcenters
            .iter()
            .filter(|(vcenter, _)| named.vcenter.as_ref().is_none_or(|wanted| wanted == *vcenter))
            .find_map(|(name, vc)| search(vc, &named.name).map(|id| (name.clone(), id)))
            .ok_or_else(|| VcFault::NoSuchName { kind: kind.to_owned(), name: named.to_string() })
    }

    /// Finds an object by id, or else by name among machines, clusters, compute resources of
    /// standalone hosts, hosts, datacenters, pools and vApps, in this order. Fails with
    /// [`VcFault::NoSuchName`] if the vCenter has no such object.
    pub(super) fn object(&self, vcenter: &str, name: &str) -> Result<MoRef, VcFault> {
        let inventory = &self.vcenter(vcenter)?.inventory;
        let by_id = MoRef::parse(name).filter(|id| inventory.get(*id).is_some());
        let by_kind = |kind: Kind| {
            inventory.of_kind(kind).find(|(_, entity)| entity.name == name).map(|(id, _)| id)
        };
        by_id
            .or_else(|| inventory.by_machine_name(name).next())
            .or_else(|| {
                [
                    Kind::Cluster,
                    Kind::Standalone,
                    Kind::Host,
                    Kind::Datacenter,
                    Kind::Pool,
                    Kind::VirtualApp,
                ]
                .into_iter()
                .find_map(by_kind)
            })
            .ok_or_else(|| VcFault::NoSuchName { kind: "object".into(), name: name.to_owned() })
    }

    /// Returns the machine with this id. Fails if the vCenter has no such machine.
    pub(super) fn machine(&self, vcenter: &str, id: MoRef) -> Result<&Machine, VcFault> {
        self.vcenter(vcenter)?.inventory.machine(id).ok_or(VcFault::ManagedObjectNotFound(id))
    }

    /// The inventory name of an object; empty if the object does not exist.
    pub(super) fn name_of(&self, vcenter: &str, id: MoRef) -> String {
        self.vcenter(vcenter)
            .ok()
            .and_then(|vc| vc.inventory.get(id))
            .map(|entity| entity.name.clone())
            .unwrap_or_default()
    }

    /// The id that the next new object of this vCenter gets if it is of `kind`. Fails for an
    /// unknown vCenter.
    pub(super) fn next_id(&self, vcenter: &str, kind: Kind) -> Result<MoRef, VcFault> {
        Ok(MoRef::new(kind, self.vcenter(vcenter)?.last_number + 1))
    }
}
