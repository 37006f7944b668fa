//! State of the backend in memory: the journal, the machines of the last view, and the progress of its own
//! work. Pure, except for tokio's clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use provider_vcenter::MoRef;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    super::{
        group::Group,
        instance::{Instance, State as InstanceState, exact_provider_id},
        plan::{Cause, Membership, NamedNode},
        replacements::is_over,
    },
    failure::{Shows, Trouble},
    journal::{Intent, IntentState, Journal},
    machine::Seen,
    source::{Source, Unresolved},
};
use crate::model::ProviderId;

/// Time for which a failure that may pass lasts before the autoscaler learns of it.
const GRACE: Duration = Duration::from_secs(120);
/// Pauses between attempts.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time for which the server remembers a machine that vanished.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// State of the backend.
pub(super) struct State {
    /// The journal as it was last written.
    pub(super) journal: Journal,
    /// Reason why the server must change nothing any more.
    pub(super) lost: Option<String>,
    pub(super) groups: BTreeMap<String, Arc<Group>>,
    pub(super) folders: BTreeMap<String, Result<MoRef, Unresolved>>,
    pub(super) sources: BTreeMap<String, Result<Source, Unresolved>>,
    /// Work on machines by their instance UUIDs.
    pub(super) work: BTreeMap<Uuid, Work>,
    /// Machines of the last view by their instance UUIDs.
    pub(super) seen: BTreeMap<Uuid, Seen>,
    /// Names of the machines of the last view.
    pub(super) names: BTreeSet<String>,
    /// Machines with the mark of a group that the journal lacks.
    pub(super) strays: BTreeMap<MoRef, Stray>,
    /// Machines that the journal lacks and whose marks were read.
    pub(super) examined: BTreeSet<MoRef>,
    /// Names of the groups for which the marks of all these machines were read.
    pub(super) examined_for: BTreeSet<String>,
    /// Begin of the last view; `None` before the first one.
    pub(super) viewed_at: Option<Instant>,
    /// Provider IDs of machines that vanished.
    vanished: BTreeMap<String, Instant>,
}

/// A machine with the mark of a group that the journal lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stray {
    pub(super) group: String,
    pub(super) name: String,
    pub(super) bios: Uuid,
    pub(super) instance: Uuid,
    /// True if the machine lies in the folder of its group itself, where the server makes machines. A
    /// folder below may belong to the server of another cluster.
    pub(super) is_in_folder: bool,
}

/// Work on one machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// True while a task works on the machine.
    pub(super) is_busy: bool,
    /// True if the machine exists, or a clone may be running.
    pub(super) is_started: bool,
    /// True if a decrease gives the machine up, so that its clone must not start.
    pub(super) is_given_up: bool,
    /// True if the machine has run.
    pub(super) has_run: bool,
    /// Time at which this server powered the machine on.
    pub(super) made_at: Option<Instant>,
    /// The failure of the last attempt, and the time of the first one.
    trouble: Option<(Trouble, Instant)>,
    /// Code of the last failure that was told as one that the autoscaler learns of.
    told: Option<String>,
    n_failures: u32,
    not_before: Option<Instant>,
    /// Number of views in a row without the machine.
    pub(super) n_missed: u32,
    /// True if the machine appeared again after its destruction, and the log says so.
    pub(super) is_restored: bool,
    /// True if this server asked vCenter to destroy the machine.
    pub(super) is_destroying: bool,
    /// ID of the bootstrap token in the user data of the last request for a clone.
    pub(super) offered: Option<String>,
    /// ID of the bootstrap token that the machine has, if this server made the clone.
    pub(super) token: Option<String>,
    /// The call that asked for the present state.
    pub(super) cause: Option<Cause>,
}

impl Work {
    /// Counts a failed attempt, and returns true if the autoscaler learns of a failure with this code
    /// that was not told yet.
    pub(super) fn failed(&mut self, trouble: Trouble) -> bool {
        let since = self.trouble.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        let pause = FIRST_PAUSE.saturating_mul(1 << self.n_failures.min(8)).min(LONGEST_PAUSE);
        self.n_failures += 1;
        self.not_before = Some(Instant::now() + pause);
        self.trouble = Some((trouble, since));
        let shown = self.shown().map(|it| it.failure.code.clone());
        let is_new = shown.is_some() && shown != self.told;
        if is_new {
            self.told = shown;
        }
        is_new
    }

