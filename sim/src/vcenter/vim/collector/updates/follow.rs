//! Property filters, and the changes of their members between two replies.

use std::collections::{BTreeMap, BTreeSet};

use sim_world::vcenter::{Entry, Kind, MoRef, Touch, touches};

use super::position::{FilterChange, Members};
use crate::faults::Effects;
use crate::vcenter::vim::collector::select::{self, FilterSpec, Obj, PropertySelection, Views};
use crate::vcenter::vim::data::{Reference, VimFault};
use crate::vcenter::vim::properties::{self, Reader};
use crate::vcenter::vim::views::View;

/// A property filter of a collector.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) reference: Reference,
    pub(super) spec: FilterSpec,
    /// True if all start objects are views, and the spec traverses only their property `view`. The
    /// members of the filter are then the members of the views whose types the spec reports.
    pub(super) follows_view: bool,
}

/// Changes of a filter: members that entered or left, and the changed paths of members that the
/// client has, also of those that left.
pub(super) type Followed = (FilterChange, Vec<(Obj, Vec<String>)>);

impl Filter {
    /// Computes the changes without the journal: selects the members anew and compares them with
    /// those that the client has (`known`; `None` before the filter's first acknowledged reply).
    /// Reports every current member as entered, also those that the client has.
    pub(super) fn changes_by_selection(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
        known: Option<&Members>,
    ) -> Result<Followed, VimFault> {
        let now = self.select(reader, views, effects)?;
        let mut change = self.compare(views, known, now);
        // The age of the client's values of the other members is unknown, so the reply has these
        // members in full again.
        if let Some(known) = known {
            let gone: BTreeSet<Obj> = change.left.iter().cloned().collect();
            let stayed = known.objects.iter().filter(|obj| !gone.contains(obj)).cloned();
            change.entered.extend(stayed.collect::<Vec<_>>());
        }
        Ok((change, Vec::new()))
    }

    /// Computes the changes from the entries of the journal since the client's position. Selects
    /// the members anew only if entries and views cannot tell which members entered or left.
    pub(super) fn follow(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
        known: &Members,
        entries: Vec<&Entry>,
    ) -> Result<Followed, VimFault> {
        let change = if self.follows_view {
            self.follow_views(reader, views, effects, known, &entries)
        } else if self.has_changed_view(views, known)
            || entries.iter().any(|entry| self.may_select_otherwise(entry))
        {
            let now = self.select(reader, views, effects)?;
            self.compare(views, Some(known), now)
        } else {
            FilterChange { generations: known.generations.clone(), ..FilterChange::default() }
        };
        let mut modified: BTreeMap<Obj, Vec<String>> = BTreeMap::new();
        for entry in entries {
            let (Touch::Changed(changed) | Touch::Moved(changed)) = &entry.touch else { continue };
            let obj = Obj::Mo(entry.object);
            if !known.objects.contains(&obj) {
                continue;
            }
            let kind = entry.object.kind.type_name();
            let Some(wanted) = self.spec.wanted(kind) else { continue };
            let paths = touched(kind, &wanted, changed);
            if !paths.is_empty() {
                let all = modified.entry(obj).or_default();
                all.extend(paths);
            }
        }
        let modified = modified
            .into_iter()
            .map(|(obj, paths)| {
                let paths: BTreeSet<String> = paths.into_iter().collect();
                (obj, paths.into_iter().collect())
            })
            .collect();
        Ok((change, modified))
    }

    /// Computes which objects entered or left a filter that follows views. Checks only the objects
    /// that were created, removed or moved according to the journal, and those that a list view
    /// names as added or removed. Selects all members anew if a list view no longer keeps its
    /// changes.
    fn follow_views(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
        known: &Members,
        entries: &[&Entry],
    ) -> FilterChange {
        let mut change = FilterChange::default();
        let mut doubtful: BTreeSet<MoRef> = entries
            .iter()
            .filter(|entry| !matches!(entry.touch, Touch::Changed(_)))
            .map(|entry| entry.object)
            .collect();
        let mut unknown = false;
        for start in &self.spec.starts {
            let Obj::Named(id) = &start.obj else { continue };
            let Some(view) = views.get(id) else { continue };
            let since = known.generations.get(id).copied().unwrap_or(0);
            match view.changed_since(since) {
                Some(changed) => doubtful.extend(changed),
                None => unknown = true,
            }
            change.generations.insert(id.clone(), view.generation());
        }
        if unknown {
            return match self.select(reader, views, effects) {
                Ok(now) => self.compare(views, Some(known), now),
                Err(_) => change,
            };
        }
        for id in doubtful {
            let obj = Obj::Mo(id);
            let is_member = self.reports(id.kind)
                && !effects.hides_object(reader.vc, id)
                && self.spec.starts.iter().any(|start| match &start.obj {
                    Obj::Named(view) => views.get(view).is_some_and(|it| it.includes(reader, id)),
                    Obj::Mo(_) => false,
                });
            match (known.objects.contains(&obj), is_member) {
                (false, true) => change.entered.push(obj),
                (true, false) => change.left.push(obj),
                _ => {}
            }
        }
        change
    }

    fn reports(&self, kind: Kind) -> bool {
        self.spec.wanted(kind.type_name()).is_some()
    }

    /// True if a list view among the start objects has another generation than at the client's
    /// position. A destroyed view counts as generation 0.
    fn has_changed_view(&self, views: &Views, known: &Members) -> bool {
        self.spec.starts.iter().any(|start| {
            let Obj::Named(id) = &start.obj else { return false };
            let generation = views.get(id).map_or(0, View::generation);
            generation != known.generations.get(id).copied().unwrap_or(0)
        })
    }

    /// True if a change can alter the selection of a spec that traverses other properties than
    /// `view`.
    fn may_select_otherwise(&self, entry: &Entry) -> bool {
        match &entry.touch {
            Touch::Created | Touch::Removed | Touch::Moved(_) => true,
            Touch::Changed(paths) => self
                .spec
                .traversals
                .iter()
                .any(|traversal| paths.iter().any(|changed| touches(changed, &traversal.path))),
        }
    }

    fn select(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
    ) -> Result<Vec<Obj>, VimFault> {
        // Skips deleted start objects. A filter without remaining start objects selects nothing.
        let mut spec = self.spec.clone();
        spec.starts.retain(|start| select::subject(reader, views, &start.obj).is_some());
        Ok(spec.select(reader, views, effects)?.objects)
    }

    fn compare(&self, views: &Views, known: Option<&Members>, now: Vec<Obj>) -> FilterChange {
        let mut change = FilterChange::default();
        for start in &self.spec.starts {
            if let Obj::Named(id) = &start.obj
                && let Some(view) = views.get(id)
            {
                change.generations.insert(id.clone(), view.generation());
            }
        }
        match known {
            None => change.entered = now,
            Some(known) => {
                let current: BTreeSet<&Obj> = now.iter().collect();
                change.left =
                    known.objects.iter().filter(|obj| !current.contains(obj)).cloned().collect();
                change.entered =
                    now.into_iter().filter(|obj| !known.objects.contains(obj)).collect();
            }
        }
        change
    }
}

/// Returns the requested paths that a change of `changed` touches.
fn touched(kind: &str, wanted: &PropertySelection, changed: &[&'static str]) -> Vec<String> {
    let hit = |path: &str| changed.iter().any(|changed| touches(changed, path));
    if wanted.all {
        return properties::names(kind).filter(|name| hit(name)).map(str::to_owned).collect();
    }
    wanted.paths.iter().filter(|path| hit(path)).cloned().collect()
}
