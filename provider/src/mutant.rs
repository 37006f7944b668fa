//! Deliberate defects at decision points of the provider, which the conformance suite must catch.
//!
//! Without the feature `mutants` the binary contains none of them: `mutant!` is then `false` at
//! compile time.

/// A deliberate defect of the provider.
#[cfg(feature = "mutants")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mutant {
    /// The answer `Unknown` about a machine counts as a proof that the machine is gone.
    ErrorIsGone,
    /// vCenter: for a node that is not matched to a machine, one search that finds no machine
    /// counts as a proof that the machine is gone.
    EmptySearchIsGone,
    /// Missing guest information clears the published addresses.
    EmptyClearsAddresses,
    /// Every caller without a session logs in by itself.
    NoSingleFlight,
    /// The provider removes the uninitialized taint although addresses or zone are not known yet.
    TaintBeforeAddresses,
    /// The provider deletes any number of nodes in one round, without a hold.
    NoMassGuard,
    /// The provider reads zones although they are switched off.
    ZonesWhenOff,
    /// After the fault `InvalidCollectorVersion` the provider no longer updates its view, and never
    /// builds it again.
    IgnoreInvalidCollectorVersion,
    /// A machine whose existence is unknown counts as existing, and an unknown power state counts
    /// as switched off.
    ShutdownOnUnknown,
    /// Every call logs in anew.
    LoginPerCall,
    /// Calls to vCenters have no deadline.
    NoDeadline,
    /// The provider tries a rejected credential again at once.
    NoLockout,
    /// The provider takes the first of several machines with one UUID.
    GuessDuplicates,
    /// The provider deletes Nodes without a UID precondition.
    NoUidPrecondition,
    /// The provider writes addresses even when they did not change.
    AlwaysWriteAddresses,
    /// The provider does not log out when it ends.
    NoLogout,
    /// A deletion that failed or had to wait uses the old proof again.
    StaleProof,
    /// The provider holds the leader lease and does nothing else: no login, no watch, no
    /// controller.
    Idle,
    /// Supervisor: a 404 for the whole collection counts as an empty list, and any 404 for a read
    /// counts as absence.
    CollectionNotFoundIsGone,
    /// Supervisor: a VirtualMachine whose UUID has capital letters matches no node by UUID.
    UuidCaseMatters,
    /// Supervisor: a VirtualMachine without a UUID, and a node with the provider ID `vsphere://`,
    /// match nothing, so that the machine counts as gone.
    EmptyUuidIsGone,
    /// Supervisor: after 410 the watch continues from now, and the view counts as current without a
    /// new list.
    StaleViewAfterGone,
    /// Supervisor: the provider reads the token only once. `TokenSource::with_mutant` sets this
    /// defect, because the caller of `run` makes the source.
    TokenNeverReread,
    /// In each round the guard releases up to a tenth of the nodes (at least one) as
    /// soon as it holds them, with their first proof. The remaining held nodes need a second proof,
    /// as without the defect.
    GuardSkipped,
    /// Supervisor: the provider deletes nodes although it has not matched any node to a machine
    /// since its start.
    NeverMatchedSkipped,
    /// Supervisor: a machine that the view does not contain counts as gone, without a list as
    /// proof.
    ProofFromView,
    /// Supervisor: the machine of a node with the provider ID of another provider counts as gone.
    ForeignIdIsGone,
    /// Supervisor: the provider waits for a silent watch until the next periodic list, and silence
    /// never makes the view stale.
    WatchStallUnnoticed,
    /// Supervisor: each question that needs a list makes its own list, without a minimum time
    /// between lists.
    ListPerNode,
    /// Supervisor: after a list without any machine the backend reports no missing machines, so
    /// that the guard counts only the nodes that are not ready and whose machines are gone.
    EmptyListBelieved,
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// Defects that affect vCenter mode. Those outside of [`VCENTER_ONLY`](Self::VCENTER_ONLY) also
    /// affect Supervisor mode.
    pub const VCENTER: [Mutant; 19] = [
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
        Mutant::GuardSkipped,
        Mutant::Idle,
    ];

    /// Defects in code that only vCenter mode uses.
    pub const VCENTER_ONLY: [Mutant; 9] = [
        Mutant::EmptySearchIsGone,
        Mutant::NoSingleFlight,
        Mutant::ZonesWhenOff,
        Mutant::IgnoreInvalidCollectorVersion,
        Mutant::LoginPerCall,
        Mutant::NoDeadline,
        Mutant::NoLockout,
        Mutant::GuessDuplicates,
        Mutant::NoLogout,
    ];

    /// Defects that Supervisor mode is tested with, in the instances modes that keep a view. Those
    /// outside of [`VCENTER`](Self::VCENTER) affect no other mode.
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
