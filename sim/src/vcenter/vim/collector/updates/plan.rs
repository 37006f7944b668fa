//! Plan of a reply: the updates from the client's position to the current state.

use std::collections::{BTreeSet, VecDeque};

use super::Collector;
use super::position::{Change, Planned, UpdateKind};
use crate::faults::Effects;
use crate::vcenter::vim::collector::select::{Obj, Views};
use crate::vcenter::vim::data::VimFault;
use crate::vcenter::vim::properties::Reader;

impl Collector {
    /// Returns all updates that the client needs, and the change of its position that follows once
    /// the client acknowledges them.
    pub(super) fn plan(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
    ) -> Result<(VecDeque<Planned>, Change), VimFault> {
        let journal = reader.vc.inventory.journal();
        let denied = reader
            .user
            .and_then(|user| reader.vc.logins.users.get(user))
            .map(|user| user.denied.clone())
            .unwrap_or_default();
        let same_view = denied == self.acknowledged.denied;
        let mut then = Change { journal: journal.head(), denied, ..Change::default() };
        let mut planned = VecDeque::new();
        for id in &self.order {
            let Some(filter) = self.filters.get(id) else { continue };
            let known = self.acknowledged.members.get(id);
            let recent = known.filter(|_| same_view).and_then(|known| {
                let entries = journal.since(self.acknowledged.journal)?;
                Some((known, entries))
            });
            let (change, modified) = match recent {
                Some((known, entries)) => {
                    filter.follow(reader, views, effects, known, entries.collect())?
                }
                None => filter.changes_by_selection(reader, views, effects, known)?,
            };
            let entered: BTreeSet<&Obj> = change.entered.iter().collect();
            let update = |obj: &Obj, kind| Planned { filter: id.clone(), obj: obj.clone(), kind };
            planned.extend(change.left.iter().map(|obj| update(obj, UpdateKind::Leave)));
            planned.extend(change.entered.iter().map(|obj| update(obj, UpdateKind::Enter)));
            for (obj, paths) in modified {
                if !entered.contains(&obj) && !change.left.contains(&obj) {
                    planned.push_back(update(&obj, UpdateKind::Modify(paths)));
                }
            }
            then.filters.insert(id.clone(), change);
        }
        Ok((planned, then))
    }
}
