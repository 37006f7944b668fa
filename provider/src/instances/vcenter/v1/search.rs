//! Finds a machine: searches one vCenter after the other, datacenter by datacenter, and stops at
//! the first vCenter that has the machine.
//!
//! If several datacenters have a matching machine, upstream takes the one that answered last, and
//! this backend takes none. A failed read of properties does not count as absence.

use std::time::Duration;

use provider_vcenter::{CallError, Chain, FilterSpec, MoRef};

use super::{Shared, datacenters, full_properties};
use crate::{
    instances::vcenter::state::{VcenterIndex, machine::Machine},
    model::{MachineId, Unknown, swap_byte_order},
};

/// Maximum number of attempts to connect to a vCenter before a search in it.
const ATTEMPTS: u32 = 3;
/// Pause after each failed attempt to connect.
const PAUSE: Duration = Duration::from_secs(1);

/// Search key of a machine.
#[derive(Clone, Copy, Debug)]
enum By<'a> {
    Uuid(MachineId),
    DnsName(&'a str),
    Address(&'a str),
}

/// A machine that was found, with its properties.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub vcenter: VcenterIndex,
    pub reference: MoRef,
    pub uuid: MachineId,
    pub machine: Machine,
}

fn unavailable(err: &CallError) -> Unknown {
    Unknown::Unavailable(Chain(err).to_string())
}

impl Shared {
    /// Finds the machine with this UUID in either byte order, and reads it. Returns `None` if every
    /// vCenter answered that its configured datacenters have none.
    pub(super) async fn discover_by_uuid(&self, uuid: MachineId) -> Result<Option<Found>, Unknown> {
        for uuid in [uuid, swap_byte_order(uuid)] {
            if let Some(found) = self.search(By::Uuid(uuid)).await? {
                return self.described(found).await.map(Some);
            }
        }
        Ok(None)
    }

    /// Finds the machine whose guest has this DNS name or this address, and reads it; `None` as in
    /// [`Self::discover_by_uuid`].
    pub(super) async fn discover_by_name(&self, name: &str) -> Result<Option<Found>, Unknown> {
        let name = name.trim().to_lowercase();
        for by in [By::DnsName(&name), By::Address(&name)] {
            if let Some(found) = self.search(by).await? {
                return self.described(found).await.map(Some);
            }
        }
        Ok(None)
    }

    /// Reads the properties of the machine a second time, as upstream does.
    async fn described(&self, found: Found) -> Result<Found, Unknown> {
        let client = &self.vcenters[found.vcenter];
        let machine = read(client, &found.reference, full_properties::DESCRIBED).await?;
        Ok(Found { machine, ..found })
    }

    /// Searches one vCenter after the other, up to the first one that has the machine; `None` if
    /// every vCenter answered that its configured datacenters have no such machine. Returns an
    /// error if several machines of one vCenter match, or if no search found the machine and some
    /// search failed or left out a datacenter.
    async fn search(&self, by: By<'_>) -> Result<Option<Found>, Unknown> {
        let mut trouble = None;
        for index in self.vcenters.indexes() {
            let mut found = Vec::new();
            let visit = self.visit(index, by, &mut found, &mut trouble).await;
            self.lock().is_well[index] = visit.is_ok();
            if let Err(why) = visit {
                tracing::warn!(vcenter = self.vcenters[index].name().as_str(), reason = %why, "connecting to a vCenter failed; searching the next vCenter, if any");
                trouble = Some(why);
            }
            match found.len() {
                0 => {}
                1 => return Ok(found.pop()),
                n => return Err(Unknown::Ambiguous(format!("{n} machines match {by:?}"))),
            }
        }
        // A vCenter or datacenter that could not be searched may have the machine.
        trouble.map_or(Ok(None), Err)
    }

    /// Searches the datacenters of one vCenter, and adds the machines to `found`. Returns an error
    /// if it cannot connect to the vCenter. Stores any other problem in `trouble` and continues.
    async fn visit(
        &self,
        index: VcenterIndex,
        by: By<'_>,
        found: &mut Vec<Found>,
        trouble: &mut Option<Unknown>,
    ) -> Result<(), Unknown> {
        let client = &self.vcenters[index];
        self.connect(index).await.map_err(|err| unavailable(&err))?;
        let wanted = &self.policy.datacenters[index];
        let resolved = datacenters::resolve(client, &wanted.names).await;
        self.lock().is_narrowed[index] = resolved.is_narrowed;
        for problem in resolved.problems {
            *trouble = Some(Unknown::Unavailable(format!("{}: {problem}", wanted.key)));
        }
        for datacenter in resolved.datacenters {
            let machines = match by {
                By::Uuid(uuid) => {
                    let text = uuid.hyphenated().to_string();
                    client.find_by_uuid(&datacenter, &text).await.map(Vec::from_iter)
                }
                By::DnsName(name) => client.find_all_by_dns_name_in(&datacenter, name).await,
                By::Address(address) => {
                    client.find_by_ip(&datacenter, address).await.map(Vec::from_iter)
                }
            };
            let machines = match machines {
                Ok(machines) => machines,
                Err(err) => {
                    *trouble = Some(unavailable(&err));
                    continue;
                }
            };
            if machines.len() > 1 {
                let why = format!("{} machines match {by:?}", machines.len());
                *trouble = Some(Unknown::Ambiguous(why));
                continue;
            }
            for reference in machines {
                match read(client, &reference, full_properties::FOUND).await {
                    Ok(machine) => match machine.uuid {
                        // A server that ignores the datacenter finds the same machine again.
                        Some(_) if found.iter().any(|it| it.reference == reference) => {}
                        Some(uuid) => {
                            found.push(Found { vcenter: index, reference, uuid, machine });
                        }
                        None => {
                            let why = "the node's machine has no UUID".to_owned();
                            *trouble = Some(Unknown::Incomplete(why));
                        }
                    },
                    Err(why) => *trouble = Some(why),
                }
            }
        }
        Ok(())
    }

    /// Makes sure that a session exists, with up to [`ATTEMPTS`] tries.
    async fn connect(&self, index: VcenterIndex) -> Result<(), CallError> {
        let mut n_failed = 0;
        loop {
            match self.vcenters[index].connect().await {
                Ok(()) => return Ok(()),
                Err(err) => {
                    n_failed += 1;
                    // Upstream also pauses after the last failure.
                    tokio::time::sleep(PAUSE).await;
                    if n_failed >= ATTEMPTS {
                        return Err(err);
                    }
                }
            }
        }
    }
}

/// Reads these properties of a machine.
async fn read(
    client: &provider_vcenter::Vcenter,
    machine: &MoRef,
    paths: &[&str],
) -> Result<Machine, Unknown> {
    let spec = FilterSpec::of_objects("VirtualMachine", paths, vec![machine.clone()]);
    let objects = client.retrieve(&spec).await.map_err(|err| unavailable(&err))?;
    let object = objects.first();
    let object = object.ok_or_else(|| {
        Unknown::Unavailable(
            "a search finds the node's machine, but this login cannot read it; let the login read \
             it"
            .to_owned(),
        )
    })?;
    Ok(full_properties::machine(object))
}