    /// True if the number of failures in a row has just become one that the log tells, whatever the
    /// failure is.
    pub(super) fn has_failed_often(&self) -> bool {
        matches!(self.n_failures, 3 | 10 | 30 | 100)
    }

    pub(super) fn succeeded(&mut self) {
        (self.trouble, self.told, self.n_failures, self.not_before) = (None, None, 0, None);
    }

    /// Returns the failure that the autoscaler learns of.
    fn shown(&self) -> Option<&Trouble> {
        let (trouble, since) = self.trouble.as_ref()?;
        let is_shown = match trouble.shows {
            Shows::AtOnce => true,
            Shows::AfterGrace => since.elapsed() >= GRACE,
            Shows::Never => false,
        };
        is_shown.then_some(trouble)
    }

    fn is_due(&self) -> bool {
        !self.is_busy && self.not_before.is_none_or(|at| at <= Instant::now())
    }
}

impl State {
    pub(super) fn new(journal: Journal) -> Self {
        // An earlier server may have begun to clone a machine.
        let started = |it: &Intent| (it.instance, Work { is_started: true, ..Work::default() });
        Self {
            work: journal.machines().iter().map(started).collect(),
            journal,
            lost: None,
            groups: BTreeMap::new(),
            folders: BTreeMap::new(),
            sources: BTreeMap::new(),
            seen: BTreeMap::new(),
            names: BTreeSet::new(),
            strays: BTreeMap::new(),
            examined: BTreeSet::new(),
            examined_for: BTreeSet::new(),
            viewed_at: None,
            vanished: BTreeMap::new(),
        }
    }

    /// Replaces the groups. Returns true if they differ from the present ones.
    pub(super) fn use_groups(&mut self, groups: BTreeMap<String, Arc<Group>>) -> bool {
        if self.groups == groups {
            return false;
        }
        let known = std::mem::replace(&mut self.groups, groups);
        if known.is_empty() {
            // A view without groups has shown no machine.
            self.viewed_at = None;
        }
        // The mark of a machine may name an added group, and a group may have another folder.
        self.examined.clear();
        let groups = &self.groups;
        self.strays.retain(|_, it| groups.contains_key(&it.group));
        // A group of another shape has other objects.
        for (name, group) in known {
            if self.groups.get(&name).is_none_or(|it| it.shape != group.shape) {
                self.folders.remove(&name);
                self.sources.remove(&name);
            }
        }
        true
    }

    /// Notes a view that began at this time, unless groups exist by now.
    pub(super) fn view_without_groups(&mut self, began: Instant) {
        if self.groups.is_empty() {
            self.examined_for.clear();
            self.viewed_at = Some(began);
        }
    }

    /// The machines that are not deleted, oldest first.
    pub(super) fn present(&self) -> impl Iterator<Item = &Intent> {
        self.journal.machines().iter().filter(|it| it.state != IntentState::Deleted)
    }

    pub(super) fn work(&mut self, instance: Uuid) -> &mut Work {
        self.work.entry(instance).or_default()
    }

    /// Returns the machines on which work can begin, and marks them as busy.
    pub(super) fn begin_due(&mut self, now: Timestamp) -> Vec<(Uuid, IntentState)> {
        let is_due = |it: &&Intent| {
            let has_work = match it.state {
                IntentState::Wanted => {
                    self.groups.contains_key(&it.group)
                        && it.held_until.is_none_or(|until| is_over(until, now))
                        && !self.work.get(&it.instance).is_some_and(|it| it.is_given_up)
                }
                IntentState::Deleting => true,
                IntentState::Made | IntentState::Deleted => false,
            };
            has_work && self.work.get(&it.instance).is_none_or(Work::is_due)
        };
        let due: Vec<_> = self.present().filter(is_due).map(|it| (it.instance, it.state)).collect();
        for (instance, _) in &due {
            self.work(*instance).is_busy = true;
        }
        due
    }

