//! Filters and waiting: what changed since the version a client has seen.
//!
//! A collector remembers the state its client acknowledged: the journal position and, per filter,
//! the members. A reply describes the way from there to now; the client acknowledges it by coming
//! back with its version. Until then the old version stays valid, so a lost reply loses nothing.
//!
//! Work is proportional to changes: the journal names what changed, membership of lists and
//! containers is kept up object by object, and only specs that traverse by property walk again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use sim_world::vcenter::{Kind, MoRef, Touch, touches};

use super::fault::VimFault;
use super::properties::{self, Reader, Subject};
use super::select::{
    self, FilterSpec, Obj, Views, Wanted, missing_property, unreadable, with_list,
};
use super::value::{Object, Reference, Value};
use crate::faults::Effects;

/// Object updates in one reply when the client sets no limit.
const DEFAULT_MAX_UPDATES: usize = 100;

/// A property collector.
#[derive(Debug)]
pub(crate) struct Collector {
    salt: u64,
    serial: u64,
    pub(crate) filters: BTreeMap<Arc<str>, Filter>,
    /// Filter ids in creation order.
    order: Vec<Arc<str>>,
    acked: Position,
    /// The version that leads to `acked`; `None` before the first reply.
    acked_version: Option<String>,
    /// The newest reply, not acknowledged yet.
    offered: Option<Offer>,
    /// Counts waits, so that an older one finds itself superseded.
    pub(crate) wait: u64,
    /// Waits up to this one were cancelled.
    pub(crate) canceled: u64,
    /// Properties that could not be read when they were due: they come once they can be.
    owed: BTreeMap<(Arc<str>, Obj), BTreeSet<String>>,
}

/// A filter.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) reference: Reference,
    spec: FilterSpec,
    /// Start objects that are views with nothing but `view` to follow: membership follows the view.
    follows_view: bool,
}

/// What a client knows.
#[derive(Clone, Debug, Default)]
struct Position {
    journal: u64,
    /// Counts changes of what the user may see.
    denied: Vec<MoRef>,
    members: BTreeMap<Arc<str>, Members>,
}

/// The objects of a filter that a client knows, and how far it has followed lists.
#[derive(Clone, Debug, Default)]
struct Members {
    objects: BTreeSet<Obj>,
    generations: BTreeMap<Arc<str>, u64>,
}

/// A reply that was sent.
#[derive(Debug)]
struct Offer {
    version: String,
    /// What the client will know once it comes back, if the reply was whole.
    then: Change,
    /// What did not fit the reply.
    rest: VecDeque<Planned>,
}

/// The way from one position to the next.
#[derive(Debug, Default)]
struct Change {
    journal: u64,
    denied: Vec<MoRef>,
    filters: BTreeMap<Arc<str>, FilterChange>,
}

#[derive(Debug, Default)]
struct FilterChange {
    entered: Vec<Obj>,
    left: Vec<Obj>,
    generations: BTreeMap<Arc<str>, u64>,
}

/// One object update to send.
#[derive(Clone, Debug)]
struct Planned {
    filter: Arc<str>,
    obj: Obj,
    kind: UpdateKind,
}

#[derive(Clone, Debug)]
enum UpdateKind {
    Enter,
    Modify(Vec<String>),
    Leave,
}

impl Collector {
    pub(crate) fn new(path: &str) -> Self {
        // FNV-1a: any stable spread will do to make versions look opaque.
        let salt = path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self {
            salt,
            serial: 0,
            filters: BTreeMap::new(),
            order: Vec::new(),
            acked: Position::default(),
            acked_version: None,
            offered: None,
            wait: 0,
            canceled: 0,
            owed: BTreeMap::new(),
        }
    }

    pub(crate) fn add_filter(
        &mut self,
        id: Arc<str>,
        spec: FilterSpec,
        views: &Views,
    ) -> Reference {
        let follows_view = !spec.starts.is_empty()
            && spec.starts.iter().all(|start| match &start.obj {
                Obj::Named(id) => {
                    views.contains_key(id)
                        && start.select.iter().all(|index| {
                            let traversal = &spec.traversals[*index];
                            traversal.path == "view" && traversal.select.is_empty()
                        })
                }
                Obj::Mo(_) => false,
            });
        let reference = Reference::new("PropertyFilter", id.clone());
        self.order.push(id.clone());
        self.filters.insert(id, Filter { reference: reference.clone(), spec, follows_view });
        reference
    }

