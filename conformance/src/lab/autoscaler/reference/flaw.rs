//! Deliberate defects of the reference, and the checks that each of them must fail.

/// Defines the flaws: name, checks that fail, and description.
macro_rules! flaws {
    ($($(#[$doc:meta])* $name:ident: $($id:literal)+;)+) => {
        /// A deliberate defect of the reference.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Flaw {
            $($(#[$doc])* $name,)+
        }

        impl Flaw {
            /// Every flaw.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the numbers of the checks CA-… that a server with this flaw must fail. It
            /// passes all others.
            pub const fn fails(self) -> &'static [u16] {
                match self {
                    $(Self::$name => &[$($id),+],)+
                }
            }
        }
    };
}

flaws! {
    /// Answers reads only after the first `Refresh`.
    NeedsRefresh: 1;
    /// Answers methods that do not exist.
    AnswersUnknownMethods: 2;
    /// Serves clients that show no certificate.
    ServesWithoutCertificate: 3 4 73;
    /// Serves clients of any authority.
    ServesStrangers: 4;
    /// Negotiates no protocol in the TLS handshake.
    NoAlpn: 5;
    /// Refuses messages with fields that it does not know.
    RejectsUnknownFields: 6;
    /// Takes 300 ms for a read while others are open.
    SlowUnderLoad: 7;
    /// Shows a negative minimum.
    NegativeMinimum: 8;
    /// Raises the maximum of a group with each call of `NodeGroups`.
    GrowsMaximum: 9 44;
    /// Shows a password in the text for logs.
    SecretInDebug: 10;
    /// Does not recognize Nodes that the autoscaler makes up.
    LosesFakeNodes: 11 75 76;
    /// Fails for a provider ID of its own kind that it does not know.
    UnknownNodeIsError: 1 7 12 66;
    /// Fails for provider IDs of other platforms.
    ForeignNodeIsError: 13;
    /// Fails for Nodes of which the autoscaler only simulates the creation.
    TemplateNodeIsError: 14;
    /// Does not answer a request without a Node.
    HangsWithoutNode: 15;
    /// Shows other bounds in `NodeGroupForNode` than in `NodeGroups`.
    OtherBoundsForNode: 16;
    /// Changes the label of Nodes with GPUs.
    ChangesGpuLabel: 17 19;
    /// Answers `GetAvailableGPUTypes` with bytes that are not a message.
    BreaksGpuTypes: 1 18;
    /// Adds the label of Nodes with GPUs to all templates.
    LabelsEveryNodeAsGpu: 19;
    /// Shows a price that does not depend on the time.
    FlatPrices: 20;
    /// Knows prices of Nodes and none of Pods.
    OnlyNodePrices: 21;
    /// Takes two seconds for `Refresh`.
    SlowRefresh: 22;
    /// Removes an instance at `Refresh`.
    RefreshRemoves: 23 66 67 68 69 70 74 75 76;
    /// Removes all instances at `Cleanup`.
    CleanupRemoves: 24 70;
    /// Shows a size of zero for a group that does not exist.
    UnknownGroupHasSize: 25;
    /// Shows no instances for a group that does not exist.
    UnknownGroupHasNodes: 26;
    /// Lists instances in two groups.
    ListsTwice: 11 26 52 54 59 70;
    /// Shows a failure without a state.
    ErrorWithoutState: 27 50 51;
    /// Shows a class of failures that does not exist.
    WrongClass: 27 50 51;
    /// Shows no state of running instances.
    NoState: 28 49 74;
    /// Answers a template without a Node.
    EmptyTemplate: 29 74 75 76;
    /// Answers a template without the field of old generations.
    OnlyNewTemplate: 30 74 75 76;
    /// Leaves allocatable resources out of the template.
    NoAllocatable: 19 31;
    /// Leaves the label of the architecture out of the template.
    NoArchitecture: 32;
    /// Shows a provider ID in the template.
    TemplateWithId: 33;
    /// Has no template for a group without instances.
    NoTemplateAtZero: 34 74 75 76;
    /// Says for a group that does not exist that templates are not implemented.
    UnknownGroupHasNoTemplate: 35;
    /// Leaves the old fields out of the settings.
    OnlyNewOptions: 36;
    /// Does not read the old fields of the defaults.
    IgnoresOldDefaults: 37 38;
    /// Does not read the defaults.
    IgnoresDefaults: 37 38;
    /// Returns settings for groups that override none.
    AlwaysOptions: 39;
    /// Lets groups have either no Node or all.
    ZeroOrMax: 40;
    /// Shows a threshold above one.
    ThresholdAboveOne: 37 38 41;
    /// Raises the size some time after the answer.
    LateIncrease: 24 42 47 48 49 64 68 70;
    /// Accepts an increase by zero or less.
    AcceptsNoIncrease: 43 70;
    /// Reduces an increase above the maximum to what fits.
    ClampsIncrease: 44 47 70;
    /// Increases another group if the group does not exist.
    IncreasesAnyGroup: 45;
    /// Keeps what an increase that failed had created.
    KeepsPartialIncrease: 46;
    /// Checks the maximum before another increase that is under way.
    RacyIncrease: 47;
    /// Does not list instances that do not run.
    HidesCreations: 27 46 48 49 50 51 55 68 70 75 76;
    /// Changes the ID of an instance when it runs.
    ChangesId: 46 49 68 70 75 76;
    /// Lists instances that failed as healthy ones.
    HidesFailures: 27 50 51 55;
    /// Shows every failure as a lack of capacity.
    AlwaysCapacity: 51;
    /// Does not lower the size with a deletion.
    DeleteKeepsSize: 52 54 55 59 61 64 65 69 70 75 76;
    /// Deletes the newest instance of the group in place of the named one.
    DeletesAnother: 52 53 54 59 69 70;
    /// Fails a deletion that is repeated.
    RepeatedDeleteFails: 53 65 70 76;
    /// Lowers the size again with a deletion that is repeated.
    RepeatedDeleteCounts: 53 65 70 76;
    /// Refuses Nodes that the autoscaler makes up.
    RefusesFakeNodes: 54 55 65 70 75 76;
    /// Refuses to delete an instance that failed in a group at its minimum.
    KeepsFailuresAtMinimum: 55;
    /// Deletes instances of other groups.
    DeletesOfOtherGroups: 56;
    /// Deletes the known nodes of a request with an unknown one.
    DeletesPartially: 57 70;
    /// Deletes below the minimum of a group.
    DeletesBelowMinimum: 58;
    /// Lowers the size twice for a node that a request names twice.
    CountsDuplicates: 59;
    /// Fails a deletion of nothing.
    EmptyDeleteFails: 60;
    /// Answers a deletion when the machine is destroyed.
    WaitsForDestruction: 61;
    /// Accepts a decrease by zero or less.
    AcceptsNoDecrease: 62 70;
    /// Deletes existing machines with a decrease.
    DecreaseDeletes: 63;
    /// Refuses every decrease.
    RefusesDecrease: 64 65;
    /// Lowers the size again when an instance is deleted that a decrease had given up.
    CountsCancelledTwice: 53 65 70 76;
    /// Keeps an instance whose machine was destroyed by others.
    KeepsGhosts: 66;
    /// Shows no groups while the backend does not answer.
    NoGroupsWithoutBackend: 67;
    /// Confirms a `Refresh` although the view is too old.
    RefreshHidesOutage: 67;
    /// Loses the last increase with a restart.
    ForgetsIncrease: 68 69;
    /// Repeats the last increase after a restart.
    RepeatsIncrease: 68 69;
    /// Forgets with a restart which instances it deletes.
    RevivesDeleted: 69;
    /// Leaves an increase half done that the caller cancels.
    HalfIncrease: 71;
    /// Shows two kilobytes of text for each instance.
    LongTexts: 72;
}
