//! A generated history: requests and an optional watch, which together become a sequence.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy};
use proptest::prop_oneof;
use serde_json::json;

use super::act::{self, Act};
use super::kind::{self, ObjectKind, definition};
use crate::kubernetes::sequence::{Clause, Sequence, SequenceStep};

/// Exclusive upper bound of the number of requests in a history.
const LONGEST: usize = 16;

/// A generated history.
#[derive(Clone, Debug)]
pub(super) struct History {
    /// Kind of objects that a watch observes during the history; `None` without a watch.
    watched: Option<ObjectKind>,
    /// True if the history first creates a custom kind and waits until the server serves it (at
    /// most 25 s per step), so that its requests may use this kind.
    has_gadgets: bool,
    acts: Vec<Act>,
}

/// Generates histories.
pub(super) fn any() -> impl Strategy<Value = History> {
    // A watch is rare, because reading it to its end takes two seconds on a real server.
    let watched = prop_oneof![7 => Just(None), 1 => kind::any().prop_map(Some)];
    let has_gadgets = prop_oneof![7 => Just(false), 1 => Just(true)];
    (watched, has_gadgets, vec(act::any(), 1..LONGEST)).prop_map(|(watched, has_gadgets, acts)| {
        let served = |kind| match kind {
            ObjectKind::Gadget if !has_gadgets => ObjectKind::ConfigMap,
            other => other,
        };
        let acts = acts.into_iter().map(|act| act.with_kind(served(act.kind))).collect();
        History { watched: watched.map(served), has_gadgets, acts }
    })
}

impl History {
    /// Returns the history as a sequence that can be played.
    pub(super) fn sequence(&self) -> Sequence {
        let mut steps = Vec::new();
        if self.has_gadgets {
            steps.extend(ready_gadgets());
        }
        steps.extend(self.watched.into_iter().flat_map(opened));
        steps.extend(self.requests());
        if self.watched.is_some() {
            let read = Some("w".to_owned());
            steps.push(SequenceStep { read, events: 2 * LONGEST, ..SequenceStep::default() });
        }
        let name = "generated".to_owned();
        Sequence { name, clause: Clause::Writing, managed_fields: false, steps }
    }

    /// Returns the requests as steps. If no earlier request has saved the resource version that a
    /// request needs, the request contains 1 instead. If no continue token is saved, the request
    /// lists the first page.
    fn requests(&self) -> Vec<SequenceStep> {
        let mut saved = BTreeSet::new();
        let mut steps = Vec::new();
        for act in &self.acts {
            let mut step = act.step();
            let version = step.body.as_mut().and_then(|body| {
                ["/metadata/resourceVersion", "/preconditions/resourceVersion"]
                    .into_iter()
                    .find(|path| body.pointer(path).is_some())
                    .and_then(|path| body.pointer_mut(path))
            });
            if let Some(version) = version
                && !version.as_str().is_some_and(|it| saved.contains(it.trim_start_matches('$')))
            {
                *version = "1".into();
            }
            if let Some(request) = &mut step.request
                && let Some((first, token)) = request.split_once("&continue=$")
                && !saved.contains(token)
            {
                *request = first.to_owned();
            }
            saved.extend(step.save.keys().cloned());
            steps.push(step);
        }
        steps
    }
}

/// Returns the steps that create a custom kind and wait until the server serves it. On a real
/// server the first write of an object of a new kind takes longer than a watch is open, so the last
/// step creates an object that the watch does not select.
fn ready_gadgets() -> [SequenceStep; 3] {
    let collection = ObjectKind::Gadget.collection();
    let (_, version, kind) = ObjectKind::Gadget.names();
    let listed = SequenceStep {
        request: Some(format!("GET {collection}")),
        until: Some(200),
        ..SequenceStep::default()
    };
    let first = SequenceStep {
        request: Some(format!("POST {collection}")),
        body: Some(json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": "$id-primer"},
            "spec": {"color": "red"},
        })),
        until: Some(201),
        ..SequenceStep::default()
    };
    [definition(), listed, first]
}

/// Returns the steps that list the objects of a kind and then watch them.
fn opened(kind: ObjectKind) -> [SequenceStep; 2] {
    let path = format!("GET {}?labelSelector=run%3D$id", kind.collection());
    let save = BTreeMap::from([("now".to_owned(), "metadata.resourceVersion".to_owned())]);
    let watch = format!("{path}&watch=true&resourceVersion=$now&timeoutSeconds=2");
    [
        SequenceStep { request: Some(path), save, ..SequenceStep::default() },
        SequenceStep {
            request: Some(watch),
            watch: Some("w".to_owned()),
            ..SequenceStep::default()
        },
    ]
}
