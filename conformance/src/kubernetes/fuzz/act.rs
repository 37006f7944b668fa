//! One request of a generated history.

use std::collections::BTreeMap;

use proptest::prelude::{Just, Strategy};
use proptest::prop_oneof;
use serde_json::{Value, json};

use super::kind::{self, ObjectKind};
use crate::kubernetes::sequence::SequenceStep;

/// Operation on an object or a collection.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Get,
    Create,
    Update(UpdateVersion),
    Patch(Patch),
    /// Patches the status through the status subresource.
    Status,
    /// Patches metadata through the status subresource.
    StatusMetadata,
    Delete(DeleteOptions),
    /// Lists the objects with the label of the act.
    List,
    /// Lists the first page of the history's objects, with one object per page.
    Page,
    /// Lists the page after the last listed one.
    NextPage,
    DeleteCollection(CollectionExtent),
}

/// Resource version that an update contains: none, that of the newest version of the object that an
/// earlier request of the history returned, or that of its creation.
#[derive(Clone, Copy, Debug)]
enum UpdateVersion {
    None,
    Newest,
    First,
}

/// Kind and content of a patch.
#[derive(Clone, Copy, Debug)]
enum Patch {
    Merge,
    Strategic,
    /// A strategic merge patch with a directive such as `$patch: replace`.
    Directive,
    Json,
    /// A merge patch that adds a finalizer.
    Hold,
    /// A merge patch that removes all finalizers.
    Release,
}

/// Options of a deletion.
#[derive(Clone, Copy, Debug)]
enum DeleteOptions {
    Plain,
    /// With the resource version of the object's creation as precondition.
    AtFirst,
    Foreground,
    Orphan,
}

/// Extent of the deletion of a collection: the history's objects with the label of the act, or one
/// of the history's objects.
#[derive(Clone, Copy, Debug)]
enum CollectionExtent {
    Selected,
    One,
}

/// A generated request: an operation, a kind, and numbers for the object's name, its label and its
/// values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Act {
    verb: Verb,
    pub(super) kind: ObjectKind,
    name: u8,
    label: u8,
    value: u8,
}

/// Generates requests.
pub(super) fn any() -> impl Strategy<Value = Act> {
    (verb(), kind::any(), 0..2_u8, 0..2_u8, 0..5_u8)
        .prop_map(|(verb, kind, name, label, value)| Act { verb, kind, name, label, value })
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        2 => Just(Verb::Get),
        7 => Just(Verb::Create),
        2 => Just(Verb::Update(UpdateVersion::None)),
        2 => Just(Verb::Update(UpdateVersion::Newest)),
        1 => Just(Verb::Update(UpdateVersion::First)),
        2 => Just(Verb::Patch(Patch::Merge)),
        2 => Just(Verb::Patch(Patch::Strategic)),
        3 => Just(Verb::Patch(Patch::Directive)),
        2 => Just(Verb::Patch(Patch::Json)),
        1 => Just(Verb::Patch(Patch::Hold)),
        1 => Just(Verb::Patch(Patch::Release)),
        2 => Just(Verb::Status),
        2 => Just(Verb::StatusMetadata),
        2 => Just(Verb::Delete(DeleteOptions::Plain)),
        1 => Just(Verb::Delete(DeleteOptions::AtFirst)),
        1 => Just(Verb::Delete(DeleteOptions::Foreground)),
        1 => Just(Verb::Delete(DeleteOptions::Orphan)),
        2 => Just(Verb::List),
        1 => Just(Verb::Page),
        1 => Just(Verb::NextPage),
        1 => Just(Verb::DeleteCollection(CollectionExtent::Selected)),
        1 => Just(Verb::DeleteCollection(CollectionExtent::One)),
    ]
}

/// Method, path, content type of the body (`None` for JSON), and body.
type RequestParts = (&'static str, String, Option<&'static str>, Option<Value>);

impl Act {
    /// Returns the same operation on another kind.
    pub(super) fn with_kind(self, kind: ObjectKind) -> Self {
        Self { kind, ..self }
    }

    /// Returns the request as a step of a sequence, which saves the values that later requests use.
    /// For a kind without a status subresource, reads the object instead of patching its status.
    pub(super) fn step(self) -> SequenceStep {
        let verb = match self.verb {
            Verb::Status | Verb::StatusMetadata if !self.kind.has_status() => Verb::Get,
            verb => verb,
        };
        let (method, path, content_type, body) = self.request(verb);
        let version = |name| (name, "metadata.resourceVersion".to_owned());
        let saved = match verb {
            Verb::Create => vec![version(self.first()), version(self.newest())],
            Verb::Update(_) | Verb::Patch(_) => vec![version(self.newest())],
            Verb::Page | Verb::NextPage => vec![(self.page(), "metadata.continue".to_owned())],
            _ => vec![],
        };
        SequenceStep {
            request: Some(format!("{method} {path}")),
            content_type: content_type.map(str::to_owned),
            body,
            save: BTreeMap::from_iter(saved),
            ..SequenceStep::default()
        }
    }

    /// Returns the name under which the resource version of the object's creation is saved.
    fn first(self) -> String {
        format!("first{}{}", self.kind.names().0, self.name)
    }

