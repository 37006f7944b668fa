//! Operations of vim25 that the simulated vCenter supports, and for each the parts of a request
//! that the ledger and the fault rules need. The vCenter refuses all others, if the caller is logged
//! in and the object exists: with `NotSupported`, or with the fault of a method that the object or
//! vim25 does not have.

use super::operation_table;
use crate::call::Class;

/// Object that a call refers to, for rules and for readers of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The object whose operation the client calls.
    This,
    /// The start object of the first `specSet`, if that spec has exactly one: the object that the
    /// call reads. Else the object whose operation the client calls, which is a collector.
    StartObject,
}

/// Part of the arguments of a call that the ledger keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Detail {
    /// No part.
    Nothing,
    /// User name of a login.
    User,
    /// Types, property paths and start objects of a retrieval.
    Specs,
    /// Types, property paths and start objects of a filter.
    Spec,
    /// Version after which a wait begins.
    Version,
    /// Text of the argument with this name, the key of a search.
    Argument(&'static str),
    /// Numbers of added and removed objects of a list view.
    Changes,
    /// Number of objects of a list view.
    Objects,
}

use Detail::{Argument, Changes, Nothing, Objects, Spec, Specs, User, Version};
use Subject::{StartObject, This};

operation_table! {
    /// An operation of vim25 that the vCenter supports. The vCenter refuses every other operation.
    /// The ledger records the refused calls too.
    ///
    /// Clients are known to need some of the refused operations: migration, registering, templates
    /// and folders (`MigrateVM_Task`, `RegisterVM_Task`, `UnregisterVM`,
    /// `MarkAsTemplate`, `MoveIntoFolder_Task`, …), all operations that build or change hosts,
    /// clusters, pools and switches, `SearchDatastoreSubFolders_Task`, `CancelTask`, and custom
    /// fields.
    Operation {
        /// Object that a call refers to.
        subject: Subject
    }

    RetrieveServiceContent = "RetrieveServiceContent", Read, This, Nothing;
    CurrentTime = "CurrentTime", Read, This, Nothing;
    Login = "Login", Login, This, User;
    Logout = "Logout", Login, This, Nothing;
    AcquireCloneTicket = "AcquireCloneTicket", Read, This, Nothing;
    CloneSession = "CloneSession", Login, This, Nothing;
    SessionIsActive = "SessionIsActive", Read, This, Nothing;
    TerminateSession = "TerminateSession", Login, This, Nothing;
    Fetch = "Fetch", Read, This, Nothing;
    RetrievePropertiesEx = "RetrievePropertiesEx", Read, StartObject, Specs;
    RetrieveProperties = "RetrieveProperties", Read, StartObject, Specs;
    ContinueRetrieve = "ContinueRetrievePropertiesEx", Read, This, Nothing;
    CancelRetrieve = "CancelRetrievePropertiesEx", Read, This, Nothing;
    CreateCollector = "CreatePropertyCollector", Write, This, Nothing;
    DestroyCollector = "DestroyPropertyCollector", Write, This, Nothing;
    CreateFilter = "CreateFilter", Write, This, Spec;
    DestroyFilter = "DestroyPropertyFilter", Write, This, Nothing;
    WaitForUpdatesEx = "WaitForUpdatesEx", Longpoll, This, Version;
    WaitForUpdates = "WaitForUpdates", Longpoll, This, Version;
    CheckForUpdates = "CheckForUpdates", Read, This, Nothing;
    CancelWait = "CancelWaitForUpdates", Read, This, Nothing;
    CreateContainerView = "CreateContainerView", Write, This, Nothing;
    CreateListView = "CreateListView", Write, This, Objects;
    ModifyListView = "ModifyListView", Write, This, Changes;
    ResetListView = "ResetListView", Write, This, Objects;
    DestroyView = "DestroyView", Write, This, Nothing;
    FindByUuid = "FindByUuid", Read, This, Argument("uuid");
    FindAllByUuid = "FindAllByUuid", Read, This, Argument("uuid");
    FindByDnsName = "FindByDnsName", Read, This, Argument("dnsName");
    FindAllByDnsName = "FindAllByDnsName", Read, This, Argument("dnsName");
    FindByIp = "FindByIp", Read, This, Argument("ip");
    FindAllByIp = "FindAllByIp", Read, This, Argument("ip");
    FindByInventoryPath = "FindByInventoryPath", Read, This, Argument("inventoryPath");
    FindChild = "FindChild", Read, This, Nothing;
    PowerOn = "PowerOnVM_Task", Task, This, Nothing;
    PowerOff = "PowerOffVM_Task", Task, This, Nothing;
    Suspend = "SuspendVM_Task", Task, This, Nothing;
    Reset = "ResetVM_Task", Task, This, Nothing;
    Create = "CreateVM_Task", Task, This, Nothing;
    Clone = "CloneVM_Task", Task, This, Nothing;
    Reconfigure = "ReconfigVM_Task", Task, This, Nothing;
    Relocate = "RelocateVM_Task", Task, This, Nothing;
    Rename = "Rename_Task", Task, This, Nothing;
    Destroy = "Destroy_Task", Task, This, Nothing;
    /// Lists the directories of machines in a datastore, or the configuration file and the disk
    /// file in one of them.
    SearchDatastore = "SearchDatastore_Task", Task, This, Nothing;
    ShutdownGuest = "ShutdownGuest", Write, This, Nothing;
    RebootGuest = "RebootGuest", Write, This, Nothing;
    StandbyGuest = "StandbyGuest", Write, This, Nothing;
}

/// Operation that a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamedOperation {
    /// An operation that the vCenter supports.
    Supported(Operation),
    /// Name of any other operation.
    Other(String),
}

impl NamedOperation {
    /// Returns the operation of this name: [`Self::Other`] if the vCenter does not support it.
    pub(crate) fn parse(name: &str) -> Self {
        let found = Operation::ALL.iter().copied().find(|operation| operation.name() == name);
        found.map_or_else(|| Self::Other(name.to_owned()), Self::Supported)
    }

    /// Returns the operation if the vCenter supports it, else `None`.
    pub(crate) fn supported(&self) -> Option<Operation> {
        match self {
            Self::Supported(operation) => Some(*operation),
            Self::Other(_) => None,
        }
    }

    /// Name on the wire, in rules and in the ledger.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Supported(operation) => operation.name(),
            Self::Other(name) => name,
        }
    }

    /// Kind of work. The name of an unsupported operation indicates the kind: a task if it ends
    /// with `_Task`, a write if it begins with `Create`, `Destroy`, `Modify` or `Reset`, else a
    /// read.
    pub(crate) fn class(&self) -> Class {
        match self {
            Self::Supported(operation) => operation.class(),
            Self::Other(name) if name.ends_with("_Task") => Class::Task,
            Self::Other(name) => {
                let begins = |verb: &&str| name.starts_with(verb);
                let writes = ["Create", "Destroy", "Modify", "Reset"].iter().any(begins);
                if writes { Class::Write } else { Class::Read }
            }
        }
    }

    /// Object to which the call refers; that of an unsupported operation is [`Subject::This`].
    pub(crate) fn subject(&self) -> Subject {
        self.supported().map_or(This, Operation::subject)
    }

    /// Part of the arguments that the ledger keeps; nothing of an unsupported operation.
    pub(crate) fn detail(&self) -> Detail {
        self.supported().map_or(Nothing, Operation::detail)
    }
}
