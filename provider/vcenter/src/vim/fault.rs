//! SOAP faults of a vCenter, classified by `xsi:type` or, if that is missing, by element name.

use std::fmt;

use super::MoRef;
use crate::xml::Element;

/// A fault: its class and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Class of the fault.
    pub kind: FaultKind,
    /// Text from the server, for the log. For `NoPermission` followed by the missing privilege, if
    /// the server names it.
    pub message: String,
}

/// Class of a fault. Classes without a variant are `Other` with their name; the client treats them
/// as failures that may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The user or password is wrong, or the account is locked.
    InvalidLogin,
    /// The call has no session, or its session has expired or was ended.
    NotAuthenticated,
    /// The login lacks a privilege. This does not mean that the object does not exist.
    NoPermission,
    /// This object no longer exists; `None` if the server does not name the object. No other answer
    /// proves that a reference is gone.
    ManagedObjectNotFound(Option<MoRef>),
    /// This server does not support this property path; empty if the server does not name the path.
    InvalidProperty(String),
    /// The collector of this session does not accept the version.
    InvalidCollectorVersion,
    /// The server ended a blocked wait.
    RequestCanceled,
    /// The argument of this name is invalid; empty if the server does not name the argument.
    InvalidArgument(String),
    /// Any internal failure of a vCenter.
    SystemError,
    /// The host that would have to answer is not connected to vCenter.
    HostNotConnected,
    /// Any other class, with its name.
    Other(String),
}

impl Fault {
    /// Reads a fault from the element that carries its `xsi:type`.
    pub fn read(element: &Element, message: &str) -> Self {
        let name = match &element.xsi_type {
            Some(name) => &**name,
            // Generated clients classify a detail without `xsi:type` by its element name.
            None => element.name.strip_suffix("Fault").unwrap_or(&element.name),
        };
        let kind = match name {
            "InvalidLogin" => FaultKind::InvalidLogin,
            "NotAuthenticated" => FaultKind::NotAuthenticated,
            "NoPermission" => FaultKind::NoPermission,
            "ManagedObjectNotFound" => {
                FaultKind::ManagedObjectNotFound(element.child("obj").and_then(MoRef::read))
            }
            "InvalidProperty" => {
                FaultKind::InvalidProperty(element.text_of("name").unwrap_or_default().to_owned())
            }
            "InvalidCollectorVersion" => FaultKind::InvalidCollectorVersion,
            "RequestCanceled" => FaultKind::RequestCanceled,
            "InvalidArgument" => FaultKind::InvalidArgument(
                element.text_of("invalidProperty").unwrap_or_default().to_owned(),
            ),
            "SystemError" => FaultKind::SystemError,
            "HostNotConnected" => FaultKind::HostNotConnected,
            other => FaultKind::Other(other.to_owned()),
        };
        let mut message = message.trim().to_owned();
        if let (FaultKind::NoPermission, Some(missing)) = (&kind, missing_privilege(element)) {
            let blank = if message.is_empty() { "" } else { " " };
            message.push_str(&format!("{blank}({missing})"));
        }
        Self { kind, message }
    }
}

/// Returns a text that names the privilege that an administrator has to grant, from the fields of
/// `NoPermission`; `None` if they name none.
fn missing_privilege(fault: &Element) -> Option<String> {
    let privilege = fault.text_of("privilegeId").filter(|it| !it.is_empty())?;
    Some(match fault.child("object").and_then(MoRef::read) {
        Some(object) => format!("the login lacks the privilege {privilege} on {object}"),
        None => format!("the login lacks the privilege {privilege}"),
    })
}

impl FaultKind {
    /// Returns the name of the class for metrics; `other_fault` for all classes of
    /// [`FaultKind::Other`], because a server may send any name.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::InvalidLogin => "InvalidLogin",
            Self::NotAuthenticated => "NotAuthenticated",
            Self::NoPermission => "NoPermission",
            Self::ManagedObjectNotFound(_) => "ManagedObjectNotFound",
            Self::InvalidProperty(_) => "InvalidProperty",
            Self::InvalidCollectorVersion => "InvalidCollectorVersion",
            Self::RequestCanceled => "RequestCanceled",
            Self::InvalidArgument(_) => "InvalidArgument",
            Self::SystemError => "SystemError",
            Self::HostNotConnected => "HostNotConnected",
            Self::Other(_) => "other_fault",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FaultKind::ManagedObjectNotFound(Some(object)) => {
                write!(f, "fault ManagedObjectNotFound for {object}")?;
            }
            FaultKind::ManagedObjectNotFound(None) => write!(f, "fault ManagedObjectNotFound")?,
            FaultKind::InvalidProperty(name) => write!(f, "fault InvalidProperty for {name:?}")?,
            FaultKind::InvalidArgument(name) => write!(f, "fault InvalidArgument for {name:?}")?,
            FaultKind::Other(name) => write!(f, "fault {name}")?,
            kind => write!(f, "fault {kind:?}")?,
        }
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", self.message) }
    }
}
