//! What a client knows, what it was told, and the way from there to now.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use sim_world::vcenter::MoRef;

use super::follow::Filter;
use crate::vim::select::Obj;

/// What a client knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Position {
    pub(super) journal: u64,
    /// Counts changes of what the user may see.
    pub(super) denied: Vec<MoRef>,
    pub(super) members: BTreeMap<Arc<str>, Members>,
}

/// The objects of a filter that a client knows, and how far it has followed lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    pub(super) objects: BTreeSet<Obj>,
    pub(super) generations: BTreeMap<Arc<str>, u64>,
}

/// A reply that was sent.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) version: String,
    /// What the client will know once it comes back, if the reply was whole.
    pub(super) then: Change,
    /// What did not fit the reply.
    pub(super) rest: VecDeque<Planned>,
}

/// The way from one position to the next.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) journal: u64,
    pub(super) denied: Vec<MoRef>,
    pub(super) filters: BTreeMap<Arc<str>, FilterChange>,
}

#[derive(Debug, Default)]
pub(super) struct FilterChange {
    pub(super) entered: Vec<Obj>,
    pub(super) left: Vec<Obj>,
    pub(super) generations: BTreeMap<Arc<str>, u64>,
}

/// One object update to send.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) filter: Arc<str>,
    pub(super) obj: Obj,
    pub(super) kind: UpdateKind,
}

#[derive(Clone, Debug)]
pub(super) enum UpdateKind {
    Enter,
    Modify(Vec<String>),
    Leave,
}

impl Position {
    pub(super) fn advance(&mut self, change: Change, filters: &BTreeMap<Arc<str>, Filter>) {
        self.journal = change.journal;
        self.denied = change.denied;
        for (id, change) in change.filters {
            if !filters.contains_key(&id) {
                continue;
            }
            let members = self.members.entry(id).or_default();
            for obj in &change.left {
                members.objects.remove(obj);
            }
            members.objects.extend(change.entered);
            members.generations = change.generations;
        }
    }
}
