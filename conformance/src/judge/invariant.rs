//! The invariants by number and name. Numbers are those of SPECIFICATION.md; a number is never reused.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::catalogue::{Class, Surface};

macro_rules! invariants {
    ($($name:ident = $number:literal, $class:ident, $surface:ident, $title:literal;)+) => {
        /// A condition that must hold in every run, whatever the subject of the check.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "u8", into = "u8")]
        #[repr(u8)]
        pub enum Invariant {
            $(#[doc = $title] $name = $number,)+
        }

        impl Invariant {
            /// Every invariant that is judged, in the order of the numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the class.
            pub const fn class(self) -> Class {
                match self {
                    $(Self::$name => Class::$class,)+
                }
            }

            /// Returns the surface.
            pub const fn surface(self) -> Surface {
                match self {
                    $(Self::$name => Surface::$surface,)+
                }
            }

            /// Returns the condition as a sentence.
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title,)+
                }
            }
        }
    };
}

invariants! {
    WorldIsSound = 0, Contract, Observability, "The simulated world agrees with itself; if not, the harness has failed.";
    NoWrongDeletion = 1, Safety, Node, "No Node is deleted while its machine exists.";
    NoDeletionOnError = 2, Safety, Node, "No Node is deleted for the sake of an error.";
    NoDeletionInOutage = 4, Safety, Node, "No Node is deleted while a vCenter that could own it cannot be asked.";
    NoMassDeletion = 5, Safety, Node, "At most a tenth of the Nodes are deleted within one monitor period.";
    YoungNodeStays = 6, Safety, Node, "A young Node that was never matched is not deleted.";
    PredecessorOnly = 7, Safety, Node, "No Node is deleted for its predecessor of the same name.";
    OptOutIsAbsolute = 8, Safety, Node, "No Node is deleted where its operator has switched deletion off.";
    TaintLeavesOnceAndLast = 9, Safety, Node, "The uninitialized taint leaves once, after provider ID and labels.";
    ProviderIdStays = 10, Safety, Node, "A provider ID is well formed, nobody else's, and never changes.";
    ProviderIdIsTrue = 11, Safety, Node, "A provider ID is that of the machine on which the kubelet runs.";
    NoGuess = 12, Safety, Node, "Of two machines with one UUID none is taken.";
    ShutdownIsTrue = 13, Safety, Node, "The shutdown taint is set only on Nodes whose machine does not run.";
    GoneNodesGo = 14, Liveness, Node, "The Node of a machine that is gone is deleted.";
    NodesAreInitialized = 15, Liveness, Node, "A Node whose machine runs and reports addresses is initialized.";
    ShutdownFollows = 16, Liveness, Node, "The shutdown taint follows the power of the machine.";
    AddressesStay = 17, Safety, Node, "No address is removed because the guest reports none.";
    NoForeignAddress = 18, Safety, Node, "Every address was reported by the machine.";
    HostNameStays = 19, Safety, Node, "The host name stays.";
    NoLocalAddress = 20, Safety, Node, "No link-local or loopback address is published.";
    OneOrder = 21, Safety, Node, "One set of addresses has one order.";
    NoIdleWrite = 22, Efficiency, Node, "No write of a Node changes nothing.";
    AddressesFollow = 23, Liveness, Node, "Addresses follow the machine.";
    FewAddressWrites = 24, Efficiency, Node, "Addresses that flap are written twice in 30 s at most.";
    LabelsStay = 25, Safety, Zone, "Zone and region of an initialized Node stay.";
    LabelsAgree = 26, Safety, Zone, "Zone and region are of one place and time, in old and new names.";
    NoGuessOfZone = 27, Safety, Zone, "Of two tags of one category none is taken.";
    NoTagsWhenOff = 28, Efficiency, Zone, "No tag is read where zones are switched off.";
    LabelsMoveTogether = 29, Safety, Zone, "Zone and region stay both or follow both.";
    FewSessions = 50, Hygiene, Session, "There is one session per vCenter, dialect and replica.";
    NoLoginStorm = 51, Hygiene, Session, "Logins have a reason.";
    NoDeadSession = 52, Hygiene, Session, "No session is used that is known to be dead.";
    NoLockOut = 53, Safety, Session, "The provider does not lock its account.";
    NoSessionLeft = 54, Hygiene, Session, "A provider that is told to stop leaves no session.";
    RetryAfter = 58, Efficiency, Node, "No write is repeated before the time that the server asks for.";
    OnlyLeaderWrites = 61, Safety, Node, "Of several replicas only the one that holds the lease writes.";
    NoPanic = 62, Safety, Node, "The provider does not panic, and does not run away.";
    NoSecretTold = 63, Safety, Security, "No secret is in a log, an event, a metric or the ledger.";
    Quiescence = 64, Liveness, Node, "With a constant world nothing is written any more.";
    AddressesFirst = 66, Safety, Node, "The uninitialized taint leaves after the addresses are stored.";
    ForeignTaintStays = 67, Safety, Node, "A taint that others wrote is not removed.";
    ForeignLabelStays = 68, Safety, Node, "A label that is none of the cloud's is not changed.";
    MetricsAreTrue = 69, Hygiene, Observability, "Metrics agree with the calls that were made.";
}

impl Invariant {
    /// Returns the number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// True for a policy beyond the contract: providers that never promised it get a report, but do
    /// not fail.
    pub const fn is_policy(self) -> bool {
        matches!(
            self,
            Self::NoMassDeletion
                | Self::FewAddressWrites
                | Self::NoSessionLeft
                | Self::AddressesFirst
        )
    }
}

impl From<Invariant> for u8 {
    fn from(invariant: Invariant) -> Self {
        invariant.number()
    }
}

impl TryFrom<u8> for Invariant {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|it| it.number() == number);
        found.copied().ok_or_else(|| format!("no invariant has the number {number}"))
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {}", self.number())
    }
}
