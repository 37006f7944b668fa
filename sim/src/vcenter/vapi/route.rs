//! Routes: the operation that method, path and action of a request select.

use http::{Method, Uri};

use super::dialect::{Dialect, Error};
use crate::call::operations::vapi::Operation;

/// An operation, and the id in the path of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) operation: Operation,
    pub(super) id: Option<String>,
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
    let mut parts = path.split('/').skip(1);
    let (service, object_type, id) = (parts.next()?, parts.next(), parts.next());
    if parts.next().is_some() {
        return None;
    }
    let path = object_type.map_or_else(|| service.to_owned(), |it| format!("{service}/{it}"));
    let operation = Operation::of_request(method.as_str(), &path, id.is_some(), action)?;
    Some(Route { operation, id: id.map(decoded) })
}

/// Decodes an id in a path: removes the `id:` that clients of `/rest` put in front, and decodes
/// percent-encoded colons.
fn decoded(part: &str) -> String {
    let part = part.replace("%3A", ":").replace("%3a", ":");
    part.strip_prefix("id:").unwrap_or(&part).to_owned()
}
