//! Access to a Supervisor: mounted files, token, owner reference, API version and IP families.
//!
//! [`instances`](crate::instances) looks up the machines; this module sends no requests by itself.

mod family;
mod files;
mod link;
mod owner;
mod settings;
mod token;
mod transport;

pub use family::ClusterFamily;
pub use files::{MountPaths, MountedFiles, read_mounted};
pub use link::SupervisorLink;
pub use owner::{OwnerReference, ParseOwnerError};
pub use settings::{
    InstancesMode, PodIpPool, SupervisorFlags, SupervisorSettings, VmOperatorVersion,
};
pub use token::{TokenError, TokenReader, TokenSource};
pub use transport::authenticated;
