//! The two formats of vAPI answers, and the errors in them.

use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use sim_world::vcenter::VcFault;

use crate::Reply;

const JSON: &str = "application/json";

/// Format of the answers of vAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Format of `/rest`, vCenter 6.5 and later: `value` wraps a result.
    Rest,
    /// Format of `/api`, vCenter 7.0 U2 and later: the body is the bare result.
    Api,
}

/// A vAPI error: HTTP status, type, message id and message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Error {
    status: StatusCode,
    /// Last part of the error's type, such as `not_found`.
    kind: &'static str,
    id: &'static str,
    message: String,
}

impl Error {
    pub(super) fn new(
        status: StatusCode,
        kind: &'static str,
        id: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { status, kind, id, message: message.into() }
    }

    pub(super) fn unauthenticated() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthenticated",
            "com.vmware.vapi.endpoint.method.authentication.required",
            "Authentication required.",
        )
    }

    pub(super) fn failed_to_login() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "unauthenticated",
            "com.vmware.vapi.endpoint.failedToLogin",
            "Failed to login using the provided credentials.",
        )
    }

    pub(super) fn too_many_sessions() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "service_unavailable",
            "com.vmware.vapi.endpoint.failedToLoginMaxUserSessionCountReached",
            "User session count is limited and the limit has been reached.",
        )
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "not_found",
            "com.vmware.cis.tagging.objectNotFound.error",
            message,
        )
    }

    /// The error for a user without the privileges of an operation, as vSphere words it.
    pub(super) fn unauthorized() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "unauthorized",
            "vapi.security.authorization.invalid",
            "Unable to authorize user",
        )
    }

    /// The error for a content library or item that does not exist.
    pub(super) fn no_library(id: &str) -> Self {
        Self {
            id: "com.vmware.content.library.not_found",
            ..Self::not_found(VcFault::LibraryNotFound(id.to_owned()).to_string())
        }
    }

    /// The error for a template whose configuration vCenter cannot read.
    pub(super) fn resource_inaccessible(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "resource_inaccessible",
            "com.vmware.vcenter.vm_template.resource_inaccessible",
            message,
        )
    }

    pub(super) fn operation_not_found(path: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "operation_not_found",
            "com.vmware.vapi.rest.httpNotFound",
            format!("Not found: the sim has no operation at {path}."),
        )
    }

    pub(super) fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "invalid_argument",
            "com.vmware.vapi.rest.bad_request",
            message,
        )
    }

    pub(super) fn unsupported_media_type() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "invalid_argument",
            "com.vmware.vapi.rest.unsupported_media_type",
            "the body must be application/json",
        )
    }

    /// Returns the error for an HTTP status that a rule injects. `message` replaces the usual text,
    /// except for 401.
    pub(super) fn of_status(status: StatusCode, message: Option<&str>) -> Self {
        let (kind, id, text) = match status.as_u16() {
            401 => return Self::unauthenticated(),
            403 => ("unauthorized", "com.vmware.vapi.endpoint.unauthorized", "Not authorized."),
            404 => ("not_found", "com.vmware.vapi.rest.httpNotFound", "Not found."),
            429 => (
                "service_unavailable",
                "com.vmware.vapi.endpoint.rateLimit",
                "The request was rejected due to high request rate.",
            ),
            503 => (
                "service_unavailable",
                "com.vmware.vapi.endpoint.serviceUnavailable",
                "Service unavailable.",
            ),
            504 => ("timed_out", "com.vmware.vapi.endpoint.timedOut", "Timed out."),
            _ => ("error", "com.vmware.vapi.endpoint.internalError", "Internal error."),
        };
        Self::new(status, kind, id, message.unwrap_or(text))
    }
}

impl From<VcFault> for Error {
    fn from(fault: VcFault) -> Self {
        let message = fault.to_string();
        match fault {
            VcFault::TagNotFound(_) | VcFault::ManagedObjectNotFound(_) => Self::not_found(message),
            VcFault::LibraryNotFound(id) => Self::no_library(&id),
            VcFault::DuplicateName { .. } => Self::new(
                StatusCode::BAD_REQUEST,
                "already_exists",
                "com.vmware.vcenter.vm_template.already_exists",
                message,
            ),
            VcFault::HostNotConnected => Self::new(
                StatusCode::BAD_REQUEST,
                "not_allowed_in_current_state",
                "com.vmware.vcenter.vm_template.not_allowed_in_current_state",
                message,
            ),
            VcFault::TagExists(_) => Self::new(
                StatusCode::BAD_REQUEST,
                "already_exists",
                "com.vmware.cis.tagging.alreadyExists.error",
                message,
            ),
            VcFault::NotAuthenticated => Self::unauthenticated(),
            VcFault::InvalidLogin => Self::failed_to_login(),
            VcFault::TooManySessions => Self::too_many_sessions(),
            _ => Self::invalid_argument(message),
        }
    }
}

impl Dialect {
    /// Returns an answer with a result and status 200.
    pub(super) fn success(self, value: Value) -> Reply {
        self.answer(StatusCode::OK, value)
    }

    /// Returns an answer with the id of a new object. The status is 201 in `/api`, 200 in `/rest`.
    pub(super) fn created_plain(self, value: Value) -> Reply {
        let status = if self == Self::Api { StatusCode::CREATED } else { StatusCode::OK };
        self.answer(status, value)
    }

    /// Returns an answer whose result is unset: `{}` for `/rest`, `null` for `/api`.
    pub(super) fn unset(self) -> Reply {
        let body = if self == Self::Api { "null" } else { "{}" };
        Reply::new(StatusCode::OK, JSON, body)
    }

    /// Returns an answer without a result. The status is 204 for `/api`, 200 for `/rest`.
    pub(super) fn nothing(self) -> Reply {
        match self {
            Self::Rest => Reply::new(StatusCode::OK, JSON, ""),
            Self::Api => Reply::new(StatusCode::NO_CONTENT, JSON, ""),
        }
    }

    /// Returns an answer with an error.
    pub(super) fn failure(self, error: &Error) -> Reply {
        let Error { status, kind, id, message } = error;
        let messages = json!([{ "id": id, "default_message": message, "args": [] }]);
        let body = match self {
            Self::Rest => json!({
                "type": format!("com.vmware.vapi.std.errors.{kind}"),
                "value": { "messages": messages },
            }),
            Self::Api => json!({ "error_type": kind.to_uppercase(), "messages": messages }),
        };
        let mut reply = Reply::new(*status, JSON, body.to_string()).with_fault(*kind);
        if *status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"VAPI endpoint\"");
            reply.response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        reply
    }

    fn answer(self, status: StatusCode, value: Value) -> Reply {
        let objects = value.as_array().map_or(1, Vec::len);
        let body = match self {
            Self::Rest => json!({ "value": value }),
            Self::Api => value,
        };
        Reply::new(status, JSON, body.to_string()).with_objects(objects)
    }
}
