//! A request, classified once: its face, operation, target and caller.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::Identity;

/// A protocol front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Face {
    /// vim25 over SOAP, at `/sdk`.
    #[serde(rename = "soap")]
    Soap,
    /// vAPI REST, at `/rest` and `/api`.
    #[serde(rename = "vapi")]
    Vapi,
    /// The workload cluster's Kubernetes API.
    #[serde(rename = "k8s.guest")]
    Cluster,
    /// The Supervisor's Kubernetes API.
    #[serde(rename = "k8s.supervisor")]
    Supervisor,
}

impl Face {
    /// The name used in rules and in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Soap => "soap",
            Self::Vapi => "vapi",
            Self::Cluster => "k8s.guest",
            Self::Supervisor => "k8s.supervisor",
        }
    }

    /// True if the face is a Kubernetes API.
    pub fn is_kubernetes(self) -> bool {
        matches!(self, Self::Cluster | Self::Supervisor)
    }
}

/// Kind of work that an operation does; rules name it `@read`, `@write`, `@login`, `@longpoll`, `@task`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Answers at once without changing anything.
    Read,
    /// Changes the world.
    Write,
    /// Opens or closes a session.
    Login,
    /// May wait for something to happen: `WaitForUpdatesEx`, watches.
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

/// Object that a call refers to. Unknown parts are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Target {
    /// Managed object type or Kubernetes kind (`VirtualMachine`, `Node`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Machine name or object name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Kubernetes namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Managed object id (`vm-17`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moref: Option<String>,
    /// UUID that the call asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
}

/// Client of a connection, as far as the transport knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Label that the driver gave the connection or its listener (`provider`, `provider-1`); empty without one.
    pub client: String,
    /// Number of the connection on its listener, from 1.
    pub connection: u64,
    /// Address of the client; empty in process.
    pub address: String,
    /// Identity in the client certificate; set after the TLS handshake if the client shows one.
    pub identity: Arc<OnceLock<Identity>>,
}

impl Peer {
    /// True for a labelled client in this process, which needs no credentials. A client behind a socket has an address.
    pub(crate) fn is_trusted(&self) -> bool {
        !self.client.is_empty() && self.address.is_empty()
    }
}

/// Client that made a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caller {
    /// The driver's label of the connection, else the user as the face knows it.
    pub client: String,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The authenticated user, as far as the face can tell before the login check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// Part of a request that the ledger keeps; never contains a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestNote {
    /// Body length in bytes.
    pub bytes: u64,
    /// The part of the arguments that a reader of a transcript wants to see, redacted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A request as it came off the transport, with its whole body.
#[derive(Debug)]
pub struct Incoming {
    /// Method, URI, version and headers.
    pub parts: http::request::Parts,
    /// The whole body.
    pub body: Bytes,
    /// Client of the connection.
    pub peer: Peer,
}

/// A classified request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Front end that serves the call.
    pub face: Face,
    /// Name of the vCenter or of the cluster.
    pub server: String,
    /// `RetrievePropertiesEx`, `tagging.tag.get`, `patch nodes/status`.
    pub operation: String,
    /// Kind of work that the operation does.
    pub class: Class,
    /// Object that the call refers to.
    pub target: Target,
    /// Client that made the call.
    pub caller: Caller,
    /// One-way digest of the session or credential that the call carries.
    pub session: Option<String>,
    /// Part of the request that the ledger keeps.
    pub request: RequestNote,
}
