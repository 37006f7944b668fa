//! The PropertyCollector's selection: which objects a filter spec reports, and which properties.
//!
//! Rules are those of `fake-vcenter` §6.2, checked against govmomi's and pyVmomi's requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sim_world::vcenter::{Kind, MoRef};

use super::fault::VimFault;
use super::node::Node;
use super::properties::{self, Reader, Subject};
use super::types;
use super::value::{Object, Reference, Value};
use super::views::View;
use crate::faults::Effects;

/// A managed object of any sort.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Obj {
    /// In the inventory, or a task.
    Mo(MoRef),
    /// A manager or a session's own object, by id.
    Named(Arc<str>),
}

impl Obj {
    /// The object with this id.
    pub(crate) fn of(id: &str) -> Self {
        MoRef::parse(id).map_or_else(|| Self::Named(id.into()), Self::Mo)
    }
}

/// What a session's own objects look like to a selection.
pub(crate) type Views = BTreeMap<Arc<str>, View>;

/// A `PropertyFilterSpec`, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct FilterSpec {
    props: Vec<PropSpec>,
    pub(crate) starts: Vec<Start>,
    /// All traversals; selections refer to them by index.
    pub(crate) traversals: Vec<Traversal>,
    report_missing: bool,
}

#[derive(Clone, Debug)]
struct PropSpec {
    kind: String,
    all: bool,
    paths: Vec<String>,
}

/// An `ObjectSpec`.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) obj: Obj,
    kind: String,
    id: String,
    pub(crate) skip: bool,
    pub(crate) select: Vec<usize>,
}

/// A `TraversalSpec`.
#[derive(Clone, Debug)]
pub(crate) struct Traversal {
    kind: String,
    pub(crate) path: String,
    skip: bool,
    pub(crate) select: Vec<usize>,
}

/// The properties of one type that a spec asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) all: bool,
    pub(crate) paths: Vec<String>,
}

/// What a spec selects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selected {
    /// Objects to report, in the order found.
    pub(crate) objects: Vec<Obj>,
    /// Start objects that do not exist, where the spec wants to hear of them.
    pub(crate) missing: Vec<(String, String)>,
}

impl FilterSpec {
    /// Reads a spec and checks types, names and paths.
    pub(crate) fn read(node: &Node) -> Result<Self, VimFault> {
        let mut reading = Reading::default();
        let props = node.all("propSet").map(prop_spec).collect::<Result<Vec<_>, _>>()?;
        let mut starts = Vec::new();
        for spec in node.all("objectSet") {
            let obj = spec.child("obj").ok_or_else(|| VimFault::invalid_argument("obj"))?;
            let given = obj.reference();
            starts.push(Start {
                obj: Obj::of(given.id),
                kind: given.kind.into_owned(),
                id: given.id.to_owned(),
                skip: spec.flag("skip")?.unwrap_or(false),
                select: reading.selections(Owner::Start(starts.len()), spec)?,
            });
        }
        let report_missing = node.flag("reportMissingObjectsInResults")?.unwrap_or(false);
        let traversals = reading.resolve(&mut starts)?;
        Ok(Self { props, starts, traversals, report_missing })
    }

    /// What is asked of objects of `kind`; `None` when they are not reported at all.
    pub(crate) fn wanted(&self, kind: &str) -> Option<Wanted> {
        let mut matching =
            self.props.iter().filter(|prop| types::is_a(kind, &prop.kind)).peekable();
        matching.peek()?;
        let mut wanted = Wanted::default();
        for prop in matching {
            wanted.all |= prop.all;
            for path in &prop.paths {
                if !wanted.paths.contains(path) {
                    wanted.paths.push(path.clone());
                }
            }
        }
        Some(wanted)
    }

    /// Whether the spec makes sense as things are: its objects are there, its traversals lead on.
    ///
    /// # Errors
    /// What a walk would fail with.
    pub(crate) fn check(&self, reader: &Reader<'_>, views: &Views) -> Result<(), VimFault> {
        let is_view = |start: &Start| match &start.obj {
            Obj::Named(id) => views.contains_key(id),
            Obj::Mo(_) => false,
        };
        // Views may have many members; a walk from them is left to the first wait.
        if self.starts.iter().all(is_view) {
            return Ok(());
        }
        self.select(reader, views, &Effects::default()).map(|_| ())
    }

    /// Walks from the start objects.
    pub(crate) fn select(
        &self,
        reader: &Reader<'_>,
        views: &Views,
        effects: &Effects,
    ) -> Result<Selected, VimFault> {
        let mut walk = Walk {
            spec: self,
            reader,
            views,
            effects,
            seen: BTreeSet::new(),
            walked: BTreeSet::new(),
            selected: Selected::default(),
        };
        for start in &self.starts {
            match subject(reader, views, &start.obj) {
                None if self.report_missing => {
                    walk.selected.missing.push((start.kind.clone(), start.id.clone()));
                }
                None => return Err(VimFault::not_found(&start.kind, &start.id)),
                Some(_) => {
                    if !start.skip {
                        walk.report(&start.obj);
                    }
                    walk.follow(&start.select, &start.obj)?;
                }
            }
        }
        Ok(walk.selected)
    }
}

