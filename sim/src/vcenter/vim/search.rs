//! SearchIndex: finds machines and hosts by UUID and DNS name, machines by address, and inventory
//! objects by path or parent. Searches use the indexes of the inventory.
//!
//! A search omits objects that the caller may not see, and returns an empty answer, not a fault, if
//! no object is left. A lost permission thus looks like a deleted machine, as on a real server.

use std::net::IpAddr;

use sim_world::vcenter::{Kind, MoRef, VCenter};
use uuid::Uuid;

use super::operations::{Answer, Caller, Failure, Vim};
use super::properties::Reader;
use crate::call::operations::soap::Operation as Op;
use crate::faults::Effects;
use crate::shared_world::Locked;
use crate::vcenter::vim::data::{Node, Value, VimFault};

/// One search: the inventory as the caller sees it, the effects of rules, and the arguments.
struct Search<'a> {
    reader: Reader<'a>,
    effects: &'a Effects,
    arguments: &'a Node,
}

impl Vim {
    pub(super) fn search(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        operation: Op,
        arguments: &Node,
        effects: &Effects,
    ) -> Result<Answer, Failure> {
        let reader = self.reader(world, caller);
        Ok(Search { reader, effects, arguments }.answer(operation)?.into())
    }
}

impl Search<'_> {
    /// `FindByUuid` and `FindAllByUuid`: machines by BIOS UUID (by instance UUID if `instanceUuid`
    /// is true), or hosts by hardware UUID (`vmSearch` chooses). An empty text is an
    /// `InvalidArgument`; any other text that is not a UUID finds nothing.
    fn by_uuid(&self) -> Result<Vec<MoRef>, VimFault> {
        let text = self.arguments.required("uuid")?;
        if text.is_empty() {
            return Err(VimFault::invalid_argument("uuid"));
        }
        let Ok(uuid) = Uuid::try_parse(text) else { return Ok(Vec::new()) };
        let inventory = &self.reader.vc.inventory;
        let instance = self.arguments.flag("instanceUuid")?.unwrap_or(false);
        Ok(if !self.for_machines()? {
            self.found(inventory.by_hardware_uuid(uuid))
        } else if instance {
            self.found(inventory.by_instance_uuid(uuid))
        } else {
            self.found(inventory.by_bios_uuid(uuid))
        })
    }

    /// `FindByDnsName` and `FindAllByDnsName`: machines whose guest reports the host name, or hosts
    /// of this name (`vmSearch` chooses), regardless of case.
    fn by_dns_name(&self) -> Result<Vec<MoRef>, VimFault> {
        let name = self.arguments.required("dnsName")?;
        let machines = self.for_machines()?;
        let kind = if machines { Kind::Machine } else { Kind::Host };
        let found = self.reader.vc.inventory.by_dns_name(name);
        Ok(self.found(found.filter(|id| id.kind == kind)))
    }

    /// `FindByIp` and `FindAllByIp`: machines whose guest reports the address. Text that is not an
    /// address finds nothing, and so does a search for hosts (`vmSearch` is false).
    fn by_ip(&self) -> Result<Vec<MoRef>, VimFault> {
        let text = self.arguments.required("ip")?;
        let Ok(address) = text.parse::<IpAddr>() else { return Ok(Vec::new()) };
        if !self.for_machines()? {
            return Ok(Vec::new());
        }
        Ok(self.found(self.reader.vc.inventory.by_address(address)))
    }

    /// `FindByInventoryPath`: names from below the root folder, separated by slashes. An empty path
    /// finds the root folder. Returns `None` if no visible object has the path.
    fn by_inventory_path(&self) -> Result<Option<MoRef>, VimFault> {
        let path = self.arguments.required("inventoryPath")?;
        let vc = self.reader.vc;
        let mut at = Some(vc.root());
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = at.and_then(|parent| child(vc, parent, name));
        }
        Ok(at.filter(|id| *id != vc.root() || path.is_empty()).filter(|id| self.shows(*id)))
    }

    /// `FindChild`: the child of an inventory object by the name of the child; `None` if no visible
    /// child has the name. Fails with `ManagedObjectNotFound` if the inventory object does not
    /// exist.
    fn child(&self) -> Result<Option<MoRef>, VimFault> {
        let parent = self.arguments.child("entity").map(|entity| entity.text.as_str());
        let parent = parent.ok_or_else(|| VimFault::invalid_argument("entity"))?;
        let vc = self.reader.vc;
        let parent = MoRef::parse(parent)
            .filter(|id| vc.inventory.get(*id).is_some())
            .ok_or_else(|| VimFault::not_found("ManagedEntity", parent))?;
        let name = self.arguments.required("name")?;
        Ok(child(vc, parent, name).filter(|id| self.shows(*id)))
    }

    fn answer(&self, operation: Op) -> Result<Option<Value>, VimFault> {
        Ok(match operation {
            Op::FindByUuid => first(self.by_uuid()?),
            Op::FindAllByUuid => all(self.by_uuid()?),
            Op::FindByDnsName => first(self.by_dns_name()?),
            Op::FindAllByDnsName => all(self.by_dns_name()?),
            Op::FindByIp => first(self.by_ip()?),
            Op::FindAllByIp => all(self.by_ip()?),
            Op::FindByInventoryPath => first(self.by_inventory_path()?),
            Op::FindChild => first(self.child()?),
            other => return Err(VimFault::not_supported("SearchIndex", other.name())),
        })
    }

    fn for_machines(&self) -> Result<bool, VimFault> {
        self.arguments.flag("vmSearch")?.ok_or_else(|| VimFault::invalid_argument("vmSearch"))
    }

    fn found(&self, candidates: impl Iterator<Item = MoRef>) -> Vec<MoRef> {
        if self.effects.empty_result {
            return Vec::new();
        }
        let datacenter = self.arguments.child("datacenter").map(|it| it.text.as_str());
        let below = |id: &MoRef| match datacenter {
            None => true,
            Some(wanted) => {
                let datacenter = self.reader.vc.inventory.datacenter_of(*id);
                datacenter.is_some_and(|it| it.to_string() == wanted)
            }
        };
        candidates.filter(below).filter(|id| self.shows(*id)).collect()
    }

    fn shows(&self, id: MoRef) -> bool {
        !self.effects.empty_result
            && self.reader.sees(id)
            && !self.effects.hides_object(self.reader.vc, id)
    }
}

/// Returns the child of `parent` by its name as written in paths, which percent-encode `/`, `\` and
/// `%` (in lower case). Returns `None` if no child has the name.
fn child(vc: &VCenter, parent: MoRef, name: &str) -> Option<MoRef> {
    let name = name.replace("%2f", "/").replace("%5c", "\\").replace("%25", "%");
    vc.inventory.child(parent, &name)
}

/// Returns the answer of a search for one object: the first one found, or `None`, which becomes an
/// empty answer.
fn first(found: impl IntoIterator<Item = MoRef>) -> Option<Value> {
    found.into_iter().next().map(Value::from)
}

/// Returns the answer of a search for all objects: their list, or `None` for an empty list, which
/// becomes an empty answer.
fn all(found: Vec<MoRef>) -> Option<Value> {
    (!found.is_empty()).then(|| Value::refs(found))
}
