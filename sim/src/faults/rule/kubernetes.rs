//! Answers of an API server in a rule's own words: statuses, denials and throttling.

use serde::{Deserialize, Serialize};

/// A `Status`. For omitted fields the sim chooses the real server's wording for this call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct KubeStatus {
    /// HTTP status code, 400 or more.
    pub code: u16,
    /// `Conflict`, `Invalid`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Fields that are not valid, with the reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<KubeCause>,
    /// Seconds until a retry, as header and in the details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
}

/// One reason for a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KubeCause {
    /// `FieldValueInvalid` and the like.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Description of the problem.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The denial of an admission webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Denial {
    /// Status code. VM Operator answers 422 for an object that is not valid, with the message as reason; webhooks answer 403
    /// `Forbidden` for a request that they do not permit.
    pub code: u16,
    /// Name of the webhook; by default VM Operator's webhook for the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// Reason for the denial.
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
pub struct Throttle {
    /// Seconds until the client may retry.
    pub retry_after: u32,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { retry_after: 1 }
    }
}