    /// Forgets the work on machines that the journal no longer has.
    pub(super) fn tidy(&mut self) {
        let known: BTreeSet<Uuid> = self.journal.machines().iter().map(|it| it.instance).collect();
        self.work.retain(|instance, _| known.contains(instance));
        self.vanished.retain(|_, at| at.elapsed() < REMEMBERED);
    }

    /// Remembers that a machine vanished.
    pub(super) fn remember_vanished(&mut self, id: String) {
        self.vanished.insert(id, Instant::now());
    }

    pub(super) fn has_vanished(&self, bios: Uuid) -> bool {
        self.vanished.contains_key(&ProviderId(bios).to_string())
    }

    pub(super) fn instances(&self, group: &str) -> Vec<Instance> {
        self.present().filter(|it| it.group == group).map(|it| self.instance(it)).collect()
    }

    fn instance(&self, intent: &Intent) -> Instance {
        let work = self.work.get(&intent.instance);
        let state = match intent.state {
            IntentState::Deleting | IntentState::Deleted => InstanceState::Deleting,
            IntentState::Made if work.is_some_and(|it| it.has_run) => InstanceState::Running,
            IntentState::Made => InstanceState::Creating,
            IntentState::Wanted => match work.and_then(Work::shown) {
                Some(trouble) => InstanceState::Failed(trouble.failure.clone()),
                None => InstanceState::Creating,
            },
        };
        Instance {
            id: intent.provider_id().into(),
            name: intent.name.clone(),
            state,
            is_materialized: intent.state == IntentState::Made
                || work.is_some_and(|it| it.is_started)
                || self.seen.contains_key(&intent.instance),
        }
    }

    /// The machine of a node. The provider ID decides, byte for byte; the name decides only for a
    /// node without provider ID.
    pub(super) fn find(&self, id: &str, name: &str) -> Option<&Intent> {
        let exact = exact_provider_id(id);
        let mut found = self.journal.machines().iter().filter(|it| {
            if id.is_empty() {
                it.name == name && !name.is_empty() && it.state != IntentState::Deleted
            } else {
                Some(it.provider_id()) == exact
            }
        });
        let first = found.next();
        first.filter(|_| found.next().is_none())
    }

    pub(super) fn membership(&self, group: &str, node: &NamedNode) -> Membership {
        match self.find(&node.id, &node.name) {
            Some(intent) if intent.state == IntentState::Deleted => Membership::Deleted,
            Some(intent) if intent.group != group => Membership::Elsewhere(intent.group.clone()),
            Some(intent) => Membership::Here(Box::new(self.instance(intent))),
            None if self.vanished.contains_key(&node.id) => Membership::Deleted,
            None => Membership::Unknown,
        }
    }

    /// Returns the reason why the journal is not about the vCenter with this instance UUID.
    pub(super) fn other_vcenter(&self, vcenter: Option<&str>) -> Option<String> {
        let (of_journal, actual) = (self.journal.vcenter.as_deref()?, vcenter?);
        (of_journal != actual).then(|| {
            format!(
                "the journal is about the vCenter with instance UUID {of_journal}, and this one has \
                 {actual}; correct --cloud-config, or use another journal"
            )
        })
    }

