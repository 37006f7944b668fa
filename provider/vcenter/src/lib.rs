//! A vCenter client as a tower stack: SOAP and vAPI REST, one login for each of the two, and a
//! deadline on every call.
//!
//! The client has no code for Kubernetes, and reads neither files nor environment variables. The
//! caller supplies a [`Transport`] (any tower service that answers HTTP requests), a
//! [`CredentialSource`] and a seed for the jitter, so that the same code runs over TLS in
//! production and directly against a router under tokio's paused clock.
//!
//! Reading order: [`Transport`] and [`tls`](TlsTrust), then [`xml`] and [`filter`](FilterSpec) for
//! the codec, [`Fault`] and [`CallError`] for the failures, [`Vcenter`] for the calls.

mod backoff;
mod client;
mod credentials;
mod error;
mod fault;
mod filter;
mod observer;
mod operations;
mod proxy;
mod session;
mod singly;
mod soap;
#[cfg(test)]
mod tests;
mod tls;
mod transport;
mod types;
mod vapi;
mod views;
pub mod xml;

pub use backoff::{Backoff, Jitter};
#[cfg(feature = "mutants")]
pub use client::Defects;
pub use client::{Endpoint, Settings, Vcenter};
pub use credentials::{Credential, CredentialError, CredentialSource, FixedCredential};
pub use error::{CallError, CallErrorKind, Chain, Retry};
pub use fault::{Fault, FaultKind};
pub use filter::{FilterSpec, Traversal};
pub use observer::{Call, CallObserver};
pub use proxy::{Proxy, ProxyError, ProxyRules};
pub use session::{LOCKOUT_PAUSE, LOCKOUT_SPACING, Session};
pub use tls::{TlsError, TlsTrust};
pub use transport::{Body, BoxError, Transport, from_service, https, https_through};
pub use types::{
    About, MoRef, ObjectContent, ObjectUpdate, Page, PropertyChange, ServiceContent, UpdateKind,
    UpdateSet,
};
pub use vapi::{Category, CategoryId, Tag, TagId};
pub use views::InventoryRead;

/// The examples of the README, which are tested with those of this documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
