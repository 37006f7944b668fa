//! Decisions about the size of a group, as pure functions of its instances and the request.

mod event;

use std::collections::BTreeMap;

use super::{
    group::Group,
    instance::{Instance, InstanceId, State},
};

pub(crate) use self::event::{COMPONENT, Cause, MachineChange, MachineEvent};

/// Reason why a request is refused. Nothing changes then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("delta is {0}; expected a number above zero")]
    IncreaseByNothing(i32),
    #[error("delta is {0}; expected a number below zero")]
    DecreaseByNothing(i32),
    #[error("group {group} has {target} instances, and {more} more exceed its maximum of {max}")]
    AboveMax { group: String, target: usize, more: i32, max: u32 },
    #[error(
        "group {group} has {target} instances, and {fewer} fewer go below its minimum of {min}"
    )]
    BelowMin { group: String, target: usize, fewer: usize, min: u32 },
    #[error(
        "group {group} has {exist} existing machines, and a size of {wanted} needs one of them deleted"
    )]
    WouldDelete { group: String, exist: usize, wanted: i64 },
    #[error("node {name:?} with provider ID {id:?} is no instance of this server")]
    UnknownNode { name: String, id: String },
    #[error("node {name:?} belongs to group {group}")]
    OtherGroup { name: String, group: String },
    #[error("the request names a node without provider ID and without name")]
    NamelessNode,
}

/// A Node that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedNode {
    /// Provider ID; empty if the Node has none yet.
    pub(crate) id: String,
    pub(crate) name: String,
    /// True if the autoscaler says that the creation of the instance failed.
    pub(crate) failed_creation: bool,
}

/// Answer to the question whether a Node is an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// The Node is this instance of the group.
    Here(Box<Instance>),
    /// The server has deleted the instance.
    Deleted,
    /// The Node is an instance of this other group.
    Elsewhere(String),
    Unknown,
}

/// An instance to delete, and the call that asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) id: InstanceId,
    pub(crate) cause: Cause,
}

/// The instances of a group, and its wanted size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) instances: Vec<Instance>,
    /// Number of wanted machines. It may exceed that of the instances that count, while the platform
    /// has not begun to make some of them.
    pub(crate) target: usize,
}

impl Members {
    /// The members of a group whose wanted size is the number of instances that count.
    pub(crate) fn counted(instances: Vec<Instance>) -> Self {
        Self { target: target(&instances), instances }
    }
}

/// Instances to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// Instances to delete, each once.
    pub(crate) victims: Vec<Victim>,
    /// The cause of each instance to create in their place.
    pub(crate) replacements: Vec<Cause>,
}

/// Returns the number of instances that count for the wanted number.
fn target(instances: &[Instance]) -> usize {
    instances.iter().filter(|it| it.state.counts()).count()
}

/// Returns the cause of each instance to create.
pub(crate) fn increase(group: &Group, target: usize, delta: i32) -> Result<Vec<Cause>, Refusal> {
    let more = usize::try_from(delta).ok().filter(|more| *more > 0);
    let more = more.ok_or(Refusal::IncreaseByNothing(delta))?;
    if target.saturating_add(more) > group.max as usize {
        let group_id = group.id.to_string();
        return Err(Refusal::AboveMax { group: group_id, target, more: delta, max: group.max });
    }
    Ok(vec![Cause::increase(group, delta); more])
}

/// Decides about the deletion of nodes. `membership` says for a node whether it is an instance.
///
/// The size may not fall below the minimum, except by instances whose creation failed: those are
/// replaced, because no other caller ever removes them.
pub(crate) fn delete(
    group: &Group,
    target: usize,
    nodes: &[NamedNode],
    membership: impl Fn(&NamedNode) -> Membership,
) -> Result<Deletion, Refusal> {
    let mut usual = BTreeMap::new();
    let mut failed = BTreeMap::new();
    for node in nodes {
        if node.id.is_empty() && node.name.is_empty() {
            return Err(Refusal::NamelessNode);
        }
        let name = node.name.clone();
        match membership(node) {
            Membership::Here(it) if it.state == State::Deleting => {}
            Membership::Here(it) if is_failed_creation(node, &it) => {
                failed.insert(it.id, node);
            }
            Membership::Here(it) => {
                usual.insert(it.id, node);
            }
            Membership::Deleted => {}
            Membership::Elsewhere(group) => return Err(Refusal::OtherGroup { name, group }),
            Membership::Unknown => {
                return Err(Refusal::UnknownNode { name, id: node.id.clone() });
            }
        }
    }
    let min = group.min as usize;
    let fewer = usual.len();
    if fewer > 0 && target < min + fewer {
        let group_id = group.id.to_string();
        return Err(Refusal::BelowMin { group: group_id, target, fewer, min: group.min });
    }
    let left = target.saturating_sub(fewer + failed.len());
    let replaced = failed.values().take(min.saturating_sub(left));
    let replacements = replaced.map(|_| Cause::replacement(group)).collect();
    let victim = |(id, node)| Victim { id, cause: Cause::deletion(group, node) };
    let victims = usual.into_iter().chain(failed).map(victim).collect();
    Ok(Deletion { victims, replacements })
}

/// True if the node is a failed creation for the autoscaler or for this server. A machine that
/// exists never is one.
fn is_failed_creation(node: &NamedNode, instance: &Instance) -> bool {
    let has_failed = matches!(instance.state, State::Failed(_));
    has_failed || (node.failed_creation && !instance.is_materialized)
}

/// Instances, and machines without instance, that a group gives up so that its size falls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Giving {
    /// Number of wanted machines without instance.
    pub(crate) n_without_instance: usize,
    /// Instances without machine.
    pub(crate) victims: Vec<Victim>,
}

/// Returns what to give up so that the size falls by `-delta`: first machines without instance,
/// then instances without machine, of which those that failed come first, then the last of the list.
pub(crate) fn decrease(group: &Group, members: &Members, delta: i32) -> Result<Giving, Refusal> {
    if delta >= 0 {
        return Err(Refusal::DecreaseByNothing(delta));
    }
    let wanted = members.target as i64 + i64::from(delta);
    let counting = || members.instances.iter().filter(|it| it.state.counts());
    let exist = counting().filter(|it| it.is_materialized).count();
    if wanted < exist as i64 {
        return Err(Refusal::WouldDelete { group: group.id.to_string(), exist, wanted });
    }
    let mut pending: Vec<&Instance> = counting().filter(|it| !it.is_materialized).rev().collect();
    pending.sort_by_key(|it| !matches!(it.state, State::Failed(_)));
    let n = usize::try_from(delta.unsigned_abs()).unwrap_or(usize::MAX);
    let n_without_instance = members.target.saturating_sub(exist + pending.len()).min(n);
    let victim = |it: &Instance| Victim { id: it.id.clone(), cause: Cause::decrease(group, delta) };
    let victims = pending.into_iter().take(n - n_without_instance).map(victim).collect();
    Ok(Giving { n_without_instance, victims })
}

#[cfg(test)]
mod tests;
