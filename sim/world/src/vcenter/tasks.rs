//! Tasks: operations that a vCenter accepts at once and carries out later.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::fault::VcFault;
use super::refs::MoRef;
use crate::Time;

/// Settings of a machine to create or reconfigure. An absent setting gets its default in a new
/// machine, and keeps its value in an existing one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct MachineSpec {
    /// Inventory name; a new machine must have one.
    pub name: Option<String>,
    /// BIOS UUID.
    pub uuid: Option<Uuid>,
    /// Virtual processors.
    pub cpus: Option<u32>,
    /// Memory in MiB.
    pub memory_mib: Option<u32>,
    /// Guest operating system id.
    pub guest_id: Option<String>,
    /// Free text.
    pub annotation: Option<String>,
    /// Advanced settings to merge; an empty value deletes the key.
    pub extra: BTreeMap<String, String>,
    /// Host name that the guest will report.
    pub host_name: Option<String>,
    /// Addresses that the guest will report on its first card. If they are set, the guest will
    /// report only link-local addresses on its other cards.
    pub addresses: Option<Vec<IpAddr>>,
}

/// The work of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// `PowerOnVM_Task`
    PowerOn,
    /// `PowerOffVM_Task`
    PowerOff,
    /// `SuspendVM_Task`
    Suspend,
    /// `ResetVM_Task`
    Reset,
    /// `Destroy_Task`
    Destroy,
    /// `Rename_Task`
    Rename(String),
    /// `ReconfigVM_Task`
    Reconfigure(Box<MachineSpec>),
    /// `CreateVM_Task`
    Create {
        /// Settings.
        spec: Box<MachineSpec>,
        /// Resource pool.
        pool: MoRef,
        /// Host; if absent, the first host of the pool's cluster that is connected and not in
        /// maintenance mode.
        host: Option<MoRef>,
    },
    /// `RelocateVM_Task`
    Relocate {
        /// The new host.
        host: MoRef,
        /// The new pool; if absent, the present pool, or the root pool of the host's cluster if the
        /// cluster changes.
        pool: Option<MoRef>,
    },
    /// `SearchDatastore_Task` in this directory of a datastore; empty for the root directory.
    SearchDatastore(String),
}

impl Work {
    /// The operation's name, as in `TaskInfo.name`.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::PowerOn => "PowerOnVM_Task",
            Self::PowerOff => "PowerOffVM_Task",
            Self::Suspend => "SuspendVM_Task",
            Self::Reset => "ResetVM_Task",
            Self::Destroy => "Destroy_Task",
            Self::Rename(_) => "Rename_Task",
            Self::Reconfigure(_) => "ReconfigVM_Task",
            Self::Create { .. } => "CreateVM_Task",
            Self::Relocate { .. } => "RelocateVM_Task",
            Self::SearchDatastore(_) => "SearchDatastore_Task",
        }
    }

    /// `TaskInfo.descriptionId`.
    pub fn description_id(&self) -> &'static str {
        match self {
            Self::PowerOn => "VirtualMachine.powerOn",
            Self::PowerOff => "VirtualMachine.powerOff",
            Self::Suspend => "VirtualMachine.suspend",
            Self::Reset => "VirtualMachine.reset",
            Self::Destroy => "VirtualMachine.destroy",
            Self::Rename(_) => "ManagedEntity.rename",
            Self::Reconfigure(_) => "VirtualMachine.reconfigure",
            Self::Create { .. } => "Folder.createVm",
            Self::Relocate { .. } => "VirtualMachine.relocate",
            Self::SearchDatastore(_) => "host.DatastoreBrowser.search",
        }
    }
}

/// The progress of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// Accepted and not completed.
    Running,
    /// Completed, with the object that it created, if any.
    Success(Option<MoRef>),
    /// Failed.
    Error(VcFault),
}

/// A task of a vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Task {
    /// Its work.
    pub work: Work,
    /// The object that it works on.
    pub entity: MoRef,
    /// The name of that object.
    pub entity_name: String,
    /// The account of the client.
    pub user: String,
    /// Its progress.
    pub progress: Progress,
    /// Time at which it was accepted.
    pub queued: Time,
    /// Time at which it ended; `None` while it runs.
    pub completed: Option<Time>,
}
