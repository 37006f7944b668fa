//! Answers that fault rules force on an API server: a given `Status`, webhooks that deny or are
//! unreachable, throttling, missing resources, a terminating namespace.

use http::{HeaderName, HeaderValue, StatusCode, header};
use sim_world::objects::{Cause, Details, GroupResource, ResourceDef, Status};
use sim_world::supervisor::OUTAGE;

use super::{ClusterFace, failure};
use crate::faults::{ClusterAnswer, Denial, KubeCause, KubeStatus, Throttle};

use crate::{Call, Reply};

/// The two headers of API Priority and Fairness. Their UIDs are constants, because this server has
/// no FlowSchemas and PriorityLevelConfigurations.
///
/// After `api: flowcontrol/v1/types.go`, `apiserver: pkg/server/filters/priority-and-fairness.go`.
const FLOW_CONTROL: [(HeaderName, HeaderValue); 2] = [
    (
        HeaderName::from_static("x-kubernetes-pf-flowschema-uid"),
        HeaderValue::from_static("1c5e8a0f-5ad9-4f0e-9c8e-6b1f8a3d0001"),
    ),
    (
        HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid"),
        HeaderValue::from_static("1c5e8a0f-5ad9-4f0e-9c8e-6b1f8a3d0002"),
    ),
];

impl ClusterFace {
    /// Returns the answer `what`, which a fault rule forces. `path` is the path of the request.
    pub(crate) fn forced_answer(&self, call: &Call, path: &str, what: &ClusterAnswer) -> Reply {
        let about = self.definition_of_call(call);
        let status = match what {
            ClusterAnswer::Status(words) => {
                return self.status_answer(call, about.as_ref(), words).into();
            }
            ClusterAnswer::Throttled(Throttle { retry_after, .. }) => {
                return throttled(*retry_after).into();
            }
            ClusterAnswer::NotServed => return self.api.not_served(path).into(),
            ClusterAnswer::Denied(denial) => denied(about.as_ref(), denial),
            ClusterAnswer::Unreachable => unreachable(about.as_ref()),
            ClusterAnswer::Terminating => terminating(call, about.as_ref()),
        };
        kube_sim_api::Reply::failure(&status).into()
    }

    /// Answer with the failure `code` that a fault rule requests, in the words of the real server.
    /// `message` and `retry_after` (seconds) replace the usual values if they are set.
    pub(crate) fn failure(
        &self,
        call: &Call,
        code: u16,
        message: Option<&str>,
        retry_after: Option<u32>,
    ) -> Reply {
        let about = self.definition_of_call(call);
        let resource = about.as_ref().map(|def| &def.id);
        let status = failure::rule_failure(call, resource, code, None, message, retry_after);
        let reply = kube_sim_api::Reply::failure(&status);
        // The authorizer's 403 answers have `nosniff`, too.
        if code == 403 { reply.with_nosniff().into() } else { reply.into() }
    }

    /// Definition of the kind that a call refers to; `None` if the call names no kind, or if the
    /// cluster does not serve it.
    fn definition_of_call(&self, call: &Call) -> Option<ResourceDef> {
        self.api.definition(failure::plural(call), call.target.kind.as_deref()?)
    }

    fn status_answer(
        &self,
        call: &Call,
        about: Option<&ResourceDef>,
        words: &KubeStatus,
    ) -> kube_sim_api::Reply {
        let KubeStatus { code, reason, message, causes, retry_after, .. } = words;
        let id = about.map(|def| &def.id);
        let mut status = failure::rule_failure(
            call,
            id,
            *code,
            reason.as_deref(),
            message.as_deref(),
            *retry_after,
        );
        if !causes.is_empty() {
            let details = status.details.get_or_insert_default();
            details.causes = causes.iter().map(cause).collect();
        }
        if let (422, Some(def), None) = (code, about, message) {
            invalid(call, def, causes, &mut status);
        }
        let mut reply = kube_sim_api::Reply::failure(&status);
        if let Some(seconds) = retry_after {
            let value = HeaderValue::from(*seconds);
            reply.response.headers_mut().insert(header::RETRY_AFTER, value);
        }
        if *code == 403 { reply.with_nosniff() } else { reply }
    }
}

