//! Why a request failed, in the words and the shape of the real API server.

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value, json};

use super::text::quote;
use super::{FieldErrors, GroupResource};

/// A failed request, as the `Status` object that the API answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, `NotFound`; empty if there is none.
    pub reason: Cow<'static, str>,
    /// The message for people.
    pub message: String,
    /// More about it; absent for the plainest failures.
    pub details: Option<Box<Details>>,
    /// A token to go on with, if an expired list can still be continued inconsistently.
    pub continue_token: Option<String>,
    /// What the client should be told besides.
    pub warnings: Vec<String>,
}

/// What a failure is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Object name.
    pub name: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Resource or kind, whichever the real server puts here.
    pub kind: String,
    /// The object's uid.
    pub uid: String,
    /// What is wrong with which field.
    pub causes: Vec<Cause>,
    /// When to ask again, in seconds; 0 says nothing.
    pub retry_after_seconds: u32,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// `FieldValueInvalid` and its like.
    pub reason: Cow<'static, str>,
    /// What is wrong.
    pub message: String,
    /// The field's path; empty if the cause is not a field.
    pub field: String,
}

impl Status {
    /// 500 for what went wrong inside.
    pub fn internal(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        let cause = Cause { reason: "".into(), message: why.to_owned(), field: String::new() };
        let details = Details { causes: vec![cause], ..Details::default() };
        Self { details: Some(Box::new(details)), ..Self::new(500, "InternalError", message) }
    }

    /// A failure without details.
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

    /// The same failure about the named object of `resource`.
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

    /// 404: no such object.
    pub fn not_found(resource: &GroupResource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {} not found", quote(name)))
            .about(resource, name)
    }

    /// 409: there is such an object already.
    pub fn already_exists(resource: &GroupResource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} {} already exists", quote(name)))
            .about(resource, name)
    }

    /// 409: the request rests on something that is no longer so.
    pub fn conflict(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {}: {why}", quote(name));
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// 409 after a write that was based on an older version.
    pub fn modified(resource: &GroupResource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 403 for an object that must not be touched like this.
    pub fn forbidden(resource: &GroupResource, name: &str, why: &str) -> Self {
        let message = if name.is_empty() {
            format!("{resource} is forbidden: {why}")
        } else {
            format!("{resource} {} is forbidden: {why}", quote(name))
        };
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 422: fields are wrong. `kind` is the object's kind, not its resource.
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

    /// 410: the version asked for is no longer known.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 504: the version asked for is not known yet.
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

    /// The `Status` object, fields in the order in which the real server writes them.
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