/// The object, if it exists. Whether the caller may see it is another question.
pub(crate) fn subject<'a>(
    reader: &Reader<'a>,
    views: &'a Views,
    obj: &'a Obj,
) -> Option<Subject<'a>> {
    match obj {
        Obj::Mo(id) if id.kind == Kind::Task => {
            reader.vc.tasks.get(id).map(|task| Subject::Task(*id, task))
        }
        Obj::Mo(id) => reader.vc.inventory.get(*id).map(|entity| Subject::Entity(*id, entity)),
        Obj::Named(id) => match views.get(id) {
            Some(view) => Some(Subject::View(view)),
            None => super::content::manager(id).map(Subject::Manager),
        },
    }
}

/// `ObjectContent` of one object.
pub(crate) fn object_content(
    reader: &Reader<'_>,
    views: &Views,
    obj: &Obj,
    wanted: &Wanted,
    effects: &Effects,
) -> Option<Object> {
    let subject = subject(reader, views, obj)?;
    let (values, missing) = values(reader, subject, wanted, effects);
    let set = |(name, value): (String, Value)| {
        Object::new("DynamicProperty").with("name", name).with_typed("val", value).into()
    };
    let content = Object::new("ObjectContent").with("obj", reference(obj, subject));
    let content = with_list(content, "propSet", "DynamicProperty", values.into_iter().map(set));
    Some(with_list(content, "missingSet", "MissingProperty", missing.into_iter().map(Value::from)))
}

/// The set values that are asked for, and those that cannot be read.
pub(crate) fn values(
    reader: &Reader<'_>,
    subject: Subject<'_>,
    wanted: &Wanted,
    effects: &Effects,
) -> (Vec<(String, Value)>, Vec<Object>) {
    let mut values = Vec::new();
    let mut missing = Vec::new();
    let mut take = |path: &str, value: Option<Value>| match unreadable(effects, path) {
        Some(fault) => missing.push(missing_property(path, fault)),
        None => values.extend(value.map(|value| (path.to_owned(), value))),
    };
    if wanted.all {
        for (name, value) in properties::read_all(reader, subject) {
            take(name, Some(value));
        }
    } else {
        for path in &wanted.paths {
            take(path, properties::read(reader, subject, path));
        }
    }
    (values, missing)
}

/// `MissingProperty` for a path that cannot be read.
pub(crate) fn missing_property(path: &str, fault: &str) -> Object {
    let fault = VimFault::named(fault, None).localized();
    Object::new("MissingProperty").with("path", path).with("fault", fault)
}

/// The fault with which a rule makes `path` unreadable.
pub(crate) fn unreadable<'e>(effects: &'e Effects, path: &str) -> Option<&'e str> {
    let covered = |missing: &String| sim_world::vcenter::touches(missing, path);
    effects
        .missing_set
        .iter()
        .find(|missing| missing.paths.iter().any(covered))
        .map(|missing| missing.fault.as_str())
}

/// The reference of an object that exists.
pub(crate) fn reference(obj: &Obj, subject: Subject<'_>) -> Reference {
    match obj {
        Obj::Mo(id) => (*id).into(),
        Obj::Named(id) => Reference::new(subject.kind(), id.clone()),
    }
}

/// With a list field, unless it is empty.
pub(crate) fn with_list(
    object: Object,
    name: &'static str,
    item: &'static str,
    values: impl Iterator<Item = Value>,
) -> Object {
    let items: Vec<Value> = values.collect();
    if items.is_empty() { object } else { object.with(name, Value::List(item, items)) }
}

/// One walk over the inventory.
struct Walk<'a> {
    spec: &'a FilterSpec,
    reader: &'a Reader<'a>,
    views: &'a Views,
    effects: &'a Effects,
    seen: BTreeSet<Obj>,
    walked: BTreeSet<(Obj, usize)>,
    selected: Selected,
}

