//! The composition root: builds, starts and stops all parts of the provider.

mod access;
mod backend;
mod build;
mod certificate;
mod controllers;
mod leader;
mod leadership;
mod options;
mod reload;
mod run;
mod server;

pub use access::{AccessSettings, AllowedPaths};
pub use certificate::{CertificateSource, ServingTls};
pub use leadership::Leadership;
pub use options::{Connector, Deps, LeaderElection, Options, SideServer};
pub use reload::configuration_changed;
pub use run::{RunError, run};
pub use server::{HealthEndpoint, Serving};
