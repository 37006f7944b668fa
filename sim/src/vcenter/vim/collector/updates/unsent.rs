//! Owed properties: a rule made them unreadable when a reply should have had them. A later reply
//! has them once they are readable.

use std::collections::{BTreeSet, VecDeque};

use super::Collector;
use super::position::{Planned, UpdateKind};
use crate::faults::Effects;
use crate::vcenter::vim::collector::select::{self, Views, unreadable};
use crate::vcenter::vim::properties::{self, Reader, Subject};

impl Collector {
    /// True if at least one owed property is readable now.
    pub(super) fn can_send_unsent(&self, effects: &Effects) -> bool {
        self.owed.values().flatten().any(|path| unreadable(effects, path).is_none())
    }

    /// Adds the owed properties to the plan, then records all planned properties that a rule makes
    /// unreadable now as owed. Drops owed properties of objects that the plan reports as entered or
    /// left, and of objects that do not exist any more.
    pub(super) fn add_unsent(
        &mut self,
        planned: &mut VecDeque<Planned>,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
    ) {
        for ((filter, obj), paths) in std::mem::take(&mut self.owed) {
            let whole = planned.iter().any(|it| {
                it.filter == filter && it.obj == obj && !matches!(it.kind, UpdateKind::Modify(_))
            });
            if whole || select::subject(reader, views, &obj).is_none() {
                continue;
            }
            let kind = UpdateKind::Modify(paths.into_iter().collect());
            planned.push_back(Planned { filter, obj, kind });
        }
        if effects.missing_set.is_empty() {
            return;
        }
        for update in planned.iter() {
            let Some(filter) = self.filters.get(&update.filter) else { continue };
            let kind = select::subject(reader, views, &update.obj).map(Subject::kind);
            let wanted = kind.and_then(|kind| filter.spec.wanted(kind));
            let asked: Vec<String> = match (&update.kind, wanted) {
                (UpdateKind::Modify(paths), _) => paths.clone(),
                (UpdateKind::Enter, Some(wanted)) if wanted.all => {
                    kind.into_iter().flat_map(properties::names).map(str::to_owned).collect()
                }
                (UpdateKind::Enter, Some(wanted)) => wanted.paths,
                _ => Vec::new(),
            };
            let missing: BTreeSet<String> =
                asked.into_iter().filter(|path| unreadable(effects, path).is_some()).collect();
            if !missing.is_empty() {
                let key = (update.filter.clone(), update.obj.clone());
                self.owed.entry(key).or_default().extend(missing);
            }
        }
    }
}
