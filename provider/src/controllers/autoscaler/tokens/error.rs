//! Failures around bootstrap tokens. An API server, or a webhook of it, may repeat the content of a
//! refused object in its message, so that no message of a refused write is shown.

use provider_vcenter::Chain;
use tonic::Code;

use crate::{InputError, cluster::ClusterError};

/// Place of the roles, for the remedy.
const ROLES: &str = "docs/autoscaler.md, Bootstrap tokens, has the role";

/// Reason why the Secrets of a new machine were not created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BootstrapError {
    /// The group or its user data is wrong.
    #[error("{0}")]
    Input(InputError),
    #[error("{what} failed: {why}")]
    Request { what: &'static str, why: String, code: Code },
    /// The Secret of another program has the name of that of a new machine.
    #[error("Secret {0} exists already and is not that of a new machine")]
    NameTaken(String),
    #[error("the operating system gives no random bytes for a bootstrap token: {0}")]
    Random(String),
}

/// The server of a request around tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Workload,
    Supervisor,
}

impl BootstrapError {
    pub(crate) fn of(what: &'static str, side: Side, err: &ClusterError) -> Self {
        Self::Request { what, why: reason(side, err), code: code(err) }
    }

    pub(crate) fn late(what: &'static str, within: std::time::Duration) -> Self {
        let why = format!("no answer within {within:?}");
        Self::Request { what, why, code: Code::Unavailable }
    }

    /// Returns the code of the answer to the autoscaler.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Input(_) => Code::FailedPrecondition,
            Self::Request { code, .. } => *code,
            Self::NameTaken(_) => Code::Aborted,
            Self::Random(_) => Code::Internal,
        }
    }
}

/// Returns the reason of a failed request, without the message of the server.
pub(crate) fn reason(side: Side, err: &ClusterError) -> String {
    let ClusterError::Status { method, path, code, reason, message, .. } = err else {
        return Chain(err).to_string();
    };
    let answer = format!("{method} {path} was answered with {code} {reason}");
    if *code == 403 && message.contains("exceeded quota") {
        return format!("{answer}: the quota of the namespace is used up");
    }
    if *code != 403 {
        return answer;
    }
    let verb = match method.as_str() {
        "POST" => "create",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "get, list and watch",
    };
    let account = match side {
        Side::Workload => "of --workload-kubeconfig (or of this pod)",
        Side::Supervisor => "on the Supervisor",
    };
    format!("{answer}: the account {account} needs `{verb}` of `secrets` there; {ROLES}")
}

fn code(err: &ClusterError) -> Code {
    match err {
        ClusterError::Status { code: 403, message, .. } if message.contains("exceeded quota") => {
            Code::ResourceExhausted
        }
        ClusterError::Status { code: 401 | 403, .. } => Code::PermissionDenied,
        ClusterError::Status { code: 409, .. } => Code::Aborted,
        ClusterError::Status { code: 400 | 404 | 422, .. } => Code::FailedPrecondition,
        ClusterError::NotLeading { .. } | ClusterError::Malformed { .. } => Code::Internal,
        _ => Code::Unavailable,
    }
}
