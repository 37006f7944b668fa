//! What an API server is made to say: statuses, denials and throttling in a rule's own words.

use serde::{Deserialize, Serialize};

/// A `Status`. What is left out is worded as the real server would for this call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct KubeStatus {
    /// The code, from 400 on.
    pub code: u16,
    /// `Conflict`, `Invalid`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What is wrong with which field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<KubeCause>,
    /// Seconds, as header and in the details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct KubeCause {
    /// `FieldValueInvalid` and the like.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field's path.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The denial of an admission webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Denial {
    /// 422 as VM Operator answers what does not validate, with the message as its reason; 403 `Forbidden`
    /// as webhooks answer what they do not permit.
    pub code: u16,
    /// The webhook's name; that of VM Operator for the kind if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// Why.
    pub message: String,
}

impl Default for Denial {
    fn default() -> Self {
        Self { code: 422, webhook: None, message: "spec: Forbidden: denied by a rule".into() }
    }
}

/// A request too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Throttle {
    /// Seconds after which to come again.
    pub retry_after: u32,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { retry_after: 1 }
    }
}
