//! Deliberate one-line defects at true decision points, for the conformance suite to catch.
//!
//! Without the feature `mutants` nothing of this exists in the binary: every question is answered `false` at
//! compile time.

/// A deliberate defect.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// "Unknown" is taken for "gone" before deleting.
    ErrorIsGone,
    /// One empty search is taken for a proof of absence.
    EmptySearchIsGone,
    /// Missing guest information clears the published addresses.
    EmptyClearsAddresses,
    /// Every caller without a session logs in by itself.
    NoSingleFlight,
    /// The taint is removed although addresses (and zone) are not known yet.
    TaintBeforeAddresses,
    /// Any number of nodes may be deleted at once.
    NoMassGuard,
    /// Zones are read although they are switched off.
    ZonesWhenOff,
    /// A lost collector version is not noticed: the view is never built again.
    IgnoreInvalidCollectorVersion,
    /// An unknown power state counts as switched off.
    ShutdownOnUnknown,
    /// Every call logs in anew.
    LoginPerCall,
    /// Calls have no deadline.
    NoDeadline,
    /// A rejected credential is tried again at once.
    NoLockout,
    /// The first of several machines with one UUID is taken.
    GuessDuplicates,
    /// Nodes are deleted without a UID precondition.
    NoUidPrecondition,
    /// Addresses are written even when they did not change.
    AlwaysWriteAddresses,
    /// Sessions are left behind at the end.
    NoLogout,
    /// A deletion that failed or had to wait is carried out on the proof of then.
    StaleProof,
    /// Nothing is done at all but lead: no login, no watch, no controller.
    Idle,
    /// Supervisor: a 404 of the whole collection is a list without machines, and any 404 of a read an absence.
    CollectionNotFoundIsGone,
    /// Supervisor: a UUID in capitals is none that a node has.
    UuidCaseMatters,
    /// Supervisor: no UUID is another UUID, in a machine that has none yet as in the provider ID `vsphere://`.
    EmptyUuidIsGone,
    /// Supervisor: after 410 the watch goes on from now, and the view counts as current without a new list.
    StaleViewAfterGone,
    /// Supervisor: the token is read once. Made by `TokenSource::with_mutant`, as the source is handed in.
    TokenNeverReread,
    /// Supervisor: what the guard holds is released with the proof that it is held for, a tenth per period.
    GuardSkipped,
    /// Supervisor: nodes are deleted although no node was matched to a machine since the start.
    NeverMatchedSkipped,
    /// Supervisor: what the view does not have is gone, without a list.
    ProofFromView,
    /// Supervisor: a provider ID of somebody else is a machine that does not exist.
    ForeignIdIsGone,
    /// Supervisor: a watch that tells nothing is waited for, and its view never gets stale.
    WatchStallUnnoticed,
    /// Supervisor: each question makes a list of its own, at once, where watching is forbidden.
    ListPerNode,
    /// Supervisor: after a list without any machine nothing counts as missing but nodes that are not ready.
    EmptyListBelieved,
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// Those of vCenter mode and of both modes.
    pub const ALL: [Mutant; 18] = [
        Mutant::ErrorIsGone,
        Mutant::EmptySearchIsGone,
        Mutant::EmptyClearsAddresses,
        Mutant::NoSingleFlight,
        Mutant::TaintBeforeAddresses,
        Mutant::NoMassGuard,
        Mutant::ZonesWhenOff,
        Mutant::IgnoreInvalidCollectorVersion,
        Mutant::ShutdownOnUnknown,
        Mutant::LoginPerCall,
        Mutant::NoDeadline,
        Mutant::NoLockout,
        Mutant::GuessDuplicates,
        Mutant::NoUidPrecondition,
        Mutant::AlwaysWriteAddresses,
        Mutant::NoLogout,
        Mutant::StaleProof,
        Mutant::Idle,
    ];

    /// Those that exist in Supervisor mode only, in a mode with a view.
    pub const SUPERVISOR: [Mutant; 12] = [
        Mutant::CollectionNotFoundIsGone,
        Mutant::UuidCaseMatters,
        Mutant::EmptyUuidIsGone,
        Mutant::StaleViewAfterGone,
        Mutant::TokenNeverReread,
        Mutant::GuardSkipped,
        Mutant::NeverMatchedSkipped,
        Mutant::ProofFromView,
        Mutant::ForeignIdIsGone,
        Mutant::WatchStallUnnoticed,
        Mutant::ListPerNode,
        Mutant::EmptyListBelieved,
    ];
}

/// Which defect is active, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Active {
    #[cfg(feature = "mutants")]
    pub(crate) mutant: Option<Mutant>,
}

macro_rules! mutant {
    ($active:expr, $name:ident) => {{
        #[cfg(feature = "mutants")]
        {
            $active.mutant == Some($crate::mutant::Mutant::$name)
        }
        #[cfg(not(feature = "mutants"))]
        {
            let _ = &$active;
            false
        }
    }};
}
pub(crate) use mutant;
