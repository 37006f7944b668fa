//! The way to a Supervisor: what is mounted about it, who we are there, and which of its objects we speak.
//!
//! Nothing here asks anything. What its machines are is [`instances`](crate::instances)' business.

mod family;
mod files;
mod owner;
mod settings;
mod token;
mod transport;

pub use family::{ClusterFamily, ParseClusterFamilyError};
pub use files::{MountError, MountPaths, Mounted, read_mounted};
pub use owner::{OwnerReference, ParseOwnerError};
pub use settings::{
    InstancesMode, PodIpPool, SupervisorFlags, SupervisorSettings, SupervisorSettingsError,
    VmOperatorVersion,
};
pub use token::{TokenError, TokenReader, TokenSource};
pub use transport::authenticated;
