//! Finds the part of the API that a request addresses, from path, method and query.

use http::Method;
use kube_sim_store::{GroupResource, Subresource};

use crate::query::Query;
use crate::request::served;

/// Part of the API that a request addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/healthz`, `/livez`, `/readyz` and the paths below them, without a slash at the end.
    Health,
    /// `/version`.
    Version,
    /// `/`: the list of paths.
    Root,
    /// `/api`.
    Core,
    /// `/apis`.
    Groups,
    /// `/apis/<group>`.
    Group(String),
    /// `/api/v1`, `/apis/<group>/<version>`.
    GroupVersion(String, String),
    /// `/openapi/v3` and the paths below it; holds the rest of the path with its leading slash,
    /// which is empty for `/openapi/v3` itself.
    OpenApi(String),
    /// A review, and its namespace if it has one, else an empty text.
    Review(Review, String),
    /// A collection, an object, or a subresource of an object. The resource may not exist.
    Resource(Target),
    /// GET, PATCH or DELETE of an object or its subresource in a namespace with an empty name, as
    /// in `namespaces//pods/p`.
    EmptyNamespace,
    /// A subresource or document of the real server that this server does not implement; holds its
    /// name, such as `pods/log`.
    NotImplemented(String),
    /// A path of objects or of a review, with a method that such a path does not allow. The
    /// resource may not exist.
    NotAllowed,
    /// A path that no other route matches.
    Unknown,
    /// A path with an invalid escape, or one without a leading slash, except `*`.
    Malformed,
    /// A path that ends with `watch` or `proxy` where a resource is expected (`/api/v1/watch`);
    /// holds path and query as the client sent them.
    VerbWithoutResource(String),
}

/// A question about tokens, users or permissions. The server answers it and stores no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    Token,
    SelfSubject,
    SubjectAccess,
    SelfSubjectAccess,
    LocalSubjectAccess,
    SelfSubjectRules,
}

impl Review {
    pub(crate) const ALL: [Self; 6] = [
        Self::Token,
        Self::SelfSubject,
        Self::SubjectAccess,
        Self::SelfSubjectAccess,
        Self::LocalSubjectAccess,
        Self::SelfSubjectRules,
    ];

    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::Token | Self::SelfSubject => "authentication.k8s.io",
            _ => "authorization.k8s.io",
        }
    }

    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::Token => "tokenreviews",
            Self::SelfSubject => "selfsubjectreviews",
            Self::SubjectAccess => "subjectaccessreviews",
            Self::SelfSubjectAccess => "selfsubjectaccessreviews",
            Self::LocalSubjectAccess => "localsubjectaccessreviews",
            Self::SelfSubjectRules => "selfsubjectrulesreviews",
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Token => "TokenReview",
            Self::SelfSubject => "SelfSubjectReview",
            Self::SubjectAccess => "SubjectAccessReview",
            Self::SelfSubjectAccess => "SelfSubjectAccessReview",
            Self::LocalSubjectAccess => "LocalSubjectAccessReview",
            Self::SelfSubjectRules => "SelfSubjectRulesReview",
        }
    }

    /// Finds the review and its namespace (empty if it has none) by the group and by `rest`, the
    /// steps of the path after the version. `None` if the path is not that of a review.
    fn find(group: &str, rest: &[&str]) -> Option<(Self, String)> {
        let (namespace, resource) = match rest {
            [resource] => ("", *resource),
            ["namespaces", namespace, resource] => (*namespace, *resource),
            _ => return None,
        };
        let is_it = |it: &&Self| it.group() == group && it.resource() == resource;
        let review = *Self::ALL.iter().find(is_it)?;
        let is_local = review == Self::LocalSubjectAccess;
        (is_local != namespace.is_empty()).then(|| (review, namespace.to_owned()))
    }
}

