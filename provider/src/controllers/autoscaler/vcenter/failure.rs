//! Faults of vCenter as failures of a creation, after one table.

use provider_vcenter::{CallError, CallErrorKind, Chain, Fault, FaultKind};

use super::super::instance::{Failure, FailureClass, one_line};

/// A failed attempt to make a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) failure: Failure,
    pub(super) shows: Shows,
    /// True if a task may still be carrying out the request.
    pub(super) is_running: bool,
}

/// Time at which the autoscaler learns of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    AtOnce,
    /// After the failure has lasted for the grace period.
    AfterGrace,
    /// Never: only the connection failed, and the age of the view says so.
    Never,
}

/// Classes of faults that mean a lack of room, and their codes. Classes that begin with
/// `Insufficient` have a rule of their own.
const OUT_OF_RESOURCES: [(&str, &str); 11] = [
    ("NoDiskSpace", "NO_STORAGE"),
    ("NoCompatibleDatastore", "NO_STORAGE"),
    ("NoCompatibleHost", "NO_COMPATIBLE_HOST"),
    ("NoHost", "NO_COMPATIBLE_HOST"),
    ("NotEnoughCpus", "NO_COMPATIBLE_HOST"),
    ("NotEnoughLogicalCpus", "NO_COMPATIBLE_HOST"),
    ("NoCompatibleHostWithAccessToDevice", "NO_COMPATIBLE_HOST"),
    ("NoCompatibleHardAffinityHost", "NO_COMPATIBLE_HOST"),
    ("NotEnoughLicenses", "LICENSE_LIMIT"),
    ("VmLimitLicense", "LICENSE_LIMIT"),
    ("LicenseRestricted", "LICENSE_LIMIT"),
];

/// Classes that mean that the group names something that does not exist or does not fit.
const BAD_CONFIGURATION: [&str; 6] = [
    "InvalidDatastore",
    "InvalidDatastorePath",
    "InvalidDeviceSpec",
    "InvalidDeviceBacking",
    "NotSupported",
    "InvalidName",
];

impl Trouble {
    /// A mistake in the configuration of the group.
    pub(super) fn bad_configuration(message: &str) -> Self {
        Self::other("BAD_CONFIGURATION", message, Shows::AtOnce)
    }

    /// A failure of class 99.
    pub(super) fn other(code: &str, message: &str, shows: Shows) -> Self {
        Self::new(code, message, FailureClass::Other, shows)
    }

    fn new(code: &str, message: &str, class: FailureClass, shows: Shows) -> Self {
        let failure = Failure { code: code.to_owned(), message: one_line(message), class };
        Self { failure, shows, is_running: false }
    }

    /// Returns the trouble of a request whose task may still be running.
    pub(super) fn of_running(self) -> Self {
        Self { is_running: true, ..self }
    }

    /// Returns the trouble of a failed call.
    pub(super) fn of_call(err: &CallError) -> Self {
        let text = Chain(err).to_string();
        match &err.kind {
            CallErrorKind::Fault(fault) => Self::of_fault(fault, &text),
            CallErrorKind::Rest { status: 401 | 403, .. }
            | CallErrorKind::Credential(_)
            | CallErrorKind::Locked(_) => Self::other("AUTH", &text, Shows::AfterGrace),
            kind if kind.blames_request() => Self::bad_configuration(&text),
            _ => Self::other("VM_CREATE_FAILED", &text, Shows::Never),
        }
    }

