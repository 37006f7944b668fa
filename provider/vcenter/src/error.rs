//! Errors of calls, and the decision whether and when a caller may retry.

use std::{borrow::Cow, fmt, time::Duration};

use crate::{BoxError, CredentialError, Fault, FaultKind, MoRef, VcenterName};

/// A failed call.
#[derive(Debug, thiserror::Error)]
#[error("{operation} at {vcenter} failed")]
pub struct CallError {
    /// Operation as the protocol names it.
    pub operation: &'static str,
    /// Name of the vCenter in the configuration.
    pub vcenter: VcenterName,
    /// Reason for the failure.
    #[source]
    pub kind: CallErrorKind,
}

/// Reason for a failed call.
#[derive(Debug, thiserror::Error)]
pub enum CallErrorKind {
    /// vCenter answered with a SOAP fault.
    #[error("{0}")]
    Fault(Fault),
    /// vAPI answered with an error.
    #[error("vCenter answered with the vAPI error {id} and HTTP status {status}")]
    Rest {
        /// HTTP status.
        status: u16,
        /// Id of the first message, or the type of the error.
        id: String,
        /// `Retry-After`, when sent.
        retry_after: Option<Duration>,
    },
    /// The answer has an HTTP error status, and the client finds no fault or vAPI error in it: it
    /// probably comes from something in front of vCenter, such as a proxy.
    #[error(
        "HTTP status {status} without an error of vCenter in the answer; check if a proxy answers"
    )]
    Http {
        /// HTTP status.
        status: u16,
        /// `Retry-After`, when sent.
        retry_after: Option<Duration>,
    },
    /// No answer, or only a part: the connection was refused or reset, or TLS failed.
    #[error("the connection to vCenter failed")]
    Transport(#[source] BoxError),
    /// No complete answer within the deadline.
    #[error("vCenter gave no complete answer within {0:?}")]
    TimedOut(Duration),
    /// The answer violates the protocol or has more than 64 MiB, or the client cannot write the
    /// credential or an id into the request.
    #[error("vCenter gave a malformed answer: {0}")]
    Malformed(String),
    /// The source returned no credential for the login.
    #[error("cannot get user name and password for the login to vCenter")]
    Credential(#[source] CredentialError),
    /// Not sent: the last login failed or its session ended within 30 s, and it is too early for
    /// the next login. Holds the time until the next login.
    #[error(
        "call not sent, because the last login failed or its session ended soon; next login in \
         {0:?}"
    )]
    NotYet(Duration),
    /// Not sent: the server rejected the credential, and another try now could lock the account.
    /// Holds the time until the client may try the credential again.
    #[error(
        "login not sent, because vCenter rejected this user name and password; correct them, or \
         wait {0:?} for the next attempt with them"
    )]
    Locked(Duration),
    /// The endpoint led to another vCenter than at the first login. The answers of the other
    /// vCenter prove nothing about the machines of the first one.
    #[error(
        "the address now leads to another vCenter, with instance UUID {0}; the client does not \
         log in to it"
    )]
    OtherInstance(String),
    /// Not sent: the client was closed.
    #[error("call not sent, because the client of this vCenter is closed")]
    Closed,
}

/// Condition under which a caller may repeat a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The caller may repeat the call once, after a new login.
    AfterLogin,
    /// The caller may repeat the call after exactly this time, which the client has computed with
    /// growing pauses.
    After(Duration),
    /// The caller may repeat the call with growing pauses, but not before this time, which the
    /// server has asked for. A proxy may ask for a time of zero.
    AtLeast(Duration),
    /// The caller may repeat the call with growing pauses.
    WithBackoff,
    /// The caller need not repeat the call, because it would fail again.
    Never,
}

/// Maximum of a pause that a server asks for or that the client itself requires.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

impl Retry {
    /// Returns the pause before the next try of a caller whose own back-off yields `own`. A time
    /// that the server or the client demands counts up to 60 s.
    pub fn pause(self, own: Duration) -> Duration {
        match self {
            Self::After(wait) => wait.min(LONGEST_ASKED),
            Self::AtLeast(wait) => wait.min(LONGEST_ASKED).max(own),
            Self::AfterLogin | Self::WithBackoff | Self::Never => own,
        }
    }
}

