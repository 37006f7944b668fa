//! What an authorizer sees of a request.

use http::Method;

use crate::kubeapi::query::{Query, decode};

/// A request, as roles speak of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::kubeapi) struct Attributes {
    pub(in crate::kubeapi) verb: String,
    /// The path as it came.
    pub(in crate::kubeapi) path: String,
    /// The object, if the path is about objects.
    pub(in crate::kubeapi) object: Option<Object>,
}

/// What a path is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::kubeapi) struct Object {
    pub(in crate::kubeapi) group: String,
    pub(in crate::kubeapi) resource: String,
    pub(in crate::kubeapi) subresource: String,
    pub(in crate::kubeapi) namespace: String,
    pub(in crate::kubeapi) name: String,
}

impl Object {
    /// `pods/log`.
    pub(in crate::kubeapi) fn with_subresource(&self) -> String {
        match self.subresource.as_str() {
            "" => self.resource.clone(),
            subresource => format!("{}/{subresource}", self.resource),
        }
    }
}

impl Attributes {
    /// Takes a request apart, whether or not anybody serves it.
    ///
    /// After `apiserver: pkg/endpoints/request/requestinfo.go`, `NewRequestInfo`. A namespace counts
    /// as being in itself; a list of the one object that a field selector names is about that object.
    pub(in crate::kubeapi) fn of(method: &Method, path: &str, query: &Query) -> Self {
        let steps: Vec<String> =
            path.trim_matches('/').split('/').map(|step| decode(step, false)).collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
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
        // Deprecated: the verb stands in the path.
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
