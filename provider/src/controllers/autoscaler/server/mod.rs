//! The protocol and its connections.
//!
//! | part | task |
//! | --- | --- |
//! | [`service`], [`status`] | answers to the calls of an autoscaler, and their status codes |
//! | [`serve`], [`tls`] | connections over HTTP/2, health, reflection and mutual TLS |

mod serve;
mod service;
pub(super) mod status;
mod tls;

pub(super) use self::{
    serve::{Services, serve},
    service::Service,
    tls::Tls,
};

pub use tls::TlsFiles;
