//! Paths and methods: which part of the API a request is for.

use http::Method;
use sim_world::objects::GroupResource;

use super::query::Query;
use super::served;

/// What a request is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// `/healthz` and its kin.
    Health,
    /// `/version`.
    Version,
    /// `/`: the paths there are.
    Root,
    /// `/api`.
    Core,
    /// `/apis`.
    Groups,
    /// `/apis/<group>`.
    Group(String),
    /// `/api/v1`, `/apis/<group>/<version>`.
    GroupVersion(String, String),
    /// `/openapi/v3` and what is below it.
    OpenApi(String),
    /// A question that is answered and not kept, and its namespace if it has one.
    Review(Review, String),
    /// Objects.
    Resource(Target),
    /// An object of a namespace, and the namespace is empty.
    Unplaced,
    /// Something that the real server has and this one has not.
    Absent(String),
    /// The path exists, not for this method.
    NotAllowed,
    /// No such path.
    Unknown,
    /// No path at all, or escapes that are none.
    Malformed,
    /// A verb in the path (`/api/v1/watch`), and nothing that it is about: path and query as they came.
    Objectless(String),
}

/// A question that is answered and not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Review {
    Token,
    SelfSubject,
    SubjectAccess,
    SelfSubjectAccess,
    LocalSubjectAccess,
    SelfSubjectRules,
}

impl Review {
    pub(super) const ALL: [Self; 6] = [
        Self::Token,
        Self::SelfSubject,
        Self::SubjectAccess,
        Self::SelfSubjectAccess,
        Self::LocalSubjectAccess,
        Self::SelfSubjectRules,
    ];

    pub(super) fn group(self) -> &'static str {
        match self {
            Self::Token | Self::SelfSubject => "authentication.k8s.io",
            _ => "authorization.k8s.io",
        }
    }

    pub(super) fn resource(self) -> &'static str {
        match self {
            Self::Token => "tokenreviews",
            Self::SelfSubject => "selfsubjectreviews",
            Self::SubjectAccess => "subjectaccessreviews",
            Self::SelfSubjectAccess => "selfsubjectaccessreviews",
            Self::LocalSubjectAccess => "localsubjectaccessreviews",
            Self::SelfSubjectRules => "selfsubjectrulesreviews",
        }
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Token => "TokenReview",
            Self::SelfSubject => "SelfSubjectReview",
            Self::SubjectAccess => "SubjectAccessReview",
            Self::SelfSubjectAccess => "SelfSubjectAccessReview",
            Self::LocalSubjectAccess => "LocalSubjectAccessReview",
            Self::SelfSubjectRules => "SelfSubjectRulesReview",
        }
    }

    /// The review at this path below its group and version, and its namespace.
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

/// Objects of a resource, or one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) resource: GroupResource,
    pub(super) version: String,
    pub(super) namespace: String,
    /// Empty for collections.
    pub(super) name: String,
    pub(super) is_status: bool,
    pub(super) is_scale: bool,
    pub(super) is_finalize: bool,
    pub(super) verb: Verb,
}

/// What to do with objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
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
    /// As authorizers and ledgers name it.
    pub(super) fn as_str(self) -> &'static str {
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
    /// Finds the route of a request; escapes in its path are undone, so that `%2F` separates as `/` does.
    pub(super) fn find(method: &Method, path: &str, query: &Query) -> Self {
        let Some(path) = path.strip_prefix('/').filter(|rest| !rest.starts_with('/')) else {
            return Self::Unknown;
        };
        // Pages are found by their whole path, the API behind them does not count slashes at the end.
        let is_api = ["api", "apis", "version"].iter().any(|it| path.starts_with(it));
        if let (false, Some(what)) = (is_api, served::other(path)) {
            return Self::Absent(what.into());
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

    /// Whether a path names a verb, and nothing that it is about.
    pub(super) fn is_objectless(path: &str) -> bool {
        let mut steps = path.trim_matches('/').split('/');
        let n_before = match steps.next() {
            Some("api") => 1,
            Some("apis") => 2,
            _ => return false,
        };
        matches!(steps.nth(n_before), Some("watch" | "proxy")) && steps.next().is_none()
    }

    /// Whether everybody may ask.
    pub(super) fn is_public(&self) -> bool {
        matches!(self, Self::Health | Self::Version)
    }
}

/// Where a path below its group and version leads.
struct Place<'a> {
    namespace: &'a str,
    resource: &'a str,
    /// Empty for collections.
    name: &'a str,
    /// `status`, `log`; empty for the whole object.
    part: &'a str,
    /// `namespaces//pods`: a namespace should have stood there.
    is_without_namespace: bool,
}

impl<'a> Place<'a> {
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

/// The route of a path below `/api/v1` or `/apis/<group>/<version>`.
fn resource(method: &Method, group: &str, version: &str, rest: &[&str], query: &Query) -> Route {
    if let (true, Some((review, namespace))) = (version == "v1", Review::find(group, rest)) {
        let is_post = *method == Method::POST;
        return if is_post { Route::Review(review, namespace) } else { Route::NotAllowed };
    }
    // Deprecated: the verb stands in the path.
    let (rest, is_in_path) = match rest {
        ["watch", rest @ ..] => (rest, true),
        rest => (rest, false),
    };
    let Some(place) = Place::find(rest) else { return Route::Unknown };
    let Place { namespace, resource, name, part, is_without_namespace } = place;
    if is_without_namespace && !(name.is_empty() && *method == Method::GET) {
        let is_about_one =
            !name.is_empty() && matches!(*method, Method::GET | Method::PATCH | Method::DELETE);
        return if is_about_one { Route::Unplaced } else { Route::Unknown };
    }
    let is_finalize = (resource, part) == ("namespaces", "finalize");
    match part {
        "" | "status" | "scale" => {}
        "finalize" if is_finalize && *method == Method::PUT => {}
        "finalize" if is_finalize => return Route::NotAllowed,
        part if served::has_part(group, version, resource, part) => {
            return Route::Absent(format!("{resource}/{part}"));
        }
        _ => return Route::Unknown,
    }
    let verb = match is_in_path {
        true if !part.is_empty() => return Route::Unknown,
        true => (*method == Method::GET).then_some(Verb::Watch),
        false => verb(method, name.is_empty(), part.is_empty(), query),
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
        is_status: part == "status",
        is_scale: part == "scale",
        is_finalize,
        verb,
    })
}

/// What a method does to a collection, or to one object.
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
