//! The composition root: everything is built, started and stopped here.

mod backend;
mod build;
mod credentials;
mod leader;
mod options;
mod reload;
mod run;
mod server;

pub use credentials::SecretFiles;
pub use options::{Connector, Deps, LeaderElection, Options, SupervisorLink};
pub use reload::configuration_changed;
pub use run::{RunError, run};
pub use server::serve;
