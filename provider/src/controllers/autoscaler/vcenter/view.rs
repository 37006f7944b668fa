//! The view of the machines: read from the folders of the groups at an interval, with a number of
//! calls that depends on the folders and not on the machines.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use provider_vcenter::{CallError, Chain, FilterSpec, InventoryExtent, MoRef};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    super::group::{Group, GroupId, Shape},
    VcenterMachines,
    journal::{Intent, IntentState, Journal, mark},
    machine::{Detail, OF_CHANGE, OF_VIEW, Seen},
    source::{self, Unresolved},
    state::{State, Stray},
};

/// Interval between two views.
const EVERY: Duration = Duration::from_secs(10);
/// Age from which the objects of the groups are read again.
const SOURCES: Duration = Duration::from_secs(60);
/// Number of views in a row without a machine, after which a search decides whether it is gone.
const MISSED: u32 = 2;

impl VcenterMachines {
    /// Keeps the view current, until the stop.
    pub(super) async fn follow(&self, stop: &CancellationToken) {
        let mut sources_at: Option<Instant> = None;
        while !stop.is_cancelled() {
            if self.state().groups.is_empty() {
                self.view_nothing().await;
                self.pause(stop).await;
                continue;
            }
            let is_stale = sources_at.is_none_or(|at| at.elapsed() >= SOURCES);
            if is_stale {
                sources_at = Some(Instant::now());
                self.resolve(|_| true).await;
            } else {
                self.resolve(|group| self.lacks_source(group)).await;
            }
            let result = self.refresh().await;
            if let Err(err) = &result {
                tracing::warn!(error = %Chain(err), "reading the machines failed; retrying");
            }
            self.0.wake.notify_one();
            self.pause(stop).await;
        }
    }

    /// Takes the view without groups, which has no machines. It is current if the vCenter answers.
    async fn view_nothing(&self) {
        let began = Instant::now();
        let result = self.0.vcenter.session().await.map(drop);
        match result {
            Ok(()) => self.state().view_without_groups(began),
            Err(err) => {
                tracing::warn!(error = %Chain(&err), "there are no groups, and the vCenter does not answer; retrying");
            }
        }
    }