/// A collection of objects, one object, or a subresource of an object, with the verb of a request
/// for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) resource: GroupResource,
    pub(crate) version: String,
    pub(crate) namespace: String,
    /// Name of the object; empty for a collection.
    pub(crate) name: String,
    /// Subresource of the object; `None` for the object itself.
    pub(crate) part: Option<Subresource>,
    pub(crate) verb: Verb,
}

/// Operation on objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// Name of the verb in the operation of a call, such as `get` in `get nodes`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

impl Route {
    /// Returns the route of a request. `path` is percent-decoded, so `%2F` separates as `/` does.
    /// [`Request::read`](crate::Request::read) finds [`Self::Malformed`] and
    /// [`Self::VerbWithoutResource`] itself.
    pub(crate) fn find(method: &Method, path: &str, query: &Query) -> Self {
        let Some(path) = path.strip_prefix('/').filter(|rest| !rest.starts_with('/')) else {
            return Self::Unknown;
        };
        // Documents outside the API match only by their exact path. In paths of the API and of
        // `/version`, trailing slashes do not count.
        let is_api = ["api", "apis", "version"].iter().any(|it| path.starts_with(it));
        if let (false, Some(what)) = (is_api, served::other(path)) {
            return Self::NotImplemented(what.into());
        }
        let path = if is_api { path.trim_end_matches('/') } else { path };
        let steps: Vec<&str> = path.split('/').collect();
        match steps.as_slice() {
            [""] => Self::Root,
            ["healthz" | "livez" | "readyz", .., ""] => Self::Unknown,
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            ["version"] => Self::Version,
            ["openapi", "v3"] => Self::OpenApi(String::new()),
            ["openapi", "v3", rest @ ..] => Self::OpenApi(format!("/{}", rest.join("/"))),
            ["api"] => Self::Core,
            ["api", version] => Self::GroupVersion(String::new(), (*version).into()),
            ["api", version, rest @ ..] => resource(method, "", version, rest, query),
            ["apis"] => Self::Groups,
            ["apis", "", ..] => Self::Unknown,
            ["apis", group] => Self::Group((*group).into()),
            ["apis", group, version] => Self::GroupVersion((*group).into(), (*version).into()),
            ["apis", group, version, rest @ ..] => resource(method, group, version, rest, query),
            _ => Self::Unknown,
        }
    }

    /// True if a path ends with `watch` or `proxy` where a resource is expected, as in
    /// `/api/v1/watch`.
    pub(crate) fn is_objectless(path: &str) -> bool {
        let mut steps = path.trim_matches('/').split('/');
        let n_before = match steps.next() {
            Some("api") => 1,
            Some("apis") => 2,
            _ => return false,
        };
        matches!(steps.nth(n_before), Some("watch" | "proxy")) && steps.next().is_none()
    }

    /// True if the route needs no credentials.
    pub(crate) fn is_public(&self) -> bool {
        matches!(self, Self::Health | Self::Version)
    }
}

/// Parts of a path below group and version.
struct ResourcePath<'a> {
    namespace: &'a str,
    resource: &'a str,
    /// Name of the object; empty for a collection.
    name: &'a str,
    /// Subresource, such as `status` or `log`; empty for a whole object and for a collection.
    part: &'a str,
    /// True if the path names an empty namespace, as in `namespaces//pods`.
    is_without_namespace: bool,
}

