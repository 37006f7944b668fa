//! Classifies a request as a [`Call`], for the ledger and for fault rules.

use http::header::USER_AGENT;
use serde_json::{Value, json};
use sim_world::objects::GroupResource;

use super::request::Request;
use super::route::{Route, Target, Verb};
use super::tokens::fingerprint;
use crate::{Call, Caller, Class, Face, Incoming, RequestNote};

/// Largest length in characters of a path, a resource or a detail in the ledger.
const MAX_DETAIL: usize = 200;

/// Classifies a request to `server`. `user` is the user whose token or certificate the request has.
/// `kind` returns apiVersion and kind of a resource; `None` if the cluster does not serve it.
pub(super) fn call(
    face: Face,
    server: &str,
    incoming: &Incoming,
    request: &Request,
    user: Option<String>,
    kind: impl Fn(&GroupResource) -> Option<(String, String)>,
) -> Call {
    let parts = &incoming.parts;
    let agent = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    let label = &incoming.peer.client;
    let client = if label.is_empty() { user.clone().unwrap_or_default() } else { label.to_owned() };
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
    let (target, body) = match &request.route {
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
        _ => (crate::Target::default(), None),
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
    Call {
        face,
        server: server.to_owned(),
        operation,
        class,
        target,
        caller: Caller { client, user_agent: agent.unwrap_or_default().to_owned(), user },
        session: request.token.as_deref().map(fingerprint),
        request: RequestNote { bytes: request.n_bytes(), detail },
    }
}

fn named(target: &Target) -> String {
    let Target { resource, verb, .. } = target;
    let subresource = match target {
        Target { is_status: true, .. } => "/status",
        Target { is_scale: true, .. } => "/scale",
        Target { is_finalize: true, .. } => "/finalize",
        _ => "",
    };
    format!("{} {}{subresource}", verb.as_str(), clipped(&resource.resource))
}

fn class(verb: Verb) -> Class {
    match verb {
        Verb::Get | Verb::List => Class::Read,
        Verb::Watch => Class::Longpoll,
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
            Class::Write
        }
    }
}

fn class_of(method: &http::Method) -> Class {
    if method.is_safe() { Class::Read } else { Class::Write }
}

fn about(target: &Target, body: Option<&Value>, kind: Option<String>) -> crate::Target {
    let Target { namespace, name, .. } = target;
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let given = || body?.pointer("/metadata/name")?.as_str().map(str::to_owned);
    crate::Target {
        kind,
        name: some(name).or_else(given),
        namespace: some(namespace),
        ..crate::Target::default()
    }
}

/// Details of a request for readers of the ledger, such as its selectors or its patch. Empty for a
/// write of a Secret, a ConfigMap or a ServiceAccount, so that the ledger gets none of their data.
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