    /// Returns the reason why the vCenter or the machines that it has contradict the journal.
    pub(super) fn contradiction(&self, vcenter: Option<&str>) -> Option<String> {
        if let Some(why) = self.other_vcenter(vcenter) {
            return Some(why);
        }
        if !self.journal.is_fresh() {
            return None;
        }
        if !self.groups.keys().eq(&self.examined_for) {
            let why =
                "the journal is new, and the marks of the machines have not all been read yet";
            return Some(why.to_owned());
        }
        let own = self.strays.values().filter(|it| it.is_in_folder);
        let names: Vec<&str> = own.map(|it| it.name.as_str()).collect();
        if names.is_empty() {
            return None;
        }
        Some(format!(
            "the journal is new, but vCenter has machines of an earlier one: {}; restore the \
             journal, or set adopt: true for their groups",
            names.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::autoscaler::group::{MachineKind, parse};

    /// Returns groups with these names.
    fn groups(names: &[&str]) -> BTreeMap<String, Arc<Group>> {
        let group = |name: &&str| {
            format!(
                "- {{name: {name}, max: 5, machine: {{className: a, imageName: b, storageClass: c, \
                 bootstrap: {{secretName: d}}}}}}\n"
            )
        };
        let text = format!("groups:\n{}", names.iter().map(group).collect::<String>());
        let parsed = parse("groups.yaml", &text, &MachineKind::virtual_machines("ns")).unwrap();
        assert_eq!(parsed.refused, []);
        parsed.groups.into_iter().map(|it| (it.name.clone(), Arc::new(it))).collect()
    }

    #[test]
    fn an_added_or_removed_group_makes_the_server_read_all_marks_again() {
        let mut state = State::new(Journal::new(Uuid::nil()));
        let mut uses = |names: &[&str]| {
            state.examined.insert(MoRef::new("VirtualMachine", "vm-1"));
            (state.use_groups(groups(names)), state.examined.is_empty())
        };
        assert_eq!(uses(&["a"]), (true, true));
        assert_eq!(uses(&["a"]), (false, false));
        assert_eq!(uses(&["a", "b"]), (true, true));
        assert_eq!(uses(&["b"]), (true, true));
    }

    #[tokio::test]
    async fn a_view_without_groups_is_current_until_there_are_groups() {
        let mut state = State::new(Journal::new(Uuid::nil()));
        state.examined_for = ["a".to_owned()].into();
        state.view_without_groups(Instant::now());
        assert!(state.viewed_at.is_some());
        assert_eq!(state.contradiction(None), None);
        state.use_groups(groups(&["a"]));
        assert_eq!(state.viewed_at, None, "no view has shown the machines of this group");
        state.view_without_groups(Instant::now());
        assert_eq!(state.viewed_at, None, "a view that began before the group was there");
        state.viewed_at = Some(Instant::now());
        state.use_groups(groups(&["a", "b"]));
        assert!(state.viewed_at.is_some());
    }

    #[test]
    fn a_new_journal_is_used_only_when_the_marks_were_read_for_all_groups() {
        let mut state = State::new(Journal::new(Uuid::nil()));
        let stray = |is_in_folder| Stray {
            group: "a".to_owned(),
            name: "a-1".to_owned(),
            bios: Uuid::from_u128(1),
            instance: Uuid::from_u128(2),
            is_in_folder,
        };
        let begins = |state: &State, want: &str| {
            state.contradiction(None).is_some_and(|why| why.starts_with(want))
        };
        state.use_groups(groups(&["a"]));
        assert!(begins(&state, "the journal is new, and the marks"));
        state.examined_for = ["a".to_owned()].into();
        assert_eq!(state.contradiction(None), None);
        state.strays.insert(MoRef::new("VirtualMachine", "vm-1"), stray(false));
        assert_eq!(state.contradiction(None), None, "a machine in a folder below");
        state.strays.insert(MoRef::new("VirtualMachine", "vm-2"), stray(true));
        assert!(begins(&state, "the journal is new, but vCenter has machines"));
        state.use_groups(groups(&["a", "b"]));
        assert!(begins(&state, "the journal is new, and the marks"), "also after a reload");
        assert_eq!(state.strays.len(), 2, "what is known of the groups stays known");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_shows_after_a_grace_period_is_told_once_per_code() {
        let mut work = Work::default();
        let mut told = Vec::new();
        for code in ["A", "A", "A", "B", "B", "A"] {
            for _ in 0..5 {
                tokio::time::advance(GRACE / 4).await;
                if work.failed(Trouble::other(code, "text", Shows::AfterGrace)) {
                    told.push(code);
                }
            }
        }
        assert_eq!(told, ["A", "B", "A"]);
        work.succeeded();
        assert!(!work.failed(Trouble::other("A", "text", Shows::AfterGrace)), "a new grace period");
    }

    #[tokio::test]
    async fn failures_that_never_show_are_logged_at_growing_intervals() {
        let mut work = Work::default();
        let mut fail = |_: &u32| {
            work.failed(Trouble::other("VM_CREATE_FAILED", "text", Shows::Never));
            work.has_failed_often()
        };
        let logged: Vec<u32> = (1..=200).filter(|n| fail(n)).collect();
        assert_eq!(logged, [3, 10, 30, 100]);
    }
}
