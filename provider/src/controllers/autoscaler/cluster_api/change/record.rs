//! Counts changes, and records events about them.

use super::super::{
    super::{
        instance::cut,
        plan::{Cause, MachineChange, MachineEvent},
    },
    Shared,
    keys::{MACHINES, Resource},
    objects::Machine,
    view::GroupState,
};
use crate::cluster::{Severity, Subject};

/// Bytes of the longest message of an event; an API server refuses longer ones.
const LONGEST: usize = 1024;

/// A change of the size of a group.
pub(crate) enum SizeChange {
    Raised {
        by: usize,
        to: u32,
    },
    NotRaised(String),
    /// The size fell by machines that Cluster API had not made.
    Lowered {
        to: u32,
    },
}

impl Shared {
    /// Counts a change of a Machine, and records an event about it. Never waits and never fails.
    pub(crate) fn record_machine(
        &self,
        group: &str,
        machine: &Machine,
        change: &MachineChange,
        cause: &Cause,
    ) {
        match change {
            MachineChange::Created => self.metrics.machine_created(group),
            MachineChange::Deleted | MachineChange::Undone => self.metrics.machine_deleted(group),
            MachineChange::NotCreated(_) | MachineChange::NotDeleted(_) => {
                self.metrics.machine_failed(group);
            }
        }
        let MachineEvent { severity, reason, message } = change.event(cause);
        let version = self.view().version(&MACHINES.into());
        let Machine { namespace, name, uid, .. } = machine;
        let subject = Subject::cluster_api(&version, "Machine", namespace, name, uid);
        self.events.record_about(subject, severity, reason, message);
    }

    /// Counts a change of the size of a group, and records an event about its object.
    pub(crate) fn record_size(
        &self,
        id: &str,
        group: &GroupState,
        change: &SizeChange,
        cause: &Cause,
    ) {
        let (severity, reason, message) = match change {
            SizeChange::Raised { by, to } => {
                (0..*by).for_each(|_| self.metrics.machine_created(id));
                (Severity::Normal, "ScaledUp", format!("Raised the size to {to} for {cause}"))
            }
            SizeChange::NotRaised(why) => {
                self.metrics.machine_failed(id);
                let message = format!("Raising the size for {cause} failed: {why}");
                (Severity::Warning, "ScaleUpFailed", message)
            }
            SizeChange::Lowered { to } => {
                (Severity::Normal, "ScaledDown", format!("Lowered the size to {to} for {cause}"))
            }
        };
        let kind: Resource = group.kind.resource();
        let version = self.view().version(&kind);
        let GroupState { kind, namespace, name, uid, .. } = group;
        let subject = Subject::cluster_api(&version, kind.name(), namespace, name, uid);
        self.events.record_about(subject, severity, reason, cut(&message, LONGEST).to_owned());
    }
}
