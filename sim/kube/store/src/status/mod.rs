//! Failures of requests, with the texts and the form of the real API server.

mod errors;

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value, json};

pub use errors::FieldErrors;

use crate::GroupResource;
use crate::values::text::quote;

/// The failure of a request; the API server answers with it as a `Status` object.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// HTTP status code of the answer.
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`; empty if none.
    pub reason: Cow<'static, str>,
    /// Description of the failure for people.
    pub message: String,
    /// Object and causes of the failure, if the real server names any.
    pub details: Option<Box<Details>>,
    /// Token with which the client can continue an expired list, whose pages then show different
    /// states; `None` if the failure is not that of such a list.
    pub continue_token: Option<String>,
    /// Warnings for the client, which the answer has as headers.
    pub warnings: Vec<String>,
}

/// Object and causes of a failure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Name of the object; empty if the failure is about no single object.
    pub name: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Resource or kind, whichever the real server puts here.
    pub kind: String,
    /// The object's uid; empty if the answer does not name it.
    pub uid: String,
    /// Causes, such as errors of single fields.
    pub causes: Vec<Cause>,
    /// Delay before the next attempt, in seconds; 0 for none.
    pub retry_after_seconds: u32,
}

/// One cause of a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Reason, such as `FieldValueInvalid`.
    pub reason: Cow<'static, str>,
    /// Description of the cause for people.
    pub message: String,
    /// The field's path; empty if the cause is not a field.
    pub field: String,
}

impl Status {
    /// Returns failure 500: an internal error with the reason `why`.
    pub fn internal(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        let cause = Cause { reason: "".into(), message: why.to_owned(), field: String::new() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Self { details: Some(Box::new(details)), ..Self::new(500, "InternalError", message) }
    }

    /// Returns a failure without details.
    pub fn new(
        code: u16,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            continue_token: None,
            warnings: Vec::new(),
        }
    }

    /// Sets the details to the object `name` of `resource`.
    #[must_use]
    fn about(mut self, resource: &GroupResource, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.into(),
            group: resource.group.clone().into_owned(),
            kind: resource.resource.clone().into_owned(),
            ..Details::default()
        }));
        self
    }

    /// Returns failure 404: the object does not exist.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {} not found", quote(name)))
            .about(resource, name)
    }

    /// Returns failure 409: the object exists already.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} {} already exists", quote(name)))
            .about(resource, name)
    }

    /// Returns failure 409: the request relies on a state that has changed.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// Returns failure 409: the client wrote an object with an old resourceVersion.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// Returns failure 403: the request is not allowed for this object; an empty `name` stands for
    /// an object without a name yet.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quote(name))
        };
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// Returns failure 400: the request is not valid.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Returns failure 422: fields are not valid. `kind` is the object's kind, not its resource.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: FieldErrors) -> Self {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("{qualified} {} is invalid: {errors}", quote(name));
        let mut status = Self::new(422, "Invalid", message);
        status.details = Some(Box::new(Details {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            causes: errors.into_causes(),
            ..Details::default()
        }));
        status
    }

    /// Returns failure 410: the server has forgotten the requested resourceVersion.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Returns failure 504: the requested resourceVersion is newer than the current one.
    pub fn too_large_version(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        let mut status = Self::new(504, "Timeout", message);
        status.details = Some(Box::new(Details {
            causes: vec![Cause {
                reason: "ResourceVersionTooLarge".into(),
                message: "Too large resource version".into(),
                field: String::new(),
            }],
            retry_after_seconds: 1,
            ..Details::default()
        }));
        status
    }

    /// The `Status` object as JSON, with the fields in the order in which the real server writes
    /// them.
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), token.as_str().into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.as_ref().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_value();
        }
        status["code"] = self.code.into();
        status
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let Self { name, group, kind, uid, causes, retry_after_seconds } = self;
        let mut out = Map::new();
        for (field, text) in [("name", name), ("group", group), ("kind", kind), ("uid", uid)] {
            if !text.is_empty() {
                out.insert(field.into(), text.as_str().into());
            }
        }
        if !causes.is_empty() {
            out.insert("causes".into(), causes.iter().map(Cause::to_value).collect());
        }
        if *retry_after_seconds > 0 {
            out.insert("retryAfterSeconds".into(), (*retry_after_seconds).into());
        }
        Value::Object(out)
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut out = Map::new();
        for (field, text) in
            [("reason", self.reason.as_ref()), ("message", &self.message), ("field", &self.field)]
        {
            if !text.is_empty() {
                out.insert(field.into(), text.into());
            }
        }
        Value::Object(out)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}
