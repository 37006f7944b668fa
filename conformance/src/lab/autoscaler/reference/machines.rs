//! Groups and instances of the reference, in memory. Machines change with the time of the runtime.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::super::subject::{Act, Setting};
use super::flaw::Flaw;
use super::http::Status;

/// Time from the begin of a creation until the instance runs.
const BOOT: Duration = Duration::from_secs(10);
/// Time from the acceptance of a deletion until the machine is gone.
const DESTRUCTION: Duration = Duration::from_secs(3);
/// The same, when deletions are slow.
const SLOW_DESTRUCTION: Duration = Duration::from_secs(120);
/// Time for which a replacement of a failed instance waits.
const PAUSE: Duration = Duration::from_secs(30);

pub(super) const FAILED_PRECONDITION: i32 = 9;
pub(super) const INVALID_ARGUMENT: i32 = 3;
pub(super) const NOT_FOUND: i32 = 5;
pub(super) const RESOURCE_EXHAUSTED: i32 = 8;

/// A group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) id: &'static str,
    pub(super) min: i32,
    pub(super) max: i32,
    pub(super) has_gpu: bool,
    pub(super) overrides: Vec<Setting>,
}

/// Code and class of a creation that failed.
pub(super) type Failure = (&'static str, i32);

/// An instance.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) id: String,
    pub(super) group: &'static str,
    /// Begin of the creation; `None` while it is held.
    began: Option<Instant>,
    pub(super) failure: Option<Failure>,
    /// Acceptance of the deletion, and the time that it takes.
    deletion: Option<(Instant, Duration)>,
}

impl Machine {
    pub(super) fn is_deleting(&self) -> bool {
        self.deletion.is_some()
    }

    pub(super) fn runs(&self) -> bool {
        self.failure.is_none() && self.began.is_some_and(|it| it.elapsed() >= BOOT)
    }

    /// True if a machine exists that only a deletion removes.
    fn exists(&self) -> bool {
        self.failure.is_none() && self.began.is_some()
    }
}

/// Groups and instances.
#[derive(Clone, Debug)]
pub(super) struct Machines {
    pub(super) groups: Vec<Group>,
    all: Vec<Machine>,
    /// IDs of instances that are gone by a request.
    gone: BTreeSet<String>,
    n_created: u32,
    /// The act that concerns creations and deletions now.
    trouble: Option<Act>,
    pub(super) flaw: Option<Flaw>,
    /// Difference of the shown size from the number of instances, by group; only flaws set it.
    pub(super) excess: BTreeMap<&'static str, i32>,
}

impl Machines {
    pub(super) fn new(groups: Vec<Group>, flaw: Option<Flaw>) -> Self {
        let mut machines = Self {
            groups,
            all: Vec::new(),
            gone: BTreeSet::new(),
            n_created: 0,
            trouble: None,
            flaw,
            excess: BTreeMap::new(),
        };
        for group in machines.groups.clone() {
            machines.create(group.id, group.min);
        }
        machines
    }

    pub(super) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Removes the machines whose deletion has ended.
    pub(super) fn settle(&mut self) {
        let ended = |it: &Machine| it.deletion.is_some_and(|(at, time)| at.elapsed() >= time);
        self.gone.extend(self.all.iter().filter(|it| ended(it)).map(|it| it.id.clone()));
        self.all.retain(|it| !ended(it));
    }

    pub(super) fn group(&self, id: &str) -> Result<&Group, Status> {
        if id.is_empty() {
            return Err(Status::new(INVALID_ARGUMENT, "the request names no group"));
        }
        let unknown = || Status::new(NOT_FOUND, format!("no group has the ID {id}"));
        self.groups.iter().find(|it| it.id == id).ok_or_else(unknown)
    }

    pub(super) fn of(&self, group: &str) -> impl DoubleEndedIterator<Item = &Machine> {
        self.all.iter().filter(move |it| it.group == group)
    }

    pub(super) fn find(&self, id: &str) -> Option<&Machine> {
        self.all.iter().find(|it| it.id == id)
    }

    /// Returns the number of instances that count for the size.
    fn count(&self, group: &str) -> i32 {
        let n = self.of(group).filter(|it| !it.is_deleting()).count();
        i32::try_from(n).unwrap_or(i32::MAX)
    }

    pub(super) fn size(&self, group: &str) -> i32 {
        self.count(group) + self.excess.get(group).copied().unwrap_or_default()
    }

