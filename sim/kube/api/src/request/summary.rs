//! Summarizes a request, for records of requests and for rules that match requests.

use http::header::USER_AGENT;
use http::request::Parts;
use kube_sim_store::{GroupResource, Subresource};
use serde_json::{Value, json};

use crate::auth::tokens::fingerprint;
use crate::request::Request;
use crate::request::route::{Route, Target, Verb};

/// Largest length in characters of a path, a resource or a detail in a summary.
const MAX_DETAIL: usize = 200;

/// Kind of work that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Changes no object and does not wait.
    Read,
    /// May create, change or delete objects.
    Write,
    /// Streams changes of objects until it ends.
    Watch,
}

/// Summary of a request, for records of requests and for rules that match requests. Contains no
/// secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Name of the operation: verb and resource, such as `patch nodes/status`; method and path, or
    /// method and name of a feature that the server lacks, for a request that is not about objects;
    /// `unknown` if the server has no such path, or the path does not allow the method.
    pub operation: String,
    /// Kind of work that the request asks for.
    pub class: Class,
    /// Kind of the object, such as `Node`; `None` if the server does not serve the resource.
    pub kind: Option<String>,
    /// Name of the object, from the path or the body; `None` if neither names one.
    pub name: Option<String>,
    /// Namespace of the object; `None` without one.
    pub namespace: Option<String>,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// User in the client certificate or, without a certificate, user of the token, even if the
    /// token has expired; `None` if the server does not know the token, or if the request has
    /// neither.
    pub user: Option<String>,
    /// One-way digest of the bearer token; `None` without a token.
    pub token_digest: Option<String>,
    /// Length of the body in bytes.
    pub bytes: u64,
    /// Main arguments, such as selectors or a patch; at most 200 characters.
    pub detail: String,
}

/// Object that a request refers to: kind, name and namespace.
#[derive(Default)]
struct Subject {
    kind: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
}

/// Summarizes a request. `user` is the user whose token or certificate the request has. `kind`
/// returns apiVersion and kind of a resource; `None` if the cluster does not serve it.
pub(crate) fn summarize(
    parts: &Parts,
    request: &Request,
    user: Option<String>,
    kind: impl Fn(&GroupResource) -> Option<(String, String)>,
) -> Summary {
    let agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    let method = parts.method.as_str().to_ascii_lowercase();
    let (operation, class) = match &request.route {
        Route::Resource(target) => (named(target), class(target.verb)),
        Route::Review(review, _) => (format!("create {}", review.resource()), Class::Read),
        Route::Health
        | Route::Version
        | Route::Root
        | Route::Core
        | Route::Groups
        | Route::Group(_)
        | Route::GroupVersion(..)
        | Route::OpenApi(_) => (format!("{method} {}", clipped(parts.uri.path())), Class::Read),
        Route::NotImplemented(what) => (format!("{method} {what}"), class_of(&parts.method)),
        Route::NotAllowed
        | Route::EmptyNamespace
        | Route::Unknown
        | Route::Malformed
        | Route::VerbWithoutResource(_) => ("unknown".into(), class_of(&parts.method)),
    };
    let (subject, body) = match &request.route {
        Route::Resource(target) => {
            let known = kind(&target.resource);
            let (api_version, kind) = known.clone().unwrap_or_default();
            let body = match target.verb {
                Verb::Delete | Verb::DeleteCollection => {
                    request.decode_unchecked("v1", "DeleteOptions")
                }
                _ => request.decode_unchecked(&api_version, &kind),
            };
            (about(target, body.as_ref(), known.map(|_| kind)), body)
        }
        _ => (Subject::default(), None),
    };
    let detail = match &request.route {
        Route::Resource(target) => clipped(&detail(target, request, body.as_ref())),
        Route::NotAllowed
        | Route::EmptyNamespace
        | Route::Unknown
        | Route::Malformed
        | Route::VerbWithoutResource(_) => {
            clipped(&format!("{} {}", parts.method, parts.uri.path()))
        }
        _ => String::new(),
    };
    let Subject { kind, name, namespace } = subject;
    Summary {
        operation,
        class,
        kind,
        name,
        namespace,
        user_agent: agent.unwrap_or_default().to_owned(),
        user,
        token_digest: request.token.as_deref().map(fingerprint),
        bytes: request.n_bytes(),
        detail,
    }
}

fn named(target: &Target) -> String {
    let Target { resource, verb, .. } = target;
    let subresource = match target.part {
        None => "",
        Some(Subresource::Status) => "/status",
        Some(Subresource::Scale) => "/scale",
        Some(Subresource::Finalize) => "/finalize",
        Some(Subresource::Eviction) => "/eviction",
        Some(Subresource::Binding) => "/binding",
    };
    format!("{} {}{subresource}", verb.as_str(), clipped(&resource.resource))
}

fn class(verb: Verb) -> Class {
    match verb {
        Verb::Get | Verb::List => Class::Read,
        Verb::Watch => Class::Watch,
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
            Class::Write
        }
    }
}

fn class_of(method: &http::Method) -> Class {
    if method.is_safe() { Class::Read } else { Class::Write }
}

fn about(target: &Target, body: Option<&Value>, kind: Option<String>) -> Subject {
    let Target { namespace, name, .. } = target;
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let given = || body?.pointer("/metadata/name")?.as_str().map(str::to_owned);
    Subject { kind, name: some(name).or_else(given), namespace: some(namespace) }
}

/// Details of a request for readers of records, such as its selectors or its patch. Empty for a
/// write of a Secret, a ConfigMap or a ServiceAccount, so that records get none of their data.
fn detail(target: &Target, request: &Request, body: Option<&Value>) -> String {
    let resource = target.resource.resource.as_ref();
    match target.verb {
        Verb::Get | Verb::List | Verb::Watch => {
            let said = [
                "labelSelector",
                "fieldSelector",
                "resourceVersion",
                "resourceVersionMatch",
                "limit",
                "sendInitialEvents",
                "timeoutSeconds",
            ]
            .into_iter()
            .filter(|name| request.query.has(name))
            .map(|name| format!("{name}={}", request.query.get(name)));
            let more = request.query.has("continue").then(|| "continue".to_owned());
            said.chain(more).collect::<Vec<_>>().join(" ")
        }
        _ if matches!(resource, "secrets" | "configmaps" | "serviceaccounts") => String::new(),
        Verb::Patch => body.map(Value::to_string).unwrap_or_default(),
        Verb::Create if resource == "events" => {
            let text = |pointer| {
                body.and_then(|it| it.pointer(pointer)).and_then(Value::as_str).unwrap_or_default()
            };
            format!(
                "{} {} {}/{}",
                text("/type"),
                text("/reason"),
                text("/involvedObject/kind"),
                text("/involvedObject/name")
            )
        }
        Verb::Create | Verb::Update => {
            let Some(body) = body else { return String::new() };
            let version = body.pointer("/metadata/resourceVersion").cloned();
            let mut shown = json!({});
            if let Some(version) = version {
                shown["resourceVersion"] = version;
            }
            if let Some(spec) = body.get("spec") {
                shown["spec"] = spec.clone();
            }
            shown.to_string()
        }
        Verb::Delete | Verb::DeleteCollection => {
            let preconditions = body.and_then(|it| it.get("preconditions"));
            preconditions.map(Value::to_string).unwrap_or_default()
        }
    }
}

fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_DETAIL) {
        None => text.to_owned(),
        Some(_) => {
            let mut clipped: String = text.chars().take(MAX_DETAIL - 1).collect();
            clipped.push('…');
            clipped
        }
    }
}
