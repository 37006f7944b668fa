//! Events about the machines of groups: each says which call of an autoscaler asked for the change.

use std::{fmt, sync::Arc};

use super::{
    super::{
        group::{Group, GroupId},
        instance::{cut, one_line},
    },
    NamedNode,
};
use crate::cluster::Severity;

/// Component of the events about machines and groups.
pub(crate) const COMPONENT: &str = "cluster-autoscaler-provider";
/// Bytes of the longest message of an event; an API server refuses longer ones.
const LONGEST: usize = 1024;
/// Bytes of the longest name of a Node. A caller may send any text.
const LONGEST_NAME: usize = 253;

/// The call of an autoscaler that asks for a machine or for its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause(Arc<str>);

impl Cause {
    pub(crate) fn increase(group: &Group, delta: i32) -> Self {
        Self(format!("NodeGroupIncreaseSize by {delta} of group {}", group.id).into())
    }

    pub(crate) fn decrease(group: &Group, delta: i32) -> Self {
        Self(format!("NodeGroupDecreaseTargetSize by {delta} of group {}", group.id).into())
    }

    pub(crate) fn deletion(group: &Group, node: &NamedNode) -> Self {
        Self(format!("NodeGroupDeleteNodes of {} in group {}", shown(node), group.id).into())
    }

    /// The deletion of an instance whose creation failed, in a group at its minimum. Names no
    /// instance, because a replacement belongs to none.
    pub(crate) fn replacement(group: &Group) -> Self {
        Self(format!("NodeGroupDeleteNodes of a failed instance in group {}", group.id).into())
    }

    /// A call to an earlier process of the server.
    pub(crate) fn earlier(group: &GroupId) -> Self {
        Self(format!("a call to an earlier process, about group {}", group.as_str()).into())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the node as the request names it.
fn shown(node: &NamedNode) -> String {
    match &*node.name {
        "" => format!("the node with provider ID {}", cut(&one_line(&node.id), LONGEST_NAME)),
        name => format!("node {}", cut(&one_line(name), LONGEST_NAME)),
    }
}

/// Change of a machine, or the failure of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MachineChange {
    Created,
    /// The object was not created, as far as the server knows, because of this error.
    NotCreated(String),
    /// The object was created and deleted again, because its call failed.
    Undone,
    Deleted,
    /// The object was not deleted, as far as the server knows, because of this error.
    NotDeleted(String),
}

/// Event about a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MachineEvent {
    pub(crate) severity: Severity,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl MachineChange {
    /// Returns the event about a change that this call asked for.
    pub(crate) fn event(&self, cause: &Cause) -> MachineEvent {
        let (severity, reason, message) = match self {
            Self::Created => {
                (Severity::Normal, "ScaledUp", format!("Created the machine for {cause}"))
            }
            Self::NotCreated(why) => (
                Severity::Warning,
                "ScaleUpFailed",
                format!("Creating the machine for {cause} failed: {why}"),
            ),
            Self::Undone => (
                Severity::Warning,
                "ScaleUpUndone",
                format!("Deleted the machine again, because {cause} failed"),
            ),
            Self::Deleted => {
                (Severity::Normal, "ScaledDown", format!("Deleted the machine for {cause}"))
            }
            Self::NotDeleted(why) => (
                Severity::Warning,
                "ScaleDownFailed",
                format!("Deleting the machine for {cause} failed: {why}"),
            ),
        };
        MachineEvent { severity, reason, message: cut(&message, LONGEST).to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::autoscaler::group::{MachineKind, parse};

    fn group() -> Group {
        let text = "groups: [{name: g, max: 3, machine: {className: c, imageName: i, \
                    storageClass: s, bootstrap: {secretName: b}}}]";
        parse("f", text, &MachineKind::virtual_machines("ns")).unwrap().groups.remove(0)
    }

    fn node(id: &str, name: &str) -> NamedNode {
        NamedNode { id: id.to_owned(), name: name.to_owned(), failed_creation: false }
    }

    #[test]
    fn an_event_says_which_call_asked_for_the_change() {
        let (group, why) = (group(), "quota".to_owned());
        let deletion = Cause::deletion(&group, &node("vsphere://1", "g-abcde"));
        for (change, cause, want) in [
            (
                MachineChange::Created,
                Cause::increase(&group, 3),
                "ScaledUp: Created the machine for NodeGroupIncreaseSize by 3 of group VirtualMachine/ns/g",
            ),
            (
                MachineChange::NotCreated(why.clone()),
                Cause::increase(&group, 3),
                "ScaleUpFailed: Creating the machine for NodeGroupIncreaseSize by 3 of group \
                 VirtualMachine/ns/g failed: quota",
            ),
            (
                MachineChange::Undone,
                Cause::increase(&group, 3),
                "ScaleUpUndone: Deleted the machine again, because NodeGroupIncreaseSize by 3 of group \
                 VirtualMachine/ns/g failed",
            ),
            (
                MachineChange::Created,
                Cause::replacement(&group),
                "ScaledUp: Created the machine for NodeGroupDeleteNodes of a failed instance in group \
                 VirtualMachine/ns/g",
            ),
            (
                MachineChange::Deleted,
                Cause::deletion(&group, &node("vsphere://1", "")),
                "ScaledDown: Deleted the machine for NodeGroupDeleteNodes of the node with provider ID \
                 vsphere://1 in group VirtualMachine/ns/g",
            ),
            (
                MachineChange::Deleted,
                deletion.clone(),
                "ScaledDown: Deleted the machine for NodeGroupDeleteNodes of node g-abcde in group \
                 VirtualMachine/ns/g",
            ),
            (
                MachineChange::NotDeleted(why),
                deletion,
                "ScaleDownFailed: Deleting the machine for NodeGroupDeleteNodes of node g-abcde in group \
                 VirtualMachine/ns/g failed: quota",
            ),
            (
                MachineChange::Deleted,
                Cause::earlier(&group.id),
                "ScaledDown: Deleted the machine for a call to an earlier process, about group \
                 VirtualMachine/ns/g",
            ),
            (
                MachineChange::Deleted,
                Cause::decrease(&group, -2),
                "ScaledDown: Deleted the machine for NodeGroupDecreaseTargetSize by -2 of group \
                 VirtualMachine/ns/g",
            ),
        ] {
            let event = change.event(&cause);
            assert_eq!(format!("{}: {}", event.reason, event.message), want);
        }
    }

    #[test]
    fn a_message_is_one_line_that_an_api_server_accepts_whatever_the_request_names() {
        for node in [node("", &"é\n".repeat(5000)), node(&"x".repeat(5000), "")] {
            let cause = Cause::deletion(&group(), &node);
            let event = MachineChange::NotDeleted("y".repeat(5000)).event(&cause);
            assert!(event.message.len() <= 1024 && !event.message.contains('\n'));
            assert!(event.message.contains("VirtualMachine/ns/g"), "{}", event.message);
        }
    }
}
