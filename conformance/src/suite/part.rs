//! Parts of the catalogue: the kind of provider that a check judges.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::scenario::Backend;

/// Part of the catalogue to which the result of a check belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Cloud controller managers with this backend.
    Nodes(Backend),
    /// Servers for the Cluster Autoscaler.
    Autoscaler,
    /// Reconcilers that publish the capacity of machine templates.
    Capacity,
}

impl Part {
    /// Every part, in the order in which a run judges them.
    pub const ALL: [Self; 4] = [
        Self::Nodes(Backend::VCenter),
        Self::Nodes(Backend::Supervisor),
        Self::Autoscaler,
        Self::Capacity,
    ];

    /// Returns the word for the part on the command line and in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nodes(backend) => backend.as_str(),
            Self::Autoscaler => "autoscaler",
            Self::Capacity => "capacity",
        }
    }

    /// Returns the name for use in a headline.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Nodes(backend) => backend.title(),
            Self::Autoscaler => "Cluster Autoscaler",
            Self::Capacity => "capacity of templates",
        }
    }
}

impl From<Backend> for Part {
    fn from(backend: Backend) -> Self {
        Self::Nodes(backend)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Part {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
