//! The invariants with number, class, surface and title. SPECIFICATION.md defines the numbers; a
//! number is never reused.

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

            /// Returns the class of the condition, such as safety or liveness.
            pub const fn class(self) -> Class {
                match self {
                    $(Self::$name => Class::$class,)+
                }
            }

            /// Returns the surface: the part of a provider's behavior that the condition is about.
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
    WorldIsSound = 0, Contract, Observability, "The simulated world is consistent; if it is not, the harness has failed.";
    NoWrongDeletion = 1, Safety, Node, "No Node is deleted while its machine exists.";
    NoDeletionOnError = 2, Safety, Node, "A Node is deleted only after its backend has answered a call since the loss of the machine.";
    NoDeletionInOutage = 4, Safety, Node, "No Node is deleted while a vCenter that could own its machine does not run.";
    NoMassDeletion = 5, Safety, Node, "At most max(1, 10 %) of the Nodes are deleted within one monitor period.";
    YoungNodeStays = 6, Safety, Node, "A Node younger than 60 s that was never matched is not deleted.";
    PredecessorOnly = 7, Safety, Node, "A request to delete a Node never deletes a successor of the same name.";
    OptOutIsAbsolute = 8, Safety, Node, "No Node is deleted if the operator has switched deletion off.";
    TaintLeavesOnceAndLast = 9, Safety, Node, "The uninitialized taint leaves once, after provider ID and labels.";
    ProviderIdStays = 10, Safety, Node, "A provider ID is well formed and unique, and never changes.";
    ProviderIdIsTrue = 11, Safety, Node, "A provider ID is that of the machine on which the kubelet runs.";
    NoGuess = 12, Safety, Node, "No Node gets a provider ID whose UUID several machines have.";
    ShutdownIsTrue = 13, Safety, Node, "The shutdown taint is set only on Nodes whose machine does not run.";
    GoneNodesGo = 14, Liveness, Node, "The Node of a machine that is gone is deleted.";
    NodesAreInitialized = 15, Liveness, Node, "A Node whose machine runs and reports addresses is initialized.";
    ShutdownFollows = 16, Liveness, Node, "The shutdown taint follows the power of the machine.";
    AddressesStay = 17, Safety, Node, "No address is removed because the guest reports none.";
    NoForeignAddress = 18, Safety, Node, "Every address was reported by the machine.";
    HostNameStays = 19, Safety, Node, "A Node keeps its host name.";
    NoLocalAddress = 20, Safety, Node, "No link-local or loopback address is published.";
    OneOrder = 21, Safety, Node, "A Node shows the same set of addresses always in the same order.";
    NoIdleWrite = 22, Efficiency, Node, "Every write of a Node changes something.";
    AddressesFollow = 23, Liveness, Node, "The addresses of a Node are those of its machine.";
    FewAddressWrites = 24, Efficiency, Node, "The addresses of a Node are written at most twice in 30 s.";
    LabelsStay = 25, Safety, Zone, "Zone and region of an initialized Node do not change; another provider's may follow a move.";
    LabelsAgree = 26, Safety, Zone, "A Node is initialized with a zone and region of its machine; old and new label names agree.";
    NoGuessOfZone = 27, Safety, Zone, "If an object has two tags of one category, the provider takes neither.";
    NoTagsWhenOff = 28, Efficiency, Zone, "No tag is read if zones are switched off.";
    LabelsMoveTogether = 29, Safety, Zone, "Zone and region change together, to those of the machine at one time.";
    FewSessions = 50, Hygiene, Session, "A replica has at most one open session per vCenter and API.";
    NoLoginStorm = 51, Hygiene, Session, "In ten minutes a replica makes at most two logins per vCenter and API without a reason, such as an ended session.";
    NoDeadSession = 52, Hygiene, Session, "No call uses a session after an answer has said that it has ended.";
    NoLockOut = 53, Safety, Session, "The provider does not lock its account.";
    NoSessionLeft = 54, Hygiene, Session, "A provider that is asked to stop leaves no session open.";
    RetryAfter = 58, Efficiency, Node, "No call is repeated before the time that the server asks for, except calls for leases.";
    OnlyLeaderWrites = 61, Safety, Node, "Of several replicas only the one that holds the lease writes.";
    NoPanic = 62, Safety, Node, "The provider does not panic and exceeds no bound of calls, time or memory.";
    NoSecretTold = 63, Safety, Security, "No secret is in a log, an event, a metric or the ledger.";
    Quiescence = 64, Liveness, Node, "While the world does not change, the provider writes nothing except leases and events.";
    AddressesFirst = 66, Safety, Node, "The uninitialized taint leaves after the addresses are stored.";
    ForeignTaintStays = 67, Safety, Node, "The provider removes no taint that others wrote.";
    ForeignLabelStays = 68, Safety, Node, "The provider changes no label that does not belong to a cloud provider.";
    MetricsAreTrue = 69, Hygiene, Observability, "Metrics agree with the calls that were made.";
}

impl Invariant {
    /// Returns the permanent number of the invariant in SPECIFICATION.md.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// True for a policy, that is, an invariant that demands more than the contract of Kubernetes.
    /// A violation by another vendor's provider fails a check only if the check is a policy itself,
    /// with the class and surface of the invariant.
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
        found.copied().ok_or_else(|| {
            format!("no invariant has the number {number}; SPECIFICATION.md lists the invariants")
        })
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant {}", self.number())
    }
}
