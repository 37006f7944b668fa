//! Routes: the operation that method, path and action of a request select.

use http::{Method, Uri};

use super::dialect::{Dialect, Error};
use crate::Class;
use crate::names::named;

named! {
    /// An operation of vAPI that the simulated vCenter supports.
    pub(crate) enum Operation {
        SessionCreate = "cis.session.create",
        SessionGet = "cis.session.get",
        SessionDelete = "cis.session.delete",
        TagList = "tagging.tag.list",
        TagCreate = "tagging.tag.create",
        TagGet = "tagging.tag.get",
        TagUpdate = "tagging.tag.update",
        TagDelete = "tagging.tag.delete",
        TagsForCategory = "tagging.tag.list-tags-for-category",
        CategoryList = "tagging.category.list",
        CategoryCreate = "tagging.category.create",
        CategoryGet = "tagging.category.get",
        CategoryUpdate = "tagging.category.update",
        CategoryDelete = "tagging.category.delete",
        Attach = "tagging.tag-association.attach",
        Detach = "tagging.tag-association.detach",
        AttachedTags = "tagging.tag-association.list-attached-tags",
        AttachedObjects = "tagging.tag-association.list-attached-objects",
        AttachedTagsOnObjects = "tagging.tag-association.list-attached-tags-on-objects",
        AttachedObjectsOnTags = "tagging.tag-association.list-attached-objects-on-tags",
        AttachMany = "tagging.tag-association.attach-multiple-tags-to-object",
        DetachMany = "tagging.tag-association.detach-multiple-tags-from-object",
        AttachToMany = "tagging.tag-association.attach-tag-to-multiple-objects",
    }
}

/// An operation, and the id in the path of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) operation: Operation,
    pub(super) id: Option<String>,
}

impl Operation {
    pub(crate) fn class(self) -> Class {
        match self {
            Self::SessionCreate | Self::SessionDelete => Class::Login,
            Self::SessionGet
            | Self::TagList
            | Self::TagGet
            | Self::TagsForCategory
            | Self::CategoryList
            | Self::CategoryGet
            | Self::AttachedTags
            | Self::AttachedObjects
            | Self::AttachedTagsOnObjects
            | Self::AttachedObjectsOnTags => Class::Read,
            _ => Class::Write,
        }
    }
}

/// Parses a request line. Returns the dialect even if no operation has this method, path and
/// action.
pub(super) fn read(method: &Method, uri: &Uri) -> (Dialect, Result<Route, Error>) {
    let path = uri.path().trim_end_matches('/');
    let (dialect, rest) = match path.strip_prefix("/rest/com/vmware/cis") {
        Some(rest) => (Dialect::Rest, Some(rest)),
        None if path == "/api/session" => (Dialect::Api, Some("/session")),
        None if path.starts_with("/rest") => (Dialect::Rest, None),
        None => (Dialect::Api, path.strip_prefix("/api/cis")),
    };
    let action = uri.query().and_then(|query| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix("~action=").or_else(|| pair.strip_prefix("action=")))
    });
    let route = rest
        .and_then(|rest| find(method, rest, action))
        .ok_or_else(|| Error::operation_not_found(path));
    (dialect, route)
}

fn find(method: &Method, path: &str, action: Option<&str>) -> Option<Route> {
    use Operation as Op;
    let mut parts = path.split('/').skip(1);
    let (service, second, third) = (parts.next()?, parts.next(), parts.next());
    if parts.next().is_some() {
        return None;
    }
    let id = third.map(decoded);
    let operation = match (service, second, method.as_str(), action, id.is_some()) {
        ("session", None, "POST", None, _) => Op::SessionCreate,
        ("session", None, "GET", None, _) | ("session", None, "POST", Some("get"), _) => {
            Op::SessionGet
        }
        ("session", None, "DELETE", None, _) => Op::SessionDelete,
        ("tagging", Some("tag"), "GET", None, false) => Op::TagList,
        ("tagging", Some("tag"), "POST", None, false) => Op::TagCreate,
        ("tagging", Some("tag"), "GET", None, true) => Op::TagGet,
        ("tagging", Some("tag"), "PATCH", None, true) => Op::TagUpdate,
        ("tagging", Some("tag"), "DELETE", None, true) => Op::TagDelete,
        ("tagging", Some("tag"), "POST", Some("list-tags-for-category"), _) => Op::TagsForCategory,
        ("tagging", Some("category"), "GET", None, false) => Op::CategoryList,
        ("tagging", Some("category"), "POST", None, false) => Op::CategoryCreate,
        ("tagging", Some("category"), "GET", None, true) => Op::CategoryGet,
        ("tagging", Some("category"), "PATCH", None, true) => Op::CategoryUpdate,
        ("tagging", Some("category"), "DELETE", None, true) => Op::CategoryDelete,
        ("tagging", Some("tag-association"), "POST", Some(action), _) => match action {
            "attach" => Op::Attach,
            "detach" => Op::Detach,
            "list-attached-tags" => Op::AttachedTags,
            "list-attached-objects" => Op::AttachedObjects,
            "list-attached-tags-on-objects" => Op::AttachedTagsOnObjects,
            "list-attached-objects-on-tags" => Op::AttachedObjectsOnTags,
            "attach-multiple-tags-to-object" => Op::AttachMany,
            "detach-multiple-tags-from-object" => Op::DetachMany,
            "attach-tag-to-multiple-objects" => Op::AttachToMany,
            _ => return None,
        },
        _ => return None,
    };
    Some(Route { operation, id })
}

/// Decodes an id in a path: removes the `id:` that clients of `/rest` put in front, and decodes
/// percent-encoded colons.
fn decoded(part: &str) -> String {
    let part = part.replace("%3A", ":").replace("%3a", ":");
    part.strip_prefix("id:").unwrap_or(&part).to_owned()
}
