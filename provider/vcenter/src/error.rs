//! Errors of calls, and what a caller may do about them.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use crate::{BoxError, CredentialError, Fault, FaultKind, MoRef};

/// A failed call.
#[derive(Debug, thiserror::Error)]
#[error("{operation} at {vcenter} failed")]
pub struct CallError {
    /// Operation as the protocol names it.
    pub operation: &'static str,
    /// Name of the vCenter in the configuration.
    pub vcenter: Arc<str>,
    /// Reason for the failure.
    #[source]
    pub kind: CallErrorKind,
}

/// Reason for a failed call.
#[derive(Debug, thiserror::Error)]
pub enum CallErrorKind {
    /// The server answered with a fault.
    #[error("{0}")]
    Fault(Fault),
    /// The vAPI endpoint answered with an error.
    #[error("status {status}, {id}")]
    Rest {
        /// HTTP status.
        status: u16,
        /// First message id, or the type of the error.
        id: String,
        /// `Retry-After`, when sent.
        retry_after: Option<Duration>,
    },
    /// An answer from something in front of vCenter, not from vCenter itself.
    #[error("HTTP status {status}")]
    Http {
        /// HTTP status.
        status: u16,
        /// `Retry-After`, when sent.
        retry_after: Option<Duration>,
    },
    /// No answer: refused, reset, TLS failure.
    #[error("no answer")]
    Transport(#[source] BoxError),
    /// No complete answer within the deadline.
    #[error("no complete answer within {0:?}")]
    TimedOut(Duration),
    /// An answer that violates the protocol.
    #[error("malformed answer: {0}")]
    Malformed(String),
    /// No credential available for the login.
    #[error("no usable credential")]
    Credential(#[source] CredentialError),
    /// Not tried: an earlier login failed and it is too early for the next one.
    #[error("waiting {0:?} before the next login")]
    NotYet(Duration),
    /// Not tried: the credential was rejected, and trying it again now risks the account.
    #[error("the credential was rejected; next attempt with the same one in {0:?}")]
    Locked(Duration),
    /// The endpoint answers as another vCenter than before, so its answers say nothing about our machines.
    #[error("the endpoint is now another vCenter, with instance UUID {0}")]
    OtherInstance(String),
    /// Not tried: the client was shut down.
    #[error("the client is closed")]
    Closed,
}

/// Action that a caller may take after a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Once, after a new login.
    AfterLogin,
    /// After exactly this much time: the client itself has computed it, with growing pauses.
    After(Duration),
    /// With growing pauses, and not before this much time has passed: the server has asked for it. A proxy may ask for
    /// no time at all.
    AtLeast(Duration),
    /// With growing pauses.
    WithBackoff,
    /// The same call will fail again.
    Never,
}

/// The longest pause that a server may ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

impl Retry {
    /// Pause before the next try of a caller whose own back-off gives `own`. A wait that is asked for counts up to 60 s.
    pub fn pause(self, own: Duration) -> Duration {
        match self {
            Self::After(wait) => wait.min(LONGEST_ASKED),
            Self::AtLeast(wait) => wait.min(LONGEST_ASKED).max(own),
            Self::AfterLogin | Self::WithBackoff | Self::Never => own,
        }
    }
}

impl CallError {
    /// Decides what a caller may do about the error. No other place decides this.
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
            CallErrorKind::Rest { status: 400 | 404, .. } | CallErrorKind::Closed => Retry::Never,
            CallErrorKind::Rest { .. }
            | CallErrorKind::Http { .. }
            | CallErrorKind::Transport(_)
            | CallErrorKind::TimedOut(_)
            | CallErrorKind::Malformed(_)
            | CallErrorKind::OtherInstance(_)
            | CallErrorKind::Credential(_) => Retry::WithBackoff,
        }
    }

    /// A short word for the failure, from a small set: the class of a fault, the HTTP status, or a word such as `timeout`.
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

    /// The fault, if the server answered with one.
    pub fn fault(&self) -> Option<&FaultKind> {
        match &self.kind {
            CallErrorKind::Fault(fault) => Some(&fault.kind),
            _ => None,
        }
    }

    /// True if no answer came in time.
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind, CallErrorKind::TimedOut(_))
    }

    /// True if the server says positively that this object does not exist (any more). A fault about another object, such as
    /// the collector, or without an object says nothing about this one.
    pub fn says_gone(&self, object: &MoRef) -> bool {
        matches!(self.fault(), Some(FaultKind::ManagedObjectNotFound(Some(gone))) if gone == object)
    }

    /// True if the server says positively that an object of the call does not exist (any more).
    pub fn is_object_gone(&self) -> bool {
        matches!(self.fault(), Some(FaultKind::ManagedObjectNotFound(_)))
    }
}

/// An error with its causes on one line, for structured logs.
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
