//! Drops machines outside the datacenters that the configuration names.
//!
//! Searches cover the whole inventory, because one search is cheaper than one per datacenter. A
//! [`DatacenterFilter`] then drops the machines in other datacenters. If the configuration names no
//! datacenter, the filter takes no additional call. Otherwise the provider resolves the names with
//! the folders and datacenters, which come with a read that is due anyway or take one call. If the
//! vCenter has further datacenters, the provider also reads the ancestors of the found machines.

use std::{collections::BTreeMap, time::Duration};

use provider_vcenter::{CallError, FilterSpec, MoRef};
use tokio::time::Instant;

use crate::{
    instances::{
        Ancestors,
        datacenters::{Listed, Tree, decode},
        vcenter::{
            Shared,
            state::{VcenterAnswer, VcenterIndex},
        },
        zones,
    },
    model::MachineId,
    mutant::mutant,
};

/// First pause before the provider tries again to resolve a configured name. Each further pause is
/// twice as long, up to [`LAST_RETRY`]. The first answer may have been empty by mistake, or a
/// person may be creating the datacenter.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// Longest pause before the provider tries again to resolve a configured name.
const LAST_RETRY: Duration = Duration::from_secs(60);
/// Maximum number of machines whose ancestors one call reads.
const CHUNK: usize = 1000;

/// Resolved datacenter names of the configuration, with the time of the read.
#[derive(Clone, Debug)]
pub(in crate::instances::vcenter) struct ResolvedDatacenters {
    listed: Listed,
    read_at: Instant,
    /// Time after `read_at` for which the result is reused.
    lasts: Duration,
}

/// Filter that drops machines outside the configured datacenters. The default filter drops nothing.
#[derive(Debug, Default)]
pub(super) struct DatacenterFilter {
    /// Dropped machines, each with the outcome of a search that finds it.
    outside: BTreeMap<MoRef, VcenterAnswer>,
    /// Message about names that do not resolve, if any.
    problem: Option<String>,
}

impl DatacenterFilter {
    /// Returns the outcome of a search for `uuid` that found these machines: a hit if the filter
    /// lets one pass, `Ambiguous` if it lets several pass. If the filter drops all of them, the
    /// outcome says why, or is `Failed` if a configured name does not resolve.
    pub(super) fn choose(
        &self,
        shared: &Shared,
        uuid: MachineId,
        machines: &[MoRef],
    ) -> VcenterAnswer {
        let is_inside = |machine: &&MoRef| !self.outside.contains_key(*machine);
        let inside: Vec<MoRef> = machines.iter().filter(is_inside).cloned().collect();
        match (inside.is_empty(), machines.first().and_then(|first| self.outside.get(first))) {
            (false, _) => one_of(shared, uuid, &inside),
            (true, Some(outcome)) => self.unless_problem(outcome.clone()),
            (true, None) => self.absent(),
        }
    }

    /// Returns the outcome of a search that found no machine: `Absent`, or `Failed` if a configured
    /// name does not resolve.
    pub(super) fn absent(&self) -> VcenterAnswer {
        self.unless_problem(VcenterAnswer::Absent)
    }

    /// True if the filter does not drop the machine.
    pub(super) fn passes(&self, machine: &MoRef) -> bool {
        !self.outside.contains_key(machine)
    }

    /// Returns `outcome`, or a failure if a configured name does not resolve. As in upstream, that
    /// problem takes precedence over "not found", because the machine may be in the datacenter of
    /// that name.
    fn unless_problem(&self, outcome: VcenterAnswer) -> VcenterAnswer {
        self.problem.clone().map_or(outcome, VcenterAnswer::Failed)
    }
}

/// Returns the resolved datacenters without a call; `None` if the provider must read the folders
/// first.
fn known_datacenters(shared: &Shared, index: VcenterIndex) -> Option<Listed> {
    if shared.policy.datacenters[index].names.is_empty() {
        return Some(Listed { is_everything: true, ..Listed::default() });
    }
    let known = shared.lock().vcenters[index].scope.clone()?;
    (known.read_at.elapsed() < known.lasts).then_some(known.listed)
}

/// True if the next read should include folders and datacenters, because the provider has not
/// resolved the names yet or must resolve them again.
pub(super) fn wants_tree(shared: &Shared, index: VcenterIndex) -> bool {
    known_datacenters(shared, index).is_none()
}

/// Returns the datacenters that an inventory read can be limited to; `None` if it must read the
/// whole inventory.
pub(super) fn containers(shared: &Shared, index: VcenterIndex) -> Option<Vec<MoRef>> {
    let listed = known_datacenters(shared, index).filter(|listed| !listed.is_everything)?;
    Some(listed.datacenters.into_iter().collect())
}