    /// Removes a filter; `false` if it is not of this collector.
    pub(crate) fn remove_filter(&mut self, id: &str) -> bool {
        self.order.retain(|known| &**known != id);
        self.acked.members.remove(id);
        if let Some(offered) = &mut self.offered {
            offered.rest.retain(|planned| &*planned.filter != id);
        }
        self.filters.remove(id).is_some()
    }

    /// Takes note that the client has come back with `version`.
    pub(crate) fn acknowledge(&mut self, version: &str) -> Result<(), VimFault> {
        if version.is_empty() {
            self.acked = Position::default();
            self.acked_version = None;
            self.offered = None;
            return Ok(());
        }
        let matches_offer = self.offered.as_ref().is_some_and(|offer| offer.version == version);
        if matches_offer {
            if self.offered.as_ref().is_some_and(|offer| !offer.rest.is_empty()) {
                return Ok(());
            }
            if let Some(offer) = self.offered.take() {
                self.acked.advance(offer.then, &self.filters);
                self.acked_version = Some(offer.version);
            }
            return Ok(());
        }
        if self.acked_version.as_deref() == Some(version) {
            self.offered = None;
            return Ok(());
        }
        Err(VimFault::invalid_collector_version())
    }

    /// Forgets every version, as if the collector had been restarted.
    pub(crate) fn reset(&mut self) {
        self.owed.clear();
        self.acked_version = None;
        self.offered = None;
        self.acked = Position::default();
    }

    /// The next reply, or `None` if there is nothing to say.
    pub(crate) fn reply(
        &mut self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
        max_updates: Option<usize>,
    ) -> Result<Option<Object>, VimFault> {
        let max = max_updates.unwrap_or(DEFAULT_MAX_UPDATES).max(1);
        let (mut planned, then) = match self.offered.take() {
            Some(offer) => (offer.rest, offer.then),
            None => {
                let (planned, then) = self.plan(reader, views, effects)?;
                if planned.is_empty() && !self.can_pay(effects) {
                    // Nothing that a client could see: it may as well know.
                    self.acked.advance(then, &self.filters);
                    return Ok(None);
                }
                (planned, then)
            }
        };
        self.pay(&mut planned, reader, views, effects);
        let rest = if planned.len() > max { planned.split_off(max) } else { VecDeque::new() };
        self.serial += 1;
        let version = format!("{:016x}-{}", self.salt, self.serial);
        let mut set = Object::new("UpdateSet").with("version", version.as_str());
        let filters = self.order.iter().filter_map(|id| {
            let own = planned.iter().filter(|update| update.filter == *id);
            self.filter_update(reader, views, effects, id, own)
        });
        set = with_list(set, "filterSet", "PropertyFilterUpdate", filters);
        if !rest.is_empty() {
            set = set.with("truncated", true);
        }
        self.offered = Some(Offer { version, then, rest });
        Ok(Some(set))
    }

    /// Whether a property that is owed can be read now.
    fn can_pay(&self, effects: &Effects) -> bool {
        self.owed.values().flatten().any(|path| unreadable(effects, path).is_none())
    }

    /// Adds what is owed, and notes what cannot be read this time either.
    fn pay(
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

    fn filter_update<'p>(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
        id: &Arc<str>,
        planned: impl Iterator<Item = &'p Planned>,
    ) -> Option<Value> {
        let filter = self.filters.get(id)?;
        let mut objects = planned
            .filter_map(|update| object_update(reader, views, effects, filter, update))
            .map(Value::from)
            .peekable();
        objects.peek()?;
        let update = Object::new("PropertyFilterUpdate").with("filter", filter.reference.clone());
        Some(with_list(update, "objectSet", "ObjectUpdate", objects).into())
    }

