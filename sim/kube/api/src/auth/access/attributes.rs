//! Attributes of a request that decide whether it is allowed.

use http::Method;

use crate::query::Query;

/// Attributes of a request that the rules of roles refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    /// Path of the request, percent-decoded and without the query.
    pub(crate) path: String,
    /// The object or collection; `None` if the path is not about objects.
    pub(crate) object: Option<Object>,
}

/// The object or collection that a path is about. `name` is empty for a creation, and for a
/// collection unless its field selector names one object. `namespace` is empty if the path has
/// none, `subresource` for the whole object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Object {
    /// Resource with its subresource, such as `pods/log`.
    pub(crate) fn with_subresource(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }
}

impl Attributes {
    /// Reads the attributes of a request, even if the server does not serve its path. `path` is
    /// percent-decoded.
    ///
    /// After `apiserver: pkg/endpoints/request/requestinfo.go`, `NewRequestInfo`. The attribute
    /// `namespace` of a Namespace is its own name. For a list, watch or deletion of a collection
    /// whose field selector names one object, the attribute `name` is the name of that object.
    pub(crate) fn of(method: &Method, path: &str, query: &Query) -> Self {
        let steps: Vec<&str> = path.trim_matches('/').split('/').collect();
        let plain = || Self {
            verb: method.as_str().to_ascii_lowercase(),
            path: path.to_owned(),
            object: None,
        };
        let (group, rest) = match steps.as_slice() {
            ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => return plain(),
        };
        let mut verb = match *method {
            Method::POST => "create",
            Method::GET | Method::HEAD => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "",
        };
        // Deprecated form of a watch, such as `/api/v1/watch/nodes`: the verb is part of the path.
        let rest = match rest {
            ["watch", rest @ ..] => {
                verb = "watch";
                rest
            }
            rest => rest,
        };
        let (namespace, rest) = match rest {
            ["namespaces", name, "status" | "finalize", ..] => (*name, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            ["namespaces", name] => (*name, rest),
            rest => ("", rest),
        };
        let at = |n: usize| rest.get(n).copied().unwrap_or_default().to_owned();
        let mut object = Object {
            group: group.to_owned(),
            resource: at(0),
            subresource: at(2),
            namespace: namespace.to_owned(),
            name: at(1),
        };
        if object.name.is_empty() && verb == "get" {
            verb = if query.flag("watch") { "watch" } else { "list" };
        }
        if object.name.is_empty() && verb == "delete" {
            verb = "deletecollection";
        }
        if matches!(verb, "list" | "watch" | "deletecollection") {
            let selected = query.get("fieldSelector").split(',').find_map(|term| {
                term.strip_prefix("metadata.name==").or(term.strip_prefix("metadata.name="))
            });
            if let (true, Some(name)) = (object.name.is_empty(), selected) {
                name.clone_into(&mut object.name);
            }
        }
        Self { verb: verb.to_owned(), path: path.to_owned(), object: Some(object) }
    }
}
