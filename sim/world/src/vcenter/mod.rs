//! One simulated vCenter: inventory, tags, accounts and sessions, tasks, certificate, service.

mod edit;
mod entity;
mod fault;
mod inventory;
mod journal;
mod logins;
mod machine;
mod refs;
mod release;
mod tags;
mod tasks;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use entity::{Data, Entity, HostConnection, may_hang};
pub use fault::VcFault;
pub use inventory::{Change, Inventory};
pub use journal::{Entry, Journal, Touch, touches};
pub use logins::{
    EndReason, Family, LoginEvent, LoginRefusal, LoginRules, Logins, Password, Session, User,
};
pub use machine::{
    Config, Connection, Guest, GuestNic, GuestPlan, GuestRequest, Machine, NetworkCard, Power,
    Tools, swap_uuid,
};
pub use refs::{FolderKind, Kind, MoRef};
pub use release::Release;
pub use tags::{Cardinality, Category, Tag, TagEvent, Tags};
pub use tasks::{MachineSpec, Progress, Task, Work};

use crate::Time;

/// Whether a vCenter answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Service {
    /// It answers.
    Running,
    /// The proxy answers 503, nothing else does.
    Starting,
    /// Connections are refused.
    Stopped,
}

/// What happened in a vCenter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VcEvent {
    /// An inventory object changed.
    Object {
        /// Which.
        id: MoRef,
        /// How.
        change: Change,
    },
    /// Accounts or sessions changed.
    Login(LoginEvent),
    /// Tags changed.
    Tag(TagEvent),
    /// A task was accepted or got on.
    Task {
        /// Which.
        id: MoRef,
        /// What it is now.
        task: Box<Task>,
    },
    /// A completed task was forgotten.
    TaskForgotten(MoRef),
    /// The service started or stopped.
    Service(Service),
    /// The machine certificate was replaced; handshakes from now on see number `0`.
    Certificate(u32),
    /// The server is another instance now, as after a restore into a new appliance.
    InstanceUuid(Uuid),
    /// The server runs another release.
    Upgraded(Release),
}

/// One vCenter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VCenter {
    /// `about.instanceUuid`.
    pub instance_uuid: Uuid,
    /// Version and build.
    #[serde(default)]
    pub release: Release,
    /// The objects.
    pub inventory: Inventory,
    /// Accounts and sessions.
    pub logins: Logins,
    /// Tags.
    pub tags: Tags,
    /// Tasks that are not forgotten.
    pub tasks: BTreeMap<MoRef, Task>,
    /// Whether it answers.
    pub service: Service,
    /// Number of the current certificate.
    pub certificate: u32,
    /// The one counter that all ids come from; never runs backwards.
    pub last_number: u32,
}

impl VCenter {
    /// An empty, running vCenter.
    pub fn new(instance_uuid: Uuid) -> Self {
        Self {
            instance_uuid,
            release: Release::default(),
            inventory: Inventory::default(),
            logins: Logins::default(),
            tags: Tags::default(),
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

    /// Whether `user` may see `object`: no ancestor, nor it itself, is denied.
    pub fn may_see(&self, user: &str, object: MoRef) -> bool {
        let Some(user) = self.logins.users.get(user) else { return false };
        user.denied.is_empty()
            || !std::iter::once(object)
                .chain(self.inventory.ancestors(object))
                .any(|up| user.denied.contains(&up))
    }

    /// When something happens here by itself.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.logins.next_expiry()
    }

    /// Carries out what happened.
    pub(crate) fn fold(&mut self, event: &VcEvent) {
        match event {
            VcEvent::Object { id, change } => {
                self.last_number = self.last_number.max(id.number);
                self.inventory.fold(*id, change);
            }
            VcEvent::Login(event) => self.logins.fold(event),
            VcEvent::Tag(event) => self.tags.fold(event),
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
