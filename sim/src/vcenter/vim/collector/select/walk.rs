//! Walk from the start objects of a spec along its traversals.

use std::collections::BTreeSet;

use sim_world::vcenter::Kind;

use super::{FilterSpec, Obj, Selected, Traversal, Views, subject};
use crate::call::vim25;
use crate::faults::Effects;
use crate::vcenter::vim::data::{Value, VimFault};
use crate::vcenter::vim::properties::{self, Reader, Subject};

/// State of one walk over the inventory.
pub(super) struct Walk<'a> {
    pub(super) spec: &'a FilterSpec,
    pub(super) reader: &'a Reader<'a>,
    pub(super) views: &'a Views,
    pub(super) effects: &'a Effects,
    pub(super) seen: BTreeSet<Obj>,
    pub(super) walked: BTreeSet<(Obj, usize)>,
    pub(super) selected: Selected,
}

impl Walk<'_> {
    pub(super) fn report(&mut self, obj: &Obj) {
        if self.visible(obj) && self.seen.insert(obj.clone()) {
            let kind = subject(self.reader, self.views, obj).map(Subject::kind);
            if kind.is_some_and(|kind| self.spec.props.iter().any(|it| vim25::is_a(kind, &it.kind)))
            {
                self.selected.objects.push(obj.clone());
            }
        }
    }

    pub(super) fn follow(&mut self, select: &[usize], from: &Obj) -> Result<(), VimFault> {
        // Uses an explicit stack, because inventories may be deep and specs may refer to
        // themselves.
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

    /// Returns the objects to which a traversal leads from `obj`.
    ///
    /// # Errors
    /// `InvalidProperty` if the property has values other than references.
    fn targets(&self, traversal: &Traversal, obj: &Obj) -> Result<Vec<Obj>, VimFault> {
        let Some(subject) = subject(self.reader, self.views, obj) else { return Ok(Vec::new()) };
        if !vim25::is_a(subject.kind(), &traversal.kind) {
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
            if super::subject(self.reader, self.views, &target).is_some() {
                targets.push(target);
            }
        }
        Ok(targets)
    }

    fn visible(&self, obj: &Obj) -> bool {
        match obj {
            Obj::Named(_) => true,
            Obj::Mo(id) if id.kind == Kind::Task => true,
            Obj::Mo(id) => self.reader.sees(*id) && !self.effects.hides_object(self.reader.vc, *id),
        }
    }
}
