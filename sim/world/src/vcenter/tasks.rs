//! Tasks: operations that a vCenter accepts at once and carries out later.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::fault::VcFault;
use super::machine::{DeviceChange, Settings};
use super::refs::MoRef;
use crate::Time;

/// Settings of a machine to create or reconfigure. An absent setting gets its default in a new
/// machine, and keeps its value in an existing one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct MachineSpec {
    /// Inventory name; a new machine must have one.
    pub name: Option<String>,
    /// BIOS UUID; by default one that depends on the seed.
    pub uuid: Option<Uuid>,
    /// Number of virtual processors; 2 by default.
    pub cpus: Option<u32>,
    /// Memory in MiB; 4096 by default.
    pub memory_mib: Option<u32>,
    /// Guest operating system id; `ubuntu64Guest` by default.
    pub guest_id: Option<String>,
    /// Notes of an administrator; empty by default.
    pub annotation: Option<String>,
    /// Advanced settings to merge; an empty value deletes the key.
    pub extra: BTreeMap<String, String>,
    /// Host name that the guest will report; the machine's name by default.
    pub host_name: Option<String>,
    /// Addresses that the guest will report on its first card. If they are set, the guest will
    /// report only link-local addresses on its other cards.
    pub addresses: Option<Vec<IpAddr>>,
    /// vCenter's own UUID of the machine; by default one that depends on the seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_uuid: Option<Uuid>,
    /// Version of the configuration that the change expects; a change of another version is
    /// refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_version: Option<u64>,
    /// Datastore of a new machine; by default the first one of its cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datastore: Option<MoRef>,
    /// Changes of devices. A new machine has only the controllers that every machine has and the
    /// added devices; by default a SCSI controller, a disk and a network card too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<Vec<DeviceChange>>,
    /// Other settings to merge, by property path, such as `config.cpuHotAddEnabled`.
    #[serde(skip_serializing_if = "Settings::is_empty")]
    pub settings: Settings,
}

/// Operation of a task, with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Powers a machine on: `PowerOnVM_Task`.
    PowerOn,
    /// Powers a machine on, on this host of its cluster: `PowerOnVM_Task` with a host.
    PowerOnHost(MoRef),
    /// Powers a machine off: `PowerOffVM_Task`.
    PowerOff,
    /// Suspends a machine: `SuspendVM_Task`.
    Suspend,
    /// Restarts a powered-on machine: `ResetVM_Task`.
    Reset,
    /// Destroys a machine that is not powered on: `Destroy_Task`.
    Destroy,
    /// Renames an inventory object to this name: `Rename_Task`.
    Rename(String),
    /// Changes the settings of a machine: `ReconfigVM_Task`.
    Reconfigure(Box<MachineSpec>),
    /// Creates a machine in a folder: `CreateVM_Task`.
    Create {
        /// Settings of the new machine, which must include a name.
        spec: Box<MachineSpec>,
        /// Resource pool that gets the machine.
        pool: MoRef,
        /// Host; if absent, the first host of the pool's cluster that is connected and not in
        /// maintenance mode.
        host: Option<MoRef>,
    },
    /// Creates a copy of a machine or template: `CloneVM_Task`.
    Clone(Box<CloneWork>),
    /// Moves a machine to another host: `RelocateVM_Task`.
    Relocate {
        /// Host to which the machine moves.
        host: MoRef,
        /// The new pool; if absent, the present pool, or the root pool of the host's cluster if the
        /// cluster changes.
        pool: Option<MoRef>,
    },
    /// Lists this directory of a datastore, the root directory if empty: `SearchDatastore_Task`.
    SearchDatastore(String),
}

/// Arguments of a clone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloneWork {
    /// Folder that gets the copy.
    pub folder: MoRef,
    /// Settings of the copy, which must include a name. A setting that is left out has the value of
    /// the source, except for UUIDs, addresses and host name.
    pub spec: MachineSpec,
    /// Resource pool of the copy; if absent, that of the source. A template has none.
    pub pool: Option<MoRef>,
    /// Host; if absent, the first host of the pool's cluster that is connected and not in
    /// maintenance mode.
    pub host: Option<MoRef>,
    /// True if the copy is a template.
    pub template: bool,
    /// True if the copy is powered on afterwards.
    pub power_on: bool,
}

impl Work {
    /// The operation's name, as in `TaskInfo.name`.
    pub fn operation(&self) -> &'static str {
        match self {
            Self::PowerOn | Self::PowerOnHost(_) => "PowerOnVM_Task",
            Self::PowerOff => "PowerOffVM_Task",
            Self::Suspend => "SuspendVM_Task",
            Self::Reset => "ResetVM_Task",
            Self::Destroy => "Destroy_Task",
            Self::Rename(_) => "Rename_Task",
            Self::Reconfigure(_) => "ReconfigVM_Task",
            Self::Create { .. } => "CreateVM_Task",
            Self::Clone(_) => "CloneVM_Task",
            Self::Relocate { .. } => "RelocateVM_Task",
            Self::SearchDatastore(_) => "SearchDatastore_Task",
        }
    }

    /// Message key of the operation in `TaskInfo.descriptionId`, such as `VirtualMachine.powerOn`.
    pub fn description_id(&self) -> &'static str {
        match self {
            Self::PowerOn | Self::PowerOnHost(_) => "VirtualMachine.powerOn",
            Self::PowerOff => "VirtualMachine.powerOff",
            Self::Suspend => "VirtualMachine.suspend",
            Self::Reset => "VirtualMachine.reset",
            Self::Destroy => "VirtualMachine.destroy",
            Self::Rename(_) => "ManagedEntity.rename",
            Self::Reconfigure(_) => "VirtualMachine.reconfigure",
            Self::Create { .. } => "Folder.createVm",
            Self::Clone(_) => "VirtualMachine.clone",
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
    /// Completed with this error.
    Error(VcFault),
}

/// A task of a vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Task {
    /// Operation of the task.
    pub work: Work,
    /// Object on which the task works.
    pub entity: MoRef,
    /// Name of that object at the start of the task.
    pub entity_name: String,
    /// Account of the client that started the task.
    pub user: String,
    /// Progress or result of the task.
    pub progress: Progress,
    /// World time at which vCenter accepted the task.
    pub queued: Time,
    /// World time at which the task ended; `None` while the task runs.
    pub completed: Option<Time>,
}