    /// Waits for the time of the next view.
    async fn pause(&self, stop: &CancellationToken) {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = self.0.look_again.notified() => {}
            () = stop.cancelled() => {}
        }
    }

    /// True if the objects of a group have not been read, because the group is new or a call failed.
    fn lacks_source(&self, group: &Group) -> bool {
        let state = self.state();
        !matches!(state.sources.get(&group.name), Some(Ok(_) | Err(Unresolved::Wrong(_))))
    }

    /// Finds the objects that these groups name. After a failed call the known ones stay.
    pub(super) async fn resolve(&self, is_due: impl Fn(&Group) -> bool) {
        let mut groups: Vec<Arc<Group>> = self.state().groups.values().cloned().collect();
        groups.retain(|group| is_due(group));
        for group in groups {
            let Shape::Clone(shape) = &group.shape else { continue };
            let folder = source::folder(&self.0.vcenter, shape).await;
            let source = match &folder {
                Ok(folder) => source::resolve(&self.0.vcenter, shape, folder).await,
                Err(err) => Err(err.clone()),
            };
            if let Err(err) = &source {
                tracing::warn!(group = %group.id, error = %err.message(), "an object of the group cannot be used");
            }
            let mut state = self.state();
            keep(&mut state.folders, &group.name, folder);
            keep(&mut state.sources, &group.name, source);
        }
    }

    /// Reads the machines once.
    async fn refresh(&self) -> Result<(), CallError> {
        let began = Instant::now();
        let names: BTreeSet<String> = self.state().groups.keys().cloned().collect();
        let Some(folders) = self.folders() else { return Ok(()) };
        let mut machines = Vec::new();
        for folder in &folders {
            machines.extend(self.read_folder(folder).await?);
        }
        if folders.is_empty() {
            // Also proves that the vCenter answers.
            self.0.vcenter.session().await?;
        }
        self.note_vcenter().await;
        if self.state().other_vcenter(self.0.vcenter.instance_uuid()).is_some() {
            // The machines of this vCenter say nothing about those of the journal.
            self.state().viewed_at = Some(began);
            return Ok(());
        }
        let strangers = self.apply(machines, began);
        self.examine(strangers).await?;
        self.state().examined_for = names;
        self.adopt().await;
        let now = self.now();
        self.note(|journal| journal.forget(now)).await;
        self.revive().await;
        self.note_objects().await;
        self.find_missed().await?;
        let mut state = self.state();
        state.viewed_at = Some(began);
        state.tidy();
        Ok(())
    }

    /// The folders of the groups; `None` while one is not known.
    fn folders(&self) -> Option<BTreeSet<MoRef>> {
        let state = self.state();
        let mut folders = BTreeSet::new();
        for name in state.groups.keys() {
            match state.folders.get(name)? {
                Ok(folder) => {
                    folders.insert(folder.clone());
                }
                Err(Unresolved::Wrong(_)) => {}
                Err(Unresolved::Call(_)) => return None,
            }
        }
        Some(folders)
    }

    async fn read_folder(&self, folder: &MoRef) -> Result<Vec<Seen>, CallError> {
        let vcenter = &self.0.vcenter;
        let mut read =
            vcenter.read_inventory(&OF_VIEW, Some(folder), InventoryExtent::Machines).await?;
        let mut machines = Vec::new();
        loop {
            match vcenter.next_page(&mut read).await {
                Ok(Some(page)) => machines.extend(page.iter().map(Seen::read)),
                Ok(None) => break,
                Err(err) => {
                    vcenter.end_inventory(read).await;
                    return Err(err);
                }
            }
        }
        vcenter.end_inventory(read).await;
        Ok(machines)
    }

    /// Notes the identity of the vCenter in a journal that names none.
    async fn note_vcenter(&self) {
        let Some(actual) = self.0.vcenter.instance_uuid() else { return };
        let is_known = self.state().journal.vcenter.is_some();
        if !is_known {
            let actual = actual.to_owned();
            self.note(|journal| journal.vcenter = Some(actual)).await;
        }
    }

    /// Takes over the machines of a view. Returns those that the journal lacks.
    fn apply(&self, machines: Vec<Seen>, began: Instant) -> Vec<Seen> {
        let mut state = self.state();
        state.names = machines.iter().map(|it| it.name.clone()).collect();
        let mut seen = BTreeMap::new();
        let mut strangers = Vec::new();
        for machine in machines {
            let Some(instance) = machine.instance.filter(|_| !machine.is_template) else {
                continue;
            };
            match state.journal.find(instance) {
                Some(_) => drop(seen.insert(instance, machine)),
                None => strangers.push(machine),
            }
        }
        state.seen = seen;
        state.observe(began);
        strangers
    }

    /// Reads the marks of machines that the journal lacks, and remembers those of our groups.
    async fn examine(&self, strangers: Vec<Seen>) -> Result<(), CallError> {
        let objects: BTreeSet<MoRef> = strangers.iter().map(|it| it.object.clone()).collect();
        let unread: Vec<MoRef> = {
            let mut state = self.state();
            state.strays.retain(|object, _| objects.contains(object));
            state.examined.retain(|object| objects.contains(object));
            objects.iter().filter(|it| !state.examined.contains(*it)).cloned().collect()
        };
        if unread.is_empty() {
            return Ok(());
        }
        let spec = FilterSpec::of_objects("VirtualMachine", &OF_CHANGE, unread.clone());
        let read = self.0.vcenter.retrieve(&spec.tolerating_missing()).await?;
        let mut state = self.state();
        for content in &read {
            let machine = Detail::read(content);
            let Some(stray) = stray(&machine, &state) else { continue };
            tracing::error!(group = %stray.group, machine = %stray.name, provider_id = %format!("vsphere://{}", stray.bios), "a machine has the mark of a group, and the journal lacks it; the server leaves it alone, unless it lies in the folder of the group, which has adopt: true");
            state.strays.insert(machine.seen.object.clone(), stray);
        }
        state.examined.extend(unread);
        Ok(())
    }

    /// Adds the strays of groups that adopt them to the journal, and machines that had vanished for a
    /// while, as those of a host without connection do.
    async fn adopt(&self) {
        let strays: Vec<Stray> = {
            let state = self.state();
            let adopts = |it: &&Stray| {
                let group = state.groups.get(&it.group);
                let is_adopting = it.is_in_folder && group.is_some_and(|it| it.adopt);
                is_adopting || state.has_vanished(it.bios)
            };
            state.strays.values().filter(adopts).cloned().collect()
        };
        if strays.is_empty() {
            return;
        }
        let adopted = strays.clone();
        let adopt = |journal: &mut Journal| {
            for Stray { group, name, bios, instance, .. } in &adopted {
                journal.adopt(group, name, *bios, *instance);
            }
        };
        if self.note(adopt).await {
            let mut state = self.state();
            state.strays.retain(|_, it| !strays.contains(it));
            for it in strays {
                tracing::info!(group = %it.group, machine = %it.name, "adopted a machine");
            }
        }
    }

    /// Names machines for deletion again whose clone ended after they had been given up. A machine
    /// that vCenter had destroyed was restored by an administrator, and stays.
    async fn revive(&self) {
        let (restored, late): (Vec<Intent>, Vec<Intent>) = {
            let state = self.state();
            let intents = state.seen.keys().filter_map(|it| state.journal.find(*it));
            let deleted = intents.filter(|it| it.state == IntentState::Deleted).cloned();
            deleted.partition(|it| it.destroyed)
        };
        for intent in restored {
            let is_known =
                std::mem::replace(&mut self.state().work(intent.instance).is_restored, true);
            if !is_known {
                tracing::warn!(group = %intent.group, machine = %intent.name, provider_id = %intent.provider_id(), "a machine appeared again after its destruction; leaving it alone");
            }
        }
        for intent in &late {
            tracing::warn!(group = %intent.group, machine = %intent.name, "a machine appeared after its deletion; destroying it");
        }
        let revived = |journal: &mut Journal| {
            for intent in late {
                if let Some(it) = journal.find_mut(intent.instance) {
                    (it.state, it.gone_at) = (IntentState::Deleting, None);
                }
            }
        };
        self.note(revived).await;
    }

    /// Notes the managed object IDs of machines that the journal lacks or that have changed.
    async fn note_objects(&self) {
        let changed: Vec<(Uuid, String)> = {
            let state = self.state();
            let machines = state.present().filter(|it| it.state != IntentState::Wanted);
            let seen = machines.filter_map(|it| Some((it, state.seen.get(&it.instance)?)));
            let changed = seen.filter(|(it, seen)| it.object.as_deref() != Some(seen.object.id()));
            changed.map(|(it, seen)| (it.instance, seen.object.id().to_owned())).collect()
        };
        if changed.is_empty() {
            return;
        }
        let note = |journal: &mut Journal| {
            for (instance, object) in changed {
                if let Some(it) = journal.find_mut(instance) {
                    it.object = Some(object);
                }
            }
        };
        self.note(note).await;
    }

    /// Searches machines that views have missed, and gives up those that are gone.
    async fn find_missed(&self) -> Result<(), CallError> {
        let missed: Vec<Uuid> = {
            let state = self.state();
            let is_missed = |it: &Uuid| state.work.get(it).is_some_and(|it| it.n_missed >= MISSED);
            let made = state.present().filter(|it| it.state == IntentState::Made);
            made.map(|it| it.instance).filter(is_missed).collect()
        };
        for instance in missed {
            let uuid = instance.to_string();
            if !self.0.vcenter.find_all_by_instance_uuid(&uuid).await?.is_empty() {
                // The machine is in another folder, and was made some time ago.
                let mut state = self.state();
                let work = state.work(instance);
                (work.n_missed, work.has_run) = (0, true);
                continue;
            }
            match self.has_object(instance).await {
                Ok(false) => {}
                Ok(true) => {
                    tracing::debug!(%instance, "vCenter cannot read the configuration of a machine");
                    self.state().work(instance).n_missed = 0;
                    continue;
                }
                Err(trouble) => {
                    tracing::warn!(%instance, error = %trouble.failure.message, "reading a missed machine failed; retrying");
                    continue;
                }
            }
            let intent = self.state().journal.find(instance).cloned();
            let Some(intent) = intent else { continue };
            if self.note(|journal| journal.remove(instance)).await {
                tracing::warn!(group = %intent.group, machine = %intent.name, provider_id = %intent.provider_id(), "a machine is gone, and nobody asked for its deletion; lowered the size of the group");
                self.0.metrics.machine_failed(GroupId::of_clones(&intent.group).as_str());
                self.state().remember_vanished(intent.provider_id().to_string());
            }
        }
        Ok(())
    }
}

