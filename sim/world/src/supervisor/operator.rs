//! Settings of VM Operator: whether it reconciles, whether its webhooks answer, and two differences
//! between its releases in the status that it writes.

use serde::{Deserialize, Serialize};

/// The present settings of VM Operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct Operator {
    /// True if VM Operator reconciles objects. Otherwise it does not create machines, change their
    /// power or destroy them, and it does not write the status of objects.
    pub reconciles: bool,
    /// True if VM Operator's webhooks answer. Otherwise the API server refuses to create or update
    /// VirtualMachines (updates of the status succeed), and to convert objects of VM Operator's
    /// kinds to or from versions other than the stored one.
    pub webhooks: bool,
    /// True if VM Operator writes `status.biosUUID` in upper case.
    pub upper_case_uuids: bool,
    /// True if VM Operator reports zones: it writes `status.zone`, and copies it to the zone label.
    pub tells_zones: bool,
}

impl Default for Operator {
    fn default() -> Self {
        Self { reconciles: true, webhooks: true, upper_case_uuids: false, tells_zones: true }
    }
}

/// A change of the settings of VM Operator. A field that is left out keeps its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct OperatorChange {
    /// True if VM Operator reconciles objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciles: Option<bool>,
    /// True if VM Operator's webhooks answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhooks: Option<bool>,
    /// True if VM Operator writes `status.biosUUID` in upper case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_case_uuids: Option<bool>,
    /// True if VM Operator reports zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tells_zones: Option<bool>,
}

impl OperatorChange {
    /// A change that stops reconciling and webhooks, as a restart of VM Operator's pod does.
    pub fn away() -> Self {
        Self { reconciles: Some(false), webhooks: Some(false), ..Self::default() }
    }

    /// A change that starts reconciling and webhooks again.
    pub fn back() -> Self {
        Self { reconciles: Some(true), webhooks: Some(true), ..Self::default() }
    }

    /// Returns the settings `before` with this change applied.
    pub(crate) fn applied_to(self, before: Operator) -> Operator {
        let Self { reconciles, webhooks, upper_case_uuids, tells_zones } = self;
        Operator {
            reconciles: reconciles.unwrap_or(before.reconciles),
            webhooks: webhooks.unwrap_or(before.webhooks),
            upper_case_uuids: upper_case_uuids.unwrap_or(before.upper_case_uuids),
            tells_zones: tells_zones.unwrap_or(before.tells_zones),
        }
    }
}
