//! Deliberate one-line defects at real decision points, for the conformance suite to catch.
//!
//! Without the feature `mutants` the binary contains none of them: every check for a mutant is `false` at compile time.

/// A deliberate defect.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// The provider takes "unknown" for "gone" before it deletes a Node.
    ErrorIsGone,
    /// The provider takes one empty search for a proof of absence.
    EmptySearchIsGone,
    /// Missing guest information clears the published addresses.
    EmptyClearsAddresses,
    /// Every caller without a session logs in by itself.
    NoSingleFlight,
    /// The provider removes the taint although addresses (and zone) are not known yet.
    TaintBeforeAddresses,
    /// The provider may delete any number of nodes at once.
    NoMassGuard,
    /// The provider reads zones although they are switched off.
    ZonesWhenOff,
    /// The provider does not notice a lost collector version, and never builds the view again.
    IgnoreInvalidCollectorVersion,
    /// An unknown power state counts as switched off.
    ShutdownOnUnknown,
    /// Every call logs in anew.
    LoginPerCall,
    /// Calls have no deadline.
    NoDeadline,
    /// The provider tries a rejected credential again at once.
    NoLockout,
    /// The provider takes the first of several machines with one UUID.
    GuessDuplicates,
    /// The provider deletes Nodes without a UID precondition.
    NoUidPrecondition,
    /// The provider writes addresses even when they did not change.
    AlwaysWriteAddresses,
    /// The provider leaves its sessions behind at the end.
    NoLogout,
    /// A deletion that failed or had to wait uses the old proof.
    StaleProof,
    /// The provider leads and does nothing else: no login, no watch, no controller.
    Idle,
    /// Supervisor: a 404 for the whole collection counts as an empty list, and any 404 for a read as absence.
    CollectionNotFoundIsGone,
    /// Supervisor: a UUID in capitals matches no node.
    UuidCaseMatters,
    /// Supervisor: a missing UUID counts as another UUID, in a machine without one and in the provider ID `vsphere://`.
    EmptyUuidIsGone,
    /// Supervisor: after 410 the watch continues from now, and the view counts as current without a new list.
    StaleViewAfterGone,
    /// Supervisor: the provider reads the token only once. `TokenSource::with_mutant` sets this defect, because the caller
    /// passes the source in.
    TokenNeverReread,
    /// Supervisor: the guard at once releases the deletions that it holds, on the same proof, a tenth of the nodes per
    /// period.
    GuardSkipped,
    /// Supervisor: the provider deletes nodes although no node was matched to a machine since the start.
    NeverMatchedSkipped,
    /// Supervisor: a machine that the view does not have counts as gone, without a list.
    ProofFromView,
    /// Supervisor: a provider ID of another provider counts as a machine that does not exist.
    ForeignIdIsGone,
    /// Supervisor: the provider keeps waiting for a silent watch, and its view never becomes stale.
    WatchStallUnnoticed,
    /// Supervisor: where watching is forbidden, each lookup makes its own list at once.
    ListPerNode,
    /// Supervisor: after a list without any machine only nodes that are not ready count as missing.
    EmptyListBelieved,
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// Defects of vCenter mode and of both modes.
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

    /// Defects of Supervisor mode only, for instances modes with a view.
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

/// The active defect, if any.
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
