//! What a node is told about its machine, from what the collector shows of it.

use tokio::time::Instant;

use super::{
    Shared,
    machine::{ADDRESS_PATHS, PLACEMENT_PATHS, SIZE_PATHS},
    state::State,
};
use crate::{
    instances::{ZoneCategories, ZoneWanted, addresses, instance_type},
    model::{AddressOrder, MachineReference, Metadata, ProviderId, Unknown, parse_uuid},
    mutant::mutant,
};

impl Shared {
    /// The metadata of a node whose machine is shown; `None` when it is not. `wake_zones` gets the vCenter whose tags
    /// must be read first.
    pub(super) fn describe(
        &self,
        state: &mut State,
        name: &str,
        wanted: ZoneWanted,
        wake_zones: &mut Option<usize>,
    ) -> Option<Metadata> {
        let (link, machine) = Self::linked(state, name)?;
        let (link, machine) = (link.clone(), machine.clone());
        let active = self.policy.active;
        let unread = |prefixes: &[&str]| {
            let path = machine.unread_of(prefixes)?;
            Some(Unknown::Incomplete(format!("the vCenter cannot read {path} of its machine")))
        };
        let mut addresses = if let Some(why) = unread(ADDRESS_PATHS) {
            Err(why)
        } else if machine.tools_stopped {
            Err(Unknown::Incomplete("VMware Tools are not running in the guest".to_owned()))
        } else {
            addresses::select(
                &machine.guest,
                &self.policy.selection,
                &self.policy.families[link.vcenter],
            )
            .map_err(|err| Unknown::Incomplete(err.to_string()))
        };
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
                        vcenter.zone_wanted.insert(name.to_owned());
                        *wake_zones = Some(link.vcenter);
                        Err(Unknown::Pending)
                    }
                }
            }
            _ => Ok(None),
        };
        let zone = if self.policy.zones.is_none() { Ok(None) } else { zone };
        // Half a placement would miss the tags of its other half, and what is written with the zone stays.
        let zone = match (unread(PLACEMENT_PATHS).or_else(|| unread(SIZE_PATHS)), wanted) {
            (Some(why), ZoneWanted::Yes) => Err(why),
            _ => zone,
        };
        let instance_type = machine.guest_id.as_deref().map(|guest_id| {
            let (n_cpus, memory) = (machine.n_cpus.unwrap_or(0), machine.memory_mib.unwrap_or(0));
            instance_type::instance_type(guest_id, n_cpus, memory)
        });
        let instance = self.vcenters[link.vcenter].client.instance_uuid();
        let reference = instance
            .and_then(parse_uuid)
            .map(|vcenter| MachineReference { vcenter, machine: link.machine.id().to_owned() });
        Some(Metadata {
            provider_id: ProviderId(link.uuid).to_string(),
            order: AddressOrder::Any,
            reference,
            instance_type,
            addresses,
            zone,
        })
    }
}
