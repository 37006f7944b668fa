//! `Status` objects of the failures that fault rules request.

use sim_world::objects::{Details, GroupResource, Status};

use crate::Call;

/// The failure `code` as the real server would word it for this call.
///
/// `resource` is the resource of the call, if known. `reason`, `message` and `retry_after`
/// (seconds) replace the usual values if they are set.
pub(super) fn rule_failure(
    call: &Call,
    resource: Option<&GroupResource>,
    code: u16,
    reason: Option<&str>,
    message: Option<&str>,
    retry_after: Option<u32>,
) -> Status {
    let mut status = default_failure(call, resource, code, reason);
    if let Some(reason) = reason {
        status.reason = reason.to_owned().into();
    }
    if let Some(message) = message {
        status.message = message.to_owned();
    }
    if let Some(seconds) = retry_after {
        status.details.get_or_insert_default().retry_after_seconds = seconds;
    }
    status
}

/// The real server's usual failure with this code. If the server has several failures with the
/// code, `reason` selects one. If `resource` is `None`, the text has the plural in the call's
/// operation.
fn default_failure(
    call: &Call,
    resource: Option<&GroupResource>,
    code: u16,
    reason: Option<&str>,
) -> Status {
    let verb = call.operation.split(' ').next().unwrap_or_default();
    let unknown = || GroupResource { group: "".into(), resource: plural(call).to_owned().into() };
    let resource = resource.cloned().unwrap_or_else(unknown);
    let name = call.target.name.as_deref().unwrap_or_default();
    match (code, reason) {
        (403, _) => forbidden(call, verb, &resource),
        (404, _) => Status::not_found(&resource, name),
        (409, Some("AlreadyExists")) => Status::already_exists(&resource, name),
        (409, _) => Status::modified(&resource, name),
        (410, Some("Gone")) => Status::new(410, "Gone", "the requested resource is gone"),
        (410, _) => Status::expired("The resourceVersion for the provided list is too old."),
        (422, _) => with_details(plain(code), 0),
        (429, _) => with_details(plain(code), 1),
        (500, Some("ServerTimeout")) => {
            let message = format!(
                "The {verb} operation against {resource} could not be completed at this time, please try again."
            );
            with_details(Status::new(500, "ServerTimeout", message), 1)
        }
        (500, _) => Status::internal("etcdserver: request timed out"),
        _ => plain(code),
    }
}

/// Failure whose reason and message depend only on the code.
fn plain(code: u16) -> Status {
    let (reason, message) = match code {
        400 => ("BadRequest", "the server rejected our request for an unknown reason"),
        401 => ("Unauthorized", "Unauthorized"),
        422 => ("Invalid", "the server rejected our request due to an error in our request"),
        429 => ("TooManyRequests", "Too many requests, please try again later."),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => ("Timeout", "Timeout: request did not complete within the allotted timeout"),
        code => {
            let message = format!(
                "the server responded with the status code {code} but did not return more information"
            );
            return Status::new(code, "", message);
        }
    };
    Status::new(code, reason, message)
}

fn forbidden(call: &Call, verb: &str, resource: &GroupResource) -> Status {
    let name = call.target.name.as_deref().unwrap_or_default();
    let user = call.caller.user.as_deref().unwrap_or("system:anonymous");
    let scope = match &call.target.namespace {
        Some(namespace) => format!("in the namespace {namespace:?}"),
        None => "at the cluster scope".into(),
    };
    let door = call.operation.strip_prefix(&format!("{verb} ")).unwrap_or("");
    let why = format!(
        "User {user:?} cannot {verb} resource {door:?} in API group {:?} {scope}",
        resource.group
    );
    Status::forbidden(resource, name, &why)
}

fn with_details(mut status: Status, retry_after_seconds: u32) -> Status {
    status.details = Some(Box::new(Details { retry_after_seconds, ..Details::default() }));
    status
}

/// Plural name of a call's resource, such as `nodes` in the operation `patch nodes/status`.
pub(super) fn plural(call: &Call) -> &str {
    let rest = call.operation.split_once(' ').map_or("", |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}
