//! Routes: the operation that method, path and action of a request select.

use http::{Method, Uri};

use super::dialect::{Dialect, Error};
use crate::call::operations::vapi::Operation;

/// An operation, and the ids in the path and in the query of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) operation: Operation,
    pub(super) id: Option<String>,
    /// Value of `library_id` in the query.
    pub(super) library: Option<String>,
}

/// Parses a request line. Returns the dialect even if no operation has this method, path and
/// action.
pub(super) fn read(method: &Method, uri: &Uri) -> (Dialect, Result<Route, Error>) {
    let path = uri.path().trim_end_matches('/');
    let (dialect, rest) = split(path);
    let action = parameter(uri, "~action").or_else(|| parameter(uri, "action"));
    let route = rest
        .and_then(|rest| find(method, rest, action))
        .map(|(operation, id)| {
            let library = parameter(uri, "library_id").map(decoded);
            Route { operation, id: id.map(decoded), library }
        })
        .ok_or_else(|| Error::operation_not_found(path));
    (dialect, route)
}

/// Returns the dialect of a path, and the path in the table of operations; `None` if no operation can
/// have it. The table leaves out the `cis` of sessions and tags.
fn split(path: &str) -> (Dialect, Option<&str>) {
    if path == "/api/session" {
        return (Dialect::Api, Some("session"));
    }
    let (dialect, rest) = match path.strip_prefix("/rest") {
        Some(rest) => {
            let vcenter = || rest.strip_prefix('/').filter(|it| it.starts_with("vcenter/"));
            (Dialect::Rest, rest.strip_prefix("/com/vmware/").or_else(vcenter))
        }
        None => (Dialect::Api, path.strip_prefix("/api/")),
    };
    let begins = |path: &str, names: &[&str]| names.iter().any(|name| path.starts_with(name));
    let service = rest.and_then(|rest| match rest.strip_prefix("cis/") {
        Some(rest) => begins(rest, &["session", "tagging/"]).then_some(rest),
        None => begins(rest, &["content/", "vcenter/"]).then_some(rest),
    });
    (dialect, service)
}

/// Returns the operation and the id in the path, if the last part of the path is one.
fn find<'a>(
    method: &Method,
    path: &'a str,
    action: Option<&str>,
) -> Option<(Operation, Option<&'a str>)> {
    let method = method.as_str();
    if let Some(operation) = Operation::of_request(method, path, false, action) {
        return Some((operation, None));
    }
    let (service, id) = path.rsplit_once('/')?;
    Operation::of_request(method, service, true, action).map(|operation| (operation, Some(id)))
}

/// Returns the value of a parameter of the query.
fn parameter<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let mut pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Decodes an id in a path: removes the `id:` that clients of `/rest` put in front, and decodes
/// percent-encoded colons.
fn decoded(part: &str) -> String {
    let part = part.replace("%3A", ":").replace("%3a", ":");
    part.strip_prefix("id:").unwrap_or(&part).to_owned()
}
