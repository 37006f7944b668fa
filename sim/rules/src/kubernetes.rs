//! Answers of a Kubernetes API server whose content a rule states: statuses, denials, throttling.

use serde::{Deserialize, Serialize};

/// A Kubernetes `Status` that an API server answers with. For omitted fields the sim uses the words
/// of a real server for the same call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct KubeStatus {
    /// HTTP status code, from 400 to 599.
    pub code: u16,
    /// Reason, such as `Conflict` or `Invalid`; by default that of a real server for the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Message of the `Status`; by default that of a real server for the same call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Invalid fields, with the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<KubeCause>,
    /// Seconds after which the client may retry, sent in the header `Retry-After` and in `details`;
    /// not sent if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
}

/// One reason for a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct KubeCause {
    /// Type of the problem, such as `FieldValueInvalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Description of the problem.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field, such as `spec.providerID`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The denial of an admission webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Denial {
    /// HTTP status code, from 400 to 599 (422 by default). VM Operator answers 422 for an invalid
    /// object, with the message as reason. Webhooks answer 403 `Forbidden` for a request that they
    /// do not permit.
    pub code: u16,
    /// Name of the webhook; by default VM Operator's validating webhook for the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// Message that gives the reason for the denial.
    pub message: String,
}

impl Default for Denial {
    fn default() -> Self {
        Self { code: 422, webhook: None, message: "spec: Forbidden: denied by a rule".into() }
    }
}

/// Throttling of a client that sends too many requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Throttle {
    /// Seconds after which the client may retry (1 by default).
    pub retry_after: u32,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { retry_after: 1 }
    }
}

impl KubeStatus {
    /// Returns a status with this code and the words of a real server.
    pub fn new(code: u16) -> Self {
        Self { code, ..Self::default() }
    }

    /// Sets the reason, such as `Conflict`.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the message, in place of that of a real server.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// Adds an invalid field with its reason to `causes`.
    #[must_use]
    pub fn cause(mut self, cause: KubeCause) -> Self {
        self.causes.push(cause);
        self
    }

    /// Sets the seconds after which the client may retry.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl KubeCause {
    /// Returns a cause with this type of the problem, such as `FieldValueInvalid`, without message
    /// and field.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..Self::default() }
    }

    /// Sets the description of the problem.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// Sets the path of the field, such as `spec.podCIDR`.
    #[must_use]
    pub fn field(mut self, path: impl Into<String>) -> Self {
        self.field = path.into();
        self
    }
}

impl Throttle {
    /// Returns throttling with `retry_after`, the seconds after which the client may retry.
    pub const fn new(retry_after: u32) -> Self {
        Self { retry_after }
    }
}

impl Denial {
    /// Returns a denial with this status code and message, by VM Operator's validating webhook.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, webhook: None, message: message.into() }
    }

    /// Sets the name of the webhook.
    #[must_use]
    pub fn webhook(mut self, name: impl Into<String>) -> Self {
        self.webhook = Some(name.into());
        self
    }
}
