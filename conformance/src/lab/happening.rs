//! Events of the lab: starts and ends of replicas, and refused acts. Judges read them as values, and people as lines of the ledger.

use std::fmt;

use sim::world::Time;

use super::Exit;

/// Something that the lab did or met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A replica starts.
    Starts(usize),
    /// A replica made no call for long, for this reason.
    Silent(usize, String),
    /// A replica ended before its first call.
    EndedInVain(usize),
    /// A replica leads, and the next act is about the leader.
    Leads(usize),
    /// A replica is asked to stop.
    ToldToStop(usize),
    /// A replica that was asked to stop has ended.
    Ended(usize, Exit),
    /// A replica has ended without being asked to.
    EndedByItself(usize, Exit),
    /// A replica is killed.
    Killed(usize),
    /// A replica is suspended.
    Suspended(usize),
    /// Every suspended replica goes on.
    Resumed,
    /// The clocks of all replicas step by this many seconds.
    ClocksStep(i64),
    /// The Secret with the credentials has other content.
    SecretChanged(String),
    /// An act of the scenario did not happen, for this reason.
    Refused(String),
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Starts(replica) => write!(f, "replica {replica} starts"),
            Self::Silent(replica, why) => write!(f, "replica {replica}: {why}"),
            Self::EndedInVain(replica) => {
                write!(f, "replica {replica}: it ended before its first call")
            }
            Self::Leads(replica) => write!(f, "replica {replica} leads"),
            Self::ToldToStop(replica) => write!(f, "replica {replica} is told to stop"),
            Self::Ended(replica, exit) => write!(f, "replica {replica} has ended: {exit}"),
            Self::EndedByItself(replica, exit) => {
                write!(f, "replica {replica} has ended by itself: {exit}")
            }
            Self::Killed(replica) => write!(f, "replica {replica} is killed"),
            Self::Suspended(replica) => write!(f, "replica {replica} is suspended"),
            Self::Resumed => f.write_str("suspended replicas go on"),
            Self::ClocksStep(seconds) => write!(f, "clocks step by {seconds} s"),
            Self::SecretChanged(name) => write!(f, "secret {name} is changed"),
            Self::Refused(why) => write!(f, "refused: {why}"),
        }
    }
}

/// A happening, with its place in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// Time of the happening.
    pub at: Time,
    /// Sequence number of its record in the ledger.
    pub seq: u64,
    /// The happening.
    pub what: Happening,
}