impl Walk<'_> {
    fn report(&mut self, obj: &Obj) {
        if self.visible(obj) && self.seen.insert(obj.clone()) {
            let kind = subject(self.reader, self.views, obj).map(Subject::kind);
            if kind.is_some_and(|kind| self.spec.props.iter().any(|it| types::is_a(kind, &it.kind)))
            {
                self.selected.objects.push(obj.clone());
            }
        }
    }

    fn follow(&mut self, select: &[usize], from: &Obj) -> Result<(), VimFault> {
        // An explicit stack: inventories may be deep, and specs refer to themselves.
        let mut open: Vec<(usize, Obj)> =
            select.iter().rev().map(|index| (*index, from.clone())).collect();
        while let Some((index, obj)) = open.pop() {
            if !self.visible(&obj) || !self.walked.insert((obj.clone(), index)) {
                continue;
            }
            let traversal = &self.spec.traversals[index];
            let mut next = Vec::new();
            for target in self.targets(traversal, &obj)? {
                if !traversal.skip {
                    self.report(&target);
                }
                next.extend(traversal.select.iter().map(|index| (*index, target.clone())));
            }
            open.extend(next.into_iter().rev());
        }
        Ok(())
    }

    /// Where a traversal leads from an object.
    ///
    /// # Errors
    /// A property that holds something else than references leads nowhere.
    fn targets(&self, traversal: &Traversal, obj: &Obj) -> Result<Vec<Obj>, VimFault> {
        let Some(subject) = subject(self.reader, self.views, obj) else { return Ok(Vec::new()) };
        if !types::is_a(subject.kind(), &traversal.kind) {
            return Ok(Vec::new());
        }
        if let (Subject::View(view), "view") = (subject, traversal.path.as_str()) {
            return Ok(view.objects(self.reader).into_iter().map(Obj::Mo).collect());
        }
        let values = match properties::read(self.reader, subject, &traversal.path) {
            None => Vec::new(),
            Some(Value::List(_, items)) => items,
            Some(value) => vec![value],
        };
        let mut targets = Vec::new();
        for value in &values {
            let Value::Ref(reference) = value else {
                return Err(VimFault::invalid_property(&traversal.path));
            };
            let target = Obj::of(&reference.id);
            if super::select::subject(self.reader, self.views, &target).is_some() {
                targets.push(target);
            }
        }
        Ok(targets)
    }

    fn visible(&self, obj: &Obj) -> bool {
        match obj {
            Obj::Named(_) => true,
            Obj::Mo(id) if id.kind == Kind::Task => true,
            Obj::Mo(id) => self.reader.sees(*id) && !is_hidden(self.reader, self.effects, *id),
        }
    }
}

/// Whether a rule hides this object from the caller.
pub(crate) fn is_hidden(reader: &Reader<'_>, effects: &Effects, id: MoRef) -> bool {
    !effects.hidden.is_empty()
        && (effects.hides(&id.to_string())
            || reader.vc.inventory.get(id).is_some_and(|entity| effects.hides(&entity.name)))
}

fn prop_spec(node: &Node) -> Result<PropSpec, VimFault> {
    let kind = node.required("type")?;
    if !types::exists(kind) {
        return Err(VimFault::invalid_argument("type"));
    }
    let all = node.flag("all")?.unwrap_or(false);
    let paths: Vec<String> = node.all("pathSet").map(|path| path.text.clone()).collect();
    if let Some(path) = paths.iter().find(|path| !all && !properties::is_valid(kind, path)) {
        return Err(VimFault::invalid_property(path));
    }
    Ok(PropSpec { kind: kind.to_owned(), all, paths: if all { Vec::new() } else { paths } })
}

/// Traversals as they are read, before names are known.
#[derive(Default)]
struct Reading {
    traversals: Vec<Traversal>,
    names: BTreeMap<String, usize>,
    /// References by name: where to add the traversal once all names are known.
    references: Vec<(Owner, String)>,
}

/// Whose `selectSet` a reference stands in.
#[derive(Clone, Copy)]
enum Owner {
    Start(usize),
    Traversal(usize),
}

impl Reading {
    /// The traversals in a `selectSet`; references by name are noted for later.
    fn selections(&mut self, owner: Owner, node: &Node) -> Result<Vec<usize>, VimFault> {
        let mut direct = Vec::new();
        for select in node.all("selectSet") {
            match self.selection(select)? {
                Ok(traversal) => direct.push(traversal),
                Err(name) => self.references.push((owner, name)),
            }
        }
        Ok(direct)
    }

    /// A traversal by index, or the name of one.
    fn selection(&mut self, node: &Node) -> Result<Result<usize, String>, VimFault> {
        let traverses = match node.xsi_type.as_deref() {
            Some("TraversalSpec") => true,
            Some(_) => false,
            None => node.child("path").is_some(),
        };
        if !traverses {
            return Ok(Err(node.required("name")?.to_owned()));
        }
        let kind = node.required("type")?;
        if !types::exists(kind) {
            return Err(VimFault::invalid_argument("type"));
        }
        let path = node.required("path")?;
        if !properties::is_valid(kind, path) {
            return Err(VimFault::invalid_property(path));
        }
        let index = self.traversals.len();
        self.traversals.push(Traversal {
            kind: kind.to_owned(),
            path: path.to_owned(),
            skip: node.flag("skip")?.unwrap_or(false),
            select: Vec::new(),
        });
        if let Some(name) = node.text_of("name").filter(|name| !name.is_empty()) {
            self.names.entry(name.to_owned()).or_insert(index);
        }
        self.traversals[index].select = self.selections(Owner::Traversal(index), node)?;
        Ok(Ok(index))
    }

    fn resolve(mut self, starts: &mut [Start]) -> Result<Vec<Traversal>, VimFault> {
        for (owner, name) in std::mem::take(&mut self.references) {
            let index = self
                .names
                .get(&name)
                .copied()
                .ok_or_else(|| VimFault::invalid_argument("selectSet"))?;
            match owner {
                Owner::Traversal(owner) => self.traversals[owner].select.push(index),
                Owner::Start(owner) => starts[owner].select.push(index),
            }
        }
        Ok(self.traversals)
    }
}
