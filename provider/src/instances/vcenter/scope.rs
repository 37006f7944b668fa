//! Selects the found machines that count: those in the datacenters that the configuration names.
//!
//! Searches cover the whole inventory, because one search is cheaper than one per datacenter; machines elsewhere are
//! dropped afterwards. While the configuration names all datacenters, or none, that takes no call: folders and
//! datacenters come with a read that is due anyway. Otherwise the ancestors of the found machines are read.

use std::{collections::BTreeMap, time::Duration};

use provider_vcenter::{CallError, FilterSpec, MoRef};
use tokio::time::Instant;

use super::{
    Shared,
    search::one_of,
    state::{Outcome, VcenterIndex},
};
use crate::{
    instances::{
        Ancestors,
        datacenters::{Listed, Tree, decode},
        zones,
    },
    model::MachineId,
};

/// First pause before a name that does not resolve is tried again; each next pause is twice as long. An answer may have
/// been empty by mistake, or a person may be creating the datacenter.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// Longest such pause.
const LAST_RETRY: Duration = Duration::from_secs(60);
/// Objects per call.
const CHUNK: usize = 1000;

/// Resolved datacenter names of the configuration, with the age of the answer.
#[derive(Clone, Debug)]
pub(super) struct Known {
    listed: Listed,
    read_at: Instant,
    /// Time for which the answer is reused.
    lasts: Duration,
}

/// Filter that drops machines elsewhere. The default one drops nothing.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    /// Machines that do not count, with the reason.
    outside: BTreeMap<MoRef, Outcome>,
    /// Names that do not resolve, if any.
    problem: Option<String>,
}

impl Sieve {
    /// Outcome of a search for `uuid` that found these machines.
    pub(super) fn choose(&self, shared: &Shared, uuid: MachineId, machines: &[MoRef]) -> Outcome {
        let is_inside = |machine: &&MoRef| !self.outside.contains_key(*machine);
        let inside: Vec<MoRef> = machines.iter().filter(is_inside).cloned().collect();
        match (inside.is_empty(), machines.first().and_then(|first| self.outside.get(first))) {
            (false, _) => one_of(shared, uuid, &inside),
            (true, Some(outcome)) => self.unless_problem(outcome.clone()),
            (true, None) => self.absent(),
        }
    }

    /// Outcome of a search that found nothing.
    pub(super) fn absent(&self) -> Outcome {
        self.unless_problem(Outcome::Absent)
    }

    /// True if a machine counts.
    pub(super) fn passes(&self, machine: &MoRef) -> bool {
        !self.outside.contains_key(machine)
    }

    /// As in upstream, a name that does not resolve takes precedence over "not found": the machine may be in that
    /// datacenter.
    fn unless_problem(&self, outcome: Outcome) -> Outcome {
        self.problem.clone().map_or(outcome, Outcome::Failed)
    }
}

/// Datacenters that are known without a call; `None` if the folders must be read first.
fn known(shared: &Shared, index: VcenterIndex) -> Option<Listed> {
    if shared.policy.datacenters[index].names.is_empty() {
        return Some(Listed { is_everything: true, ..Listed::default() });
    }
    let known = shared.lock().vcenters[index].scope.clone()?;
    (known.read_at.elapsed() < known.lasts).then_some(known.listed)
}

/// True if the next read should include folders and datacenters.
pub(super) fn wants_tree(shared: &Shared, index: VcenterIndex) -> bool {
    known(shared, index).is_none()
}

/// Datacenters that an inventory read can be limited to; `None` if the read must be whole.
pub(super) fn containers(shared: &Shared, index: VcenterIndex) -> Option<Vec<MoRef>> {
    let listed = known(shared, index).filter(|listed| !listed.is_everything)?;
    Some(listed.datacenters.into_iter().collect())
}

/// Resolves the names with the folders and datacenters of a read, and keeps the result.
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
        scope.replace(Known { listed: listed.clone(), read_at: Instant::now(), lasts })
    };
    if before.is_none_or(|known| known.listed != listed) {
        if let Some(problem) = &listed.problem {
            tracing::error!(problem = %problem, "configured datacenters not found");
        } else {
            let n_datacenters = listed.datacenters.len();
            let is_everything = listed.is_everything;
            tracing::info!(n_datacenters, is_everything, "configured datacenters resolved");
        }
    }
    listed
}

/// Returns a sieve without a call, for answers about machines that were not found at all.
pub(super) fn blind_sieve(shared: &Shared, index: VcenterIndex) -> Sieve {
    let problem = known(shared, index).and_then(|listed| listed.problem);
    Sieve { problem, ..Sieve::default() }
}

/// Returns a sieve for these machines.
///
/// # Errors
///
/// If a call fails.
pub(super) async fn sieve(
    shared: &Shared,
    index: VcenterIndex,
    machines: &[MoRef],
) -> Result<Sieve, CallError> {
    let client = &shared.vcenters[index].client;
    let listed = match known(shared, index) {
        Some(listed) => listed,
        None => {
            let root = client.session().await?.content.root_folder;
            let objects = client.retrieve(&FilterSpec::datacenters(root)).await?;
            learn(shared, index, &Tree::of(&objects))
        }
    };
    let mut sieve = Sieve { problem: listed.problem.clone(), ..Sieve::default() };
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
            Some(datacenter) => Outcome::Outside(format!(
                "its machine is in datacenter {:?}, which is not listed in {key}; add it there, or exclude the node",
                names[datacenter]
            )),
            None => Outcome::Failed(format!(
                "the login does not see in which datacenter its machine is; {key} needs that. Let the login read \
                 the folders above {machine}"
            )),
        };
        sieve.outside.insert(machine.clone(), outcome);
    }
    Ok(sieve)
}
