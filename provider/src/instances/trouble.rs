//! Nodes that a backend cannot manage. The provider reports them through events, a metric and
//! `/readyz`.

use crate::model::{NodeName, Unknown};

/// A node that the backend cannot manage, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Name of the node.
    pub node: NodeName,
    /// Kind of the trouble.
    pub kind: TroubleKind,
    /// Explanation for the event and for `/readyz`.
    pub text: String,
}

/// Reason for which a backend cannot manage a node. Reports list troubles in the order of these
/// variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TroubleKind {
    /// The node's machine was in a vCenter that the configuration does not name.
    UnknownVcenter,
    /// The address of the node's vCenter led the last login to another vCenter than the first
    /// login.
    OtherInstance,
    /// The provider found the machine more than a minute ago, and the vCenter has not delivered its
    /// properties since then.
    NotDelivered,
    /// The login does not see the machine, and nothing shows that the login ever saw it.
    Unproven,
    /// The login no longer sees the machine, and the vCenter does not say that the machine is gone.
    Hidden,
}

impl TroubleKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::UnknownVcenter,
        Self::OtherInstance,
        Self::NotDelivered,
        Self::Unproven,
        Self::Hidden,
    ];

    /// Returns the `reason` of the Kubernetes event.
    pub fn reason(self) -> &'static str {
        match self {
            Self::UnknownVcenter => "MachineInUnknownVCenter",
            Self::OtherInstance => "VCenterReplaced",
            Self::NotDelivered => "MachineNotDelivered",
            Self::Unproven => "MachineNotProvenGone",
            Self::Hidden => "MachineNotVisible",
        }
    }

    /// Returns the value of the metric's label `kind`.
    pub fn label(self) -> &'static str {
        match self {
            Self::UnknownVcenter => "unknown-vcenter",
            Self::OtherInstance => "other-instance",
            Self::NotDelivered => "not-delivered",
            Self::Unproven => "unproven",
            Self::Hidden => "not-visible",
        }
    }

    /// True if `/readyz` fails while a node has this kind of trouble. `Unproven` and `Hidden` do
    /// not fail it: only a person can find out whether the machine is gone, and the provider itself
    /// works as configured.
    pub fn fails_readiness(self) -> bool {
        !matches!(self, Self::Unproven | Self::Hidden)
    }

    /// Returns the kind of trouble as which the provider reports an unknown answer; `None` if it
    /// does not report the answer as a trouble.
    pub fn of(why: &Unknown) -> Option<Self> {
        match why {
            Unknown::Unproven(_) => Some(Self::Unproven),
            Unknown::Hidden(_) => Some(Self::Hidden),
            Unknown::Elsewhere(_) => Some(Self::UnknownVcenter),
            _ => None,
        }
    }
}