impl<'a> ResourcePath<'a> {
    fn find(rest: &[&'a str]) -> Option<Self> {
        let (namespace, resource, name, part) = match rest {
            // The subresources of a namespace look like resources in it.
            ["namespaces", name, part @ ("status" | "finalize")] => {
                ("", "namespaces", *name, *part)
            }
            ["namespaces", namespace, resource] => (*namespace, *resource, "", ""),
            ["namespaces", namespace, resource, name] => (*namespace, *resource, *name, ""),
            ["namespaces", namespace, resource, name, part, ..] => {
                (*namespace, *resource, *name, *part)
            }
            [resource] => ("", *resource, "", ""),
            [resource, name] => ("", *resource, *name, ""),
            [resource, name, part, ..] => ("", *resource, *name, *part),
            [] => return None,
        };
        let is_empty = |step: &&str| step.is_empty();
        let is_without_namespace =
            matches!(rest, ["namespaces", "", others @ ..] if !others.iter().any(is_empty));
        if !is_without_namespace && rest.iter().any(is_empty) {
            return None;
        }
        Some(Self { namespace, resource, name, part, is_without_namespace })
    }
}

/// Returns the route of a path below `/api/<version>` or `/apis/<group>/<version>`. `rest` has the
/// steps of the path after the version.
fn resource(method: &Method, group: &str, version: &str, rest: &[&str], query: &Query) -> Route {
    if let (true, Some((review, namespace))) = (version == "v1", Review::find(group, rest)) {
        let is_post = *method == Method::POST;
        return if is_post { Route::Review(review, namespace) } else { Route::NotAllowed };
    }
    // Deprecated form of a watch, such as `/api/v1/watch/nodes`: the verb is part of the path.
    let (rest, is_in_path) = match rest {
        ["watch", rest @ ..] => (rest, true),
        rest => (rest, false),
    };
    let Some(place) = ResourcePath::find(rest) else { return Route::Unknown };
    let ResourcePath { namespace, resource, name, part, is_without_namespace } = place;
    if is_without_namespace && !(name.is_empty() && *method == Method::GET) {
        let is_about_one =
            !name.is_empty() && matches!(*method, Method::GET | Method::PATCH | Method::DELETE);
        return if is_about_one { Route::EmptyNamespace } else { Route::Unknown };
    }
    let of_pod = (group, version, resource) == ("", "v1", "pods");
    let part_of = match part {
        "" => None,
        "status" => Some(Subresource::Status),
        "scale" => Some(Subresource::Scale),
        "finalize" if resource == "namespaces" => Some(Subresource::Finalize),
        "eviction" if of_pod => Some(Subresource::Eviction),
        "binding" if of_pod => Some(Subresource::Binding),
        part if served::has_part(group, version, resource, part) => {
            return Route::NotImplemented(format!("{resource}/{part}"));
        }
        _ => return Route::Unknown,
    };
    let only = match part_of {
        Some(Subresource::Finalize) => Some((Method::PUT, Verb::Update)),
        Some(Subresource::Eviction | Subresource::Binding) => Some((Method::POST, Verb::Create)),
        _ => None,
    };
    let verb = match is_in_path {
        true if !part.is_empty() => return Route::Unknown,
        true => (*method == Method::GET).then_some(Verb::Watch),
        false => match only {
            Some((only, verb)) => (*method == only).then_some(verb),
            None => verb(method, name.is_empty(), part.is_empty(), query),
        },
    };
    let Some(verb) = verb else { return Route::NotAllowed };
    Route::Resource(Target {
        resource: GroupResource {
            group: group.to_owned().into(),
            resource: resource.to_owned().into(),
        },
        version: version.into(),
        namespace: namespace.into(),
        name: name.into(),
        part: part_of,
        verb,
    })
}

/// Verb of a request with `method` for a collection or one object; `None` if the method is not
/// allowed. `is_whole` is false for a subresource.
fn verb(method: &Method, is_collection: bool, is_whole: bool, query: &Query) -> Option<Verb> {
    Some(match (method, is_collection) {
        (&Method::GET, true) if query.flag("watch") => Verb::Watch,
        (&Method::GET, true) => Verb::List,
        (&Method::GET, false) => Verb::Get,
        (&Method::POST, true) => Verb::Create,
        (&Method::PUT, false) => Verb::Update,
        (&Method::PATCH, false) => Verb::Patch,
        (&Method::DELETE, false) if is_whole => Verb::Delete,
        (&Method::DELETE, true) => Verb::DeleteCollection,
        _ => return None,
    })
}
