//! What a person should know of nodes whose machines cannot be looked after.

use crate::model::Unknown;

/// One node that cannot be looked after, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Name of the node.
    pub node: String,
    /// What kind of trouble it is.
    pub kind: TroubleKind,
    /// One sentence for the event.
    pub text: String,
}

/// Kinds of trouble, in the order in which they are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TroubleKind {
    /// The machine was in a vCenter that the configuration does not reach.
    UnknownVcenter,
    /// Another vCenter answers under the name of the node's.
    OtherInstance,
    /// The machine was found, and its properties have not been delivered for more than a minute.
    NotDelivered,
    /// The machine is not visible, and nothing shows that it ever was.
    Unproven,
    /// The login may not see the machine any more.
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

    /// Whether `/readyz` fails while there is such a node. A node that waits for a person's word does not make it fail:
    /// machines are looked after as configured.
    pub fn fails_readiness(self) -> bool {
        !matches!(self, Self::Unproven | Self::Hidden)
    }

    /// The kind of a reason for which nothing is known of a machine, if a person should know of it.
    pub fn of(why: &Unknown) -> Option<Self> {
        match why {
            Unknown::Unproven(_) => Some(Self::Unproven),
            Unknown::Hidden(_) => Some(Self::Hidden),
            Unknown::Elsewhere(_) => Some(Self::UnknownVcenter),
            _ => None,
        }
    }
}
