//! Positions of clients: the acknowledged state, the reply that is not acknowledged yet, and the
//! change between two positions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use sim_world::vcenter::MoRef;

use super::follow::Filter;
use crate::vcenter::vim::collector::select::Obj;

/// State that a client has acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Position {
    pub(super) journal: u64,
    /// [`User::denied`](sim_world::vcenter::User::denied) in this state: the user saw neither these
    /// objects nor anything below them.
    pub(super) denied: Vec<MoRef>,
    pub(super) members: BTreeMap<Arc<str>, Members>,
}

/// Members of a filter in an acknowledged state, and the generation of each view among the filter's
/// start objects at that time.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    pub(super) objects: BTreeSet<Obj>,
    pub(super) generations: BTreeMap<Arc<str>, u64>,
}

/// A reply that the client has not acknowledged yet.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) version: String,
    /// Change of the client's position once it acknowledges the complete reply.
    pub(super) change: Change,
    /// Updates that did not fit into the reply.
    pub(super) rest: VecDeque<Planned>,
}

/// Change from one position to the next.
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
