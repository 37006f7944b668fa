//! Answers whose content a rule states: vim25 faults, HTTP statuses, gRPC statuses, and properties that
//! cannot be read.

use serde::{Deserialize, Serialize};

/// A vim25 fault that a rule makes a vCenter answer with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SoapFault {
    /// Name of the fault class, such as `NotAuthenticated`.
    #[serde(rename = "type")]
    pub class: String,
    /// Message of the fault; by default the usual one of the class, or a general one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl SoapFault {
    /// Returns a fault of this class, such as `NotAuthenticated`, with the default message.
    pub fn new(class: impl Into<String>) -> Self {
        Self { class: class.into(), message: None }
    }

    /// Sets the message, in place of the usual one of the class.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// An HTTP status in the format of the face: a Kubernetes `Status`, a vAPI error, or for `/sdk` the
/// page of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HttpStatus {
    /// HTTP status code of the answer.
    pub code: u16,
    /// Value of the header `Retry-After` in seconds; `None` omits the header.
    #[serde(default, rename = "retryAfter", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
    /// Message in the answer; by default that of the face.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl HttpStatus {
    /// Returns a status without `Retry-After` and with the default message.
    pub const fn new(code: u16) -> Self {
        Self { code, retry_after: None, message: None }
    }

    /// Sets `Retry-After` in seconds; `None` removes it.
    #[must_use]
    pub fn retry_after(mut self, seconds: impl Into<Option<u32>>) -> Self {
        self.retry_after = seconds.into();
        self
    }

    /// Sets the message; `None` restores the default of the face.
    #[must_use]
    pub fn message(mut self, message: impl Into<Option<String>>) -> Self {
        self.message = message.into();
        self
    }
}

/// A gRPC status that a rule makes a server for Cluster Autoscalers answer with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GrpcStatus {
    /// Code of gRPC, 1 to 16.
    pub code: u32,
    /// Message of the status; by default a text that names the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl GrpcStatus {
    /// Returns a status with this code and the default message.
    pub const fn new(code: u32) -> Self {
        Self { code, message: None }
    }

    /// Sets the message.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// Property paths that a rule makes unreadable, with the fault that the answer gives as the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct MissingPaths {
    /// Property paths; a path also makes all paths below it unreadable, and those that contain it.
    pub paths: Vec<String>,
    /// Class of the vim25 fault that the answer gives as the reason, such as `NoPermission`.
    pub fault: String,
}

impl MissingPaths {
    /// Returns these property paths with the class of their fault.
    pub fn new<P: Into<String>>(
        paths: impl IntoIterator<Item = P>,
        fault: impl Into<String>,
    ) -> Self {
        Self { paths: paths.into_iter().map(Into::into).collect(), fault: fault.into() }
    }
}