fn cause(words: &KubeCause) -> Cause {
    let KubeCause { reason, message, field, .. } = words;
    Cause { reason: reason.clone().into(), message: message.clone(), field: field.clone() }
}

/// Sets the message of a 422 as schema validation does: kind and name, then each field with its
/// problem. Sets kind, group and name in the details, too.
fn invalid(call: &Call, def: &ResourceDef, causes: &[KubeCause], status: &mut Status) {
    let name = call.target.name.as_deref().unwrap_or_default();
    let wrong: Vec<String> =
        causes.iter().map(|it| format!("{}: {}", it.field, it.message)).collect();
    let wrong = match wrong.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let group = &def.id.group;
    let kind =
        if group.is_empty() { def.kind.to_string() } else { format!("{}.{group}", def.kind) };
    status.message = format!("{kind} {name:?} is invalid: {wrong}");
    let details = status.details.get_or_insert_default();
    name.clone_into(&mut details.name);
    group.as_ref().clone_into(&mut details.group);
    def.kind.as_ref().clone_into(&mut details.kind);
}

/// Answer 429 as the real server's filter for priority and fairness sends it: a text page, not a
/// `Status`, that asks the client to retry after `seconds`.
fn throttled(seconds: u32) -> kube_sim_api::Reply {
    let text = "Too many requests, please try again later.\n";
    let code = StatusCode::TOO_MANY_REQUESTS;
    let mut reply = kube_sim_api::Reply::failure_page(code, text, "TooManyRequests");
    let headers = reply.response.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    headers.extend(FLOW_CONTROL);
    reply
}

/// Refusal by an admission webhook, by default a validating webhook of VM Operator.
///
/// After `apiserver: pkg/admission/plugin/webhook/errors/statuserror.go`.
fn denied(about: Option<&ResourceDef>, denial: &Denial) -> Status {
    let Denial { code, webhook, message, .. } = denial;
    let name = webhook.clone().unwrap_or_else(|| webhook_of(about, "validating"));
    let reason = if *code == 403 { "Forbidden".to_owned() } else { message.clone() };
    let message = format!("admission webhook {name:?} denied the request: {message}");
    Status::new(*code, reason, message)
}

fn unreachable(about: Option<&ResourceDef>) -> Status {
    let name = webhook_of(about, "mutating");
    let path = about.map(|def| {
        let group = def.id.group.replace('.', "-");
        format!("/default-mutate-{group}-{}-{}", def.version, def.kind.to_lowercase())
    });
    Status::internal(&format!(
        "failed calling webhook {name:?}: failed to call webhook: Post \"{}{}?timeout=10s\": {}",
        OUTAGE.service,
        path.unwrap_or_default(),
        OUTAGE.why
    ))
}

/// Name of VM Operator's webhook for the kind `about`; for `None` a name without kind and version.
/// `what` is `validating` or `mutating`.
fn webhook_of(about: Option<&ResourceDef>, what: &str) -> String {
    match about {
        Some(def) => {
            let kind = def.kind.to_lowercase();
            format!("default.{what}.{kind}.{}.{}", def.version, def.id.group)
        }
        None => format!("default.{what}.vmoperator.vmware.com"),
    }
}

fn terminating(call: &Call, about: Option<&ResourceDef>) -> Status {
    let namespace = call.target.namespace.as_deref().unwrap_or_default();
    let name = call.target.name.as_deref().unwrap_or_default();
    let why = format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    );
    let unknown =
        || GroupResource { group: "".into(), resource: failure::plural(call).to_owned().into() };
    let resource = about.map_or_else(unknown, |def| def.id.clone());
    let mut status = Status::forbidden(&resource, name, &why);
    let details = status.details.get_or_insert_with(|| Box::new(Details::default()));
    details.causes.push(Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    });
    status
}
