//! Reads properties: RetrievePropertiesEx with its pages, RetrieveProperties, and Fetch.

use std::collections::VecDeque;

use super::select::{self, FilterSpec, Obj, with_list};
use crate::call::vim25;
use crate::faults::Effects;
use crate::shared_world::Locked;
use crate::vcenter::vim::data::{Node, Object, Value, VimFault, any};
use crate::vcenter::vim::operations::{Answer, Caller, Failure, Vim};
use crate::vcenter::vim::properties::{self, Reader, Subject};
use crate::vcenter::vim::session::objects::{Pages, SessionObjects, wanted_by_all};

impl Vim {
    /// Reads properties: the first page of `RetrievePropertiesEx` if `paged`, else the plain list
    /// of `RetrieveProperties`. Returns `None` if the specs select no object.
    ///
    /// # Errors
    /// `InvalidArgument` for a missing or invalid spec or `maxObjects`, `InvalidProperty` for an
    /// unknown property or a traversal of one that is not a reference, `ManagedObjectNotFound` for
    /// a start object that does not exist (unless the spec requests a report of it),
    /// `NotAuthenticated` if the session has ended.
    pub(in crate::vcenter::vim) fn retrieve(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        arguments: &Node,
        effects: &Effects,
        paged: bool,
    ) -> Result<Option<Value>, VimFault> {
        let release = self.release(world);
        let specs = arguments.all("specSet").map(|spec| FilterSpec::read(spec, release));
        let specs = specs.collect::<Result<Vec<_>, _>>()?;
        if specs.is_empty() {
            return Err(VimFault::invalid_argument("specSet"));
        }
        let max = match arguments.child("options").map(|options| options.int("maxObjects")) {
            Some(max) => max?,
            None => None,
        };
        let size = match max {
            None => usize::MAX,
            Some(max) => usize::try_from(max)
                .ok()
                .filter(|max| *max > 0)
                .ok_or_else(|| VimFault::invalid_argument("maxObjects"))?,
        };
        self.with_owned(world, caller, |owned, reader| {
            let mut objects: VecDeque<Obj> = VecDeque::new();
            let mut seen = std::collections::BTreeSet::new();
            for spec in &specs {
                let selected = spec.select(reader, &owned.views, effects)?;
                objects.extend(selected.objects.into_iter().filter(|obj| seen.insert(obj.clone())));
            }
            if effects.empty_result {
                objects.clear();
            }
            let pages =
                Pages { rest: objects, spec: specs, size: if paged { size } else { usize::MAX } };
            Ok(page(owned, reader, effects, pages, paged))
        })
    }

    pub(in crate::vcenter::vim) fn continue_retrieve(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        arguments: &Node,
        effects: &Effects,
    ) -> Result<Option<Value>, VimFault> {
        let token = arguments.required("token")?;
        self.with_owned(world, caller, |owned, reader| {
            let pages =
                owned.pages.remove(token).ok_or_else(|| VimFault::invalid_argument("token"))?;
            Ok(page(owned, reader, effects, pages, true))
        })
    }

    pub(in crate::vcenter::vim) fn cancel_retrieve(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        arguments: &Node,
    ) -> Result<(), VimFault> {
        let token = arguments.required("token")?;
        self.with_owned(world, caller, |owned, _| {
            owned.pages.remove(token).map(|_| ()).ok_or_else(|| VimFault::invalid_argument("token"))
        })
    }

    /// Answers `Fetch`: reads one property of one object. pyVmomi calls `Fetch` for every
    /// attribute.
    ///
    /// # Errors
    /// `InvalidArgument` without a path, `ManagedObjectNotFound` for an unknown object,
    /// `InvalidProperty` for an unknown path, `NotAuthenticated` if the session has ended, or the
    /// fault of a rule.
    pub(in crate::vcenter::vim) fn fetch(
        &self,
        world: &Locked<'_>,
        caller: &Caller<'_>,
        (claimed, id): (&str, &str),
        arguments: &Node,
        effects: &Effects,
    ) -> Result<Answer, Failure> {
        let path = arguments.required("prop")?;
        let obj = Obj::of(id);
        let release = self.release(world);
        let value = self.with_owned(world, caller, |owned, reader| {
            let subject = select::subject(reader, &owned.views, &obj)
                .ok_or_else(|| VimFault::not_found(claimed, id))?;
            if vim25::property(subject.kind(), path, release).is_none() {
                return Err(VimFault::invalid_property(path));
            }
            match select::unreadable(effects, path) {
                Some(fault) => Err(VimFault::named(fault, None)),
                None => Ok(properties::read(reader, subject, path)),
            }
        })?;
        // The result is declared as anyType.
        Ok(value.map(any).into())
    }
}

/// Returns the next page of a retrieval, a plain list unless `paged`; `None` if no object is left.
/// The retrieval selected its objects for the first page; this function reads their properties now.
/// If objects remain, stores them in `owned` under a new token, in place of any other open
/// retrieval.
fn page(
    owned: &mut SessionObjects,
    reader: &Reader<'_>,
    effects: &Effects,
    mut pages: Pages,
    paged: bool,
) -> Option<Value> {
    let mut contents = Vec::new();
    while contents.len() < pages.size {
        let Some(obj) = pages.rest.pop_front() else { break };
        let kind = select::subject(reader, &owned.views, &obj).map(Subject::kind);
        let Some(kind) = kind else { continue };
        let wanted = wanted_by_all(&pages.spec, kind);
        let content = select::object_content(reader, &owned.views, &obj, &wanted, effects);
        contents.extend(content.map(Value::from));
    }
    if contents.is_empty() {
        return None;
    }
    if !paged {
        return Some(Value::List("ObjectContent", contents));
    }
    let mut result = Object::new("RetrieveResult");
    if !pages.rest.is_empty() {
        let token = owned.next_id().to_string();
        result = result.with("token", token.as_str());
        // A session has at most one open retrieval. A new one replaces the old one.
        owned.pages.clear();
        owned.pages.insert(token, pages);
    }
    Some(with_list(result, "objects", "ObjectContent", contents.into_iter()).into())
}
