//! Decides the next write for a machine with a bootstrap token. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    super::super::tokens::{TokenSecret, must_move},
    data::MachineData,
};

/// VirtualMachine of a pair of Secrets, as the view knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence<'a> {
    /// The object exists.
    Exists { uid: &'a str },
    /// The object is being deleted.
    Deleting,
    /// No object, but an increase may still create it.
    Absent,
    /// No object, and the view has been current for long enough to prove it.
    Gone,
}

/// Everything that the server knows about a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) presence: Presence<'a>,
    /// True if the machine is a Node. False also if the Nodes cannot be read.
    pub(super) is_node: bool,
    pub(super) data: Option<&'a MachineData>,
    /// Tokens with the labels of the machine.
    pub(super) tokens: &'a [&'a TokenSecret],
}

/// A write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<'a> {
    /// Makes the VirtualMachine the owner of its user data.
    Own { data: &'a MachineData, machine_uid: &'a str },
    /// Notes in the user data that the machine is a Node.
    NoteJoin(&'a MachineData),
    /// Moves the expiration of a token.
    Renew { token: &'a TokenSecret, ttl: Duration },
    /// Creates a token again that another program has deleted, such as the cleaner of expired tokens.
    Restore(&'a MachineData),
    /// Deletes a token.
    Revoke(&'a TokenSecret),
    /// Deletes user data that no machine owns.
    Remove(&'a MachineData),
}

/// Returns the next write for a machine; `None` if nothing has to change.
pub(super) fn next<'a>(of: &Observed<'a>, now: Timestamp) -> Option<Step<'a>> {
    match of.presence {
        Presence::Exists { uid } => for_machine(of, uid, now),
        Presence::Deleting => of.tokens.first().map(|it| Step::Revoke(it)),
        Presence::Absent => None,
        Presence::Gone => {
            // The Supervisor deletes what the machine owned.
            let unowned = of.data.filter(|it| !it.has_owner);
            of.tokens.first().map(|it| Step::Revoke(it)).or(unowned.map(Step::Remove))
        }
    }
}

fn for_machine<'a>(of: &Observed<'a>, uid: &'a str, now: Timestamp) -> Option<Step<'a>> {
    // Without its user data the machine does not show which token is its own. The token expires.
    let data = of.data?;
    if !data.has_owner {
        return Some(Step::Own { data, machine_uid: uid });
    }
    let own = data.token.as_ref().map(|it| it.id.as_str());
    if let Some(stray) = of.tokens.iter().find(|it| own != Some(it.id.as_str())) {
        return Some(Step::Revoke(stray));
    }
    // A machine that was a Node once does not get its token back.
    own?;
    match of.tokens.first() {
        _ if of.is_node => Some(Step::NoteJoin(data)),
        None => Some(Step::Restore(data)),
        Some(token) if must_move(token.expires, data.ttl, now) => {
            Some(Step::Renew { token, ttl: data.ttl })
        }
        Some(_) => None,
    }
}