/// Takes over a result, unless only a call failed and the result of an earlier one is known.
fn keep<T>(
    known: &mut BTreeMap<String, Result<T, Unresolved>>,
    group: &str,
    result: Result<T, Unresolved>,
) {
    let is_known = known.get(group).is_some_and(|it| !matches!(it, Err(Unresolved::Call(_))));
    if !(is_known && matches!(result, Err(Unresolved::Call(_)))) {
        known.insert(group.to_owned(), result);
    }
}

/// Returns the machine if its mark names one of the groups and its own UUIDs.
fn stray(machine: &Detail, state: &State) -> Option<Stray> {
    let (bios, instance) = (machine.seen.bios?, machine.seen.instance?);
    let written = machine.mark.as_deref()?;
    let group = state.groups.keys().find(|group| mark(group, bios, instance) == written)?;
    let folder = state.folders.get(group).and_then(|it| it.as_ref().ok());
    let is_in_folder = folder.is_some() && machine.parent.as_ref() == folder;
    let name = machine.seen.name.clone();
    Some(Stray { group: group.clone(), name, bios, instance, is_in_folder })
}

impl State {
    /// Draws conclusions from a view that began at this time.
    fn observe(&mut self, began: Instant) {
        let made: Vec<Uuid> = self
            .present()
            .filter(|it| it.state == IntentState::Made)
            .filter(|it| matches!(self.folders.get(&it.group), Some(Ok(_))))
            .map(|it| it.instance)
            .collect();
        for instance in made {
            let seen = self.seen.get(&instance).map(|it| !it.is_on || it.has_address);
            let work = self.work(instance);
            if work.made_at.is_some_and(|at| at >= began) {
                continue;
            }
            match seen {
                Some(has_run) => (work.has_run, work.n_missed) = (work.has_run | has_run, 0),
                None => work.n_missed += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::autoscaler::group::{MachineKind, parse};

    #[test]
    fn only_a_machine_in_the_folder_of_its_group_itself_may_be_adopted() {
        let text = "groups: [{name: a, max: 2, clone: {datacenter: d, template: t, folder: f, \
                    resourcePool: p, bootstrap: {file: b}}}]";
        let parsed = parse("groups.yaml", text, &MachineKind::clones()).unwrap();
        let groups = parsed.groups.into_iter().map(|it| (it.name.clone(), Arc::new(it))).collect();
        let mut state = State::new(Journal::new(Uuid::nil()));
        state.use_groups(groups);
        let (bios, instance) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let folder = MoRef::new("Folder", "group-v1");
        let seen = Seen {
            object: MoRef::new("VirtualMachine", "vm-1"),
            name: "a-1".to_owned(),
            bios: Some(bios),
            instance: Some(instance),
            is_template: false,
            is_on: true,
            has_address: true,
        };
        let mark = Some(mark("a", bios, instance));
        let mut machine =
            Detail { seen, parent: None, mark, marked_disks: Vec::new(), disks: None };
        let is_in_folder =
            |machine: &Detail, state: &State| stray(machine, state).unwrap().is_in_folder;
        machine.parent = Some(folder.clone());
        assert!(!is_in_folder(&machine, &state), "the folder of the group is not known yet");
        state.folders.insert("a".to_owned(), Ok(folder));
        assert!(is_in_folder(&machine, &state));
        for parent in [None, Some(MoRef::new("Folder", "group-v2"))] {
            machine.parent = parent;
            assert!(!is_in_folder(&machine, &state));
        }
    }
}