    /// Returns the trouble of a fault of a call or of a task. `text` describes it.
    pub(super) fn of_fault(fault: &Fault, text: &str) -> Self {
        let name = match &fault.kind {
            FaultKind::NoPermission | FaultKind::NotAuthenticated | FaultKind::InvalidLogin => {
                return Self::other("AUTH", text, Shows::AtOnce);
            }
            FaultKind::ManagedObjectNotFound(_) | FaultKind::InvalidArgument(_) => {
                return Self::bad_configuration(text);
            }
            FaultKind::Other(name) => name.as_str(),
            _ => return Self::other("VM_CREATE_FAILED", text, Shows::AfterGrace),
        };
        if name.starts_with("Insufficient") {
            let code = format!("INSUFFICIENT_RESOURCES{}", lacking(name));
            return Self::new(&code, text, FailureClass::OutOfResources, Shows::AtOnce);
        }
        if let Some((_, code)) = OUT_OF_RESOURCES.iter().find(|(class, _)| *class == name) {
            return Self::new(code, text, FailureClass::OutOfResources, Shows::AtOnce);
        }
        match name {
            "DuplicateName" | "FileAlreadyExists" => {
                Self::other("NAME_CONFLICT", text, Shows::AfterGrace)
            }
            name if BAD_CONFIGURATION.contains(&name) => Self::bad_configuration(text),
            _ => Self::other("VM_CREATE_FAILED", text, Shows::AfterGrace),
        }
    }

    /// True if another machine may have the name.
    pub(super) fn is_name_taken(&self) -> bool {
        self.failure.code == "NAME_CONFLICT"
    }
}

/// Returns the end of the code that names the lacking resource.
fn lacking(name: &str) -> &'static str {
    let ends =
        [("Cpu", "_CPU"), ("Memory", "_MEMORY"), ("Storage", "_STORAGE"), ("Graphics", "_GPU")];
    ends.iter().find(|(word, _)| name.contains(word)).map_or("", |(_, end)| end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_faults_has_the_code_and_the_class_of_the_table() {
        for (class, code, number, shows) in [
            ("InsufficientResourcesFault", "INSUFFICIENT_RESOURCES", 1, Shows::AtOnce),
            ("InsufficientCpuResourcesFault", "INSUFFICIENT_RESOURCES_CPU", 1, Shows::AtOnce),
            (
                "InsufficientHostMemoryCapacityFault",
                "INSUFFICIENT_RESOURCES_MEMORY",
                1,
                Shows::AtOnce,
            ),
            ("InsufficientStorageSpace", "INSUFFICIENT_RESOURCES_STORAGE", 1, Shows::AtOnce),
            ("InsufficientGraphicsResourcesFault", "INSUFFICIENT_RESOURCES_GPU", 1, Shows::AtOnce),
            ("NoDiskSpace", "NO_STORAGE", 1, Shows::AtOnce),
            ("NoCompatibleHost", "NO_COMPATIBLE_HOST", 1, Shows::AtOnce),
            ("NotEnoughLicenses", "LICENSE_LIMIT", 1, Shows::AtOnce),
            ("DuplicateName", "NAME_CONFLICT", 99, Shows::AfterGrace),
            ("FileAlreadyExists", "NAME_CONFLICT", 99, Shows::AfterGrace),
            ("InvalidDatastore", "BAD_CONFIGURATION", 99, Shows::AtOnce),
            ("TaskInProgress", "VM_CREATE_FAILED", 99, Shows::AfterGrace),
            ("ConcurrentAccess", "VM_CREATE_FAILED", 99, Shows::AfterGrace),
        ] {
            let fault = Fault { kind: FaultKind::Other(class.to_owned()), message: String::new() };
            let it = Trouble::of_fault(&fault, "text");
            let got = (&*it.failure.code, it.failure.class.number(), it.shows);
            assert_eq!(got, (code, number, shows), "{class}");
        }
        for (kind, code, shows) in [
            (FaultKind::NoPermission, "AUTH", Shows::AtOnce),
            (FaultKind::ManagedObjectNotFound(None), "BAD_CONFIGURATION", Shows::AtOnce),
            (FaultKind::HostNotConnected, "VM_CREATE_FAILED", Shows::AfterGrace),
        ] {
            let it = Trouble::of_fault(&Fault { kind, message: String::new() }, "text");
            assert_eq!((&*it.failure.code, it.failure.class.number(), it.shows), (code, 99, shows));
        }
    }
}
