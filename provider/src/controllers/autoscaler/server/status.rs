//! Status codes of failed requests to the Supervisor, for the autoscaler's events.

use provider_vcenter::Chain;
use tonic::{Code, Status};

use super::super::instance::one_line;
use crate::cluster::ClusterError;

/// Returns the name of a code in metrics, which is Go's.
pub(crate) fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// Returns the status of a failed request.
pub(crate) fn of(err: &ClusterError) -> Status {
    let text = Chain(err).to_string();
    let says = |word: &str| text.to_lowercase().contains(word);
    let code = match err {
        ClusterError::Status { code: 403, .. } if says("exceeded quota") => Code::ResourceExhausted,
        ClusterError::Status { code: 401 | 403, .. } => Code::PermissionDenied,
        ClusterError::Status { code: 409, .. } => Code::Aborted,
        ClusterError::Status { code: 400 | 404 | 422, .. } => Code::FailedPrecondition,
        ClusterError::Status { .. }
        | ClusterError::Transport { .. }
        | ClusterError::TimedOut { .. } => Code::Unavailable,
        ClusterError::NotLeading { .. } | ClusterError::Malformed { .. } => Code::Internal,
    };
    Status::new(code, one_line(&text))
}
