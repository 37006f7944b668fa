//! A filter, and the changes of its members between two replies.

use std::collections::{BTreeMap, BTreeSet};

use sim_world::vcenter::{Entry, Kind, MoRef, Touch, touches};

use super::position::{FilterChange, Members};
use crate::faults::Effects;
use crate::vim::fault::VimFault;
use crate::vim::properties::{self, Reader};
use crate::vim::select::{self, FilterSpec, Obj, Views, Wanted};
use crate::vim::value::Reference;
use crate::vim::views::View;

/// A filter.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) reference: Reference,
    pub(super) spec: FilterSpec,
    /// True if all start objects are views from which only `view` is traversed. Membership then follows the views.
    pub(super) follows_view: bool,
}

/// Changes in a filter: members, and paths of the members that stayed.
pub(super) type Followed = (FilterChange, Vec<(Obj, Vec<String>)>);

impl Filter {
    /// Selects anew and compares the result with what the client knows.
    pub(super) fn start_over(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
        known: Option<&Members>,
    ) -> Result<Followed, VimFault> {
        let now = self.select(reader, views, effects)?;
        let mut change = self.compare(views, known, now);
        // The age of what the client knows of the others is unknown, so they are sent in full again.
        if let Some(known) = known {
            let gone: BTreeSet<Obj> = change.left.iter().cloned().collect();
            let stayed = known.objects.iter().filter(|obj| !gone.contains(obj)).cloned();
            change.entered.extend(stayed.collect::<Vec<_>>());
        }
        Ok((change, Vec::new()))
    }

    /// Follows the journal from the position that the client knows.
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

    /// Updates the membership of views, object by object.
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
                && !select::is_hidden(reader, effects, id)
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

    /// True if a list from which the filter starts has changed since the client learned its members.
    fn has_changed_view(&self, views: &Views, known: &Members) -> bool {
        self.spec.starts.iter().any(|start| {
            let Obj::Named(id) = &start.obj else { return false };
            let generation = views.get(id).map_or(0, View::generation);
            generation != known.generations.get(id).copied().unwrap_or(0)
        })
    }

    /// True if a change can alter the selection of a spec that does not just follow a view.
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
        // A deleted start object leaves the selection; the filter stays, without effect.
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
fn touched(kind: &str, wanted: &Wanted, changed: &[&'static str]) -> Vec<String> {
    let hit = |path: &str| changed.iter().any(|changed| touches(changed, path));
    if wanted.all {
        return properties::names(kind).filter(|name| hit(name)).map(str::to_owned).collect();
    }
    wanted.paths.iter().filter(|path| hit(path)).cloned().collect()
}