    /// Returns the name under which the newest resource version of the object is saved.
    fn newest(self) -> String {
        format!("newest{}{}", self.kind.names().0, self.name)
    }

    /// Returns the name under which the continue token of the last listed page is saved.
    fn page(self) -> String {
        format!("page{}", self.kind.names().0)
    }

    fn object(self) -> String {
        format!("$id-{}", self.name)
    }

    fn path(self) -> String {
        format!("{}/{}", self.kind.collection(), self.object())
    }

    fn request(self, verb: Verb) -> RequestParts {
        let Self { kind, label, value, .. } = self;
        let (path, collection) = (self.path(), kind.collection());
        let run = "labelSelector=run%3D$id";
        let selected = format!("{run},app%3Dl{label}");
        match verb {
            Verb::Get => ("GET", path, None, None),
            Verb::Create => ("POST", collection.to_owned(), None, Some(self.whole(json!({})))),
            Verb::Update(base) => ("PUT", path, None, Some(self.whole(self.based_on(base)))),
            Verb::Patch(patch) => {
                let (content_type, body) = self.patch(patch);
                ("PATCH", path, Some(content_type), Some(body))
            }
            Verb::Status => {
                let content_type = if kind == ObjectKind::Gadget { "merge" } else { "strategic" };
                ("PATCH", format!("{path}/status"), Some(content_type), Some(kind.status(value)))
            }
            Verb::StatusMetadata => {
                let mut metadata = json!({
                    "labels": {"app": format!("l{label}"), "by": format!("v{value}")},
                    "annotations": {"s": format!("v{value}")},
                });
                if value == 1 {
                    metadata["finalizers"] = json!(["example.com/hold"]);
                }
                let body = json!({"metadata": metadata});
                ("PATCH", format!("{path}/status"), Some("merge"), Some(body))
            }
            Verb::Delete(way) => self.delete(way),
            Verb::List => ("GET", format!("{collection}?{selected}"), None, None),
            Verb::Page => ("GET", format!("{collection}?{run}&limit=1"), None, None),
            Verb::NextPage => {
                let token = self.page();
                ("GET", format!("{collection}?{run}&limit=1&continue=${token}"), None, None)
            }
            Verb::DeleteCollection(CollectionExtent::Selected) => {
                ("DELETE", format!("{collection}?{selected}"), None, None)
            }
            Verb::DeleteCollection(CollectionExtent::One) => {
                ("DELETE", format!("{collection}?{run}&limit=1"), None, None)
            }
        }
    }

    fn based_on(self, base: UpdateVersion) -> Value {
        match base {
            UpdateVersion::None => json!({}),
            UpdateVersion::Newest => json!({"resourceVersion": format!("${}", self.newest())}),
            UpdateVersion::First => json!({"resourceVersion": format!("${}", self.first())}),
        }
    }

    /// Returns the complete object, with `more` merged into its metadata.
    fn whole(self, more: Value) -> Value {
        let (_, version, kind) = self.kind.names();
        let labels = json!({"run": "$id", "app": format!("l{}", self.label)});
        let mut metadata = json!({"name": self.object(), "labels": labels});
        merge(&mut metadata, more);
        let mut body = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
        merge(&mut body, self.kind.content(self.value));
        body
    }

    fn patch(self, patch: Patch) -> (&'static str, Value) {
        let Self { kind, label, value, .. } = self;
        match patch {
            Patch::Merge => {
                let mut body =
                    json!({"metadata": {"labels": {"app": format!("l{label}"), "extra": null}}});
                merge(&mut body, kind.content(value));
                ("merge", body)
            }
            Patch::Strategic => {
                let labels = json!({"extra": format!("e{value}")});
                let body = json!({"metadata": {"labels": labels, "annotations": {"a": "b"}}});
                ("strategic", body)
            }
            Patch::Directive => ("strategic", kind.directive(value)),
            Patch::Json => {
                let body = json!([
                    {"op": "test", "path": "/metadata/labels/app", "value": format!("l{label}")},
                    {"op": "replace", "path": "/metadata/labels/app", "value": format!("l{value}")},
                ]);
                ("json-patch", body)
            }
            Patch::Hold => ("merge", json!({"metadata": {"finalizers": ["example.com/hold"]}})),
            Patch::Release => ("merge", json!({"metadata": {"finalizers": null}})),
        }
    }

    fn delete(self, way: DeleteOptions) -> RequestParts {
        let path = self.path();
        let options = |field: &str, value: Value| {
            let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
            body[field] = value;
            Some(body)
        };
        match way {
            DeleteOptions::Plain => ("DELETE", path, None, None),
            DeleteOptions::AtFirst => {
                let version = json!({"resourceVersion": format!("${}", self.first())});
                ("DELETE", path, None, options("preconditions", version))
            }
            DeleteOptions::Foreground => {
                ("DELETE", format!("{path}?propagationPolicy=Foreground"), None, None)
            }
            DeleteOptions::Orphan => {
                ("DELETE", path, None, options("orphanDependents", true.into()))
            }
        }
    }
}

/// Merges the fields of the object `from` into `into`, recursively. If either is not an object,
/// `from` replaces `into`.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (field, value) in from {
                merge(into.entry(field).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}
