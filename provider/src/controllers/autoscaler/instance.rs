//! Instances: the machines of a group, from the decision to create one until it is gone.

use crate::model::ProviderId;

/// A machine of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    /// Provider ID that its Node has or will have. It never changes.
    pub(crate) id: ProviderId,
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
