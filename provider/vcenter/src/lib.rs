//! A vCenter client as a tower stack: SOAP and vAPI REST, one login for each of the two, and a
//! deadline on every call.
//!
//! The client has no code for Kubernetes, and reads neither files nor environment variables. The
//! caller supplies a [`Transport`] (any tower service that answers HTTP requests), a
//! [`CredentialSource`] and a seed for the jitter, so that the same code runs over TLS in
//! production and directly against a router under tokio's paused clock.
//!
//! Reading order: [`Transport`] and [`TlsTrust`], then [`xml`], [`MoRef`] and [`FilterSpec`] for the
//! codec, [`Fault`] and [`CallError`] for the failures, [`Vcenter`] for the calls.

mod backoff;
mod client;
mod credentials;
mod error;
mod logout;
mod observer;
mod session;
mod soap;
#[cfg(test)]
mod tests;
mod transport;
mod vapi;
mod vim;
pub mod xml;

pub use backoff::{Backoff, Jitter};
#[cfg(feature = "mutants")]
pub use client::Defects;
pub use client::{Settings, Vcenter};
pub use credentials::{Credential, CredentialError, CredentialSource, FixedCredential};
pub use error::{CallError, CallErrorKind, Chain, Retry};
pub use observer::{Call, CallObserver};
pub use session::{LOCKOUT_PAUSE, LOCKOUT_SPACING, Session};
pub use soap::{
    CardNetwork, CloneSpec, DeviceChange, InventoryExtent, InventoryRead, MachineConfig, TaskState,
};
pub use transport::{
    Body, BoxError, Endpoint, Proxy, ProxyError, ProxyRules, TlsError, TlsTrust, Transport,
    VcenterName, from_service, https, https_through,
};
pub use vapi::{Category, CategoryId, LibraryId, LibraryItemId, Tag, TagId};
pub use vim::{
    About, Fault, FaultKind, FilterSpec, MoRef, ObjectContent, ObjectUpdate, Page, PropertyChange,
    ServiceContent, Traversal, UpdateKind, UpdateSet,
};

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
