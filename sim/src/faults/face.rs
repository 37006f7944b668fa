//! Conversion between the front ends of calls and those in rules.

use crate::Face;

impl From<Face> for sim_rules::Face {
    fn from(face: Face) -> Self {
        match face {
            Face::Soap => Self::Soap,
            Face::Vapi => Self::Vapi,
            Face::Cluster => Self::Cluster,
            Face::Supervisor => Self::Supervisor,
        }
    }
}

impl From<sim_rules::Face> for Face {
    fn from(face: sim_rules::Face) -> Self {
        match face {
            sim_rules::Face::Soap => Self::Soap,
            sim_rules::Face::Vapi => Self::Vapi,
            sim_rules::Face::Cluster => Self::Cluster,
            sim_rules::Face::Supervisor => Self::Supervisor,
        }
    }
}