/// Types of vAPI errors that pass, although vCenter answers with the HTTP status of a wrong request.
const PASSING: [&str; 4] = [
    "operation_not_found",
    "resource_busy",
    "resource_inaccessible",
    "unable_to_allocate_resource",
];

/// True for the type of a vAPI error that passes.
pub(crate) fn passes(kind: &str) -> bool {
    PASSING.iter().any(|it| kind.ends_with(it))
}

impl CallErrorKind {
    /// True for an answer of vAPI that another try of the same request would get, too.
    pub fn blames_request(&self) -> bool {
        matches!(self, Self::Rest { status: 400 | 404, id, .. } if !passes(id))
    }
}

impl CallError {
    /// Decides whether and when the call may be repeated. No other code decides this.
    pub fn retry(&self) -> Retry {
        match &self.kind {
            CallErrorKind::Fault(fault) => match fault.kind {
                FaultKind::NotAuthenticated => Retry::AfterLogin,
                FaultKind::InvalidProperty(_)
                | FaultKind::InvalidArgument(_)
                | FaultKind::ManagedObjectNotFound(_) => Retry::Never,
                _ => Retry::WithBackoff,
            },
            CallErrorKind::Rest { status: 401, .. } => Retry::AfterLogin,
            CallErrorKind::Rest { retry_after: Some(wait), .. }
            | CallErrorKind::Http { retry_after: Some(wait), .. } => Retry::AtLeast(*wait),
            CallErrorKind::NotYet(wait) | CallErrorKind::Locked(wait) => Retry::After(*wait),
            CallErrorKind::Closed => Retry::Never,
            kind @ CallErrorKind::Rest { .. } if kind.blames_request() => Retry::Never,
            CallErrorKind::Rest { .. }
            | CallErrorKind::Http { .. }
            | CallErrorKind::Transport(_)
            | CallErrorKind::TimedOut(_)
            | CallErrorKind::Malformed(_)
            | CallErrorKind::OtherInstance(_)
            | CallErrorKind::Credential(_) => Retry::WithBackoff,
        }
    }

    /// Returns a short word for the failure, for metrics: the class of a fault, the HTTP status, or
    /// a word such as `timeout`. The set of words is small.
    pub fn code(&self) -> Cow<'static, str> {
        let word = match &self.kind {
            CallErrorKind::Fault(fault) => return fault.kind.code().into(),
            CallErrorKind::Rest { status, .. } | CallErrorKind::Http { status, .. } => {
                return status.to_string().into();
            }
            CallErrorKind::Transport(_) => "no_answer",
            CallErrorKind::TimedOut(_) => "timeout",
            CallErrorKind::Malformed(_) => "malformed",
            CallErrorKind::Credential(_) => "no_credential",
            CallErrorKind::NotYet(_) => "not_yet",
            CallErrorKind::Locked(_) => "locked",
            CallErrorKind::OtherInstance(_) => "other_instance",
            CallErrorKind::Closed => "closed",
        };
        word.into()
    }

    /// Returns the class of the fault, if the server answered with one.
    pub fn fault(&self) -> Option<&FaultKind> {
        match &self.kind {
            CallErrorKind::Fault(fault) => Some(&fault.kind),
            _ => None,
        }
    }

    /// True if no complete answer arrived within the deadline.
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind, CallErrorKind::TimedOut(_))
    }

    /// True if the server says explicitly that this object does not exist (any more). A fault about
    /// another object, such as the collector, or about no object, proves nothing about this one.
    pub fn says_gone(&self, object: &MoRef) -> bool {
        matches!(self.fault(), Some(FaultKind::ManagedObjectNotFound(Some(gone))) if gone == object)
    }

    /// True if the server says explicitly that some object of the call does not exist (any more).
    pub fn is_object_gone(&self) -> bool {
        matches!(self.fault(), Some(FaultKind::ManagedObjectNotFound(_)))
    }
}

/// Displays an error with its causes on one line, for structured logs.
pub struct Chain<'a>(pub &'a (dyn std::error::Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(err) = cause {
            write!(f, ": {err}")?;
            cause = err.source();
        }
        Ok(())
    }
}
