//! Instances: the machines of a group, from the decision to create one until it is gone.

use std::{fmt, sync::Arc};

use crate::model::ProviderId;

/// ID of an instance for the autoscaler, which compares it byte for byte with the provider IDs of
/// Nodes.
///
/// It is the provider ID of the machine. A backend whose platform chooses that one late has another
/// text until then, so that the ID changes once in the life of an instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InstanceId(Arc<str>);

impl InstanceId {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the provider ID that has exactly this text, because the autoscaler compares IDs byte for
/// byte.
pub(crate) fn exact_provider_id(text: &str) -> Option<ProviderId> {
    let id: ProviderId = text.parse().ok()?;
    (id.to_string() == text).then_some(id)
}

impl From<ProviderId> for InstanceId {
    fn from(id: ProviderId) -> Self {
        Self(id.to_string().into())
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A machine of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub(crate) id: InstanceId,
    /// Name of the machine, which is also the name of its Node.
    pub(crate) name: String,
    pub(crate) state: State,
    /// True if the platform has begun to make a machine that has to be destroyed again.
    pub(crate) is_materialized: bool,
}

/// State of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The machine is not made yet, or its guest has not reported an address yet.
    Creating,
    /// The machine cannot be made now.
    Failed(Failure),
    /// The machine has run.
    Running,
    /// The machine is being deleted.
    Deleting,
}

/// Reason why a machine cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// In upper snake case.
    pub(crate) code: String,
    /// One line, at most [`LONGEST_MESSAGE`] bytes.
    pub(crate) message: String,
    pub(crate) class: FailureClass,
}

/// Class of a failure for the autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// The platform has no room for the machine.
    OutOfResources,
    Other,
}

/// Words in the reason of a failed creation, and the code that they mean.
const OUT_OF_RESOURCES: [(&str, &str); 8] = [
    ("quota", "QUOTA_EXCEEDED"),
    ("license", "LICENSE_LIMIT"),
    ("datastore", "NO_STORAGE"),
    ("storage", "NO_STORAGE"),
    ("no compatible host", "NO_COMPATIBLE_HOST"),
    ("nocompatiblehost", "NO_COMPATIBLE_HOST"),
    ("insufficient", "INSUFFICIENT_RESOURCES"),
    ("no placement", "NO_COMPATIBLE_HOST"),
];

/// Returns the code of a reason which says that the platform has no room for the machine; `None`
/// for any other reason.
pub(crate) fn out_of_resources(reason: &str) -> Option<&'static str> {
    let reason = reason.to_lowercase();
    OUT_OF_RESOURCES.iter().find(|(word, _)| reason.contains(word)).map(|(_, code)| *code)
}

/// Number of bytes to which messages are cut; the autoscaler cuts longer ones in its status.
pub(crate) const LONGEST_MESSAGE: usize = 500;

impl FailureClass {
    /// The number of the class in the protocol.
    pub(crate) fn number(self) -> i32 {
        match self {
            Self::OutOfResources => 1,
            Self::Other => 99,
        }
    }
}

impl State {
    /// True if the instance counts for the wanted number of the group.
    pub(crate) fn counts(&self) -> bool {
        *self != Self::Deleting
    }
}

/// Returns the text as one line of at most [`LONGEST_MESSAGE`] bytes.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&line, LONGEST_MESSAGE).to_owned()
}

/// Returns the begin of the text that has at most `longest` bytes.
pub(crate) fn cut(text: &str, longest: usize) -> &str {
    let end = (0..=longest.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or_default()]
}
