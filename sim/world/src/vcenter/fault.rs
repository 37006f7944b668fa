//! Reasons for which a vCenter refuses requests: the vim25 and vAPI faults that the simulated
//! operations raise.

use serde::{Deserialize, Serialize};

use super::machine::Power;
use super::refs::MoRef;

/// The reason for which a vCenter refused a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum VcFault {
    /// The world has no vCenter of this name.
    #[error("no vCenter is called `{0}`")]
    NoSuchVCenter(String),
    /// The inventory has no object of this kind and name.
    #[error("no {kind} is called `{name}`")]
    NoSuchName {
        /// Kind of the object, such as `machine`, `host` or `user`.
        kind: String,
        /// Name that the command gives.
        name: String,
    },
    /// The object does not exist, or no longer exists.
    #[error(
        "The object 'vim.{kind}:{0}' has already been deleted or has not been completely created",
        kind = .0.kind.type_name()
    )]
    ManagedObjectNotFound(MoRef),
    /// The machine has the wrong power state for the operation.
    #[error("The attempted operation cannot be performed in the current state ({}).", existing.label())]
    InvalidPowerState {
        /// Power state that the operation needs; unset in the vim25 fault if `None`.
        requested: Option<Power>,
        /// Present power state of the machine.
        existing: Power,
    },
    /// The object's present state does not allow the operation.
    #[error("The operation is not allowed in the current state.")]
    InvalidState,
    /// The host does not answer, or cannot take a new machine.
    #[error("Unable to communicate with the remote host, since it is disconnected.")]
    HostNotConnected,
    /// The guest cannot receive the request, because VMware Tools does not run in it.
    #[error(
        "Cannot complete operation because VMware Tools is not running in this virtual machine."
    )]
    ToolsUnavailable,
    /// Another object already has the name.
    #[error("The name '{name}' already exists.")]
    DuplicateName {
        /// Name that is taken.
        name: String,
        /// Object that has the name.
        object: MoRef,
    },
    /// A directory of a datastore does not exist.
    #[error("File {0} was not found")]
    FileNotFound(String),
    /// The configuration of the machine has changed since the version that the client expects.
    #[error("The object or item referred to has been changed by another client.")]
    ConcurrentAccess,
    /// The host or cluster does not have the datastore.
    #[error("Invalid datastore '{0}'.")]
    InvalidDatastore(MoRef),
    /// A change of a device is invalid.
    #[error("Invalid configuration for device '{index}'.")]
    InvalidDevice {
        /// Position of the change in the list of changes, from 0.
        index: u32,
        /// True if the device needs a controller, and has none that exists.
        needs_controller: bool,
    },
    /// An argument is invalid.
    #[error("A specified parameter was not correct: {0}")]
    InvalidArgument(String),
    /// The object does not support the operation.
    #[error("The operation is not supported on the object.")]
    NotSupported,
    /// The user or password is wrong, the account is locked, or the client logs in to a session
    /// that is not anonymous.
    #[error("Cannot complete login due to an incorrect user name or password.")]
    InvalidLogin,
    /// The session table is full.
    #[error("the maximum number of sessions has been reached")]
    TooManySessions,
    /// The client has no live session.
    #[error("The session is not authenticated.")]
    NotAuthenticated,
    /// A tag or category does not exist.
    #[error("no tag or category has the id '{0}'")]
    TagNotFound(String),
    /// A tag or category of this name exists.
    #[error("a tag or category called '{0}' already exists")]
    TagExists(String),
    /// A content library or an item of one does not exist.
    #[error("no content library or library item has the id '{0}'")]
    LibraryNotFound(String),
    /// The item has no template that vCenter can read.
    #[error("the library item '{0}' has no template")]
    NoTemplate(String),
    /// The tag cannot be attached to this object.
    #[error("{0}")]
    TagNotAttachable(String),
    /// The vCenter is stopped.
    #[error("the vCenter is stopped")]
    Stopped,
    /// The vCenter is not stopped, which an upgrade requires.
    #[error("the vCenter `{0}` runs; stop it first with vcenter.stop")]
    Runs(String),
}
