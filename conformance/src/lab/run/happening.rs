//! Events of the lab: starts, suspensions and ends of replicas, and acts that failed. Judges read
//! them as values; the ledger shows them to people as notes.

use std::fmt;

use sim::world::Time;

use crate::lab::Exit;

/// An event of the lab. Each `usize` is the index of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabEvent {
    /// A replica starts.
    Starts(usize),
    /// A replica runs but has not made its first call in time; the text names the call and the
    /// timeout.
    Silent(usize, String),
    /// A process ended before its first call; the text is the last line of its output.
    EndedInVain(usize, String),
    /// A replica leads. The lab notes this before an act that concerns the leader.
    Leads(usize),
    /// The lab asks a replica to stop.
    ToldToStop(usize),
    /// A replica that was asked to stop has ended.
    Ended(usize, Exit),
    /// A replica has ended without being asked to.
    EndedByItself(usize, Exit),
    /// The lab kills a replica.
    Killed(usize),
    /// The lab has suspended a replica.
    Suspended(usize),
    /// The lab resumes every suspended replica.
    Resumed,
    /// The lab steps the clocks of all replicas by this many seconds.
    ClocksStep(i64),
    /// The lab has changed the Secret of this name, which contains the credentials.
    SecretChanged(String),
    /// The lab could not carry out an act of the scenario, for this reason.
    Refused(String),
}

impl fmt::Display for LabEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starts(replica) => write!(f, "replica {replica} starts"),
            Self::Silent(replica, why) => write!(f, "replica {replica}: {why}"),
            Self::EndedInVain(replica, last) => {
                write!(f, "replica {replica} ended before its first call: {last}")
            }
            Self::Leads(replica) => write!(f, "replica {replica} leads"),
            Self::ToldToStop(replica) => write!(f, "replica {replica} is told to stop"),
            Self::Ended(replica, exit) => write!(f, "replica {replica} has ended: {exit}"),
            Self::EndedByItself(replica, exit) => {
                write!(f, "replica {replica} has ended by itself: {exit}")
            }
            Self::Killed(replica) => write!(f, "replica {replica} is killed"),
            Self::Suspended(replica) => write!(f, "replica {replica} is suspended"),
            Self::Resumed => f.write_str("suspended replicas resume"),
            Self::ClocksStep(seconds) => write!(f, "clocks step by {seconds} s"),
            Self::SecretChanged(name) => write!(f, "secret {name} is changed"),
            Self::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}

/// An event of the lab with its time and its place in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedLabEvent {
    /// Time of the event.
    pub at: Time,
    /// Sequence number of the event's record in the ledger; in a recorded run, of the provider's
    /// first call from that time on, or `u64::MAX` without such a call.
    pub seq: u64,
    /// The event.
    pub what: LabEvent,
}
