//! Nodes that a backend cannot manage, as reported to a person through events, a metric and `/readyz`.

use crate::model::Unknown;

/// A node that the backend cannot manage, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Name of the node.
    pub node: String,
    /// Kind of the trouble.
    pub kind: TroubleKind,
    /// One sentence for the event.
    pub text: String,
}

/// Kinds of trouble, in the order in which they are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TroubleKind {
    /// The node's machine was in a vCenter that the configuration does not name.
    UnknownVcenter,
    /// Another vCenter answers under the name of the node's vCenter.
    OtherInstance,
    /// The machine was found, and the vCenter has not delivered its properties for more than a minute.
    NotDelivered,
    /// The machine is not visible, and nothing shows that it ever was.
    Unproven,
    /// The login can no longer see the machine.
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

    /// Reason of the event.
    pub fn reason(self) -> &'static str {
        match self {
            Self::UnknownVcenter => "MachineInUnknownVCenter",
            Self::OtherInstance => "VCenterReplaced",
            Self::NotDelivered => "MachineNotDelivered",
            Self::Unproven => "MachineNotProvenGone",
            Self::Hidden => "MachineNotVisible",
        }
    }

    /// Label of the metric.
    pub fn label(self) -> &'static str {
        match self {
            Self::UnknownVcenter => "unknown-vcenter",
            Self::OtherInstance => "other-instance",
            Self::NotDelivered => "not-delivered",
            Self::Unproven => "unproven",
            Self::Hidden => "not-visible",
        }
    }

    /// True if `/readyz` fails while such a node exists. A node that waits for a person's confirmation does not fail
    /// it: the provider manages the machines as configured.
    pub fn fails_readiness(self) -> bool {
        !matches!(self, Self::Unproven | Self::Hidden)
    }

    /// Returns the kind of trouble that a reason means, if a person should know of it.
    pub fn of(why: &Unknown) -> Option<Self> {
        match why {
            Unknown::Unproven(_) => Some(Self::Unproven),
            Unknown::Hidden(_) => Some(Self::Hidden),
            Unknown::Elsewhere(_) => Some(Self::UnknownVcenter),
            _ => None,
        }
    }
}
