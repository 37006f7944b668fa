//! Operations of vAPI that the simulated vCenter supports, and for each the requests that select it
//! and the part of a request that the ledger keeps. The vCenter answers every other request with
//! 404.
//!
//! Every call refers to the object in its body, else to the tag, category, library or item in its
//! path.

use super::operation_table;
use crate::call::Class;

/// Requests that select an operation, by method and by path without dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestPattern {
    /// This method at this path, without an id and without an action.
    Service(&'static str, &'static str),
    /// This method at this path with an id, without an action.
    Object(&'static str, &'static str),
    /// POST at this path, with or without an id. The action in the query is the last part of the
    /// name of the operation.
    Action(&'static str),
}

/// Part of a request that the ledger keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// No part.
    Nothing,
    /// Number of objects in a request for the tags of several objects.
    Objects,
    /// Number of tags in a request for the objects of several tags.
    Tags,
}

use Detail::{Nothing, Objects, Tags};
use RequestPattern::{Action, Object, Service};

const SESSION: &str = "session";
const TAG: &str = "tagging/tag";
const CATEGORY: &str = "tagging/category";
const ASSOCIATION: &str = "tagging/tag-association";
const LIBRARY: &str = "content/library";
const ITEM: &str = "content/library/item";
const TEMPLATE: &str = "vcenter/vm-template/library-items";

operation_table! {
    /// An operation of vAPI that the simulated vCenter supports.
    Operation {
        /// Requests that select the operation.
        requests: &'static [RequestPattern]
    }

    SessionCreate = "cis.session.create", Login, &[Service("POST", SESSION)], Nothing;
    SessionGet = "cis.session.get", Read, &[Service("GET", SESSION), Action(SESSION)], Nothing;
    SessionDelete = "cis.session.delete", Login, &[Service("DELETE", SESSION)], Nothing;
    TagList = "tagging.tag.list", Read, &[Service("GET", TAG)], Nothing;
    TagCreate = "tagging.tag.create", Write, &[Service("POST", TAG)], Nothing;
    TagGet = "tagging.tag.get", Read, &[Object("GET", TAG)], Nothing;
    TagUpdate = "tagging.tag.update", Write, &[Object("PATCH", TAG)], Nothing;
    TagDelete = "tagging.tag.delete", Write, &[Object("DELETE", TAG)], Nothing;
    TagsForCategory = "tagging.tag.list-tags-for-category", Read, &[Action(TAG)], Nothing;
    CategoryList = "tagging.category.list", Read, &[Service("GET", CATEGORY)], Nothing;
    CategoryCreate = "tagging.category.create", Write, &[Service("POST", CATEGORY)], Nothing;
    CategoryGet = "tagging.category.get", Read, &[Object("GET", CATEGORY)], Nothing;
    CategoryUpdate = "tagging.category.update", Write, &[Object("PATCH", CATEGORY)], Nothing;
    CategoryDelete = "tagging.category.delete", Write, &[Object("DELETE", CATEGORY)], Nothing;
    Attach = "tagging.tag-association.attach", Write, &[Action(ASSOCIATION)], Nothing;
    Detach = "tagging.tag-association.detach", Write, &[Action(ASSOCIATION)], Nothing;
    AttachedTags = "tagging.tag-association.list-attached-tags", Read, &[Action(ASSOCIATION)], Nothing;
    AttachedObjects = "tagging.tag-association.list-attached-objects", Read, &[Action(ASSOCIATION)], Nothing;
    AttachedTagsOnObjects = "tagging.tag-association.list-attached-tags-on-objects", Read, &[Action(ASSOCIATION)], Objects;
    AttachedObjectsOnTags = "tagging.tag-association.list-attached-objects-on-tags", Read, &[Action(ASSOCIATION)], Tags;
    AttachMany = "tagging.tag-association.attach-multiple-tags-to-object", Write, &[Action(ASSOCIATION)], Nothing;
    DetachMany = "tagging.tag-association.detach-multiple-tags-from-object", Write, &[Action(ASSOCIATION)], Nothing;
    AttachToMany = "tagging.tag-association.attach-tag-to-multiple-objects", Write, &[Action(ASSOCIATION)], Nothing;
    LibraryList = "content.library.list", Read, &[Service("GET", LIBRARY)], Nothing;
    LibraryFind = "content.library.find", Read, &[Action(LIBRARY)], Nothing;
    LibraryGet = "content.library.get", Read, &[Object("GET", LIBRARY)], Nothing;
    ItemList = "content.library.item.list", Read, &[Service("GET", ITEM)], Nothing;
    ItemFind = "content.library.item.find", Read, &[Action(ITEM)], Nothing;
    ItemGet = "content.library.item.get", Read, &[Object("GET", ITEM)], Nothing;
    TemplateGet = "vcenter.vm-template.library-items.get", Read, &[Object("GET", TEMPLATE)], Nothing;
    TemplateDeploy = "vcenter.vm-template.library-items.deploy", Write, &[Action(TEMPLATE)], Nothing;
}

impl Operation {
    /// Returns the operation that a request selects; `None` if no operation has this method, path
    /// and action. `path` is the path without dialect and id. `action` is the action in the query;
    /// `None` without one.
    pub(crate) fn of_request(
        method: &str,
        path: &str,
        has_id: bool,
        action: Option<&str>,
    ) -> Option<Self> {
        let is_selected = |operation: &Self| {
            operation.requests().iter().any(|pattern| match *pattern {
                Service(of, at) => (of, at, false, None) == (method, path, has_id, action),
                Object(of, at) => (of, at, true, None) == (method, path, has_id, action),
                Action(at) => {
                    ("POST", at) == (method, path)
                        && action.is_some_and(|action| Some(action) == operation.action())
                }
            })
        };
        Self::ALL.iter().copied().find(is_selected)
    }

    /// Part of the name after the last dot: the action in the query of a request.
    fn action(self) -> Option<&'static str> {
        self.name().rsplit('.').next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_selects_one_operation() {
        for operation in Operation::ALL {
            for pattern in operation.requests() {
                let selected = |has_id| match *pattern {
                    Service(method, path) | Object(method, path) => {
                        Operation::of_request(method, path, has_id, None)
                    }
                    Action(path) => Operation::of_request("POST", path, has_id, operation.action()),
                };
                let want = match pattern {
                    Service(..) => [true, false],
                    Object(..) => [false, true],
                    Action(_) => [true, true],
                };
                let got = [false, true].map(|has_id| selected(has_id) == Some(*operation));
                assert_eq!(got, want, "{}", operation.name());
            }
        }
        for (method, path, action) in [
            ("GET", "tagging/tag-association", Some("attach")),
            ("POST", "tagging/tag", Some("create")),
            ("POST", "session", Some("")),
            ("GET", "session", Some("get")),
            ("PUT", "tagging/tag", None),
            ("GET", "tagging", None),
        ] {
            let selected = Operation::of_request(method, path, false, action);
            assert_eq!(selected, None, "{method} {path} {action:?}");
        }
    }
}
