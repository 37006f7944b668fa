//! Operations of vim25 that the vCenter supports. All others get `NotSupported`.

use crate::names::named;

named! {
    /// An operation. The ledger also records operations that are not listed, which are refused.
    ///
    /// Of the operations that clients are known to need (tiers P0 and P1a), these are missing and
    /// refused: cloning, registering, templates and folders (`CloneVM_Task`, `MigrateVM_Task`,
    /// `RegisterVM_Task`, `UnregisterVM`, `MarkAsTemplate`, `MoveIntoFolder_Task`, …), everything
    /// that builds or changes hosts, clusters, pools and switches,
    /// `SearchDatastoreSubFolders_Task`, `CancelTask`, and custom fields.
    pub(crate) enum Operation {
        RetrieveServiceContent = "RetrieveServiceContent",
        CurrentTime = "CurrentTime",
        Login = "Login",
        Logout = "Logout",
        AcquireCloneTicket = "AcquireCloneTicket",
        CloneSession = "CloneSession",
        SessionIsActive = "SessionIsActive",
        TerminateSession = "TerminateSession",
        Fetch = "Fetch",
        RetrievePropertiesEx = "RetrievePropertiesEx",
        RetrieveProperties = "RetrieveProperties",
        ContinueRetrieve = "ContinueRetrievePropertiesEx",
        CancelRetrieve = "CancelRetrievePropertiesEx",
        CreateCollector = "CreatePropertyCollector",
        DestroyCollector = "DestroyPropertyCollector",
        CreateFilter = "CreateFilter",
        DestroyFilter = "DestroyPropertyFilter",
        WaitForUpdatesEx = "WaitForUpdatesEx",
        WaitForUpdates = "WaitForUpdates",
        CheckForUpdates = "CheckForUpdates",
        CancelWait = "CancelWaitForUpdates",
        CreateContainerView = "CreateContainerView",
        CreateListView = "CreateListView",
        ModifyListView = "ModifyListView",
        ResetListView = "ResetListView",
        DestroyView = "DestroyView",
        FindByUuid = "FindByUuid",
        FindAllByUuid = "FindAllByUuid",
        FindByDnsName = "FindByDnsName",
        FindAllByDnsName = "FindAllByDnsName",
        FindByIp = "FindByIp",
        FindAllByIp = "FindAllByIp",
        FindByInventoryPath = "FindByInventoryPath",
        FindChild = "FindChild",
        PowerOn = "PowerOnVM_Task",
        PowerOff = "PowerOffVM_Task",
        Suspend = "SuspendVM_Task",
        Reset = "ResetVM_Task",
        Create = "CreateVM_Task",
        Reconfigure = "ReconfigVM_Task",
        Relocate = "RelocateVM_Task",
        Rename = "Rename_Task",
        Destroy = "Destroy_Task",
        /// Knows the directories of machines, each with a configuration and a disk.
        SearchDatastore = "SearchDatastore_Task",
        ShutdownGuest = "ShutdownGuest",
        RebootGuest = "RebootGuest",
        StandbyGuest = "StandbyGuest",
    }
}

impl Operation {
    /// Returns the operation of this name, if the vCenter supports it.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|operation| operation.name() == name)
    }
}
