//! Operations of vim25 that the simulated vCenter supports. It refuses all others: with
//! `NotSupported`, if the caller is logged in and the object exists.

use crate::names::named;

named! {
    /// An operation of vim25 that the vCenter supports. The vCenter refuses every other operation.
    /// The ledger records the refused calls too.
    ///
    /// Clients are known to need some of the refused operations: cloning, registering, templates
    /// and folders (`CloneVM_Task`, `MigrateVM_Task`, `RegisterVM_Task`, `UnregisterVM`,
    /// `MarkAsTemplate`, `MoveIntoFolder_Task`, …), all operations that build or change hosts,
    /// clusters, pools and switches, `SearchDatastoreSubFolders_Task`, `CancelTask`, and custom
    /// fields.
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
        /// Lists the directories of machines in a datastore, or the configuration file and the
        /// disk file in one of them.
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