    /// Creates instances under the present trouble.
    pub(super) fn create(&mut self, group: &'static str, n: i32) {
        let failure = match self.trouble {
            Some(Act::ExhaustCapacity) => Some(("INSUFFICIENT_RESOURCES", 1)),
            Some(Act::BreakConfiguration) if self.has(Flaw::AlwaysCapacity) => {
                Some(("BAD_CONFIGURATION", 1))
            }
            Some(Act::BreakConfiguration) => Some(("BAD_CONFIGURATION", 99)),
            _ => None,
        };
        let is_held = self.trouble == Some(Act::HoldCreations);
        for _ in 0..n {
            self.n_created += 1;
            let id = format!("reference://{:06}", self.n_created);
            let began = (!is_held).then(Instant::now);
            self.all.push(Machine { id, group, began, failure, deletion: None });
        }
    }

    pub(super) fn increase(&mut self, id: &str, delta: i32) -> Result<(), Status> {
        let known = self.group(id).cloned();
        let group = match known {
            Err(_) if self.has(Flaw::IncreasesAnyGroup) => self.groups[0].clone(),
            known => known?,
        };
        if delta <= 0 && self.has(Flaw::AcceptsNoIncrease) {
            return Ok(());
        }
        if delta <= 0 {
            return Err(Status::new(INVALID_ARGUMENT, "delta is not above zero"));
        }
        let room = group.max - self.size(group.id);
        let delta = if self.has(Flaw::ClampsIncrease) { delta.min(room.max(0)) } else { delta };
        if delta > room {
            return Err(Status::new(FAILED_PRECONDITION, "the group would exceed its maximum"));
        }
        if self.trouble == Some(Act::RefuseCreations) {
            if self.has(Flaw::KeepsPartialIncrease) {
                self.create(group.id, delta - 1);
            }
            return Err(Status::new(RESOURCE_EXHAUSTED, "the platform has no room"));
        }
        self.create(group.id, delta);
        Ok(())
    }

    pub(super) fn decrease(&mut self, id: &str, delta: i32) -> Result<(), Status> {
        self.group(id)?;
        if delta >= 0 && self.has(Flaw::AcceptsNoDecrease) {
            return Ok(());
        }
        if delta >= 0 {
            return Err(Status::new(INVALID_ARGUMENT, "delta is not below zero"));
        }
        let may_give_up =
            |it: &&Machine| !it.is_deleting() && (!it.exists() || self.has(Flaw::DecreaseDeletes));
        let mut pending: Vec<&Machine> = self.of(id).rev().filter(may_give_up).collect();
        pending.sort_by_key(|it| it.failure.is_none());
        let n = delta.unsigned_abs() as usize;
        if pending.len() < n || self.has(Flaw::RefusesDecrease) {
            return Err(Status::new(FAILED_PRECONDITION, "existing machines would be deleted"));
        }
        let victims: Vec<String> = pending.iter().take(n).map(|it| it.id.clone()).collect();
        for victim in victims {
            self.remove(&victim);
        }
        Ok(())
    }

    /// Accepts the deletion of an instance.
    pub(super) fn remove(&mut self, id: &str) {
        let is_slow = self.trouble == Some(Act::SlowDeletions);
        let time = if is_slow { SLOW_DESTRUCTION } else { DESTRUCTION };
        let Some(machine) = self.all.iter_mut().find(|it| it.id == id) else { return };
        machine.deletion.get_or_insert((Instant::now(), time));
        let group = machine.group;
        if self.has(Flaw::DeleteKeepsSize) {
            *self.excess.entry(group).or_default() += 1;
        }
    }

