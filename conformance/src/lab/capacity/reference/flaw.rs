//! Deliberate defects of the reference, and the checks that each of them must fail.

/// Defines flaws: name, checks that fail, and description.
macro_rules! flaws {
    ($(#[$of:meta])* $type:ident: $($(#[$doc:meta])* $name:ident: $($id:literal)+;)+) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[$doc])* $name,)+
        }

        impl $type {
            /// Every flaw.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the numbers of the checks CAPZ-… that fail with this flaw. All others pass.
            pub const fn fails(self) -> &'static [u16] {
                match self {
                    $(Self::$name => &[$($id),+],)+
                }
            }

            /// Returns the name of the flaw.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)+
                }
            }
        }
    };
}

flaws! {
    /// A deliberate defect of the reference reconciler.
    Flaw:
    /// Does not see templates that are created after its start.
    OnlyEarlyTemplates: 1 2 4 13 15 32;
    /// Publishes half of the memory of large machines.
    HalfMemory: 1 6;
    /// Uses any class for a template that names none.
    DefaultClass: 2;
    /// Never looks again at a template whose class was missing.
    ForgetsMissingClass: 3 4;
    /// Looks ten times a second, with several requests, while a class is missing.
    HotLoop: 3;
    /// Takes a class of another namespace.
    AnyNamespace: 4;
    /// Publishes an empty capacity.
    EmptyCapacity: 5;
    /// Updates only one template, and only once.
    UpdatesOne: 6 18;
    /// Never updates what it has published.
    NeverUpdates: 6 7 12 14 17 18;
    /// Removes values that became unknown.
    ClearsUnknown: 7;
    /// Publishes nothing if the image is missing.
    NeedsImage: 8;
    /// Publishes any architecture and system.
    PublishesUnknown: 9 10 19;
    /// Ignores the case of architecture and system.
    IgnoresCase: 10;
    /// Publishes nothing for a template without an image.
    NeedsImageName: 4 11 31;
    /// Publishes amd64 and linux if the image tells nothing.
    AssumesPlatform: 4 8 9 10 11 31;
    /// Publishes nothing if images cannot be read.
    ImageErrorIsFatal: 12;
    /// Writes paused templates.
    IgnoresPause: 13;
    /// Never looks again at a template that was paused.
    ForgetsPaused: 13;
    /// Ignores the watch filter.
    IgnoresFilter: 14;
    /// Applies the watch filter to classes, too.
    FiltersClasses: 14;
    /// Repeats every write.
    RepeatsWrites: 15;
    /// Takes another notation of an amount for a change.
    ComparesText: 15;
    /// Replaces the whole status.
    ReplacesStatus: 16 17;
    /// Annotates the templates that it writes.
    AnnotatesTemplates: 16;
    /// Gives a template up after a conflict.
    GivesUpAfterConflict: 17;
    /// Repeats a write after a conflict with what it had read before.
    OverwritesAfterConflict: 17;
    /// Publishes nodeInfo of a template only once.
    NodeInfoOnce: 12 17 18;
    /// Publishes more than eight CPUs as a number.
    WritesNumbers: 1 6 19;
    /// Publishes an empty nodeInfo.
    EmptyNodeInfo: 4 8 9 10 11 12 19 31;
    /// Publishes the numbers of a template for vCenter as they are.
    KeepsSmallNumbers: 28;
    /// Publishes the disk of a linked clone.
    DiskOfLinkedClone: 28;
    /// Annotates groups without a maximum.
    AnnotatesEveryGroup: 29;
    /// Overwrites annotations of users.
    OverwritesUsers: 29;
    /// Keeps its annotations when a group has no maximum any more.
    KeepsAnnotations: 29;
    /// Annotates the MachineSets of MachineDeployments.
    AnnotatesOwnedSets: 30;
    /// Counts every device as a GPU.
    CountsEveryDevice: 31;
    /// Repeats a write to a deleted template for ever.
    RepeatsAfterDeletion: 32;
}

flaws! {
    /// A deliberate defect of the reference reader.
    ReaderFlaw:
    /// Knows no Pods without an annotation.
    NoDefaultPods: 20 22;
    /// Has no label for the architecture.
    NoArchitecture: 20 25 26;
    /// Prefers the status to annotations.
    StatusWins: 21;
    /// Forgets the status if there is an annotation.
    AnnotationReplacesStatus: 21;
    /// Ignores annotations if the template cannot be read.
    NeedsTemplate: 21;
    /// Takes Pods from the status.
    PodsOfStatus: 22;
    /// Takes any GPU for one of NVIDIA.
    GpuWithoutType: 23;
    /// Cuts the count of GPUs to a whole number.
    CutsGpuCount: 23;
    /// Lists groups of which it knows only one amount.
    ListsHalf: 24;
    /// Blanks the platform without nodeInfo.
    BlanksPlatform: 25;
    /// Loses all labels for one wrong entry.
    LosesLabels: 26;
    /// Keeps the former taint of a key and effect.
    KeepsFormerTaint: 26;
    /// Takes 0 for a limit.
    LimitZero: 27;
    /// Loses all drivers for one wrong entry.
    LosesDrivers: 27;
}
