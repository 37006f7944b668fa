//! Faults that a vCenter answers, classified by `xsi:type` or, where that is absent, by element name.

use std::fmt;

use crate::{MoRef, xml::Element};

/// A fault with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Class of the fault.
    pub kind: FaultKind,
    /// Text from the server, for the log.
    pub message: String,
}

/// Fault classes that steer behavior; any other class keeps only its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Wrong user or password, or a locked account.
    InvalidLogin,
    /// No session, or one that expired or was ended.
    NotAuthenticated,
    /// Logged in, but not allowed. Does not mean that the object does not exist.
    NoPermission,
    /// The object was deleted; the only positive proof that a reference is gone.
    ManagedObjectNotFound(Option<MoRef>),
    /// A property path that this server does not know.
    InvalidProperty(String),
    /// A version that this session's collector did not issue.
    InvalidCollectorVersion,
    /// A blocked wait was cut off by the server.
    RequestCanceled,
    /// A malformed argument.
    InvalidArgument(String),
    /// The catch-all of a vCenter in trouble.
    SystemError,
    /// The host that would answer is not connected.
    HostNotConnected,
    /// Any other class, by name.
    Other(String),
}

impl Fault {
    /// Reads a fault from the element that carries its `xsi:type`.
    pub fn read(element: &Element, message: &str) -> Self {
        let name = match &element.xsi_type {
            Some(name) => &**name,
            // Generated clients decide by element name, so an answer without `xsi:type` relies on
            // that name.
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

/// Describes the privilege that an administrator has to grant, from the fields of `NoPermission`.
fn missing_privilege(fault: &Element) -> Option<String> {
    let privilege = fault.text_of("privilegeId").filter(|it| !it.is_empty())?;
    Some(match fault.child("object").and_then(MoRef::read) {
        Some(object) => format!("{privilege} on {object} is missing"),
        None => format!("{privilege} is missing"),
    })
}

impl FaultKind {
    /// Name of the class; `other_fault` for all classes that steer nothing, because a server may send
    /// any name.
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
