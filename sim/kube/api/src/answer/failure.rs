//! `Status` objects of failures of the router and the resource handlers.

use kube_sim_store::{Details, GroupResource, Status};

/// Failure 501 for a feature of the real server that this server does not implement.
pub(crate) fn not_implemented(what: &str) -> Status {
    let message = format!("this simulated API server does not implement {what}");
    Status::new(501, "NotImplemented", message)
}

/// Failure 404 for a resource that the real server serves and this server does not. Code and reason
/// are those of a server without the resource; the message is particular to the sim.
pub(crate) fn not_served(resource: &GroupResource) -> Status {
    let message = format!("this simulated API server does not serve {resource}");
    let mut status = Status::new(404, "NotFound", message);
    status.details = Some(Box::new(Details {
        group: resource.group.clone().into_owned(),
        kind: resource.resource.clone().into_owned(),
        ..Details::default()
    }));
    status
}

/// Failure 405 for a method that a path does not allow, in the words of the real server's router.
pub(crate) fn not_allowed() -> Status {
    let mut status = Status::new(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    );
    status.details = Some(Box::default());
    status
}

/// Failure 404 for a resource that does not exist, in the words of the real server's router.
pub(crate) fn no_such_resource() -> Status {
    let mut status =
        Status::new(404, "NotFound", "the server could not find the requested resource");
    status.details = Some(Box::default());
    status
}

/// Failure 405 for a verb that a custom resource does not support, in the words of the real
/// server's handler of custom resources.
pub(crate) fn not_supported(resource: &GroupResource, verb: &str) -> Status {
    let message = format!("{verb} is not supported on resources of kind \"{resource}\"");
    let mut status = Status::new(405, "MethodNotAllowed", message);
    status.details = Some(Box::new(Details {
        group: resource.group.clone().into_owned(),
        kind: resource.resource.clone().into_owned(),
        ..Details::default()
    }));
    status
}
