//! Fault classes of vim25.

/// Fault classes that a rule may name.
pub(super) const FAULTS: &[&str] = &[
    "SystemError",
    "InvalidLogin",
    "NotAuthenticated",
    "NoPermission",
    "ManagedObjectNotFound",
    "InvalidProperty",
    "RequestCanceled",
    "InvalidCollectorVersion",
    "InvalidArgument",
    "InvalidRequest",
    "InvalidType",
    "MethodNotFound",
    "NotSupported",
    "NotImplemented",
    "HostNotConnected",
    "HostNotReachable",
    "HostCommunication",
    "InvalidPowerState",
    "InvalidState",
    "TaskInProgress",
    "ToolsUnavailable",
    "DuplicateName",
    "InvalidName",
    "NotFound",
    "AlreadyExists",
    "ResourceInUse",
    "ConcurrentAccess",
    "LimitExceeded",
    "Timedout",
    "RuntimeFault",
    "PasswordExpired",
];

/// Returns the name of a fault class from [`FAULTS`]; `None` for any other class.
pub(crate) fn fault_class(class: &str) -> Option<&'static str> {
    FAULTS.iter().copied().find(|known| *known == class)
}
