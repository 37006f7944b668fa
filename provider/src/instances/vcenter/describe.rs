//! Builds the metadata of a node from the properties of its machine that the collector has
//! delivered or a read has returned.

use tokio::time::Instant;

use super::{
    Policy, Shared,
    state::{
        State, VcenterIndex,
        machine::{ADDRESS_PATHS, Machine, PLACEMENT_PATHS, SIZE_PATHS},
    },
};
use crate::{
    instances::{ZoneCategories, ZoneWanted, addresses, instance_type},
    model::{
        Address, AddressOrder, MachineReference, Metadata, NodeName, ProviderId, Unknown,
        parse_uuid,
    },
    mutant::mutant,
};

/// Returns an error if vCenter could not read a property whose path begins with one of these
/// prefixes.
fn readable(machine: &Machine, prefixes: &[&str]) -> Result<(), Unknown> {
    match machine.unread_of(prefixes) {
        Some((path, why)) => Err(Unknown::Incomplete(format!(
            "the vCenter did not return {path} of the node's machine: {why}"
        ))),
        None => Ok(()),
    }
}

/// Returns the addresses to publish for a machine in this vCenter, or the reason why none can be
/// published.
pub(super) fn addresses(
    policy: &Policy,
    vcenter: VcenterIndex,
    machine: &Machine,
) -> Result<Vec<Address>, Unknown> {
    readable(machine, ADDRESS_PATHS)?;
    if machine.tools_stopped {
        let why = "VMware Tools are not running in the guest";
        return Err(Unknown::Incomplete(why.to_owned()));
    }
    addresses::select(&machine.guest, &policy.selection, &policy.families[vcenter])
        .map_err(|err| Unknown::Incomplete(err.to_string()))
}

/// Returns `zone`, or an error if vCenter could not read a property that the placement or the
/// instance type depends on. An incomplete placement would miss tags. The provider writes the
/// labels of zone and instance type together and never changes them, so both must be complete.
pub(super) fn zone_if_whole<T>(machine: &Machine, zone: Result<T, Unknown>) -> Result<T, Unknown> {
    readable(machine, PLACEMENT_PATHS).and_then(|()| readable(machine, SIZE_PATHS))?;
    zone
}

/// Returns the value of the instance type labels; `None` until the machine reports its guest id. An
/// unknown number of CPUs or amount of memory counts as 0.
pub(super) fn instance_type(machine: &Machine) -> Option<String> {
    machine.guest_id.as_deref().map(|guest_id| {
        let (n_cpus, memory) = (machine.n_cpus.unwrap_or(0), machine.memory_mib.unwrap_or(0));
        instance_type::instance_type(guest_id, n_cpus, memory)
    })
}

impl Shared {
    /// Builds the metadata of a node; `None` if the node has no link, or if the collector does not
    /// show the linked machine under the UUID of the link. The zone is `Ok(None)` if `wanted`
    /// requests none. If the zone reader must read tags first, the zone is `Pending`, and
    /// `wake_zones` gets the index of the vCenter whose zone reader the caller must wake.
    pub(super) fn describe(
        &self,
        state: &mut State,
        name: &NodeName,
        wanted: ZoneWanted,
        wake_zones: &mut Option<VcenterIndex>,
    ) -> Option<Metadata> {
        let (link, machine) = Self::link_and_machine(state, name)?;
        let (link, machine) = (link.clone(), machine.clone());
        let active = self.policy.active;
        let mut addresses = addresses(&self.policy, link.vcenter, &machine);
        if mutant!(active, EmptyClearsAddresses) && addresses.is_err() {
            addresses = Ok(Vec::new());
        }
        let categories = self.policy.zones.clone().or_else(|| {
            mutant!(active, ZonesWhenOff).then(|| ZoneCategories {
                zone: "k8s-zone".to_owned(),
                region: "k8s-region".to_owned(),
            })
        });
        let zone = match (&categories, wanted) {
            (Some(categories), ZoneWanted::Yes) => {
                let vcenter = &mut state.vcenters[link.vcenter];
                let placement = machine.placement(&link.machine);
                let now = Instant::now();
                match vcenter.zones.answer(&placement, categories, now, &self.tuning) {
                    Some(answer) => answer.map(Some),
                    None => {
                        vcenter.zone_wanted.insert(name.clone());
                        *wake_zones = Some(link.vcenter);
                        Err(Unknown::Pending)
                    }
                }
            }
            _ => Ok(None),
        };
        let zone = if self.policy.zones.is_none() { Ok(None) } else { zone };
        let zone = match wanted {
            ZoneWanted::Yes => zone_if_whole(&machine, zone),
            ZoneWanted::No => zone,
        };
        let instance = self.vcenters[link.vcenter].client.instance_uuid();
        let reference = instance
            .and_then(parse_uuid)
            .map(|vcenter| MachineReference { vcenter, machine: link.machine.id().to_owned() });
        Some(Metadata {
            provider_id: ProviderId(link.uuid).to_string(),
            order: AddressOrder::Any,
            reference,
            instance_type: instance_type(&machine),
            addresses,
            zone,
        })
    }
}

#[cfg(test)]
mod tests {
    use provider_vcenter::{Fault, FaultKind};

    use super::*;

    #[test]
    fn the_reason_for_missing_addresses_names_the_fault_of_the_vcenter() {
        let fault = Fault { kind: FaultKind::SystemError, message: "disk lost".to_owned() };
        let machine = Machine::entering(&[], &[("guest".to_owned(), fault)], None);
        let why = "the vCenter did not return guest.hostName of the node's machine: \
                   fault SystemError: disk lost";
        assert_eq!(readable(&machine, ADDRESS_PATHS), Err(Unknown::Incomplete(why.to_owned())));
    }
}