    /// Deletes the instances with these IDs.
    pub(super) fn delete(&mut self, id: &str, nodes: &[String]) -> Result<(), Status> {
        let group = self.group(id)?.clone();
        if nodes.is_empty() && self.has(Flaw::EmptyDeleteFails) {
            return Err(Status::new(INVALID_ARGUMENT, "the request names no node"));
        }
        let victims = match self.victims(&group, nodes) {
            Ok(victims) => victims,
            Err((partial, status)) => {
                if self.has(Flaw::DeletesPartially) {
                    partial.iter().for_each(|it| self.remove(it));
                }
                return Err(status);
            }
        };
        let has_failed = |it: &&String| self.find(it).is_some_and(|it| it.failure.is_some());
        let failed = victims.iter().filter(has_failed).count();
        let usual = victims.len() - failed;
        let size = usize::try_from(self.size(group.id)).unwrap_or_default();
        let min = usize::try_from(group.min).unwrap_or_default();
        let strict = self.has(Flaw::KeepsFailuresAtMinimum);
        let counted = if strict { victims.len() } else { usual };
        if counted > 0 && size < min + counted && !self.has(Flaw::DeletesBelowMinimum) {
            return Err(Status::new(FAILED_PRECONDITION, "the group would fall below its minimum"));
        }
        let left = size.saturating_sub(victims.len());
        let replacements = min.saturating_sub(left).min(failed);
        for victim in self.chosen(&group, victims) {
            self.remove(&victim);
        }
        if self.has(Flaw::CountsDuplicates) {
            let distinct: BTreeSet<&String> = nodes.iter().collect();
            let n = i32::try_from(nodes.len() - distinct.len()).unwrap_or_default();
            *self.excess.entry(group.id).or_default() -= n;
        }
        self.replace(group.id, replacements);
        Ok(())
    }

    /// Creates instances that wait before their creation begins.
    fn replace(&mut self, group: &'static str, n: usize) {
        for _ in 0..n {
            self.create(group, 1);
            if let Some(machine) = self.all.last_mut() {
                machine.began = machine.began.map(|it| it + PAUSE);
                machine.failure = None;
            }
        }
    }

    fn chosen(&self, group: &Group, victims: Vec<String>) -> Vec<String> {
        if !self.has(Flaw::DeletesAnother) {
            return victims;
        }
        let live = self.of(group.id).rev().filter(|it| !it.is_deleting());
        live.take(victims.len()).map(|it| it.id.clone()).collect()
    }

    /// Returns the instances of the group that the nodes name and that are not being deleted; on
    /// failure those before the first wrong node.
    fn victims(
        &mut self,
        group: &Group,
        nodes: &[String],
    ) -> Result<Vec<String>, (Vec<String>, Status)> {
        let mut victims: Vec<String> = Vec::new();
        for id in nodes {
            let is_known = self.gone.contains(id)
                || self.find(id).is_some_and(|it| it.is_deleting() && it.group == group.id);
            if is_known {
                self.repeated(group.id).map_err(|status| (victims.clone(), status))?;
                continue;
            }
            match self.find(id) {
                Some(it) if it.group == group.id || self.has(Flaw::DeletesOfOtherGroups) => {
                    if !victims.contains(id) {
                        victims.push(id.clone());
                    }
                }
                Some(_) => {
                    let status = Status::new(FAILED_PRECONDITION, "a node is of another group");
                    return Err((victims, status));
                }
                None => {
                    let status = Status::new(NOT_FOUND, format!("no instance has the ID {id}"));
                    return Err((victims, status));
                }
            }
        }
        Ok(victims)
    }

    /// Meets a node whose deletion was accepted before.
    fn repeated(&mut self, group: &'static str) -> Result<(), Status> {
        match self.flaw {
            Some(Flaw::RepeatedDeleteFails) => {
                Err(Status::new(NOT_FOUND, "the instance is gone already"))
            }
            Some(Flaw::RepeatedDeleteCounts | Flaw::CountsCancelledTwice) => {
                *self.excess.entry(group).or_default() -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Carries out an act that concerns creations and deletions.
    pub(super) fn meet(&mut self, act: &Act) {
        match act {
            Act::Release => {
                self.trouble = None;
                for it in self.all.iter_mut().filter(|it| it.failure.is_none()) {
                    it.began.get_or_insert_with(Instant::now);
                }
            }
            Act::DestroyMachine(id) if !self.has(Flaw::KeepsGhosts) => {
                self.all.retain(|it| it.id != *id);
            }
            Act::DestroyMachine(_) => {}
            other => self.trouble = Some(other.clone()),
        }
    }

    /// Forgets all deletions.
    pub(super) fn revive(&mut self) {
        self.all.iter_mut().for_each(|it| it.deletion = None);
    }

    /// Gives the instances that run other IDs.
    pub(super) fn rename_running(&mut self) {
        for it in self.all.iter_mut().filter(|it| it.runs() && !it.id.ends_with("-up")) {
            it.id.push_str("-up");
        }
    }

    /// Removes all instances without a deletion.
    pub(super) fn clear(&mut self) {
        self.all.clear();
    }
}
