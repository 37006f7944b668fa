//! VM Operator as a program that can be away: whether it works, whether its webhooks answer, and two ways in
//! which what it tells differs between releases.

use serde::{Deserialize, Serialize};

/// How VM Operator is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct Operator {
    /// Whether it looks at objects. While it does not, nothing is made, powered, told or removed.
    pub reconciles: bool,
    /// Whether its webhooks answer. While they do not, its machines cannot be written, and no version of its
    /// kinds but the stored one can be read.
    pub webhooks: bool,
    /// Whether `status.biosUUID` comes in upper case.
    pub upper_case_uuids: bool,
    /// Whether it tells zones: `status.zone` and the zone label of machines that have none yet.
    pub tells_zones: bool,
}

impl Default for Operator {
    fn default() -> Self {
        Self { reconciles: true, webhooks: true, upper_case_uuids: false, tells_zones: true }
    }
}

/// A change of it. What is left out stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct OperatorChange {
    /// Whether it looks at objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconciles: Option<bool>,
    /// Whether its webhooks answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhooks: Option<bool>,
    /// Whether `status.biosUUID` comes in upper case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper_case_uuids: Option<bool>,
    /// Whether it tells zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tells_zones: Option<bool>,
}

impl OperatorChange {
    /// VM Operator is away as a whole, as while its pod restarts.
    pub fn away() -> Self {
        Self { reconciles: Some(false), webhooks: Some(false), ..Self::default() }
    }

    /// It is back.
    pub fn back() -> Self {
        Self { reconciles: Some(true), webhooks: Some(true), ..Self::default() }
    }

    /// What it is afterwards.
    pub(crate) fn of(self, before: Operator) -> Operator {
        let Self { reconciles, webhooks, upper_case_uuids, tells_zones } = self;
        Operator {
            reconciles: reconciles.unwrap_or(before.reconciles),
            webhooks: webhooks.unwrap_or(before.webhooks),
            upper_case_uuids: upper_case_uuids.unwrap_or(before.upper_case_uuids),
            tells_zones: tells_zones.unwrap_or(before.tells_zones),
        }
    }
}