/// Resolves the configured names with the folders and datacenters of a read, stores the result, and
/// logs it if it differs from the previous one.
pub(super) fn learn(shared: &Shared, index: VcenterIndex, tree: &Tree) -> Listed {
    let wanted = &shared.policy.datacenters[index];
    let listed = wanted.among(tree);
    let before = {
        let scope = &mut shared.lock().vcenters[index].scope;
        let lasts = match (&listed.problem, &*scope) {
            (None, _) => shared.tuning.zone_ttl,
            (Some(_), Some(known)) if known.listed.problem.is_some() => {
                LAST_RETRY.min(2 * known.lasts)
            }
            (Some(_), _) => FIRST_RETRY,
        };
        scope.replace(ResolvedDatacenters {
            listed: listed.clone(),
            read_at: Instant::now(),
            lasts,
        })
    };
    if before.is_none_or(|known| known.listed != listed) {
        if let Some(problem) = &listed.problem {
            tracing::error!(problem = %problem, "a configured name does not match exactly one datacenter in vCenter; retrying");
        } else {
            let n_datacenters = listed.datacenters.len();
            let is_everything = listed.is_everything;
            tracing::info!(
                n_datacenters,
                is_everything,
                "found the configured datacenters in vCenter"
            );
        }
    }
    listed
}

/// Returns a filter without a call, for searches that found no machine or covered only the
/// configured datacenters. The filter drops nothing, and only knows the problem of names that do
/// not resolve.
pub(super) fn blind_sieve(shared: &Shared, index: VcenterIndex) -> DatacenterFilter {
    let problem = known_datacenters(shared, index).and_then(|listed| listed.problem);
    DatacenterFilter { problem, ..DatacenterFilter::default() }
}

/// Returns a filter for these machines. Reads folders, datacenters and ancestors where they are
/// needed.
///
/// # Errors
///
/// If a call fails.
pub(super) async fn sieve(
    shared: &Shared,
    index: VcenterIndex,
    machines: &[MoRef],
) -> Result<DatacenterFilter, CallError> {
    let client = &shared.vcenters[index].client;
    let listed = match known_datacenters(shared, index) {
        Some(listed) => listed,
        None => {
            let root = client.session().await?.content.root_folder;
            let objects = client.retrieve(&FilterSpec::datacenters(root)).await?;
            learn(shared, index, &Tree::of(&objects))
        }
    };
    let mut sieve =
        DatacenterFilter { problem: listed.problem.clone(), ..DatacenterFilter::default() };
    if listed.is_everything || machines.is_empty() {
        return Ok(sieve);
    }
    let (mut ancestors, mut names) = (Ancestors::new(), BTreeMap::new());
    for chunk in machines.chunks(CHUNK) {
        let spec = FilterSpec::ancestors(chunk.to_vec()).tolerating_missing();
        for object in client.retrieve(&spec).await? {
            let parent = object.reference("parent").or_else(|| object.reference("parentVApp"));
            names.insert(object.object.clone(), decode(object.text("name").unwrap_or_default()));
            ancestors.insert(object.object, parent);
        }
    }
    let key = &shared.policy.datacenters[index].key;
    for machine in machines {
        let path = zones::path_up(machine, &ancestors).objects;
        let outcome = match path.iter().find(|object| object.kind() == "Datacenter") {
            Some(datacenter) if listed.datacenters.contains(datacenter) => continue,
            Some(datacenter) => VcenterAnswer::Outside(format!(
                "the node's machine is in datacenter {:?}, which is not listed in {key}; add it there, or move the machine",
                names[datacenter]
            )),
            None => VcenterAnswer::Failed(format!(
                "the login cannot see the datacenter of the node's machine, which {key} requires. Let the login read \
                 the folders above {machine}"
            )),
        };
        sieve.outside.insert(machine.clone(), outcome);
    }
    Ok(sieve)
}

/// Returns the hit if exactly one machine has this UUID; `Ambiguous` if several have it.
fn one_of(shared: &Shared, uuid: MachineId, machines: &[MoRef]) -> VcenterAnswer {
    match machines {
        [machine] => VcenterAnswer::Hit(machine.clone(), uuid),
        [first, ..] if mutant!(shared.policy.active, GuessDuplicates) => {
            VcenterAnswer::Hit(first.clone(), uuid)
        }
        several => {
            VcenterAnswer::Ambiguous(format!("{} machines have the UUID {uuid}", several.len()))
        }
    }
}
