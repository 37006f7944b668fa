//! The state of one simulated vCenter: inventory, tags, content libraries, accounts, sessions, tasks, release,
//! certificate and availability.

mod edit;
mod entity;
mod fault;
pub(crate) mod identity;
mod inventory;
mod journal;
mod logins;
mod machine;
mod refs;
mod release;
mod tasks;
mod vapi;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use entity::{Data, Entity, HostConnection, can_be_child_of};
pub use fault::VcFault;
pub use inventory::{Change, Inventory};
pub use journal::{Entry, Journal, Touch, touches};
pub use logins::{
    EndReason, LoginEvent, LoginRefusal, LoginRules, Logins, Password, Session, SessionService,
    User,
};
pub use machine::{
    Config, Connection, DeviceChange, DeviceSpec, Devices, Guest, GuestNic, GuestRequest, Machine,
    NetworkCard, NextGuestReport, Power, Setting, Settings, Structure, Tools, first_key, swap_uuid,
};
pub(crate) use machine::{
    FIRST_CARD, base_devices, default_devices, device_keys, is_present, known, take_over,
};
pub use refs::{FolderKind, Kind, MoRef};
pub use release::Release;
pub use tasks::{CloneWork, MachineSpec, Progress, Task, Work};
pub use vapi::{
    Cardinality, Category, Libraries, Library, LibraryEvent, LibraryItem, TEMPLATE_ITEM, Tag,
    TagEvent, Tags, is_same,
};

use crate::Time;

/// Availability of a vCenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Service {
    /// The vCenter answers requests.
    Running,
    /// The vCenter answers every request with status 503, as its proxy does during the start.
    Starting,
    /// The vCenter refuses connections.
    Stopped,
}

/// A change of a vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VcEvent {
    /// An inventory object changed.
    Object {
        /// Object that changed.
        id: MoRef,
        /// Change of the object.
        change: Change,
    },
    /// Accounts or sessions changed.
    Login(LoginEvent),
    /// Tags or tag categories changed.
    Tag(TagEvent),
    /// Content libraries or their items changed.
    Library(LibraryEvent),
    /// A task was accepted or completed.
    Task {
        /// Id of the task.
        id: MoRef,
        /// New state of the task.
        task: Box<Task>,
    },
    /// vCenter forgot a completed task.
    TaskForgotten(MoRef),
    /// The availability of the vCenter changed.
    Service(Service),
    /// The TLS certificate was replaced; new handshakes use the certificate of this number.
    Certificate(u32),
    /// The vCenter has another instance UUID, as after a restore into a new appliance.
    InstanceUuid(Uuid),
    /// The vCenter runs another release.
    Upgraded(Release),
}

/// State of one vCenter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VCenter {
    /// Instance UUID: `about.instanceUuid`.
    pub instance_uuid: Uuid,
    /// Version and build of the vCenter.
    #[serde(default)]
    pub release: Release,
    /// Inventory objects of the vCenter.
    pub inventory: Inventory,
    /// Accounts and sessions of the vCenter.
    pub logins: Logins,
    /// Tags and tag categories of the vCenter.
    pub tags: Tags,
    /// Content libraries and their items.
    #[serde(default, skip_serializing_if = "Libraries::is_empty")]
    pub libraries: Libraries,
    /// Tasks that vCenter has not forgotten yet.
    pub tasks: BTreeMap<MoRef, Task>,
    /// Availability of the vCenter.
    pub service: Service,
    /// Number of the current TLS certificate, from 0.
    pub certificate: u32,
    /// The highest number of a MoRef so far. All objects and tasks of the vCenter get their numbers
    /// from this counter, which never decreases.
    pub last_number: u32,
}

impl VCenter {
    /// Creates a running vCenter without objects and accounts.
    pub fn new(instance_uuid: Uuid) -> Self {
        Self {
            instance_uuid,
            release: Release::default(),
            inventory: Inventory::default(),
            logins: Logins::default(),
            tags: Tags::default(),
            libraries: Libraries::default(),
            tasks: BTreeMap::new(),
            service: Service::Running,
            certificate: 0,
            last_number: 0,
        }
    }

    /// The root folder, `group-d1`.
    pub fn root(&self) -> MoRef {
        MoRef::new(Kind::Folder(FolderKind::Datacenters), 1)
    }

    /// True if `user` exists and neither `object` nor one of its ancestors is in [`User::denied`].
    pub fn may_see(&self, user: &str, object: MoRef) -> bool {
        let Some(user) = self.logins.users.get(user) else { return false };
        user.denied.is_empty()
            || !std::iter::once(object)
                .chain(self.inventory.ancestors(object))
                .any(|up| user.denied.contains(&up))
    }

    /// True if `user` exists and the library with this id is not in [`User::denied_libraries`].
    pub fn may_see_library(&self, user: &str, library: &str) -> bool {
        let user = self.logins.users.get(user);
        user.is_some_and(|user| !user.denied_libraries.contains(library))
    }

    /// The time at which the next session expires, if it serves no call before. `None` if no
    /// session is idle.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.logins.next_expiry()
    }

    /// Applies a change to the state of the vCenter.
    pub(crate) fn fold(&mut self, event: &VcEvent) {
        match event {
            VcEvent::Object { id, change } => {
                self.last_number = self.last_number.max(id.number);
                self.inventory.fold(*id, change);
            }
            VcEvent::Login(event) => self.logins.fold(event),
            VcEvent::Tag(event) => self.tags.fold(event),
            VcEvent::Library(event) => self.libraries.fold(event),
            VcEvent::Task { id, task } => {
                self.last_number = self.last_number.max(id.number);
                let known = self.tasks.insert(*id, (**task).clone()).is_some();
                let touch = if known { Touch::Changed(vec!["info"]) } else { Touch::Created };
                self.inventory.note(*id, touch);
            }
            VcEvent::TaskForgotten(id) => {
                self.tasks.remove(id);
                self.inventory.note(*id, Touch::Removed);
            }
            VcEvent::Service(service) => self.service = *service,
            VcEvent::Certificate(number) => self.certificate = *number,
            VcEvent::InstanceUuid(uuid) => self.instance_uuid = *uuid,
            VcEvent::Upgraded(release) => self.release = release.clone(),
        }
    }
}
