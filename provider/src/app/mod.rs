//! The composition root: everything is built, started and stopped here.

mod credentials;
mod leader;
mod options;
mod run;
mod server;

pub use credentials::SecretFiles;
pub use options::{Connector, Deps, LeaderElection, Options};
pub use run::{RunError, run};
pub use server::serve;
