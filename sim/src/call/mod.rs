//! Calls: requests that a face has classified by operation, target and caller.
//!
//! This module has the types of a call, the tables of operations, the types of vim25, the answer,
//! and the digests of answers and sessions. Faces, fault rules and ledger use the module. The module uses none of
//! them.

mod digest;
pub(crate) mod operations;
mod reply;
pub(crate) mod vim25;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::Identity;
pub use digest::Digest;
pub(crate) use digest::session_digest;
pub use reply::Body;
pub(crate) use reply::full;
pub(crate) use reply::{Outcome, Reply};
pub use sim_rules::Face;

/// Kind of work that an operation does; rules name it `@read`, `@write`, `@login`, `@longpoll`,
/// `@task`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Answers at once and changes neither the world nor the views and filters of a session. Also
    /// the class of requests to a vCenter that are malformed or name no operation. An unsupported
    /// operation of vim25 has the class that its name indicates.
    Read,
    /// Changes the world, or the views and filters of a session.
    Write,
    /// Logs in, or ends a session.
    Login,
    /// May wait until the world changes, as `WaitForUpdatesEx` and watches do.
    Longpoll,
    /// Starts a vSphere task.
    Task,
}

impl Class {
    /// The tag used in rules, with its `@`.
    pub fn tag(self) -> &'static str {
        match self {
            Self::Read => "@read",
            Self::Write => "@write",
            Self::Login => "@login",
            Self::Longpoll => "@longpoll",
            Self::Task => "@task",
        }
    }
}

/// Object that a call refers to. Fields that do not apply to the call are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Target {
    /// Managed object type or Kubernetes kind (`VirtualMachine`, `Node`); `None` if the request
    /// names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the Kubernetes object, or of the machine, other inventory object or tag that `moref`
    /// or `uuid` identifies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace of the Kubernetes object; `None` for a cluster-wide object and for a vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Managed object id (`vm-17`), or the id of a tag or category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moref: Option<String>,
    /// UUID by which the call looks a machine up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// Client side of a connection, as the transport sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Label of the connection or of its listener, such as `provider` or `provider-1`. The code
    /// that runs the sim sets it; empty by default.
    pub client: String,
    /// Number of the connection among those to the same server, from 1.
    pub connection: u64,
    /// Socket address of the client; empty for a client in this process.
    pub address: String,
    /// Identity in the client certificate. The listener of a Kubernetes API server sets it after
    /// the TLS handshake if the client sends a certificate.
    pub identity: Arc<OnceLock<Identity>>,
}

impl Peer {
    /// True for a client in this process that has a label. A Kubernetes API server requires no
    /// credentials from such a client. A client behind a socket has an address and is never
    /// trusted.
    pub(crate) fn is_trusted(&self) -> bool {
        !self.client.is_empty() && self.address.is_empty()
    }
}

/// Client that made a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Caller {
    /// Label of the connection; without one, `user`. Without either, a vCenter
    /// writes `anonymous`, and a Kubernetes API server leaves the field empty.
    pub client: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// User of the session or credential that the call carries, read before the login check; `None`
    /// if it carries none or an unknown one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Part of a request that the ledger keeps; never contains a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RequestNote {
    /// Length of the body in bytes; 0 if the server cannot read the body.
    pub bytes: u64,
    /// Main arguments for readers of the ledger, without secrets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A request as the transport delivered it, with its body.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// Method, URI, version and headers.
    pub parts: http::request::Parts,
    /// The whole body. An API server cuts a body beyond its limit; a body that the server cannot
    /// read is empty.
    pub body: Bytes,
    /// Client that sent the request, as the transport sees it.
    pub peer: Peer,
}

/// A request that a face has classified by operation, target and caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// Front end that serves the call.
    pub face: Face,
    /// Name of the server: that of a vCenter, `cluster` or `supervisor`.
    pub server: String,
    /// Name of the operation: `RetrievePropertiesEx`, `tagging.tag.get`, `patch nodes/status`.
    pub operation: String,
    /// Kind of work that the operation does.
    pub class: Class,
    /// Object that the call refers to.
    pub target: Target,
    /// Client that made the call.
    pub caller: Caller,
    /// One-way digest of the session token or bearer token that the call carries; `None` if it
    /// carries none.
    pub session: Option<String>,
    /// Part of the request that the ledger keeps.
    pub request: RequestNote,
}