    /// Everything that differs from what the client knows, and what it will know then.
    fn plan(
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
        let same_view = denied == self.acked.denied;
        let mut then = Change { journal: journal.head(), denied, ..Change::default() };
        let mut planned = VecDeque::new();
        for id in &self.order {
            let Some(filter) = self.filters.get(id) else { continue };
            let known = self.acked.members.get(id);
            let recent = known.filter(|_| same_view).and_then(|known| {
                let entries = journal.since(self.acked.journal)?;
                Some((known, entries))
            });
            let (change, modified) = match recent {
                Some((known, entries)) => {
                    filter.follow(reader, views, effects, known, entries.collect())?
                }
                None => filter.start_over(reader, views, effects, known)?,
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

impl Position {
    fn advance(&mut self, change: Change, filters: &BTreeMap<Arc<str>, Filter>) {
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

/// What changed in a filter: members, and paths of members that stayed.
type Followed = (FilterChange, Vec<(Obj, Vec<String>)>);

impl Filter {
    /// Selects afresh and compares with what the client knows.
    fn start_over(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
        known: Option<&Members>,
    ) -> Result<Followed, VimFault> {
        let now = self.select(reader, views, effects)?;
        let mut change = self.compare(views, known, now);
        // How old the client's knowledge of the others is cannot be told: they come whole again.
        if let Some(known) = known {
            let gone: BTreeSet<Obj> = change.left.iter().cloned().collect();
            let stayed = known.objects.iter().filter(|obj| !gone.contains(obj)).cloned();
            change.entered.extend(stayed.collect::<Vec<_>>());
        }
        Ok((change, Vec::new()))
    }

    /// Follows the journal from what the client knows.
    fn follow(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
        known: &Members,
        entries: Vec<&sim_world::vcenter::Entry>,
    ) -> Result<Followed, VimFault> {
        let change = if self.follows_view {
            self.follow_views(reader, views, effects, known, &entries)
        } else if entries.iter().any(|entry| self.may_select_otherwise(entry)) {
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

    /// Membership of views, object by object.
    fn follow_views(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
        known: &Members,
        entries: &[&sim_world::vcenter::Entry],
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

    /// Whether a change can alter what a spec selects that does not just follow a view.
    fn may_select_otherwise(&self, entry: &sim_world::vcenter::Entry) -> bool {
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
        // A start object that is deleted leaves; the filter stays, inert.
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

/// Those requested paths that a change of `changed` touches.
fn touched(kind: &str, wanted: &Wanted, changed: &[&'static str]) -> Vec<String> {
    let hit = |path: &str| changed.iter().any(|changed| touches(changed, path));
    if wanted.all {
        return properties::names(kind).filter(|name| hit(name)).map(str::to_owned).collect();
    }
    wanted.paths.iter().filter(|path| hit(path)).cloned().collect()
}

fn object_update(
    reader: &Reader<'_>,
    views: &Views,
    effects: &Effects,
    filter: &Filter,
    update: &Planned,
) -> Option<Object> {
    let subject = select::subject(reader, views, &update.obj);
    let kind = |kind| Value::Enum("ObjectUpdateKind", kind);
    match (&update.kind, subject) {
        (UpdateKind::Leave, _) => {
            let reference = match &update.obj {
                Obj::Mo(id) => (*id).into(),
                Obj::Named(id) => Reference::new("ManagedObject", id.clone()),
            };
            Some(Object::new("ObjectUpdate").with("kind", kind("leave")).with("obj", reference))
        }
        // Gone since it was planned: its leave comes with the next reply.
        (_, None) => None,
        (UpdateKind::Enter, Some(subject)) => {
            let wanted = filter.spec.wanted(subject.kind())?;
            let (values, missing) = select::values(reader, subject, &wanted, effects);
            let changes = values.into_iter().map(|(name, value)| assign(&name, Some(value)));
            let object = Object::new("ObjectUpdate")
                .with("kind", kind("enter"))
                .with("obj", select::reference(&update.obj, subject));
            let object = with_list(object, "changeSet", "PropertyChange", changes);
            let missing = missing.into_iter().map(Value::from);
            Some(with_list(object, "missingSet", "MissingProperty", missing))
        }
        (UpdateKind::Modify(paths), Some(subject)) => {
            let object = Object::new("ObjectUpdate")
                .with("kind", kind("modify"))
                .with("obj", select::reference(&update.obj, subject));
            let (unread, read): (Vec<_>, Vec<_>) =
                paths.iter().partition(|path| unreadable(effects, path).is_some());
            let changes =
                read.iter().map(|path| assign(path, properties::read(reader, subject, path)));
            let missing = unread.iter().map(|path| {
                missing_property(path, unreadable(effects, path).unwrap_or("SystemError")).into()
            });
            let object = with_list(object, "changeSet", "PropertyChange", changes);
            Some(with_list(object, "missingSet", "MissingProperty", missing))
        }
    }
}

/// A `PropertyChange`; without a value the property became unset.
fn assign(name: &str, value: Option<Value>) -> Value {
    let change = Object::new("PropertyChange")
        .with("name", name)
        .with("op", Value::Enum("PropertyChangeOp", "assign"));
    match value {
        Some(value) => change.with_typed("val", value).into(),
        None => change.into(),
    }
}
